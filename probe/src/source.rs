//! How a scheduler shows its lanes to the probe.

use std::{
    cmp::Reverse,
    sync::{Arc, OnceLock, Weak},
};

use ax_wire::{
    incident::{MAX_RUNNING_JOBS, QueueFacts, RunningJob},
    sample::{DownstreamSample, LaneSample},
};
use parking_lot::Mutex;

/// Something with lanes. Called by the probe's own threads, never by a worker.
pub trait Source: Send + Sync {
    /// Appends a sample of each lane.
    ///
    /// Must not wait: counts come from atomics, and what stands behind a lock is taken with `try_lock` and left unknown
    /// where the lock is held.
    fn lanes(&self, out: &mut Vec<LaneSample>);

    /// Appends the running jobs, at least the [`MAX_RUNNING_JOBS`] that have run longest; returns how many run. `now_ns`
    /// is the time that ages are told by; the probe fills in the age of the poll that a job is in.
    ///
    /// Called at an incident. May take a few milliseconds, waits for a lock for one at most, and leaves out what stands
    /// behind one that is held.
    fn running(&self, now_ns: u64, out: &mut Vec<RunningJob>) -> u64;

    /// Appends what is queued, lane by lane. As [`running`](Self::running): what stands behind a lock that is held is
    /// left unknown.
    fn queues(&self, now_ns: u64, out: &mut Vec<QueueFacts>);
}

static SOURCES: OnceLock<Mutex<Vec<Weak<dyn Source>>>> = OnceLock::new();

fn sources() -> &'static Mutex<Vec<Weak<dyn Source>>> {
    SOURCES.get_or_init(Mutex::default)
}

/// Shows this source from now on, until its last `Arc` is dropped.
pub fn register(source: &Arc<dyn Source>) {
    let mut sources = sources().lock();
    sources.retain(|source| source.strong_count() > 0);
    sources.push(Arc::downgrade(source));
}

/// The sources that are alive.
fn alive() -> impl Iterator<Item = Arc<dyn Source>> {
    // Upgraded outside the lock: dropping the last `Arc` of a source runs code that is not ours.
    let alive: Vec<_> = {
        let mut sources = sources().lock();
        sources.retain(|source| source.strong_count() > 0);
        sources.clone()
    };
    alive.into_iter().filter_map(|source| source.upgrade())
}

static DOWNSTREAMS: OnceLock<fn() -> Vec<DownstreamSample>> = OnceLock::new();

/// Shows the downstreams of the process from now on. `sample` is called once a second, on a thread of the probe, and
/// hands over what its histograms recorded since the last call; a second `sample` is ignored.
pub fn show_downstreams(sample: fn() -> Vec<DownstreamSample>) {
    // An error says that one is there.
    let _ = DOWNSTREAMS.set(sample);
}

/// A sample of each downstream.
pub(crate) fn sample_downstreams() -> Vec<DownstreamSample> {
    DOWNSTREAMS.get().map(|sample| sample()).unwrap_or_default()
}

/// A sample of each lane of each source.
pub(crate) fn sample_all() -> Vec<LaneSample> {
    let mut lanes = Vec::new();
    for source in alive() {
        source.lanes(&mut lanes);
    }
    lanes
}

/// What an incident keeps of the sources.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) running: Vec<RunningJob>,
    pub(crate) running_total: u64,
    pub(crate) queues: Vec<QueueFacts>,
    /// Sources that were not asked, because `goes_on` said no.
    pub(crate) not_asked: usize,
}

/// Asks each source in turn, as long as `goes_on`.
pub(crate) fn facts(now_ns: u64, goes_on: impl Fn() -> bool) -> Facts {
    let mut facts = Facts::default();
    for source in alive() {
        if goes_on() {
            facts.running_total += source.running(now_ns, &mut facts.running);
            source.queues(now_ns, &mut facts.queues);
        } else {
            facts.not_asked += 1;
        }
    }
    facts.running.sort_by_key(|job| Reverse(job.elapsed_ns));
    facts.running.truncate(MAX_RUNNING_JOBS);
    facts
}
