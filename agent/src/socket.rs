//! The agent's socket: one agent a folder, for its own user only.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::{
        fs::{
            DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
            PermissionsExt as _,
        },
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process,
};

use ax_wire::socket::{FolderError, check_private_folder, distrust};

use crate::config::Config;

/// File name of the lock, beside the socket.
const LOCK_NAME: &str = "agent.lock";

/// Why an agent cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another agent serves this folder.
    #[error(
        "another agent{} holds {}: {}, or set AX_SOCKET to a socket in another folder",
        pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(),
        lock.display(),
        if *embedded { "an ax-top runs it; quit that" } else { "attach to it" }
    )]
    AlreadyRunning {
        /// The lock that it holds.
        lock: PathBuf,
        /// Its process id, where the lock file tells it.
        pid: Option<u32>,
        /// Whether it runs inside an `ax-top`.
        embedded: bool,
    },
    /// The folder of a per-user socket is not ours alone.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Others may write into the folder of a system agent.
    #[error(
        "others may write into {0}, and so replace the socket that all users trust; `chmod go-w {0}`",
        path.display()
    )]
    Writable {
        /// The folder.
        path: PathBuf,
    },
    /// Something that no agent put there stands where the socket or the lock should.
    #[error("{} is in the way and not ours to remove; move it, or set AX_SOCKET to another place", path.display())]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A socket that is listened on. Dropping it removes the file, then frees the lock.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    path: PathBuf,
    /// Held for its `flock`, which ends with it. The file stays behind: removing it would let two agents each lock a
    /// file of the same name.
    _lock: File,
}

impl BoundSocket {
    /// Takes the lock of the folder, then the socket. A socket file that a dead agent left is replaced.
    pub(crate) fn bind(config: &Config) -> Result<(Self, UnixListener), BindError> {
        let path = config.socket.clone();
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let (folder_mode, socket_mode) = if config.system {
            (0o755, 0o666)
        } else {
            (0o700, 0o600)
        };
        DirBuilder::new()
            .recursive(true)
            .mode(folder_mode)
            .create(&folder)
            .map_err(failed("make the folder", &folder))?;
        if config.system {
            check_public_folder(&folder)?;
        } else if config.private_folder {
            check_private_folder(&folder)?;
        } else if let Some(why) = distrust(&path) {
            tracing::warn!("{why}");
        }
        let lock = lock(&folder.join(LOCK_NAME), config.embedded)?;
        let listener = listen(&path, socket_mode)?;
        Ok((Self { path, _lock: lock }, listener))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Checks that nobody but us can put another socket in the place of the system agent's: services of all users trust it.
fn check_public_folder(folder: &Path) -> Result<(), BindError> {
    let meta = fs::symlink_metadata(folder).map_err(failed("look at", folder))?;
    let us = rustix::process::geteuid().as_raw();
    if !meta.is_dir() {
        return Err(FolderError::NotAFolder {
            path: folder.to_owned(),
        }
        .into());
    }
    if meta.uid() != us {
        return Err(FolderError::ForeignOwner {
            path: folder.to_owned(),
            owner: meta.uid(),
            us,
        }
        .into());
    }
    if meta.mode() & 0o022 != 0 {
        return Err(BindError::Writable {
            path: folder.to_owned(),
        });
    }
    Ok(())
}

fn lock(path: &Path, embedded: bool) -> Result<File, BindError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(failed("open the lock", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Without the text, the lock still says all that matters.
            let _ = file.take(MAX_LOCK_BYTES).read_to_string(&mut text);
            let owner = Owner::read(&text);
            return Err(BindError::AlreadyRunning {
                lock: path.to_owned(),
                pid: owner.as_ref().map(|owner| owner.pid),
                embedded: owner.is_some_and(|owner| owner.embedded),
            });
        }
        Err(TryLockError::Error(source)) => return Err(failed("lock", path)(source)),
    }
    if !left_by_an_agent(&mut file).map_err(failed("read", path))? {
        return Err(BindError::InTheWay {
            path: path.to_owned(),
        });
    }
    let program = if embedded { EMBEDDED } else { "" };
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}{program}", process::id()))
        .map_err(failed("write our process id to", path))?;
    Ok(file)
}

/// Longest text of a lock that is read.
const MAX_LOCK_BYTES: u64 = 64;

/// What follows the process id in the lock of an agent inside an `ax-top`.
const EMBEDDED: &str = " ax-top";

/// What an agent writes into its lock.
struct Owner {
    pid: u32,
    embedded: bool,
}

impl Owner {
    /// `None` for what no agent has written.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim_end();
        let pid = text.strip_suffix(EMBEDDED);
        Some(Self {
            pid: pid.unwrap_or(text).parse().ok()?,
            embedded: pid.is_some(),
        })
    }
}

/// Whether a lock file is new, or holds what an agent writes into it.
fn left_by_an_agent(file: &mut File) -> io::Result<bool> {
    let mut bytes = Vec::new();
    file.take(MAX_LOCK_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(bytes.is_empty() || Owner::read(&text).is_some())
}

/// Removes a socket that a dead agent left, and nothing else. The lock is held, so no agent listens there.
fn remove_socket(path: &Path) -> Result<(), BindError> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        meta => meta.map_err(failed("look at", path))?,
    };
    if !meta.file_type().is_socket() {
        return Err(BindError::InTheWay {
            path: path.to_owned(),
        });
    }
    fs::remove_file(path).map_err(failed("remove", path))
}

/// Binds under another name and renames, so that whoever finds the socket finds it ready and with its final mode.
fn listen(path: &Path, mode: u32) -> Result<UnixListener, BindError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let unready = path.with_file_name(name);
    remove_socket(&unready)?;
    remove_socket(path)?;
    let listener = UnixListener::bind(&unready).map_err(failed("listen on", &unready))?;
    let ready = listener
        .set_nonblocking(true)
        .and_then(|()| fs::set_permissions(&unready, Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&unready, path));
    match ready {
        Ok(()) => Ok(listener),
        Err(error) => {
            // The first error is the one to tell; what is left behind is removed at the next start.
            let _ = fs::remove_file(&unready);
            Err(failed("make ready", path)(error))
        }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BindError {
    let path = path.to_owned();
    move |source| BindError::Io {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_ours_alone_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/er/agent.sock");
        let (bound, _listener) = BoundSocket::bind(&Config::at(&path)).expect("binds");
        let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode();
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert_eq!(mode(path.parent().expect("has one")) & 0o777, 0o700);
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_second_agent_is_refused_with_the_lock_and_the_pid_of_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = Config::at(folder.path().join("agent.sock"));
        let first = BoundSocket::bind(&config).expect("binds");
        let error = BoundSocket::bind(&config).expect_err("is refused");
        let text = error.to_string();
        assert!(text.contains("agent.lock"), "{text}");
        assert!(text.contains(&format!("pid {}", process::id())), "{text}");
        drop(first);
        let embedded = Config {
            embedded: true,
            ..config.clone()
        };
        let first = BoundSocket::bind(&embedded).expect("the lock is free again");
        let text = BoundSocket::bind(&config)
            .expect_err("is refused")
            .to_string();
        assert!(text.contains("an ax-top runs it; quit that"), "{text}");
        assert!(text.contains(&format!("pid {}", process::id())), "{text}");
        drop(first);
        BoundSocket::bind(&config).expect("what an embedded agent left is taken over");
    }

    #[test]
    fn the_socket_file_of_a_dead_agent_is_taken_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.sock");
        drop(UnixListener::bind(&path).expect("binds"));
        drop(UnixListener::bind(folder.path().join("agent.sock.new")).expect("binds"));
        assert!(path.exists(), "a listener leaves its file");
        let (_bound, _listener) = BoundSocket::bind(&Config::at(&path)).expect("binds");
        std::os::unix::net::UnixStream::connect(&path).expect("somebody listens");
    }

    #[test]
    fn what_is_no_socket_of_an_agent_is_left_alone() {
        for name in ["agent.sock", "agent.sock.new", "agent.lock"] {
            let folder = tempfile::tempdir().expect("a folder");
            let foreign = folder.path().join(name);
            fs::write(&foreign, "precious").expect("writes");
            let error = BoundSocket::bind(&Config::at(folder.path().join("agent.sock")));
            assert!(matches!(error, Err(BindError::InTheWay { path }) if path == foreign));
            assert_eq!(fs::read_to_string(&foreign).expect("is there"), "precious");

            fs::remove_file(&foreign).expect("removes");
            let target = folder.path().join("target");
            fs::write(&target, "precious").expect("writes");
            std::os::unix::fs::symlink(&target, &foreign).expect("links");
            BoundSocket::bind(&Config::at(folder.path().join("agent.sock"))).expect_err("a link");
            assert_eq!(fs::read_to_string(&target).expect("is there"), "precious");
        }
    }

    #[test]
    fn a_shared_folder_is_refused_only_where_privacy_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("chmod");
        let named = Config::at(folder.path().join("agent.sock"));
        let per_user = Config {
            private_folder: true,
            ..named.clone()
        };
        assert!(matches!(
            BoundSocket::bind(&per_user),
            Err(BindError::Folder(FolderError::TooOpen { .. }))
        ));
        BoundSocket::bind(&named).expect("binds");
    }
}
