//! Files that commands read and write.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use ax_agent::symbol::{OWN_PROGRAM, Symbolizer};

use super::{Failure, print};
use crate::{format::printable, opened::Opened};

/// Reads a snapshot, and names its stacks where its writer could not: a service that wrote it itself leaves addresses.
/// The file stays as it is.
///
/// # Errors
///
/// It cannot be read, or is none.
pub fn open(path: &Path) -> Result<Opened, Failure> {
    let opened = Opened::read(path);
    let mut opened = opened.map_err(|error| Failure::BadData(printable(&error.to_string())))?;
    if let Some(incident) = &mut opened.snapshot.incident {
        Symbolizer::new(OWN_PROGRAM).name_here(&mut incident.stacks);
    }
    Ok(opened)
}

/// Writes text to a file, or to the standard output where none is named.
///
/// # Errors
///
/// See [`create`].
pub fn deliver(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    match path {
        None => print(text),
        Some(path) => create(path, text.as_bytes()),
    }
}

/// Writes a new file, for its owner alone, as the snapshot was; never over another one.
///
/// # Errors
///
/// Something has that name, or the system refuses.
pub fn create(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| {
        let path = path.display();
        if error.kind() == io::ErrorKind::AlreadyExists {
            Failure::Usage(format!(
                "{path} is already there and is not overwritten; name another file, or remove it"
            ))
        } else {
            io::Error::new(error.kind(), format!("cannot write {path}: {error}")).into()
        }
    })
}
