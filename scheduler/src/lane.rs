//! Lanes as the user sees them: opened by name, cheap to clone.

use std::{fmt, panic::Location, sync::Arc, time::Duration};

use ax_wire::sample::LaneSample;

use crate::{
    LaneError, Preset, Retry, RetryBudget, TimeoutAdvice, priority,
    scheduler::Inner,
    shared::{Settings, Shared},
    time, types,
};

/// The lane of a job for which none was named. It is opened by the first such job with the default settings, unless
/// it was opened with others before.
pub const DEFAULT_LANE: &str = "default";

/// Jobs that run at once in a lane that sets no limit. More lets more work wait inside the downstream instead of in
/// the lane, where it is seen, ordered and refused.
pub const DEFAULT_LIMIT: usize = 100;

/// Jobs that queue in a lane that sets no capacity: at 200 bytes and the closure for each, 2 MB and more when full.
pub const DEFAULT_CAPACITY: usize = 10_000;

/// How long a running job may go on after it was asked to end, before its future is dropped.
pub const DEFAULT_CANCEL_GRACE: Duration = Duration::from_secs(1);

/// Percent of its timeout after which a job is slow, in a lane that sets none.
pub const DEFAULT_SLOW_PERCENT: u8 = 80;

/// The highest limit: each job that runs has a runner, a task that stays once it was needed.
pub const MAX_LIMIT: usize = 1_000_000;

/// The highest capacity: 20 GB of queued jobs.
pub const MAX_CAPACITY: usize = 100_000_000;

/// An isolated pool of running jobs with its own queue. Lanes cannot starve each other of slots.
///
/// A handle: clones are the same lane.
#[derive(Clone)]
pub struct Lane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) scheduler: Arc<Inner>,
}

impl Lane {
    /// Its name, unique in its scheduler.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Settings and counts, exact and consistent among each other. Takes about 5 us, whatever the backlog.
    #[must_use]
    pub fn counts(&self) -> LaneSample {
        self.shared.counts(time::now_ns())
    }

    /// How its jobs are tried again: what [`LaneBuilder::retry`] or a preset has set.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.shared.settings.retry.unwrap_or(Retry::NONE)
    }

    /// What the measured runs of a job type advise for its timeout; `None` before
    /// [`RUNS_FOR_ADVICE`](crate::RUNS_FOR_ADVICE) runs have ended.
    #[must_use]
    #[track_caller]
    pub fn timeout_advice(&self, job_type: &str) -> Option<TimeoutAdvice> {
        let task = types::find(&self.shared, job_type, Location::caller());
        let runs = task.run_times()?;
        let p99 = Duration::from_nanos(runs.quantile_ns(0.99)?);
        TimeoutAdvice::new(runs.count(), p99)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Settings of a lane that is about to be opened: [`Scheduler::lane`](crate::Scheduler::lane).
#[must_use = "a lane is opened by `open`"]
#[derive(Debug)]
pub struct LaneBuilder<'a> {
    scheduler: &'a Arc<Inner>,
    name: &'a str,
    settings: Settings,
}

impl<'a> LaneBuilder<'a> {
    pub(crate) fn new(scheduler: &'a Arc<Inner>, name: &'a str) -> Self {
        Self {
            scheduler,
            name,
            settings: Settings::default(),
        }
    }

    /// How many of its jobs run at once: [`DEFAULT_LIMIT`] unless set, 1 to [`MAX_LIMIT`].
    pub fn limit(mut self, limit: usize) -> Self {
        self.settings.limit = limit;
        self
    }

    /// How many of its jobs queue, beyond those that run: [`DEFAULT_CAPACITY`] unless set, 1 to [`MAX_CAPACITY`].
    /// One more is refused at once.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.settings.capacity = capacity;
        self
    }

    /// The priority of its jobs unless they set their own: 1 (last) to 100 (first), [`priority::DEFAULT`] unless set.
    pub fn priority(mut self, priority: u8) -> Self {
        self.settings.priority = priority;
        self
    }

    /// How long its jobs may run unless they set their own: from their start, without limit unless set. Rounded up to
    /// the runtime's timer, a millisecond.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// How long a running job may go on after it was asked to end, before its future is dropped:
    /// [`DEFAULT_CANCEL_GRACE`] unless set; zero drops it at once. A timeout has no grace.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = grace;
        self
    }

    /// How long jobs of one type may run, instead of the lane's timeout. Called again, it adds a type.
    pub fn type_timeout(mut self, job_type: &str, timeout: Duration) -> Self {
        let entry = (Box::from(job_type), timeout);
        self.settings.type_timeouts.push(entry);
        self
    }

    /// After how many percent of its timeout a job is announced as slow: [`DEFAULT_SLOW_PERCENT`] unless set, 0 for
    /// never. A job without a timeout is never slow.
    pub fn slow_percent(mut self, percent: u8) -> Self {
        self.settings.slow_percent = percent;
        self
    }

    /// How jobs of registered handlers are tried again unless they say otherwise: not, unless set. A closure says it
    /// itself ([`JobBuilder::retry`](crate::JobBuilder::retry)), for instance with [`Lane::retry`].
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.settings.retry = Some(retry.into());
        self
    }

    /// Bounds the retries of this lane; what is beyond is put off. Unbounded unless set. The scheduler may have a budget
    /// of its own for all lanes ([`SchedulerBuilder::retry_budget`](crate::SchedulerBuilder::retry_budget)): both hold.
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.settings.retry_budget = Some(budget);
        self
    }

    /// Limit, priority, timeout and retries of a usual kind of lane.
    pub fn preset(mut self, preset: &Preset) -> Self {
        let Preset {
            limit,
            priority,
            timeout,
            retry,
        } = *preset;
        self.settings.limit = limit;
        self.settings.priority = priority;
        self.settings.timeout = Some(timeout);
        self.settings.retry = Some(retry);
        self
    }

    /// Opens the lane, or returns the one of this name that is open with equal settings.
    ///
    /// # Errors
    ///
    /// Where a setting is out of range, where the scheduler has a lane of this name with other settings, and after the
    /// scheduler's shutdown.
    pub fn open(self) -> Result<Lane, LaneError> {
        self.check()?;
        Ok(Lane {
            shared: self.scheduler.open(self.name, &self.settings)?,
            scheduler: Arc::clone(self.scheduler),
        })
    }

    fn check(&self) -> Result<(), LaneError> {
        let lane = || Box::from(self.name);
        let Settings {
            limit,
            capacity,
            priority,
            timeout,
            slow_percent,
            ..
        } = self.settings;
        if self.name.is_empty() {
            return Err(LaneError::EmptyName);
        }
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(LaneError::InvalidLimit {
                lane: lane(),
                given: limit,
            });
        }
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(LaneError::InvalidCapacity {
                lane: lane(),
                given: capacity,
            });
        }
        if !priority::ALL.contains(&priority) {
            return Err(LaneError::InvalidPriority {
                lane: lane(),
                given: priority,
            });
        }
        let of_types = self.settings.type_timeouts.iter();
        if timeout == Some(Duration::ZERO) || of_types.clone().any(|(_, timeout)| timeout.is_zero())
        {
            return Err(LaneError::ZeroTimeout { lane: lane() });
        }
        if slow_percent > 100 {
            return Err(LaneError::InvalidSlowShare {
                lane: lane(),
                given: slow_percent,
            });
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit: DEFAULT_LIMIT,
            capacity: DEFAULT_CAPACITY,
            priority: priority::DEFAULT,
            timeout: None,
            cancel_grace: DEFAULT_CANCEL_GRACE,
            type_timeouts: Vec::new(),
            slow_percent: DEFAULT_SLOW_PERCENT,
            retry: None,
            retry_budget: None,
        }
    }
}

/// The words of an error: `limit 40, capacity 10000, ...`.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            capacity,
            priority,
            timeout,
            cancel_grace,
            type_timeouts,
            slow_percent,
            retry,
            retry_budget,
        } = self;
        write!(f, "limit {limit}, capacity {capacity}, priority {priority}")?;
        match timeout {
            Some(timeout) => write!(f, ", timeout {timeout:?}")?,
            None => write!(f, ", no timeout")?,
        }
        write!(f, ", cancel grace {cancel_grace:?}")?;
        for (job_type, timeout) in type_timeouts {
            write!(f, ", timeout of `{job_type}` {timeout:?}")?;
        }
        write!(f, ", slow at {slow_percent} %")?;
        if let Some(retry) = retry {
            write!(f, ", {retry:?}")?;
        }
        if let Some(budget) = retry_budget {
            write!(f, ", {budget:?}")?;
        }
        Ok(())
    }
}
