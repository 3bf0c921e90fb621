//! How a file is read.

use std::{
    fs::File,
    io::{self, BufReader},
    path::Path,
};

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

use super::{MAX_SNAPSHOT_BYTES, SnapshotFileError, error::failed, incident_of};
use crate::incident::{Incident, Reason, SNAPSHOT_VERSION, Snapshot, SnapshotSummary};

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
