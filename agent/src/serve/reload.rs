//! Looks at the configuration file, and reads it anew when it has changed or when that is asked for.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, sync::Arc, time::Duration};

use tokio::{sync::Notify, time::sleep};

use super::message::HubHandle;
use crate::config::file::{self, FileConfig};

/// How often the file is looked at: a `stat`, on a thread that may wait.
const EVERY: Duration = Duration::from_secs(1);

/// What became of reading the file anew.
#[derive(Debug)]
pub(super) struct Reread {
    /// What it says, or why it is not taken, for a person.
    pub(super) outcome: Result<Box<FileConfig>, String>,
}

/// What tells one state of a file from another; `None` where it is not there.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let meta = fs::metadata(path).ok()?;
    Some((
        meta.dev(),
        meta.ino(),
        meta.len(),
        meta.mtime(),
        meta.mtime_nsec(),
    ))
}

/// Reads it. One that is not there says nothing, so that what is built in is in force.
fn read(path: &Path) -> Reread {
    let outcome = match file::read(path) {
        Err(error) if error.is_missing() => Ok(Box::default()),
        read => read.map(Box::new).map_err(|error| error.to_string()),
    };
    Reread { outcome }
}

/// Goes on until it is dropped.
pub(super) async fn watch(path: Arc<Path>, asked: Arc<Notify>, hub: HubHandle) {
    let looked = async |look: fn(&Path) -> Stamp| {
        let path = Arc::clone(&path);
        // Fails only if looking panicked, which it does not.
        tokio::task::spawn_blocking(move || look(&path)).await.ok().flatten()
    };
    let mut known = looked(stamp).await;
    loop {
        let is_asked = tokio::select! {
            () = sleep(EVERY) => false,
            () = asked.notified() => true,
        };
        let current = looked(stamp).await;
        if current == known && !is_asked {
            continue;
        }
        known = current;
        let path = Arc::clone(&path);
        if let Ok(reread) = tokio::task::spawn_blocking(move || read(&path)).await {
            hub.file(reread).await;
        }
    }
}
