//! How a scheduler shows its lanes to the probe.

use std::{
    cmp::Reverse,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use ax_wire::{
    JobId,
    control::Action,
    graph::{Graph, GraphQuery},
    incident::{MAX_RUNNING_JOBS, QueueFacts, RunningJob},
    job::{JobRow, JobsPage, JobsQuery},
    sample::{DownstreamSample, LaneSample, WaitingJob},
};
use parking_lot::Mutex;

use crate::slot::{self, Slot};

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

    /// Appends the jobs of each lane that have run longest, at most
    /// [`MAX_OLDEST_JOBS`](ax_wire::sample::MAX_OLDEST_JOBS) of each and none younger than a second; the probe fills in
    /// the age of the poll that a job is in.
    ///
    /// Called once a second. As [`running`](Self::running), and within some 100 us a lane.
    fn oldest_jobs(&self, now_ns: u64, out: &mut Vec<RunningJob>) {
        let _ = (now_ns, out);
    }

    /// Appends the jobs that have waited longest for other jobs or a person, at most
    /// [`MAX_WAITING_JOBS`](ax_wire::sample::MAX_WAITING_JOBS) with those among them that they wait for.
    ///
    /// Called once a second, and at an incident. As [`queues`](Self::queues).
    fn waiting_jobs(&self, now_ns: u64, out: &mut Vec<WaitingJob>) {
        let _ = (now_ns, out);
    }

    /// Adds the jobs that match to a page: at least those that come first of its own, up to the query's limit. Counts what
    /// it has looked at, and stops looking at `until_ns`. The probe fills in the age of the poll that a job is in.
    ///
    /// Called when a viewer asks. As [`queues`](Self::queues): a lock is held for some 100 us at a time.
    fn jobs(&self, query: &JobsQuery, now_ns: u64, until_ns: u64, page: &mut JobsPage) {
        let _ = (query, now_ns, until_ns, page);
    }

    /// Changes something, where the order names a lane or job of this source; says what was done, or why nothing was.
    /// `None` where it names none of its.
    ///
    /// Called on a thread of the probe that does nothing else, only in a service that allows it. May run the service's
    /// code: wakers, listeners, the destructor of a cancelled job.
    fn control(&self, action: &Action) -> Option<Result<String, String>> {
        let _ = action;
        None
    }

    /// A job that has ended and is remembered.
    fn ended_job(&self, job: JobId, now_ns: u64) -> Option<JobRow> {
        let _ = (job, now_ns);
        None
    }

    /// Adds the nodes that match to a part of the graph, up to [`MAX_NODES`](ax_wire::graph::MAX_NODES).
    ///
    /// Called when a viewer asks. As [`jobs`](Self::jobs).
    fn graph(&self, query: &GraphQuery, now_ns: u64, graph: &mut Graph) {
        let _ = (query, now_ns, graph);
    }
}

/// Delays the calls of a downstream for a while, or says why not.
pub type Inject = fn(name: &str, delay: Duration, lasting: Duration) -> Result<String, String>;

static INJECT: OnceLock<Inject> = OnceLock::new();

/// Lets an agent delay calls of the downstreams of the process, where the service allows it. A second `inject` is
/// ignored.
pub fn allow_injection(inject: Inject) {
    // An error says that one is there.
    let _ = INJECT.set(inject);
}

/// Delays a downstream.
pub(crate) fn inject(name: &str, delay: Duration, lasting: Duration) -> Result<String, String> {
    match INJECT.get() {
        Some(inject) => inject(name, delay, lasting),
        None => Err(format!("there is no downstream {name}")),
    }
}

/// Hands an order to the source that has what it names.
pub(crate) fn control(action: &Action) -> Option<Result<String, String>> {
    alive().find_map(|source| source.control(action))
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

/// Most of these that a sample has: the lanes and schedulers of a process are as many as it likes.
const MAX_SAMPLED_JOBS: usize = 256;

/// The jobs of all sources that have run longest.
pub(crate) fn oldest_jobs(now_ns: u64, slots: &[Arc<Slot>]) -> Vec<RunningJob> {
    let mut jobs = Vec::new();
    for source in alive() {
        source.oldest_jobs(now_ns, &mut jobs);
    }
    jobs.sort_by_key(|job| Reverse(job.elapsed_ns));
    jobs.truncate(MAX_SAMPLED_JOBS);
    if !jobs.is_empty() {
        let polls = slot::poll_ages(slots, now_ns);
        for running in &mut jobs {
            running.poll_age_ns = running.task.job.and_then(|job| polls.get(&job).copied());
        }
    }
    jobs
}

/// The jobs of all sources that wait for other jobs or a person.
pub(crate) fn waiting_jobs(now_ns: u64) -> Vec<WaitingJob> {
    let mut jobs = Vec::new();
    for source in alive() {
        source.waiting_jobs(now_ns, &mut jobs);
    }
    jobs.truncate(MAX_SAMPLED_JOBS);
    jobs
}

/// The jobs that match, of all sources.
pub(crate) fn jobs(query: &JobsQuery, now_ns: u64, until_ns: u64, slots: &[Arc<Slot>]) -> JobsPage {
    let mut page = JobsPage {
        complete: true,
        ..JobsPage::default()
    };
    for source in alive() {
        source.jobs(query, now_ns, until_ns, &mut page);
    }
    page.rows.sort_by(|a, b| query.order(a, b));
    page.rows.truncate(query.limit as usize);
    let polls = slot::poll_ages(slots, now_ns);
    for row in &mut page.rows {
        row.poll_age_ns = polls.get(&row.id).copied();
    }
    page
}

/// A job that has ended and is remembered by a source.
pub(crate) fn ended_job(job: JobId, now_ns: u64) -> Option<JobRow> {
    alive().find_map(|source| source.ended_job(job, now_ns))
}

/// The part of the graph that is asked for, of all sources.
pub(crate) fn graph(query: &GraphQuery, now_ns: u64) -> Graph {
    let mut graph = Graph {
        long_waiting: Some(0),
        ..Graph::default()
    };
    for source in alive() {
        source.graph(query, now_ns, &mut graph);
    }
    graph
}

/// What an incident keeps of the sources.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) running: Vec<RunningJob>,
    pub(crate) running_total: u64,
    pub(crate) queues: Vec<QueueFacts>,
    pub(crate) waiting: Vec<WaitingJob>,
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
            source.waiting_jobs(now_ns, &mut facts.waiting);
        } else {
            facts.not_asked += 1;
        }
    }
    facts.running.sort_by_key(|job| Reverse(job.elapsed_ns));
    facts.running.truncate(MAX_RUNNING_JOBS);
    facts
}
