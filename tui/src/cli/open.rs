//! `ax-top open FILE`: a snapshot, or a load session, in the terminal, on the screens of the dashboard. Needs no agent.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{Failure, block_on, dashboard::need_terminal, file};
use crate::{config::Settings, event, format::printable, load::shown::Shown};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The snapshot, or the load session
    file: PathBuf,
}

/// Bytes at the beginning of a file that say what it is.
const BEGINNING: u64 = 4_096;

/// Runs the command.
pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    if is_session(&arguments.file) {
        let shown = Shown::read(&arguments.file);
        let shown = shown.map_err(|error| Failure::BadData(printable(&error.to_string())))?;
        need_terminal("ax-top load show, or jq")?;
        return block_on(async { Ok(event::browse_session(shown, settings).await?) });
    }
    let opened = file::open(&arguments.file)?;
    need_terminal("ax-top report, ax-top export, or jq")?;
    block_on(async { Ok(event::browse(opened, settings).await?) })
}

/// Whether a file is a load session, as its first fields tell: whatever else it is said to be is a snapshot, or none. What
/// cannot be read is told by whoever reads all of it.
fn is_session(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning));
    let beginning = String::from_utf8_lossy(&beginning);
    read.is_ok() && beginning.contains("\"written_by\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_told_from_a_snapshot_by_its_beginning() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file.json");
        for (text, is) in [
            (
                "{\"version\":1,\"written_by\":\"ax\",\"began_unix_ns\":1",
                true,
            ),
            (
                "{\"version\":1,\"written_unix_ns\":1,\"writer\":\"agent\"}",
                false,
            ),
            ("", false),
        ] {
            std::fs::write(&path, text).expect("is written");
            assert_eq!(is_session(&path), is, "{text}");
        }
        assert!(!is_session(&folder.path().join("none")));
        // As large as a file that is no snapshot may be: only its beginning is read.
        let file = File::options().write(true).open(&path).expect("opens");
        file.set_len(64 << 30)
            .expect("without any block of it on the disk");
        assert!(!is_session(&path));
        let error = Shown::read(&path).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("more than")));
    }
}
