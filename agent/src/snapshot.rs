//! Evidence on disk: the agent's part of it.
//!
//! - `limits`: how often a service may have a snapshot;
//! - `naming`: the thread that names the stacks of what is written;
//! - `store`: the thread that writes, lists and prunes the files, so that a slow disk holds up nothing else;
//! - here: what goes into one.
//!
//! Limits and counts belong to a service's user, name and seat (see `ServiceKey`), so that neither a reconnect nor a restart begins them anew;
//! after a restart of the agent they are taken from the files.

pub(crate) mod limits;
pub(crate) mod naming;
pub(crate) mod store;

use std::{path::PathBuf, time::Duration};

use ax_wire::{
    incident::{Incident, Reason, SNAPSHOT_VERSION, Snapshot, Writer},
    sample::TypeSample,
    snapshot_file::Access,
    view::{Point, ServiceView},
};

use crate::{
    clock::Now,
    history::{Recent, Tally},
    window::Window,
};

/// After a snapshot of a stall or lag spike, how long until the next one of that service. Shorter fills the disk with
/// the same evidence.
pub const DEFAULT_COOLDOWN: Duration = Duration::from_mins(1);

/// Automatic snapshots of one service in an hour: 20 MB of a typical megabyte each.
pub const DEFAULT_PER_HOUR: usize = 20;

/// Automatic snapshots of all services together in an hour, which bounds what a host full of unwell services writes.
pub const DEFAULT_ALL_PER_HOUR: usize = 200;

/// Snapshots of one service that people ask for in a minute.
pub const DEFAULT_ASKED_PER_MINUTE: usize = 12;

/// Files of one service; the oldest goes first.
pub const DEFAULT_MAX_FILES_OF_SERVICE: usize = 50;

/// Bytes of one service's files.
pub const DEFAULT_MAX_BYTES_OF_SERVICE: u64 = 128 << 20;

/// Files of all services. More makes the start of the agent slower, which reads each once.
pub const DEFAULT_MAX_FILES: usize = 300;

/// Bytes of all files.
pub const DEFAULT_MAX_BYTES: u64 = 512 << 20;

/// Older files are removed.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_hours(14 * 24);

/// The span of history that a snapshot holds.
const HISTORY_SPAN_NS: u64 = 5 * 60 * 1_000_000_000;

/// Where snapshots go, and how many there may be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder; `None` switches snapshots off, and probes write their own.
    pub folder: Option<PathBuf>,
    /// Who may enter the folder.
    pub access: Access,
    /// The program that reads a service's files to name the functions of its stacks: one whose `main` begins with
    /// [`child_main`](crate::symbol::child_main). `None`: stacks stay addresses.
    pub symbolizer: Option<PathBuf>,
    /// See [`DEFAULT_COOLDOWN`].
    pub cooldown: Duration,
    /// See [`DEFAULT_PER_HOUR`].
    pub per_hour: usize,
    /// See [`DEFAULT_ALL_PER_HOUR`].
    pub all_per_hour: usize,
    /// See [`DEFAULT_ASKED_PER_MINUTE`].
    pub asked_per_minute: usize,
    /// See [`DEFAULT_MAX_FILES_OF_SERVICE`].
    pub max_files_of_service: usize,
    /// See [`DEFAULT_MAX_BYTES_OF_SERVICE`].
    pub max_bytes_of_service: u64,
    /// See [`DEFAULT_MAX_FILES`].
    pub max_files: usize,
    /// See [`DEFAULT_MAX_BYTES`].
    pub max_bytes: u64,
    /// See [`DEFAULT_MAX_AGE`].
    pub max_age: Duration,
}

impl Settings {
    /// The defaults, in a folder.
    #[must_use]
    pub fn in_folder(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            access: Access::Private,
            symbolizer: None,
            cooldown: DEFAULT_COOLDOWN,
            per_hour: DEFAULT_PER_HOUR,
            all_per_hour: DEFAULT_ALL_PER_HOUR,
            asked_per_minute: DEFAULT_ASKED_PER_MINUTE,
            max_files_of_service: DEFAULT_MAX_FILES_OF_SERVICE,
            max_bytes_of_service: DEFAULT_MAX_BYTES_OF_SERVICE,
            max_files: DEFAULT_MAX_FILES,
            max_bytes: DEFAULT_MAX_BYTES,
            max_age: DEFAULT_MAX_AGE,
        }
    }
}

/// A service over its restarts: its user, its name, and its seat among the instances of that name.
///
/// An instance that comes takes the lowest seat that no connected one has, so that a restart goes on with the limits of
/// the one before it, while several at once have limits and lists of their own. How many seats there are is bounded by how
/// many were ever connected at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServiceKey {
    pub(crate) uid: u32,
    pub(crate) name: String,
    pub(crate) seat: u32,
}

impl ServiceKey {
    /// The first seat: a file on disk does not tell which one it was of.
    pub(crate) fn first(uid: u32, name: &str) -> Self {
        Self {
            uid,
            name: name.to_owned(),
            seat: 0,
        }
    }
}

/// Everything that the agent knows of a service at this moment, around what the service itself took down.
pub(crate) fn compose(
    window: Window<'_>,
    incident: Option<Incident>,
    reason: Reason,
    view: ServiceView,
    mut unknown: Vec<String>,
    now: Now,
) -> Snapshot {
    if let Some(incident) = &incident {
        unknown.extend_from_slice(&incident.unknown);
    }
    Snapshot {
        version: SNAPSHOT_VERSION,
        written_unix_ns: now.unix_ns,
        writer: Writer::Agent,
        hello: window.hello().clone(),
        incident,
        reason,
        alerts: view.alerts.clone(),
        types: types(window),
        history: history(window),
        observer_gaps: view.observer_gaps.clone(),
        agent_dropped: view.agent_dropped,
        view: Some(view),
        unknown,
    }
}

/// The types with their histograms over the last minute, a few hundred bytes each until they are written.
fn types(window: Window<'_>) -> Vec<TypeSample> {
    let mut tally = Tally::default();
    let types = window.types().map(|(_, entry)| {
        let known = &entry.value;
        let mut histogram = |recent: &Recent| {
            recent.add_to(&mut tally);
            tally.take_histogram()
        };
        TypeSample {
            queue_wait: histogram(&known.queue_wait),
            run: histogram(&known.run),
            poll: histogram(&known.poll),
            schedule_delay: histogram(&known.schedule_delay),
            ..known.latest.clone()
        }
    });
    types.collect()
}

fn history(window: Window<'_>) -> Vec<Point> {
    let oldest = window.newest_mono_ns().saturating_sub(HISTORY_SPAN_NS);
    let seconds = window.history().seconds();
    let kept = seconds.filter(|second| second.at_mono_ns > oldest);
    kept.map(|second| second.point.clone()).collect()
}
