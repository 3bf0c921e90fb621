//! Snapshot files: where they lie, what they are called, and how one is written so that nobody else can read, replace
//! or redirect it.
//!
//! Agent and probe both write through here. A file's name carries its [`IncidentId`], and a file never replaces another,
//! so that there is one file an incident in a folder, whoever wrote first.
//!
//! Everything here blocks on the file system: call it from a thread that may wait.

use std::{
    env,
    ffi::OsStr,
    fs::{self, DirBuilder, File},
    io::{self, BufReader, BufWriter, Write as _},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Uid};
use serde::Deserialize;
use uuid::Uuid;

use crate::incident::{Incident, IncidentId, Reason, SNAPSHOT_VERSION, Snapshot, SnapshotSummary};

/// Set by systemd for a unit with `StateDirectory=`.
const STATE_DIRECTORY_ENV: &str = "STATE_DIRECTORY";

/// Longest file that [`read`] and [`summary`] look at. An incident is one frame of at most 8 MiB; with a view, histograms
/// and history beside it a file stays far below.
pub const MAX_SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;

/// Characters of the service's name in a file's name.
const MAX_NAME_CHARS: usize = 48;

/// Ends the name of a file that is still being written.
const UNFINISHED: &str = ".tmp";

/// Ends the name of a file that is ready.
const READY: &str = ".json";

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

/// The name of an incident's file: the service, then the id, which sorts by time.
#[must_use]
pub fn file_name(service: &str, id: IncidentId) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let service: String = service
        .chars()
        .take(MAX_NAME_CHARS)
        .map(|c| if plain(c) { c } else { '-' })
        .collect();
    format!("{service}-{id}{READY}")
}

/// The incident of a file, or `None` where the name is not one of [`file_name`].
#[must_use]
pub fn incident_of(name: &OsStr) -> Option<IncidentId> {
    const ID_CHARS: usize = 36;
    let stem = name.to_str()?.strip_suffix(READY)?;
    let (service, id) = stem.split_at_checked(stem.len().checked_sub(ID_CHARS)?)?;
    let id = Uuid::try_parse(id).ok()?;
    service.ends_with('-').then_some(IncidentId(id))
}

/// What held the worker, where the longest named stall of the incident tells it.
#[must_use]
pub fn culprit(incident: &Incident) -> Option<String> {
    let stalls = incident.stalls.iter();
    name_of_longest(
        stalls.filter_map(|stall| Some((stall.length_ns, stall.task.as_ref()?.name.as_str()))),
    )
}

fn name_of_longest<'a>(stalls: impl Iterator<Item = (u64, &'a str)>) -> Option<String> {
    let (_, name) = stalls.max_by_key(|(length_ns, _)| *length_ns)?;
    Some(name.to_owned())
}

/// Makes the folder where it is missing, and checks it, so that what is wrong is said before the first incident.
///
/// # Errors
///
/// [`SnapshotFileError`].
pub fn prepare(folder: &Path, access: Access) -> Result<(), SnapshotFileError> {
    make(folder, access)?;
    open_folder(folder, access)?;
    Ok(())
}

/// Makes the folder where it is missing, and writes the snapshot of incident `id` into it: mode 0600, under a temporary
/// name first, never over another file. `owner` hands the file to another user, which only root may.
///
/// The folder must be ours and no more open than `access` says, and is no link. The file is not forced to the disk: it
/// survives the process, not a loss of power. Costs about 10 ms a megabyte.
///
/// # Errors
///
/// [`SnapshotFileError`]; nothing is left behind.
pub fn write(
    folder: &Path,
    access: Access,
    id: IncidentId,
    snapshot: &Snapshot,
    owner: Option<u32>,
) -> Result<SnapshotSummary, SnapshotFileError> {
    make(folder, access)?;
    let opened = open_folder(folder, access)?;
    let name = file_name(&snapshot.hello.service, id);
    let path = folder.join(&name);
    let unfinished = format!(".{}{UNFINISHED}", Uuid::now_v7());
    let written = write_as(&opened, &unfinished, &path, snapshot, owner).and_then(|bytes| {
        rename_without_replacing(&opened, &unfinished, &name).map_err(|error| {
            match error.kind() {
                io::ErrorKind::AlreadyExists => SnapshotFileError::Exists { path: path.clone() },
                _ => failed("name", &path)(error),
            }
        })?;
        Ok(bytes)
    });
    if written.is_err() {
        // The first error is the one to tell; `remove_unfinished` takes what stays behind.
        let _ = rustix::fs::unlinkat(&opened, &unfinished, AtFlags::empty());
    }
    Ok(SnapshotSummary {
        id,
        path: path.to_string_lossy().into_owned(),
        size_bytes: written?,
        service: snapshot.hello.service.clone(),
        at_unix_ns: snapshot
            .incident
            .as_ref()
            .map_or(snapshot.written_unix_ns, |incident| incident.at_unix_ns),
        reason: snapshot.reason.clone(),
        culprit: snapshot.incident.as_ref().and_then(culprit),
    })
}

fn make(folder: &Path, access: Access) -> Result<(), SnapshotFileError> {
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
fn open_folder(folder: &Path, access: Access) -> Result<OwnedFd, SnapshotFileError> {
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

fn write_as(
    folder: &OwnedFd,
    unfinished: &str,
    path: &Path,
    snapshot: &Snapshot,
    owner: Option<u32>,
) -> Result<u64, SnapshotFileError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, unfinished, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| failed("create", path)(error.into()))?;
    let mut file = BufWriter::new(File::from(file));
    serde_json::to_writer(&mut file, snapshot).map_err(|error| match error.io_error_kind() {
        Some(_) => failed("write", path)(error.into()),
        None => SnapshotFileError::Unwritable(error),
    })?;
    let file = file
        .write_all(b"\n")
        .and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error))
        .map_err(failed("write", path))?;
    if let Some(owner) = owner {
        rustix::fs::fchown(&file, Some(Uid::from_raw(owner)), None)
            .map_err(|error| failed("hand over", path)(error.into()))?;
    }
    let meta = file.metadata().map_err(failed("look at", path))?;
    Ok(meta.len())
}

fn rename_without_replacing(folder: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // Such as NFS: a second name for the file, which is never made over another, then the first one goes.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            rustix::fs::unlinkat(folder, from, AtFlags::empty())?;
            Ok(())
        }
        renamed => Ok(renamed?),
    }
}

/// Reads a snapshot.
///
/// # Errors
///
/// [`SnapshotFileError::Newer`] for a version above [`SNAPSHOT_VERSION`], else what is wrong with the file.
pub fn read(path: &Path) -> Result<Snapshot, SnapshotFileError> {
    let (file, _) = open_file(path)?;
    // The version first: what a newer writer calls by the same name may not be of the same shape.
    let version: Version = parse(path, &file)?;
    io::Seek::rewind(&mut &file).map_err(failed("read", path))?;
    if version.version > SNAPSHOT_VERSION {
        return Err(SnapshotFileError::Newer {
            path: path.to_owned(),
            version: version.version,
        });
    }
    parse(path, &file)
}

/// One line about a snapshot file, its id taken from its name. Reads the file once without keeping it, some 100 MB a
/// second.
///
/// # Errors
///
/// What is wrong with the file, such as [`SnapshotFileError::Malformed`] for a strange name. A newer version is no error
/// as long as it has these few fields.
pub fn summary(path: &Path) -> Result<SnapshotSummary, SnapshotFileError> {
    let (file, size_bytes) = open_file(path)?;
    let head: Head = parse(path, &file)?;
    let id = path.file_name().and_then(incident_of).ok_or_else(|| {
        let strange = <serde_json::Error as serde::de::Error>::custom("no incident in its name");
        SnapshotFileError::Malformed {
            path: path.to_owned(),
            source: strange,
        }
    })?;
    let taken = head.incident.as_ref();
    let stalls = taken.into_iter().flat_map(|incident| &incident.stalls);
    Ok(SnapshotSummary {
        id,
        path: path.to_string_lossy().into_owned(),
        size_bytes,
        service: head.hello.service,
        at_unix_ns: taken.map_or(head.written_unix_ns, |incident| incident.at_unix_ns),
        reason: head.reason,
        culprit: name_of_longest(
            stalls.filter_map(|stall| Some((stall.length_ns, stall.task.as_ref()?.name.as_str()))),
        ),
    })
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

fn open_file(path: &Path) -> Result<(File, u64), SnapshotFileError> {
    // A pipe of that name would hold up whoever opens it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| failed("open", path)(error.into()))?;
    let file = File::from(file);
    let meta = file.metadata().map_err(failed("look at", path))?;
    if !meta.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file");
        return Err(failed("read", path)(source));
    }
    if meta.len() > MAX_SNAPSHOT_BYTES {
        return Err(SnapshotFileError::TooLong {
            path: path.to_owned(),
            bytes: meta.len(),
        });
    }
    Ok((file, meta.len()))
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, file: &File) -> Result<T, SnapshotFileError> {
    let limited = io::Read::take(BufReader::new(file), MAX_SNAPSHOT_BYTES);
    serde_json::from_reader(limited).map_err(|source| SnapshotFileError::Malformed {
        path: path.to_owned(),
        source,
    })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SnapshotFileError {
    let path = path.to_owned();
    move |source| SnapshotFileError::Io {
        action,
        path,
        source,
    }
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The fields of a [`Snapshot`] that its summary is made of.
#[derive(Deserialize)]
struct Head {
    written_unix_ns: u64,
    hello: HeadHello,
    incident: Option<HeadIncident>,
    reason: Reason,
}

#[derive(Deserialize)]
struct HeadHello {
    service: String,
}

#[derive(Deserialize)]
struct HeadIncident {
    at_unix_ns: u64,
    stalls: Vec<HeadStall>,
}

#[derive(Deserialize)]
struct HeadStall {
    length_ns: u64,
    task: Option<HeadTask>,
}

#[derive(Deserialize)]
struct HeadTask {
    name: String,
}
