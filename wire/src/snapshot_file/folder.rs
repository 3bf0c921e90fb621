//! The folder: where it is, and that it is ours alone.

use std::{
    env,
    ffi::OsStr,
    fs::{self, DirBuilder, File},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use uuid::Uuid;

use super::{SnapshotFileError, error::failed, name::UNFINISHED};

/// Set by systemd for a unit with `StateDirectory=`.
const STATE_DIRECTORY_ENV: &str = "STATE_DIRECTORY";

/// Who may enter the folder of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone: mode 0700.
    Private,
    /// Others may open a file whose name they were told, and only their own (each is 0600 and theirs), but not list the
    /// names: mode 0711. For a system agent.
    Shared,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Self::Private => 0o700,
            Self::Shared => 0o711,
        }
    }
}

/// Where snapshots go unless a folder is named: `ax-snapshots` in the first folder of `$STATE_DIRECTORY`, else
/// `ax/snapshots` in `$XDG_STATE_HOME`, else in `~/.local/state`.
///
/// # Errors
///
/// [`SnapshotFileError::NoFolder`] when none of these is known.
pub fn default_folder() -> Result<PathBuf, SnapshotFileError> {
    let absolute = |value: &OsStr| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let of_unit = env::var_os(STATE_DIRECTORY_ENV)
        .and_then(|folders| absolute(env::split_paths(&folders).next()?.as_os_str()));
    if let Some(folder) = of_unit {
        return Ok(folder.join("ax-snapshots"));
    }
    let state = env::var_os("XDG_STATE_HOME").and_then(|value| absolute(&value));
    state
        .or_else(|| {
            let home = env::home_dir().filter(|home| home.is_absolute())?;
            Some(home.join(".local/state"))
        })
        .map(|state| state.join("ax/snapshots"))
        .ok_or(SnapshotFileError::NoFolder)
}

/// Makes the folder where it is missing, and checks it, so that what is wrong is said before the first incident.
///
/// # Errors
///
/// [`SnapshotFileError`].
pub fn prepare(folder: &Path, access: Access) -> Result<(), SnapshotFileError> {
    make(folder, access)?;
    open_folder(folder, access)?;
    let writable = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(folder, writable)
        .map_err(|error| failed("write into the folder", folder)(error.into()))
}

pub(super) fn make(folder: &Path, access: Access) -> Result<(), SnapshotFileError> {
    if fs::symlink_metadata(folder).is_ok() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        let mut builder = DirBuilder::new();
        let parents = builder.recursive(true).mode(access.mode()).create(parent);
        parents.map_err(failed("make the folder", parent))?;
    }
    match DirBuilder::new().mode(access.mode()).create(folder) {
        // Another writer was faster; the check that follows looks at what is there.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(failed("make the folder", folder)),
    }
}

/// Opens the folder and checks what was opened, so that it cannot be swapped between check and use.
pub(super) fn open_folder(folder: &Path, access: Access) -> Result<OwnedFd, SnapshotFileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(|error| {
        if matches!(error, rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) {
            SnapshotFileError::NotAFolder {
                path: folder.to_owned(),
            }
        } else {
            failed("open the folder", folder)(error.into())
        }
    })?;
    let opened = File::from(opened);
    let meta = opened
        .metadata()
        .map_err(failed("look at the folder", folder))?;
    let us = rustix::process::geteuid().as_raw();
    let mode = meta.mode() & 0o7777;
    if meta.uid() != us {
        return Err(SnapshotFileError::ForeignOwner {
            path: folder.to_owned(),
            owner: meta.uid(),
            us,
        });
    }
    if mode & 0o777 & !access.mode() != 0 {
        return Err(SnapshotFileError::TooOpen {
            path: folder.to_owned(),
            mode,
            wanted: access.mode(),
        });
    }
    Ok(opened.into())
}

/// Removes what writers that died left unfinished in a folder of ours more than an hour ago; says how many.
///
/// # Errors
///
/// [`SnapshotFileError::Io`] when the folder cannot be listed.
pub fn remove_unfinished(folder: &Path) -> Result<usize, SnapshotFileError> {
    const DEAD_AFTER: std::time::Duration = std::time::Duration::from_hours(1);
    let entries = fs::read_dir(folder).map_err(failed("list", folder))?;
    let old = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let ours = name
            .to_str()
            .and_then(|name| name.strip_prefix('.')?.strip_suffix(UNFINISHED))
            .is_some_and(|id| Uuid::try_parse(id).is_ok());
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let age = modified.map(|modified| modified.elapsed().unwrap_or_default());
        ours && age.is_ok_and(|age| age > DEAD_AFTER)
    });
    Ok(old
        .filter(|entry| fs::remove_file(entry.path()).is_ok())
        .count())
}
