//! Files that commands read and write.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::{Failure, print};
use crate::{format::printable, opened::Opened};

/// Reads a snapshot.
///
/// # Errors
///
/// It cannot be read, or is none.
pub fn open(path: &Path) -> Result<Opened, Failure> {
    Opened::read(path).map_err(|error| Failure::BadData(printable(&error.to_string())))
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
