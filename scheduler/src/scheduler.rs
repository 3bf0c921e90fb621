//! The scheduler: a set of lanes with one runtime.

mod builder;

use std::{
    error::Error,
    fmt,
    future::Future,
    panic::Location,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ax_probe::source::Source;
use ax_wire::{
    JobId,
    control::Action,
    graph::{Graph, GraphQuery},
    incident::{QueueFacts, RunningJob},
    job::{JobRow, JobsPage, JobsQuery},
    sample::{LaneSample, WaitingJob},
};
use parking_lot::RwLock;
use serde::{Serialize, de::DeserializeOwned};

pub use self::builder::SchedulerBuilder;
use crate::{
    DuplicateHandler, JobBuilder, JobContext, JobError, JobRecord, JobRef, JobState, Lane,
    LaneError, SubmitError,
    body::Once,
    events::JobEvents,
    handler::HandlerBody,
    hub::Hub,
    lane::{DEFAULT_LANE, LaneBuilder},
    page::JobEntry,
    repeats,
    settings::Settings,
    shared::{Mode, Shared},
    snapshot::{LaneSnapshot, Snapshot},
    time,
};

/// How long [`Scheduler::shutdown`] lets running jobs go on before it cancels them.
pub const DEFAULT_SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Runs jobs in lanes.
///
/// A handle: clones are the same scheduler. When the last one is gone, and the last [`Lane`](crate::Lane), what is
/// queued still runs and the runners end; [`Scheduler::shutdown`] stops it sooner.
///
/// Make one for each service, not one for each request.
#[derive(Clone)]
pub struct Scheduler {
    pub(crate) inner: Arc<Inner>,
}

/// What the handles of a scheduler share. Jobs and runners hold their lane, not this.
pub(crate) struct Inner {
    pub(crate) hub: Arc<Hub>,
    shutdown_grace: Duration,
    // Few and rarely added: found by walking. Submits do not come here, a `Lane` knows its own.
    lanes: RwLock<Lanes>,
    default_lane: OnceLock<Arc<Shared>>,
}

#[derive(Default)]
struct Lanes {
    open: Vec<Arc<Shared>>,
    closed: bool,
}

impl Scheduler {
    /// A scheduler on the current runtime. Made outside one, it has none and refuses every job: use
    /// [`Scheduler::builder`] there.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// To set the runtime or the grace of the shutdown.
    pub fn builder() -> SchedulerBuilder {
        SchedulerBuilder::new()
    }

    /// A lane of this name, to be given its settings and opened.
    pub fn lane<'a>(&'a self, name: &'a str) -> LaneBuilder<'a> {
        LaneBuilder::new(&self.inner, name)
    }

    /// A job of this type, to be given its settings and submitted. `body` is called when it starts; what it returns is
    /// polled inside the lane. The type is a name that many jobs share, such as `calc_report`: each has its own
    /// counters and histograms, up to 128.
    pub fn job<'a, F, Fut>(&'a self, job_type: &'a str, body: F) -> JobBuilder<'a, Once<F>>
    where
        F: FnOnce(JobContext) -> Fut,
        Fut: Future,
    {
        JobBuilder::new(&self.inner, job_type, body)
    }

    /// Registers the code of a job type, which takes a payload. Jobs of it are data: [`Scheduler::job_from`].
    ///
    /// # Errors
    ///
    /// Where the name has a handler already.
    pub fn register<F, P, Fut, T, E>(&self, name: &str, handler: F) -> Result<(), DuplicateHandler>
    where
        F: Fn(JobContext, P) -> Fut + Send + Sync + 'static,
        P: DeserializeOwned + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        self.inner.hub.handlers.add(name, handler)
    }

    /// A job of a registered handler, to be given its settings and submitted. Its result is JSON, kept in its record. It
    /// fails where the handler cannot read the payload.
    ///
    /// # Errors
    ///
    /// Where no handler of this name is registered, or the payload cannot be written as JSON.
    pub fn job_from<'a, P: Serialize + ?Sized>(
        &'a self,
        handler: &'a str,
        payload: &P,
    ) -> Result<JobBuilder<'a, HandlerBody>, SubmitError> {
        let payload = serde_json::to_value(payload).map_err(|error| SubmitError::Payload {
            name: Box::from(handler),
            reason: error.to_string().into(),
        })?;
        let body = self.inner.hub.handlers.body(handler, payload);
        let body = body.ok_or_else(|| SubmitError::UnknownHandler {
            name: Box::from(handler),
        })?;
        Ok(JobBuilder::of(&self.inner, handler, body).keep())
    }

    /// The lane of this name.
    ///
    /// # Errors
    ///
    /// Where none is open.
    pub fn open_lane(&self, name: &str) -> Result<Lane, SubmitError> {
        let mut lanes = self.inner.lanes().into_iter();
        let shared = lanes.find(|lane| *lane.name == *name);
        let shared = shared.ok_or_else(|| SubmitError::UnknownLane {
            lane: Box::from(name),
        })?;
        Ok(Lane {
            shared,
            scheduler: Arc::clone(&self.inner),
        })
    }

    /// Listens to what happens to jobs from now on. At most [`SchedulerBuilder::event_capacity`] events behind.
    #[must_use]
    pub fn subscribe(&self) -> JobEvents {
        self.inner.hub.listeners.subscribe()
    }

    /// Events that no listener got: those at which one panicked, and those for which there was no room.
    #[must_use]
    pub fn events_lost(&self) -> u64 {
        self.inner.hub.listeners.lost()
    }

    /// A job that has not ended. At once for one that waits or runs; for a queued one the queues are looked through, at
    /// some 10 ns a job: keep its [`JobHandle`](crate::JobHandle) or a [`JobRef`] instead.
    #[must_use]
    pub fn find(&self, job: JobId) -> Option<JobRef> {
        let job = self.inner.find(job)?;
        Some(JobRef { job })
    }

    /// Where a job stands: one that has not ended (see [`Scheduler::find`] for the cost), or one of which there is a
    /// record; `None` for any other.
    #[must_use]
    pub fn status(&self, job: JobId) -> Option<JobState> {
        let live = self.find(job).map(|job| job.status());
        live.or_else(|| self.record(job).map(|record| record.state))
    }

    /// Asks a job to end, as [`JobHandle::cancel`](crate::JobHandle::cancel) does. False where it has ended.
    #[expect(
        clippy::must_use_candidate,
        reason = "to cancel is what it is called for"
    )]
    pub fn cancel(&self, job: JobId) -> bool {
        let found = self.find(job);
        if let Some(job) = &found {
            job.cancel();
        }
        found.is_some()
    }

    /// How a job ended, while that is remembered.
    #[must_use]
    pub fn record(&self, job: JobId) -> Option<JobRecord> {
        let lanes = self.inner.lanes();
        lanes.iter().find_map(|lane| lane.records.lock().find(job))
    }

    /// Jobs that run, are ready (in the order of each lane's queue) or wait (in the order of submission): at most `limit`
    /// and [`MAX_PAGE`](crate::MAX_PAGE), from the `offset`th on. Takes well below a millisecond, whatever the backlog.
    /// Empty for other states, for which there are [`Scheduler::records`].
    #[must_use]
    pub fn page(&self, state: JobState, offset: usize, limit: usize) -> Vec<JobEntry> {
        self.inner.page(state, offset, limit)
    }

    /// Jobs that ended in this state and are remembered, the newest of each lane first; bounded like
    /// [`Scheduler::page`].
    #[must_use]
    pub fn records(&self, state: JobState, offset: usize, limit: usize) -> Vec<JobRecord> {
        self.inner.records(state, offset, limit)
    }

    /// Jobs that have waited for others for longer than [`LONG_WAIT`](crate::LONG_WAIT), of the oldest 10,000 that wait.
    #[must_use]
    pub fn long_waiting(&self) -> Vec<JobEntry> {
        self.inner.long_waiting()
    }

    /// The manual list: jobs whose attempts have all failed and that wait for a person ([`Retry::or_manual`](crate::Retry::or_manual)).
    #[must_use]
    pub fn manual_list(&self) -> Vec<JobEntry> {
        self.inner.manual()
    }

    /// Queues a job of the manual list again; its attempts begin anew. False where it is not in the list.
    #[expect(
        clippy::must_use_candidate,
        reason = "to retry is what it is called for"
    )]
    pub fn retry(&self, job: JobId) -> bool {
        self.inner.hub.retry_manual(job)
    }

    /// Gives up a job of the manual list: it is cancelled, and its handle gets the error of the last attempt. False where
    /// it is not in the list.
    #[expect(
        clippy::must_use_candidate,
        reason = "to drop it is what it is called for"
    )]
    pub fn drop_job(&self, job: JobId) -> bool {
        self.inner.hub.drop_manual(job)
    }

    /// The counts of each lane, and its running jobs. Takes about 5 us for a lane, whatever the backlog, and more by the
    /// number of running jobs, each of which is copied.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let now_ns = time::now_ns();
        let lanes = self.inner.lanes().into_iter().map(|lane| {
            let (counts, running) = lane.look(now_ns);
            LaneSnapshot { counts, running }
        });
        Snapshot {
            lanes: lanes.collect(),
        }
    }

    /// Ends the scheduler: no job is taken any more, queued and waiting jobs are cancelled, running ones may go on for the
    /// shutdown grace ([`SchedulerBuilder::shutdown_grace`]) and are then cancelled, which leaves them the cancel grace
    /// of their lane. Returns when none is left; only a job whose poll does not return can hold it up beyond the two.
    ///
    /// To be awaited on a runtime with time enabled, and not inside a job, which would wait for itself.
    ///
    /// Cancel safe: dropped, it leaves the scheduler closed and the running jobs running; it may be called again.
    pub async fn shutdown(&self) {
        let lanes = self.inner.close(Mode::Stopping);
        for lane in &lanes {
            lane.cancel_queued(|| JobError::Cancelled);
        }
        self.inner.hub.cancel_waiting(|| JobError::Cancelled);
        let drained = async {
            for lane in &lanes {
                lane.drained().await;
            }
        };
        let in_grace = tokio::time::timeout(self.inner.shutdown_grace, drained).await;
        if in_grace.is_err() {
            for lane in &lanes {
                lane.cancel_running();
            }
            for lane in &lanes {
                lane.drained().await;
            }
        }
    }
}

impl Default for Scheduler {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = self.inner.lanes();
        let names = lanes.iter().map(|lane| &lane.name);
        f.debug_struct("Scheduler")
            .field("number", &self.inner.hub.number)
            .field("lanes", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// The counts of each lane.
    pub(crate) fn counts(&self) -> Vec<LaneSample> {
        let now_ns = time::now_ns();
        self.lanes()
            .iter()
            .map(|lane| lane.counts(now_ns))
            .collect()
    }

    /// The lane of this name with these settings, made where there is none.
    pub(crate) fn open(
        &self,
        name: &str,
        settings: &Settings,
        place: &'static Location<'static>,
    ) -> Result<Arc<Shared>, LaneError> {
        let lane = self.find_or_make(name, settings, place);
        let lane = lane.ok_or_else(|| LaneError::Closed {
            lane: Box::from(name),
        })?;
        if lane.settings == *settings {
            Ok(lane)
        } else {
            Err(LaneError::DifferentSettings {
                lane: Box::from(name),
                open: lane.settings.to_string().into(),
                asked: settings.to_string().into(),
            })
        }
    }

    /// The lane of jobs that name none.
    #[track_caller]
    pub(crate) fn default_lane(&self) -> Result<&Arc<Shared>, SubmitError> {
        if let Some(lane) = self.default_lane.get() {
            return Ok(lane);
        }
        let lane = self.find_or_make(DEFAULT_LANE, &Settings::default(), Location::caller());
        let lane = lane.ok_or_else(|| SubmitError::Closed {
            lane: Box::from(DEFAULT_LANE),
        })?;
        Ok(self.default_lane.get_or_init(|| lane))
    }

    /// The lane of this name, whatever its settings; `None` once closed.
    fn find_or_make(
        &self,
        name: &str,
        settings: &Settings,
        place: &'static Location<'static>,
    ) -> Option<Arc<Shared>> {
        let mut lanes = self.lanes.write();
        if lanes.closed {
            return None;
        }
        if let Some(lane) = lanes.open.iter().find(|lane| *lane.name == *name) {
            let lane = Arc::clone(lane);
            drop(lanes);
            repeats::lane_found(name, place);
            return Some(lane);
        }
        let lane = Shared::new(name, settings.clone(), Arc::clone(&self.hub));
        let lane = Arc::new(lane);
        lanes.open.push(Arc::clone(&lane));
        drop(lanes);
        repeats::lane_made(&lane, place);
        Some(lane)
    }

    pub(crate) fn lanes(&self) -> Vec<Arc<Shared>> {
        self.lanes.read().open.clone()
    }

    /// The same for a thread of the probe, which must not wait.
    pub(crate) fn try_lanes(&self) -> Option<Vec<Arc<Shared>>> {
        Some(self.lanes.try_read()?.open.clone())
    }

    /// Takes no lane and no job any more.
    fn close(&self, mode: Mode) -> Vec<Arc<Shared>> {
        let lanes = {
            let mut lanes = self.lanes.write();
            lanes.closed = true;
            lanes.open.clone()
        };
        for lane in &lanes {
            lane.close(mode);
        }
        lanes
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close(Mode::Draining);
        self.hub.nobody_submits();
    }
}

impl Source for Inner {
    fn lanes(&self, out: &mut Vec<LaneSample>) {
        let now_ns = time::now_ns();
        if let Some(lanes) = self.lanes.try_read() {
            out.extend(lanes.open.iter().map(|lane| lane.try_counts(now_ns)));
        }
    }

    fn running(&self, now_ns: u64, out: &mut Vec<RunningJob>) -> u64 {
        let Some(lanes) = self.lanes.try_read() else {
            return 0;
        };
        let of_lanes = lanes.open.iter();
        of_lanes.map(|lane| lane.running_facts(now_ns, out)).sum()
    }

    fn queues(&self, now_ns: u64, out: &mut Vec<QueueFacts>) {
        if let Some(lanes) = self.lanes.try_read() {
            out.extend(lanes.open.iter().map(|lane| lane.queue_facts(now_ns)));
        }
    }

    fn oldest_jobs(&self, now_ns: u64, out: &mut Vec<RunningJob>) {
        if let Some(lanes) = self.lanes.try_read() {
            lanes
                .open
                .iter()
                .for_each(|lane| lane.oldest_jobs(now_ns, out));
        }
    }

    fn waiting_jobs(&self, now_ns: u64, out: &mut Vec<WaitingJob>) {
        self.hub.waiting_jobs(now_ns, out);
    }

    fn jobs(&self, query: &JobsQuery, now_ns: u64, until_ns: u64, page: &mut JobsPage) {
        self.answer_jobs(query, now_ns, until_ns, page);
    }

    fn ended_job(&self, job: JobId, now_ns: u64) -> Option<JobRow> {
        self.answer_ended(job, now_ns)
    }

    fn control(&self, action: &Action) -> Option<Result<String, String>> {
        self.carry_out(action)
    }

    fn graph(&self, query: &GraphQuery, now_ns: u64, graph: &mut Graph) {
        self.answer_graph(query, now_ns, graph);
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("number", &self.hub.number)
            .finish_non_exhaustive()
    }
}
