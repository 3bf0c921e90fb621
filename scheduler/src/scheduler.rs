//! The scheduler: a set of lanes with one runtime.

use std::{
    fmt,
    future::Future,
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_probe::source::{self, Source};
use ax_wire::{
    incident::{QueueFacts, RunningJob},
    sample::LaneSample,
};
use parking_lot::RwLock;
use tokio::runtime::Handle;

use crate::{
    JobBuilder, JobContext, JobError, LaneError, SubmitError,
    lane::{DEFAULT_LANE, LaneBuilder},
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
    inner: Arc<Inner>,
}

/// What the handles of a scheduler share. Jobs and runners hold their lane, not this.
pub(crate) struct Inner {
    number: u32,
    runtime: Option<Handle>,
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
        SchedulerBuilder {
            runtime: None,
            shutdown_grace: DEFAULT_SHUTDOWN_GRACE,
        }
    }

    /// A lane of this name, to be given its settings and opened.
    pub fn lane<'a>(&'a self, name: &'a str) -> LaneBuilder<'a> {
        LaneBuilder::new(&self.inner, name)
    }

    /// A job of this type, to be given its settings and submitted. `body` is called when it starts; what it returns is
    /// polled inside the lane. The type is a name that many jobs share, such as `calc_report`: each has its own
    /// counters and histograms, up to 128.
    pub fn job<'a, F, Fut>(&'a self, job_type: &'a str, body: F) -> JobBuilder<'a, F>
    where
        F: FnOnce(JobContext) -> Fut,
        Fut: Future,
    {
        JobBuilder::new(&self.inner, job_type, body)
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

    /// Ends the scheduler: no job is taken any more, queued jobs are cancelled, running ones may go on for the
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
            .field("number", &self.inner.number)
            .field("lanes", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Settings of a scheduler: [`Scheduler::builder`].
#[must_use = "a scheduler is made by `build`"]
#[derive(Debug)]
pub struct SchedulerBuilder {
    runtime: Option<Handle>,
    shutdown_grace: Duration,
}

impl SchedulerBuilder {
    /// The runtime that runs the jobs; the current one unless set.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// How long [`Scheduler::shutdown`] lets running jobs go on: [`DEFAULT_SHUTDOWN_GRACE`] unless set.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Makes the scheduler. Where one place makes many in a minute, as in a request handler, a warning says so.
    #[must_use]
    #[track_caller]
    pub fn build(self) -> Scheduler {
        static NUMBERS: AtomicU32 = AtomicU32::new(1);
        repeats::scheduler_made(Location::caller());
        let inner = Arc::new(Inner {
            number: NUMBERS.fetch_add(1, Relaxed),
            runtime: self.runtime.or_else(|| Handle::try_current().ok()),
            shutdown_grace: self.shutdown_grace,
            lanes: RwLock::default(),
            default_lane: OnceLock::new(),
        });
        let source: Arc<dyn Source> = Arc::<Inner>::clone(&inner);
        source::register(&source);
        Scheduler { inner }
    }
}

impl Inner {
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
        let lane = Shared::new(name, self.number, settings.clone(), self.runtime.clone());
        let lane = Arc::new(lane);
        lanes.open.push(Arc::clone(&lane));
        drop(lanes);
        repeats::lane_made(&lane, place);
        Some(lane)
    }

    fn lanes(&self) -> Vec<Arc<Shared>> {
        self.lanes.read().open.clone()
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
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
