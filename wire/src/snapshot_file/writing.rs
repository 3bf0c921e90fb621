//! How a file is written.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Uid};
use uuid::Uuid;

use super::{
    Access, SnapshotFileError, culprit,
    error::failed,
    file_name,
    folder::{make, open_folder},
    name::UNFINISHED,
};
use crate::incident::{IncidentId, Snapshot, SnapshotSummary};

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
    write_and_name(
        folder,
        access,
        id,
        snapshot,
        owner,
        rename_without_replacing,
    )
}

/// Writes the snapshot of incident `id` anew, in the place of the file that [`write`] has made: for what became known
/// later. A reader finds the old file or the new one, never a part.
///
/// # Errors
///
/// [`SnapshotFileError`]; the file is then as it was.
pub fn replace(
    folder: &Path,
    access: Access,
    id: IncidentId,
    snapshot: &Snapshot,
    owner: Option<u32>,
) -> Result<SnapshotSummary, SnapshotFileError> {
    write_and_name(folder, access, id, snapshot, owner, |folder, from, to| {
        Ok(rustix::fs::renameat(folder, from, folder, to)?)
    })
}

fn write_and_name(
    folder: &Path,
    access: Access,
    id: IncidentId,
    snapshot: &Snapshot,
    owner: Option<u32>,
    rename: impl FnOnce(&OwnedFd, &str, &str) -> io::Result<()>,
) -> Result<SnapshotSummary, SnapshotFileError> {
    make(folder, access)?;
    let opened = open_folder(folder, access)?;
    let name = file_name(&snapshot.hello.service, id);
    let path = folder.join(&name);
    let unfinished = format!(".{}{UNFINISHED}", Uuid::now_v7());
    let written = write_as(&opened, &unfinished, &path, snapshot, owner).and_then(|bytes| {
        rename(&opened, &unfinished, &name).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => SnapshotFileError::Exists { path: path.clone() },
            _ => failed("name", &path)(error),
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
