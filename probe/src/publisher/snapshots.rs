//! Evidence on its way to a file: offered to the agent, and written here where none takes it.

use std::{
    fs, io,
    mem::{Discriminant, discriminant},
    os::unix::fs::MetadataExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
    time::Duration,
};

use ax_wire::{
    ToAgent,
    hello::Hello,
    incident::{IncidentId, SNAPSHOT_VERSION, Snapshot, Writer},
    sample::TypeSample,
    snapshot_file::{self, Access, SnapshotFileError},
    view::{AgentDropped, Point},
};

use parking_lot::Mutex;

use super::link::Link;
use crate::{
    clock::{self, now_ns},
    incident::Evidence,
    shared::Shared,
};

/// How long an agent may take to say that it writes the snapshot.
pub(super) const ACK_NS: u64 = 200_000_000;

/// Files of this service that the probe leaves in the folder, some hundred kilobytes each; the oldest goes first.
pub const MAX_SNAPSHOT_FILES: usize = 50;

/// Snapshots that are written at once: a folder that hangs costs so many threads.
const WRITERS: usize = 4;

/// Evidence that no agent has taken yet.
struct Waiting {
    id: IncidentId,
    evidence: Evidence,
    /// From then on the probe writes it itself, whatever the agent says.
    until_ns: u64,
    no_agent: &'static str,
}

/// What a snapshot of the probe's own holds besides the evidence.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) hello: Hello,
    pub(super) history: Vec<Point>,
    pub(super) types: Vec<TypeSample>,
}

/// The kind of a failure.
type Failure = (Discriminant<SnapshotFileError>, Option<io::ErrorKind>);

/// Evidence that waits, and the threads that write.
pub(super) struct Snapshots {
    shared: Arc<Shared>,
    waiting: Vec<Waiting>,
    writers: Vec<JoinHandle<()>>,
    /// How the last one failed, unless it did not: the same failure again is not logged.
    logged: Arc<Mutex<Option<Failure>>>,
}

impl Snapshots {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            waiting: Vec::new(),
            writers: Vec::new(),
            logged: Arc::default(),
        }
    }

    /// Takes over what the watchdog has taken down, and offers it to the agent, where one is connected and takes frames.
    pub(super) fn offer(&mut self, mut link: Option<&mut Link>, now_ns: u64) {
        for evidence in self.shared.incidents.take_taken() {
            let (until_ns, no_agent) = match &mut link {
                None => (now_ns, "no agent is connected"),
                Some(link) => {
                    let frame = ToAgent::Incident(Box::new(evidence.incident.clone()));
                    if link.has_room() && link.push(frame).is_ok() {
                        (now_ns + ACK_NS, "the agent did not answer within 200 ms")
                    } else {
                        (now_ns, "the agent takes no frames")
                    }
                }
            };
            self.waiting.push(Waiting {
                id: evidence.incident.id,
                evidence,
                until_ns,
                no_agent,
            });
        }
    }

    /// The agent writes this one.
    pub(super) fn acknowledged(&mut self, id: IncidentId) {
        self.waiting.retain(|waiting| waiting.id != id);
    }

    /// The connection broke: what was offered over it is not waited for.
    pub(super) fn agent_is_gone(&mut self) {
        for waiting in &mut self.waiting {
            waiting.until_ns = 0;
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether there is something that no agent has taken in time.
    pub(super) fn any_due(&self, now_ns: u64) -> bool {
        self.waiting
            .iter()
            .any(|waiting| waiting.until_ns <= now_ns)
    }

    /// Writes what no agent has taken in time, each on a thread of its own, so that samples go on.
    pub(super) fn write_due(&mut self, now_ns: u64, surroundings: &Surroundings) {
        self.writers.retain(|writer| !writer.is_finished());
        let due = |waiting: &mut Waiting| waiting.until_ns <= now_ns;
        for waiting in self.waiting.extract_if(.., due) {
            if self.writers.len() == WRITERS {
                self.shared.incidents.count_failed();
                tracing::error!(
                    "a snapshot is not written: {WRITERS} others still are; is the folder's disk slow?"
                );
                continue;
            }
            let writer = Write {
                shared: Arc::clone(&self.shared),
                logged: Arc::clone(&self.logged),
                surroundings: surroundings.clone(),
                waiting,
            };
            let thread = thread::Builder::new().name("ax-snapshot".to_owned());
            match thread.spawn(move || writer.run()) {
                Ok(thread) => self.writers.push(thread),
                Err(error) => {
                    self.shared.incidents.count_failed();
                    tracing::error!("a snapshot is not written: no thread for it: {error}");
                }
            }
        }
    }

    /// Waits for the writers, until `until_ns` at most.
    pub(super) fn settle(&mut self, until_ns: u64) {
        while self.writers.iter().any(|writer| !writer.is_finished()) && now_ns() < until_ns {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// One snapshot that is being written.
struct Write {
    shared: Arc<Shared>,
    logged: Arc<Mutex<Option<Failure>>>,
    surroundings: Surroundings,
    waiting: Waiting,
}

impl Write {
    fn run(self) {
        let (shared, logged) = (Arc::clone(&self.shared), Arc::clone(&self.logged));
        // A fault of ours must not be one of the service.
        let Ok(written) = catch_unwind(AssertUnwindSafe(|| self.write())) else {
            shared.panics.fetch_add(1, Relaxed);
            return;
        };
        let failure = match written {
            Ok(path) => {
                tracing::warn!(
                    path,
                    "no agent took an incident: the probe wrote the snapshot"
                );
                None
            }
            // The agent has written it after all.
            Err(SnapshotFileError::Exists { path }) if is_whole(&path) => None,
            Err(error) => {
                shared.incidents.count_failed();
                let kind = match &error {
                    SnapshotFileError::Io { source, .. } => Some(source.kind()),
                    _ => None,
                };
                let failure = (discriminant(&error), kind);
                if *logged.lock() != Some(failure) {
                    tracing::error!("an incident has no snapshot: {error}");
                }
                Some(failure)
            }
        };
        *logged.lock() = failure;
    }

    fn write(self) -> Result<String, SnapshotFileError> {
        let named = self.shared.settings.snapshot_folder.clone();
        let folder = named.map_or_else(snapshot_file::default_folder, Ok)?;
        let Surroundings {
            hello,
            history,
            types,
        } = self.surroundings;
        let Evidence { incident, gaps } = self.waiting.evidence;
        let snapshot =
            Snapshot {
                version: SNAPSHOT_VERSION,
                written_unix_ns: clock::unix_ns(),
                writer: Writer::Probe,
                hello,
                reason: incident.reason.clone(),
                alerts: Vec::new(),
                view: None,
                types,
                history,
                observer_gaps: gaps,
                agent_dropped: AgentDropped::default(),
                unknown: vec![
                format!("alerts and the view: {}, so the probe wrote this", self.waiting.no_agent),
                "the span of the histograms: since an agent last took them, else since the start"
                    .to_owned(),
            ],
                incident: Some(incident),
            };
        let id = self.waiting.id;
        let written = snapshot_file::write(&folder, Access::Private, id, &snapshot, None)?;
        keep_newest(&folder, &snapshot.hello.service, MAX_SNAPSHOT_FILES);
        Ok(written.path)
    }
}

/// Removes the oldest files of this service beyond `most`, and what dead writers left. What cannot be removed stays, and
/// is tried again after the next snapshot.
fn keep_newest(folder: &Path, service: &str, most: usize) {
    let _ = snapshot_file::remove_unfinished(folder);
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut ids: Vec<_> = names
        .filter_map(|name| {
            let id = snapshot_file::incident_of(&name)?;
            (snapshot_file::file_name(service, id).as_str() == name).then_some(id)
        })
        .collect();
    // Ids sort by time.
    ids.sort_unstable();
    let surplus = ids.len().saturating_sub(most);
    for id in &ids[..surplus] {
        let _ = fs::remove_file(folder.join(snapshot_file::file_name(service, *id)));
    }
}

/// Whether what has the file's name is a file of ours, and no link that somebody planted.
fn is_whole(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|meta| meta.is_file() && meta.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_of_this_service_go_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |service, id| folder.path().join(snapshot_file::file_name(service, id));
        let ids: Vec<_> = (0..5).map(|_| IncidentId::new_now()).collect();
        let others = [path("other", ids[0]), folder.path().join("test-notes.json")];
        for path in ids.iter().map(|id| path("test", *id)).chain(others.clone()) {
            fs::write(path, "{}").expect("writes");
        }
        keep_newest(folder.path(), "test", 3);
        let kept: Vec<_> = ids.iter().map(|id| path("test", *id).exists()).collect();
        assert_eq!(kept, [false, false, true, true, true]);
        assert!(others.iter().all(|path| path.exists()));
    }
}
