//! Looks at the configuration file, and reads it anew when it has changed or when that is asked for.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::{sync::Notify, task::spawn_blocking, time::sleep};

use super::message::HubHandle;
use crate::config::file::{self, FileConfig, Stamp};

/// How often the file is looked at: a `stat`, on a thread that may wait.
const EVERY: Duration = Duration::from_secs(1);

/// What became of reading the file anew.
#[derive(Debug)]
pub(super) struct Reread {
    /// What it says, or why it is not taken, for a person.
    pub(super) outcome: Result<Box<FileConfig>, String>,
}

/// Reads it. One that is not there says nothing, so that what is built in is in force.
fn read(path: &Path) -> Reread {
    let outcome = match file::read(path) {
        Err(error) if error.is_missing() => Ok(Box::default()),
        read => read.map(Box::new).map_err(|error| error.to_string()),
    };
    Reread { outcome }
}

/// Goes on until it is dropped. `known` is the state in which the file was read last.
///
/// What was wrong may be mended in a file that the configuration names, such as a body: one that is not taken is read
/// again each second, and told of when something else comes of it.
pub(super) async fn watch(path: Arc<Path>, mut known: Stamp, asked: Arc<Notify>, hub: HubHandle) {
    let mut problem = None;
    loop {
        let is_asked = tokio::select! {
            () = sleep(EVERY) => false,
            () = asked.notified() => true,
        };
        let looked_at = Arc::clone(&path);
        // Fails only if looking panicked, which it does not.
        let Ok(current) = spawn_blocking(move || Stamp::of(&looked_at)).await else {
            continue;
        };
        let is_new = current != known || is_asked;
        if !is_new && problem.is_none() {
            continue;
        }
        known = current;
        let path = Arc::clone(&path);
        if let Ok(reread) = spawn_blocking(move || read(&path)).await {
            let still = reread.outcome.as_ref().err().cloned();
            if is_new || still != problem {
                hub.file(reread).await;
            }
            problem = still;
        }
    }
}
