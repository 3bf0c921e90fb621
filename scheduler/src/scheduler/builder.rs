//! What a scheduler is made with.

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_probe::source::{self, Source};
use parking_lot::RwLock;
use tokio::runtime::Handle;

use super::{DEFAULT_SHUTDOWN_GRACE, Inner, Scheduler};
use crate::{
    RetryBudget,
    budget::Grants,
    events::{DEFAULT_EVENT_CAPACITY, JobEvent, Listeners, Sink},
    hub::{DEFAULT_REMEMBER, DEFAULT_REMEMBER_COUNT, Hub, Remember},
    repeats,
    summary::{self, DEFAULT_SUMMARY_INTERVAL},
};

/// Settings of a scheduler: [`Scheduler::builder`].
#[must_use = "a scheduler is made by `build`"]
pub struct SchedulerBuilder {
    runtime: Option<Handle>,
    shutdown_grace: Duration,
    sink: Option<Sink>,
    event_capacity: usize,
    remember: Remember,
    retry_budget: Option<RetryBudget>,
    summary_interval: Duration,
}

impl SchedulerBuilder {
    pub(super) fn new() -> Self {
        Self {
            runtime: None,
            shutdown_grace: DEFAULT_SHUTDOWN_GRACE,
            sink: None,
            event_capacity: DEFAULT_EVENT_CAPACITY,
            remember: Remember {
                time: DEFAULT_REMEMBER,
                count: DEFAULT_REMEMBER_COUNT,
            },
            retry_budget: None,
            summary_interval: DEFAULT_SUMMARY_INTERVAL,
        }
    }

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

    /// Called with every move of every job, in the order of each lane, by whichever thread moved it: short, or it holds
    /// up that thread. It may submit jobs. A panic in it is logged and counted. None unless set.
    pub fn on_event(mut self, sink: impl Fn(&JobEvent) + Send + Sync + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// Events that a listener ([`Scheduler::subscribe`]) may be behind before it loses the oldest:
    /// [`DEFAULT_EVENT_CAPACITY`] unless set, 1 to [`MAX_EVENT_CAPACITY`](crate::MAX_EVENT_CAPACITY) (out of range it is
    /// taken as the nearest bound), rounded up to a power of two.
    pub fn event_capacity(mut self, events: usize) -> Self {
        self.event_capacity = events;
        self
    }

    /// How long, and how many, ended jobs are remembered: their names, keys
    /// ([`JobBuilder::submit_once`](crate::JobBuilder::submit_once)) and [`JobRecord`](crate::JobRecord)s.
    /// [`DEFAULT_REMEMBER`] and [`DEFAULT_REMEMBER_COUNT`] unless set; whichever is reached first.
    pub fn remember(mut self, time: Duration, count: usize) -> Self {
        self.remember = Remember { time, count };
        self
    }

    /// Bounds the retries of all lanes together; what is beyond is put off. Unbounded unless set.
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.retry_budget = Some(budget);
        self
    }

    /// How often each lane is summed up in the log (`ax::summary`, level info): [`DEFAULT_SUMMARY_INTERVAL`] unless set,
    /// and at least that often.
    pub fn summary_every(mut self, interval: Duration) -> Self {
        self.summary_interval = interval;
        self
    }

    /// Makes the scheduler. Where one place makes many in a minute, as in a request handler, a warning says so.
    #[must_use]
    #[track_caller]
    pub fn build(self) -> Scheduler {
        static NUMBERS: AtomicU32 = AtomicU32::new(1);
        repeats::scheduler_made(Location::caller());
        let hub = Hub::new(
            NUMBERS.fetch_add(1, Relaxed),
            self.runtime.or_else(|| Handle::try_current().ok()),
            Listeners::new(self.sink, self.event_capacity),
            self.remember,
            self.retry_budget.map(Grants::new),
        );
        let inner = Arc::new(Inner {
            hub: Arc::new(hub),
            shutdown_grace: self.shutdown_grace,
            lanes: RwLock::default(),
            default_lane: OnceLock::new(),
        });
        let source: Arc<dyn Source> = Arc::<Inner>::clone(&inner);
        source::register(&source);
        summary::add(&inner, self.summary_interval);
        Scheduler { inner }
    }
}

impl fmt::Debug for SchedulerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerBuilder")
            .field("shutdown_grace", &self.shutdown_grace)
            .finish_non_exhaustive()
    }
}
