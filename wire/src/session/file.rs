//! The file of a session: where it lies, how it is written whole or not at all, how it is read.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags};
use serde::Deserialize;
use uuid::Uuid;

use super::{SESSION_VERSION, Session};
use crate::snapshot_file::{self, Access, SnapshotFileError};

/// Longest file that [`read`] looks at. A second of a session takes some 2 KiB.
pub const MAX_SESSION_BYTES: u64 = 256 * 1024 * 1024;

/// Why a session file was not written or cannot be read. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SessionFileError {
    /// There is no folder for it.
    #[error("no folder for load sessions: {0}")]
    Folder(#[from] SnapshotFileError),
    /// The system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Longer than [`MAX_SESSION_BYTES`].
    #[error("{} has {bytes} bytes, more than the {MAX_SESSION_BYTES} that a load session may have", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// Not a session.
    #[error("{} is not a load session of ax: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        source: serde_json::Error,
    },
    /// Written by a newer ax, which this one would misread.
    #[error("{} is a load session of version {version}; this ax reads up to {SESSION_VERSION}: open it with a newer ax", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> SessionFileError + 'a {
    move |source| SessionFileError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Where sessions go unless a file is named: the folder `sessions` beside that of
/// [snapshots](snapshot_file::default_folder), made where it is missing, for its owner alone.
///
/// # Errors
///
/// [`SessionFileError::Folder`].
pub fn default_folder() -> Result<PathBuf, SessionFileError> {
    let folder = folder()?;
    snapshot_file::prepare(&folder, Access::Private)?;
    Ok(folder)
}

/// The same, whether it is there or not.
///
/// # Errors
///
/// [`SessionFileError::Folder`] when the environment names no place.
pub fn folder() -> Result<PathBuf, SessionFileError> {
    Ok(snapshot_file::default_folder()?.with_file_name("sessions"))
}

/// A name for a session that began now: the service, then what sorts by time.
#[must_use]
pub fn file_name(service: &str) -> String {
    snapshot_file::file_name(service, crate::incident::IncidentId::new_now())
}

/// Writes a session, in the place of an earlier state of it where there is one: mode 0600, under a temporary name first, so
/// that a reader finds the old file or the new one, never a part. Costs about 10 ms a megabyte.
///
/// # Errors
///
/// [`SessionFileError`]; what was there stays. What is there and no plain file (a device, a pipe, a link) is not replaced.
pub fn write(path: &Path, session: &Session) -> Result<(), SessionFileError> {
    if path.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file");
        return Err(failed("replace", path)(source));
    }
    let unfinished = path.with_file_name(format!(".{}.tmp", Uuid::now_v7()));
    let written = write_as(&unfinished, session).and_then(|()| {
        std::fs::rename(&unfinished, path).map_err(failed("write the load session to", path))
    });
    if written.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

fn write_as(path: &Path, session: &Session) -> Result<(), SessionFileError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| failed("create", path)(error.into()))?;
    let mut file = BufWriter::new(File::from(file));
    serde_json::to_writer(&mut file, session)
        .map_err(|error| failed("write", path)(error.into()))?;
    file.write_all(b"\n")
        .and_then(|()| file.flush())
        .map_err(failed("write", path))
}

/// Reads a session.
///
/// # Errors
///
/// [`SessionFileError::Newer`] for a version above [`SESSION_VERSION`], else what is wrong with the file.
pub fn read(path: &Path) -> Result<Session, SessionFileError> {
    // A pipe of that name would hold up whoever opens it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| failed("open", path)(error.into()))?;
    let mut file = File::from(file);
    let meta = file.metadata().map_err(failed("look at", path))?;
    if !meta.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file");
        return Err(failed("read", path)(source));
    }
    if meta.len() > MAX_SESSION_BYTES {
        return Err(SessionFileError::TooLong {
            path: path.to_owned(),
            bytes: meta.len(),
        });
    }
    // The version first: what a newer writer calls by the same name may not be of the same shape.
    let Head { version, .. } = parse(path, &file)?;
    if version > SESSION_VERSION {
        return Err(SessionFileError::Newer {
            path: path.to_owned(),
            version,
        });
    }
    file.rewind().map_err(failed("read", path))?;
    parse(path, &file)
}

/// What tells a session from other JSON files.
#[derive(Deserialize)]
struct Head {
    version: u32,
    #[serde(rename = "steps")]
    _steps: serde::de::IgnoredAny,
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, file: &File) -> Result<T, SessionFileError> {
    let limited = BufReader::new(file).take(MAX_SESSION_BYTES);
    serde_json::from_reader(limited).map_err(|source| SessionFileError::Malformed {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::session::{Arrivals, Driver, End, EndKind, Limits, Plan};

    fn session() -> Session {
        Session {
            version: SESSION_VERSION,
            written_by: "test".to_owned(),
            began_unix_ns: 1,
            written_unix_ns: 2,
            end: End {
                kind: EndKind::Unfinished,
                why: None,
            },
            driver: Driver::Http {
                url: "http://127.0.0.1:1/".to_owned(),
                method: "GET".to_owned(),
                header_names: Vec::new(),
                body_bytes: 0,
                arrivals: Arrivals::Uniform,
                max_in_flight: 1,
            },
            plan: Plan {
                loads: Vec::new(),
                step_ns: 1,
                warm_up_ns: 0,
                precision: None,
                limits: Limits {
                    achieved_share: 0.95,
                    p99_ns: None,
                    lag_p99_ns: None,
                    error_share: None,
                },
                injections: Vec::new(),
                abort: Vec::new(),
            },
            service: None,
            background: Vec::new(),
            steps: Vec::new(),
            verdicts: Vec::new(),
            marks: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// F94: a later state takes the place of an earlier one whole, for its owner alone, and nothing is left beside it.
    #[test]
    fn a_session_is_written_whole_again_and_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("load.json");
        let mut session = session();
        write(&path, &session).expect("is written");
        session.end.kind = EndKind::Completed;
        write(&path, &session).expect("is written again");
        assert_eq!(read(&path).expect("reads"), session);
        let mode = std::fs::metadata(&path).expect("is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let files = std::fs::read_dir(folder.path()).expect("can be listed");
        assert_eq!(files.count(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("no/load.json");
        assert!(write(&missing, &session()).is_err());
        let taken = folder.path().join("taken");
        std::fs::create_dir(&taken).expect("makes a folder");
        assert!(write(&taken, &session()).is_err());
        // A rename would put a file in the place of a device such as /dev/null.
        let device = folder.path().join("device");
        std::os::unix::net::UnixListener::bind(&device).expect("makes a socket");
        let said = write(&device, &session()).expect_err("is no file");
        assert!(said.to_string().contains("not a plain file"), "{said}");
        assert!(!device.symlink_metadata().expect("is there").is_file());
        let files = std::fs::read_dir(folder.path()).expect("can be listed");
        assert_eq!(files.count(), 2, "no half-written file stays");
    }

    #[test]
    fn what_is_no_session_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("load.json");
        let said = |text: &str| {
            std::fs::write(&path, text).expect("writes");
            read(&path).expect_err(text).to_string()
        };
        for other in [
            "",
            "{}",
            "[1]",
            r#"{"version":1}"#,
            r#"{"version":1,"steps":3}"#,
        ] {
            assert!(said(other).contains("is not a load session"), "{other}");
        }
        let newer = said(r#"{"version":2,"steps":[]}"#);
        assert!(newer.contains("open it with a newer ax"), "{newer}");
        let folder_said = read(folder.path()).expect_err("a folder").to_string();
        assert!(folder_said.contains("not a plain file"), "{folder_said}");
        let gone = read(&folder.path().join("gone")).expect_err("is not there");
        assert!(gone.to_string().contains("cannot open"), "{gone}");
    }
}
