//! One connection to an agent.

use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use ax_wire::{
    ToAgent, ToViewer,
    frame::{self, FrameError, Subscribe},
    hello::PROTOCOL,
    socket::{self, FolderError, SYSTEM_SOCKET},
};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{io::AsyncWriteExt as _, net::UnixStream, time::timeout};
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

/// An agent answers a subscription at once; one that has not by then is stuck.
const ANSWER: Duration = Duration::from_secs(2);

/// A subscription that an agent took.
pub struct Connection {
    pub socket: PathBuf,
    /// Whether the agent runs inside an `ax-top` and ends with it.
    pub embedded: bool,
    lines: Framed<UnixStream, LinesCodec>,
}

/// Why there is no subscription.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot reach the agent on {socket}: {source}")]
    Unreachable { socket: PathBuf, source: io::Error },
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(
        "what listens on {socket} runs as user {uid}, neither root nor us nor the owner of /run/ax: not trusted"
    )]
    ForeignAgent { socket: PathBuf, uid: u32 },
    #[error("the agent on {socket} refused: {reason}")]
    Refused { socket: PathBuf, reason: String },
    #[error("the agent on {socket} did not answer a subscription within {ANSWER:?}")]
    NoAnswer { socket: PathBuf },
    #[error("what listens on {socket} is no agent: {problem}")]
    NotAnAgent { socket: PathBuf, problem: String },
}

impl ConnectError {
    /// Nobody listens there: the place is free for an agent of our own.
    pub fn nobody_there(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(self, Self::Unreachable { source, .. }
            if matches!(source.kind(), ConnectionRefused | NotFound))
    }
}

/// A line that could not be read as a frame.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the connection to the agent broke: {0}")]
    Line(#[from] LinesCodecError),
    #[error("the agent sent what is not a frame: {0}")]
    Frame(#[from] FrameError),
}

/// Whether the folder of a socket is ours alone. One that is missing is no trouble: it will be made.
///
/// # Errors
///
/// [`ConnectError::Folder`], whose text says what to do.
pub fn check_folder(socket: &Path) -> Result<(), ConnectError> {
    let Some(folder) = socket.parent() else {
        return Ok(());
    };
    match socket::check_private_folder(folder) {
        Err(FolderError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(())
        }
        checked => Ok(checked?),
    }
}

/// Connects, checks who listens, and subscribes.
pub async fn subscribe(socket: &Path) -> Result<Connection, ConnectError> {
    let unreachable = |source| ConnectError::Unreachable {
        socket: socket.to_owned(),
        source,
    };
    let mut stream = UnixStream::connect(socket).await.map_err(unreachable)?;
    let uid = stream.peer_cred().map_err(unreachable)?.uid();
    if !trusted(uid) {
        return Err(ConnectError::ForeignAgent {
            socket: socket.to_owned(),
            uid,
        });
    }
    let not_an_agent = |problem: String| ConnectError::NotAnAgent {
        socket: socket.to_owned(),
        problem,
    };
    let mut line = Vec::new();
    let subscription = ToAgent::Subscribe(Subscribe { protocol: PROTOCOL });
    frame::encode(&subscription, &mut line).map_err(|error| not_an_agent(error.to_string()))?;
    stream.write_all(&line).await.map_err(unreachable)?;
    let mut connection = Connection {
        socket: socket.to_owned(),
        embedded: false,
        lines: Framed::new(stream, frame::lines_codec()),
    };
    match timeout(ANSWER, connection.next_frame()).await {
        Ok(Ok(Some(ToViewer::Ack(ack)))) => {
            connection.embedded = ack.embedded;
            Ok(connection)
        }
        Ok(Ok(Some(ToViewer::Refused(refused)))) => Err(ConnectError::Refused {
            socket: socket.to_owned(),
            reason: refused.reason,
        }),
        Ok(Ok(Some(_))) => Err(not_an_agent("its first frame is no answer".to_owned())),
        Ok(Ok(None)) => Err(not_an_agent("it closed the connection".to_owned())),
        Ok(Err(error)) => Err(not_an_agent(error.to_string())),
        Err(_) => Err(ConnectError::NoAnswer {
            socket: socket.to_owned(),
        }),
    }
}

impl Connection {
    /// The next frame; `None` when the agent has closed the connection. Cancel safe: a frame that has begun stays in
    /// the buffer.
    pub async fn next_frame(&mut self) -> Result<Option<ToViewer>, ReadError> {
        match self.lines.next().await {
            Some(line) => Ok(Some(frame::decode(line?.as_bytes())?)),
            None => Ok(None),
        }
    }

    /// Asks the agent something; a frame is the answer. Not cancel safe: half a line may have gone.
    pub async fn ask(&mut self, request: &ToAgent) -> Result<(), ReadError> {
        let mut line = Vec::new();
        frame::encode(request, &mut line)?;
        // The codec ends the line itself.
        let line = String::from_utf8_lossy(&line);
        Ok(self.lines.send(line.trim_end()).await?)
    }
}

/// Whether an agent of this user may be believed: it could otherwise show figures made up to mislead.
fn trusted(uid: u32) -> bool {
    let ours = rustix::process::getuid().as_raw();
    let owner_of_system_folder = || {
        let folder = Path::new(SYSTEM_SOCKET).parent()?;
        Some(std::fs::symlink_metadata(folder).ok()?.uid())
    };
    uid == 0 || uid == ours || owner_of_system_folder() == Some(uid)
}
