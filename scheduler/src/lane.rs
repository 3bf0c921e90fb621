//! Lanes as the user sees them: opened by name, cheap to clone.

use std::{fmt, panic::Location, sync::Arc, time::Duration};

use ax_wire::sample::LaneSample;

use crate::{
    LaneError, Preset, Retry, RetryBudget, SubmitError, TimeoutAdvice,
    limit::{AdaptiveLimit, LaneMark, LimitAdvice, LimitMove},
    order::Ageing,
    place::{Place, Ready},
    policy::FullPolicy,
    scheduler::Inner,
    settings::Settings,
    shared::Shared,
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

/// The share of a queue's capacity at which it is said to be filling up. Lower warns earlier, and of more bursts that a
/// lane would have taken.
pub const DEFAULT_HIGH_WATER_PERCENT: u8 = 80;

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

    /// Waits for room in the queue and reserves it, first come first served; with a bound in bytes, for a job that
    /// declares none. Works in a lane of any [`FullPolicy`].
    ///
    /// Backpressure: a producer that awaits this before it makes its next job is never refused. A job that waits here
    /// for its own lane may wait for itself.
    ///
    /// Cancel safe: dropped, it leaves the line, and what it was promised goes to the next.
    ///
    /// # Errors
    ///
    /// Where the lane is closed, also while it waits.
    pub async fn ready(&self) -> Result<Place, SubmitError> {
        Ready::new(Arc::clone(&self.shared), 0).await
    }

    /// Sets the limit from now on. A limit that falls stops no job: none begins until fewer run than it allows. An
    /// adaptive limit goes on from there; a boost stays on top.
    ///
    /// # Errors
    ///
    /// Where the limit is out of range, or outside the bounds of an adaptive one.
    pub fn resize(&self, limit: usize) -> Result<(), LaneError> {
        self.shared.resize(limit, time::now_ns())
    }

    /// Raises the limit by `percent` (rounded down, 1 to
    /// [`MAX_BOOST_PERCENT`](crate::limit::MAX_BOOST_PERCENT)) for a while and returns it. It falls back
    /// by itself, without a stop to any job. A boost that goes on is replaced, not added to.
    ///
    /// # Errors
    ///
    /// Where the share or the time is out of range, or the limit too low for one more job.
    pub fn boost(&self, percent: u8, lasting: Duration) -> Result<usize, LaneError> {
        self.shared.boost(percent, lasting, time::now_ns())
    }

    /// Begins no job any more until [`Lane::resume`]. What runs goes on, what comes is queued.
    pub fn pause(&self) {
        self.shared.set_paused(true);
    }

    /// Goes on after [`Lane::pause`].
    pub fn resume(&self) {
        self.shared.set_paused(false);
    }

    /// The last moves of the limit, oldest first: up to [`limit::MOVES_KEPT`](crate::limit::MOVES_KEPT).
    #[must_use]
    pub fn limit_moves(&self) -> Vec<LimitMove> {
        self.shared.limit_moves(time::now_ns())
    }

    /// Begins a measurement for [`Lane::advise_limit`].
    #[must_use]
    pub fn mark(&self) -> LaneMark {
        self.shared.mark(time::now_ns())
    }

    /// The limit that the jobs since `mark` needed: their rate times how long they ran.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ax_scheduler::{Scheduler, limit::LimitAdvice};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ax = Scheduler::new();
    /// let lane = ax.lane("api").open()?;
    /// let mark = lane.mark();
    /// // Some minutes of work later:
    /// match lane.advise_limit(&mark) {
    ///     LimitAdvice::Measured { needed, .. } => lane.resize(needed * 5 / 4)?,
    ///     LimitAdvice::NotEnoughData { missing } => println!("{missing} more jobs are needed"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn advise_limit(&self, mark: &LaneMark) -> LimitAdvice {
        mark.advise(&self.mark())
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

    /// How many of its jobs run at once: [`DEFAULT_LIMIT`] unless set, 1 to [`MAX_LIMIT`]. See [`limit`](crate::limit) for
    /// what to choose.
    pub fn limit(mut self, limit: usize) -> Self {
        self.settings.limit = limit;
        self
    }

    /// Lets the limit move by itself; it begins at [`LaneBuilder::limit`]. Fixed unless set.
    pub fn adaptive(mut self, adaptive: AdaptiveLimit) -> Self {
        self.settings.adaptive = Some(adaptive);
        self
    }

    /// How many of its jobs queue, beyond those that run: [`DEFAULT_CAPACITY`] unless set, 1 to [`MAX_CAPACITY`].
    /// What happens to one more is [`LaneBuilder::when_full`].
    ///
    /// It bounds what is taken in. A job that was accepted before and comes back (from a delay, its dependencies, a retry
    /// or preemption) is queued in any case, so that the queue may be longer for a while; as many may wait as may queue.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.settings.capacity = capacity;
        self
    }

    /// How many bytes its queued jobs take at most, beside the bound in number: unbounded unless set. A job counts with
    /// its closure and what it [declares](crate::JobBuilder::payload_bytes).
    pub fn capacity_bytes(mut self, bytes: usize) -> Self {
        self.settings.capacity_bytes = Some(bytes);
        self
    }

    /// What happens to a job that finds the queue full: [`FullPolicy::Reject`] unless set.
    pub fn when_full(mut self, policy: FullPolicy) -> Self {
        self.settings.when_full = policy;
        self
    }

    /// The share of the capacity, in number or bytes, at which the queue is said to be filling up, by an event
    /// ([`JobEventKind::HighWater`](crate::JobEventKind::HighWater)), which is a warning through `tracing` too, and a
    /// count: [`DEFAULT_HIGH_WATER_PERCENT`] unless set, 1 to 100. Said once, and again after the queue
    /// has been below three quarters of the mark.
    pub fn high_water_percent(mut self, percent: u8) -> Self {
        self.settings.high_water_percent = percent;
        self
    }

    /// Lets the priority of queued jobs rise with time: fixed unless set.
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.settings.ageing = Some(ageing);
        self
    }

    /// Gives at least one start of `starts` to a job below the highest queued priority, where one is queued: to the one
    /// of these that has waited longest. No such turn unless set; at least 2.
    pub fn turn_every(mut self, starts: u32) -> Self {
        self.settings.turn_every = Some(starts);
        self
    }

    /// Whether a job that finds all slots taken stops a running one of a lower priority that
    /// [allows it](crate::JobBuilder::preemptible): not, unless set. The lowest one is stopped, and of equals the one that
    /// has run the shortest; at most as many as jobs above it are queued. Not together with ageing or turns.
    ///
    /// While the lane is full, each submit and start looks at each running job.
    pub fn preempt(mut self, preempt: bool) -> Self {
        self.settings.preempt = preempt;
        self
    }

    /// The priority of its jobs unless they set their own: 1 (last) to 100 (first), [`DEFAULT`](crate::priority::DEFAULT) unless set.
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
    #[track_caller]
    pub fn open(self) -> Result<Lane, LaneError> {
        self.settings.check(self.name)?;
        Ok(Lane {
            shared: self
                .scheduler
                .open(self.name, &self.settings, Location::caller())?,
            scheduler: Arc::clone(self.scheduler),
        })
    }
}
