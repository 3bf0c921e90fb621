//! The session that a screen shows: a file that was opened, or the newest one there is, which may still be running.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use ax_agent::load::{Analysis, analyze};
use ax_wire::session::{self, Session, SessionFileError};

/// A session with what is made of it.
#[derive(Clone, Debug)]
pub struct Shown {
    pub session: Session,
    pub analysis: Analysis,
    pub path: PathBuf,
    modified: Option<SystemTime>,
}

impl Shown {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// See [`session::read`].
    pub fn read(path: &Path) -> Result<Self, SessionFileError> {
        let modified = modified(path);
        let session = session::read(path)?;
        Ok(Self {
            analysis: analyze(&session),
            session,
            path: path.to_owned(),
            modified,
        })
    }

    /// One that lies in no file.
    #[cfg(test)]
    pub fn of(session: Session) -> Self {
        Self {
            analysis: analyze(&session),
            session,
            path: PathBuf::from("session-v1.json"),
            modified: None,
        }
    }

    /// What the screen calls it.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// The newest session in the folder of sessions; what is known already where that is still it. Blocks on the file system.
pub fn newest(known: Option<Arc<Shown>>) -> Option<Arc<Shown>> {
    let folder = session::folder().ok()?;
    let files = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let sessions = files.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| !name.starts_with('.'))
            && path
                .extension()
                .is_some_and(|extension| extension == "json")
    });
    let (changed, path) = sessions
        .filter_map(|path| Some((modified(&path)?, path)))
        .max()?;
    if let Some(known) = known
        && known.path == path
        && known.modified == Some(changed)
    {
        return Some(known);
    }
    // One that cannot be read is being written by a newer ax, or is none.
    Shown::read(&path).ok().map(Arc::new)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
