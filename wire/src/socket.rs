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
    match named_by_env() {
        Some(path) => vec![path],
        None => vec![PathBuf::from(SYSTEM_SOCKET), per_user_default()],
    }
}

/// The socket on which this user's own agent listens: `$AX_SOCKET`, else `$XDG_RUNTIME_DIR/ax/agent.sock`, else
/// `ax-UID/agent.sock` in the system's temporary folder.
#[must_use]
pub fn per_user() -> PathBuf {
    named_by_env().unwrap_or_else(per_user_default)
}

/// The socket that [`SOCKET_ENV`] names.
#[must_use]
pub fn named_by_env() -> Option<PathBuf> {
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

/// What is to be said of the folder of a socket that somebody named with [`SOCKET_ENV`]: it is used, and others who could
/// put a socket of theirs in its place are named. `None` where nobody can, or there is no such folder yet.
#[must_use]
pub fn distrust(socket: &Path) -> Option<String> {
    let folder = match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let meta = fs::metadata(folder).ok()?;
    let us = rustix::process::getuid().as_raw();
    let (owner, mode) = (meta.uid(), meta.mode());
    let who = if owner != us && owner != 0 {
        format!("user {owner}, who owns {},", folder.display())
    } else if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let mode = mode & 0o7777;
        format!(
            "others, who may write into {} (mode {mode:04o}),",
            folder.display()
        )
    } else {
        return None;
    };
    Some(format!(
        "{who} could put another socket in the place of {}; name one in a folder of your own with {SOCKET_ENV}",
        socket.display()
    ))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn a_folder_that_others_can_put_a_socket_into_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("agent.sock");
        let told = |mode| {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder.path(), permissions).expect("is ours");
            distrust(&socket)
        };
        assert_eq!(told(0o700), None);
        assert_eq!(told(0o755), None);
        assert_eq!(told(0o1777), None, "nobody can remove what is ours");
        assert!(told(0o777).is_some_and(|why| why.contains("(mode 0777)")));
        assert_eq!(told(0o700), None);
        assert_eq!(distrust(Path::new("/nonexistent/agent.sock")), None);
        if rustix::process::getuid().is_root() {
            chown(folder.path(), Some(12_345), None).expect("root may");
            assert!(distrust(&socket).is_some_and(|why| why.starts_with("user 12345, who owns ")));
        }
    }
}
