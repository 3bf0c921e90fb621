//! One connection to an agent: found, checked, written and read without ever waiting.

use std::{
    collections::VecDeque,
    env, fs, io,
    io::Read as _,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
};

use ax_wire::{
    ToAgent, ToService,
    frame::{self, FrameError},
    socket::{self, FolderError, SOCKET_ENV, SYSTEM_SOCKET},
};
use rustix::{
    net::{
        AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send,
        socket_with, sockopt::socket_peercred,
    },
    process::getuid,
};

/// How many bytes may wait for a slow agent before the next frame is held back: two samples of 50 types. One frame, of
/// at most [`frame::MAX_FRAME_BYTES`], may be begun below it. Doubling it helps an agent that stalls for two seconds
/// instead of one, and costs the service as much memory.
pub const OUT_BUFFER_BYTES: usize = 256 * 1024;

/// The longest line that an agent may answer: an `ack` has some hundred bytes.
pub const MAX_REPLY_BYTES: usize = 64 * 1024;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// Nobody listens, or the connection broke. The rule while no agent runs, so nothing to warn of.
    #[error("no agent at {path}: {source}")]
    NoAgent { path: PathBuf, source: io::Error },
    #[error("the folder of the agent's socket is not trusted: {0}")]
    Folder(#[from] FolderError),
    #[error(
        "{path} is served by user {uid}, who is neither root, nor this service's user, nor the owner of /run/ax; nothing is sent there"
    )]
    Stranger { path: PathBuf, uid: u32 },
    #[error("what listens at {path} is no agent: {source}")]
    NoFrame { path: PathBuf, source: FrameError },
    #[error("the agent at {path} did not answer the hello")]
    Silent { path: PathBuf },
    #[error("the agent at {path} refused this service: {reason}")]
    Refused { path: PathBuf, reason: String },
}

/// A socket to try.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    /// Whether its folder must be private: a person who names the socket vouches for it, and `/run` is root's.
    private_folder: bool,
}

/// The sockets to try, best first. Read anew each time, as the environment of a test may change.
pub(super) fn candidates(named: Option<&Path>) -> Vec<Candidate> {
    if let Some(path) = named {
        return vec![Candidate {
            path: path.to_owned(),
            private_folder: false,
        }];
    }
    let vouched = env::var_os(SOCKET_ENV).is_some_and(|path| !path.is_empty());
    socket::candidates()
        .into_iter()
        .map(|path| Candidate {
            private_folder: !vouched && path != Path::new(SYSTEM_SOCKET),
            path,
        })
        .collect()
}

/// A frame that has not been handed to the socket entirely.
struct Waiting {
    line: Vec<u8>,
    frame: ToAgent,
}

/// An open connection.
pub(super) struct Link {
    path: PathBuf,
    stream: UnixStream,
    waiting: VecDeque<Waiting>,
    /// How much of the first of them the socket has taken.
    sent: usize,
    input: Vec<u8>,
}

impl Link {
    /// Connects, and checks who serves the socket before a byte is sent.
    pub(super) fn open(candidate: Candidate) -> Result<Self, LinkError> {
        let Candidate {
            path,
            private_folder,
        } = candidate;
        let no_agent = |source| LinkError::NoAgent {
            path: path.clone(),
            source,
        };
        if let Some(folder) = path.parent().filter(|_| private_folder) {
            match socket::check_private_folder(folder) {
                Err(FolderError::Unreadable { source, .. }) => return Err(no_agent(source)),
                checked => checked?,
            }
        }
        let (stream, uid) = dial(&path).map_err(no_agent)?;
        if !trusted(uid) {
            return Err(LinkError::Stranger { path, uid });
        }
        Ok(Self {
            path,
            stream,
            waiting: VecDeque::new(),
            sent: 0,
            input: Vec::new(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether one frame more may be begun.
    pub(super) fn has_room(&self) -> bool {
        self.waiting_bytes() < OUT_BUFFER_BYTES
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.waiting.is_empty()
    }

    fn waiting_bytes(&self) -> usize {
        let lines: usize = self.waiting.iter().map(|waiting| waiting.line.len()).sum();
        lines - self.sent
    }

    /// Takes a frame that will be written as the socket takes it.
    pub(super) fn push(&mut self, frame: ToAgent) -> Result<(), FrameError> {
        let mut line = Vec::new();
        frame::encode(&frame, &mut line)?;
        self.waiting.push_back(Waiting { line, frame });
        Ok(())
    }

    /// Writes what the socket takes now.
    pub(super) fn flush(&mut self) -> Result<(), LinkError> {
        while let Some(first) = self.waiting.front() {
            // No signal: a service that has SIGPIPE back at its default must not die of an agent that went away.
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&self.stream, &first.line[self.sent..], flags) {
                Ok(sent) => self.sent += sent,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(self.broken(error.into())),
            }
            if self.sent == first.line.len() {
                self.waiting.pop_front();
                self.sent = 0;
            }
        }
        Ok(())
    }

    /// Reads what is there, at most [`MAX_REPLY_BYTES`], and returns the frames in it.
    pub(super) fn receive(&mut self) -> Result<Vec<ToService>, LinkError> {
        let mut chunk = [0; 4096];
        while self.input.len() < MAX_REPLY_BYTES {
            match self.stream.read(&mut chunk) {
                // What the agent said before it went is taken in first; the next call finds the end again.
                Ok(0) if self.input.contains(&b'\n') => break,
                Ok(0) => return Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
        let mut frames = Vec::new();
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let decoded = frame::decode(&self.input[..end]);
            self.input.drain(..=end);
            frames.push(decoded.map_err(|source| self.no_frame(source))?);
        }
        if self.input.len() >= MAX_REPLY_BYTES {
            return Err(self.no_frame(FrameError::Oversized {
                bytes: self.input.len(),
            }));
        }
        Ok(frames)
    }

    /// The frames that the agent cannot have got, because the socket has not taken them entirely.
    pub(super) fn into_unsent(self) -> impl Iterator<Item = ToAgent> {
        self.waiting.into_iter().map(|waiting| waiting.frame)
    }

    fn broken(&self, source: io::Error) -> LinkError {
        LinkError::NoAgent {
            path: self.path.clone(),
            source,
        }
    }

    fn no_frame(&self, source: FrameError) -> LinkError {
        LinkError::NoFrame {
            path: self.path.clone(),
            source,
        }
    }
}

/// Connects without waiting: an agent whose backlog is full is tried again later. Returns who listens.
fn dial(path: &Path) -> io::Result<(UnixStream, u32)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let uid = socket_peercred(&socket)?.uid.as_raw();
    Ok((UnixStream::from(socket), uid))
}

/// Whether an agent of this user may see the service.
fn trusted(uid: u32) -> bool {
    let system_owner = || {
        let folder = Path::new(SYSTEM_SOCKET).parent()?;
        fs::symlink_metadata(folder).ok()
    };
    uid == 0
        || uid == getuid().as_raw()
        || system_owner().is_some_and(|folder| folder.is_dir() && folder.uid() == uid)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        os::unix::{fs::PermissionsExt as _, net::UnixListener},
    };

    use super::*;

    fn pair(folder: &tempfile::TempDir) -> (Link, UnixStream) {
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).expect("binds");
        let link = Link::open(Candidate {
            path,
            private_folder: true,
        });
        let (agent, _) = listener.accept().expect("connects");
        (link.expect("opens"), agent)
    }

    fn private() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        folder
    }

    #[test]
    fn a_reader_that_sleeps_gets_whole_frames_later_and_the_rest_is_known() {
        let folder = private();
        let (mut link, mut agent) = pair(&folder);
        let mut pushed = 0;
        while link.has_room() {
            let event = ToAgent::Events(ax_wire::event::Events { events: Vec::new() });
            for _ in 0..1_000 {
                link.push(event.clone()).expect("encodes");
                pushed += 1;
            }
            link.flush().expect("goes on");
        }
        assert!(!link.is_flushed());
        assert!(link.waiting_bytes() < OUT_BUFFER_BYTES + 64 * 1_000);
        // Until the last byte the socket takes no more.
        let unsent = link.into_unsent().count();
        let mut text = Vec::new();
        agent.read_to_end(&mut text).expect("reads");
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let whole = lines.filter(|line| line.ends_with(b"\n")).count();
        assert_eq!(whole + unsent, pushed);
    }

    #[test]
    fn replies_come_in_pieces_and_strangers_are_told_from_agents() {
        let folder = private();
        let (mut link, mut agent) = pair(&folder);
        assert!(link.receive().expect("nothing yet").is_empty());
        agent
            .write_all(b"{\"frame\":\"later\"}\n{\"fra")
            .expect("writes");
        assert_eq!(link.receive().expect("one frame"), [ToService::Unknown]);
        agent
            .write_all(b"me\":\"later\"}\nHTTP/1.1 400\r\n")
            .expect("writes");
        assert!(matches!(link.receive(), Err(LinkError::NoFrame { .. })));
    }

    #[test]
    fn a_reply_without_end_is_not_read_for_ever() {
        let folder = private();
        let (mut link, mut agent) = pair(&folder);
        agent
            .write_all(&vec![b'x'; MAX_REPLY_BYTES + 1])
            .expect("writes");
        assert!(matches!(link.receive(), Err(LinkError::NoFrame { .. })));
    }

    #[test]
    fn a_folder_that_others_may_enter_is_not_used() {
        let folder = private();
        let path = folder.path().join("agent.sock");
        let _listener = UnixListener::bind(&path).expect("binds");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let candidate = |private_folder| Candidate {
            path: path.clone(),
            private_folder,
        };
        assert!(matches!(
            Link::open(candidate(true)),
            Err(LinkError::Folder(_))
        ));
        assert!(Link::open(candidate(false)).is_ok());
    }

    #[test]
    fn root_and_our_own_user_are_trusted_and_others_are_not() {
        assert!(trusted(0));
        assert!(trusted(getuid().as_raw()));
        assert!(!trusted(54_321));
    }
}
