//! What can go wrong, and what to do about it.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::MAX_SNAPSHOT_BYTES;
use crate::incident::SNAPSHOT_VERSION;

/// Why a snapshot file was not written or cannot be read. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFileError {
    /// The environment names no place.
    #[error(
        "no folder for snapshots: neither STATE_DIRECTORY, XDG_STATE_HOME nor a home directory is known; name a folder"
    )]
    NoFolder,
    /// A link, or not a folder.
    #[error(
        "snapshots cannot go to {}: it is not a folder (a link is not followed); remove it, or name another folder",
        path.display()
    )]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Somebody else's.
    #[error(
        "snapshots cannot go to {}: it belongs to user {owner}, not to us (user {us}); remove it, or name another folder",
        path.display()
    )]
    ForeignOwner {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Our user id.
        us: u32,
    },
    /// Others may read or change more than they should.
    #[error(
        "snapshots cannot go to {0}: it is open to others (mode {mode:04o}); `chmod {wanted:04o} {0}`, or name another folder",
        path.display()
    )]
    TooOpen {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What they may be at most.
        wanted: u32,
    },
    /// Something has that name: the same incident's file, or what somebody put there.
    #[error("{} is already there and is not overwritten", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("cannot {action} {}: {source}{}", path.display(), advice(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The snapshot cannot be written as JSON.
    #[error("cannot write a snapshot as JSON: {0}")]
    Unwritable(serde_json::Error),
    /// Longer than [`MAX_SNAPSHOT_BYTES`].
    #[error("{} has {bytes} bytes, more than the {MAX_SNAPSHOT_BYTES} that a snapshot may have", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// Not a snapshot.
    #[error("{} is not a snapshot of ax: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        source: serde_json::Error,
    },
    /// Written by a newer ax, which this one would misread.
    #[error(
        "{} is a snapshot of version {version}; this ax reads up to {SNAPSHOT_VERSION}: open it with a newer ax",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

/// What a person can do about an error of the file system.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space, or name another folder"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "; name a folder that we may write to"
        }
        _ => "",
    }
}

pub(super) fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> SnapshotFileError {
    let path = path.to_owned();
    move |source| SnapshotFileError::Io {
        action,
        path,
        source,
    }
}
