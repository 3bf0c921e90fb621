//! Where the agent's socket is. Services, viewers and agents look in the same places, so the list lives here.

use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Overrides every other place: where it is set, no other socket is tried.
pub const SOCKET_ENV: &str = "AX_SOCKET";

/// The socket of the system agent, which serves all users of a host.
pub const SYSTEM_SOCKET: &str = "/run/ax/agent.sock";

/// File name of the socket inside a per-user folder.
const SOCKET_NAME: &str = "agent.sock";

/// The sockets on which an agent may listen for this user, best first: `$AX_SOCKET` alone where it is set, else the
/// system agent's, else this user's own ([`per_user`]).
#[must_use]
pub fn candidates() -> Vec<PathBuf> {
    match from_env() {
        Some(path) => vec![path],
        None => vec![PathBuf::from(SYSTEM_SOCKET), per_user_default()],
    }
}

/// The socket on which this user's own agent listens: `$AX_SOCKET`, else `$XDG_RUNTIME_DIR/ax/agent.sock`, else
/// `ax-UID/agent.sock` in the system's temporary folder.
#[must_use]
pub fn per_user() -> PathBuf {
    from_env().unwrap_or_else(per_user_default)
}

fn from_env() -> Option<PathBuf> {
    env::var_os(SOCKET_ENV)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn per_user_default() -> PathBuf {
    let runtime_dir = env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute());
    let folder = runtime_dir.map_or_else(
        || env::temp_dir().join(format!("ax-{}", rustix::process::getuid().as_raw())),
        |dir| dir.join("ax"),
    );
    folder.join(SOCKET_NAME)
}

/// Why a socket's folder cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be looked at.
    #[error("cannot look at {path}: {source}")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A link, or not a folder.
    #[error(
        "{path} is not a folder (a link is not followed); remove it, or set AX_SOCKET to another place"
    )]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Somebody else's.
    #[error(
        "{path} belongs to user {owner}, not to us (user {us}); remove it, or set AX_SOCKET to another place"
    )]
    ForeignOwner {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our user id.
        us: u32,
    },
    /// Others may write into it.
    #[error(
        "{path} can be entered by others (mode {mode:04o}); `chmod 0700 {path}`, or set AX_SOCKET to another place"
    )]
    TooOpen {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// Checks that the folder of a per-user socket is ours alone: a real folder, our user's, mode 0700.
///
/// # Errors
///
/// [`FolderError`], whose text says what to do.
pub fn check_private_folder(path: &Path) -> Result<(), FolderError> {
    let meta = fs::symlink_metadata(path).map_err(|source| FolderError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let us = rustix::process::getuid().as_raw();
    let mode = meta.mode() & 0o777;
    if !meta.is_dir() {
        Err(FolderError::NotAFolder {
            path: path.to_owned(),
        })
    } else if meta.uid() != us {
        Err(FolderError::ForeignOwner {
            path: path.to_owned(),
            owner: meta.uid(),
            us,
        })
    } else if mode & 0o077 != 0 {
        Err(FolderError::TooOpen {
            path: path.to_owned(),
            mode,
        })
    } else {
        Ok(())
    }
}
