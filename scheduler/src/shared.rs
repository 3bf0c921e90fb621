//! The inside of a lane: its ready queue, its runners and its counts, under one lock.
//!
//! Rules that everything here keeps:
//!
//! 1. No code of the user (closures, futures, destructors, wakers) runs under the lock.
//! 2. At most one runner is being woken; a runner that sees more jobs than its own passes the wake on. So whenever
//!    jobs are queued and a runner is idle, a wake is in flight, and a submit costs at most one.
//!    On several workers, the runner that passes the wake on takes no job: the woken one is polled next on the same
//!    worker (tokio's LIFO slot, from which nothing is stolen), and the waker itself goes to the end of the worker's
//!    queue, where an idle worker finds it. A job that blocks its worker so holds up no other job.
//! 3. A runner says under the lock that it is idle, after it saw the queue empty under the same lock: no job is missed.
//! 4. A runner runs one job at a time, and there are at most `limit` runners: the limit holds by construction.
//! 5. An end is counted under the lock before the handle learns of it: counts are exact at every instant.

mod facts;
mod waiting;

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
    time::Duration,
};

use ax_probe::task_type::End;
use ax_wire::sample::{JobCounters, LaneSample};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    JobError, JobState, SubmitError,
    backoff::Retry,
    buckets::Buckets,
    budget::{Grants, RetryBudget},
    cell::Job,
    events::{JobEvent, JobEventKind},
    hub::Hub,
    records::Records,
    runner::Runner,
    snapshot::RunningJob,
    state, time,
};

/// Jobs that are withdrawn in one go: bounds how long the lock is held.
const WITHDRAW_BATCH: usize = 256;

/// Cancelled jobs that may stay in the queue before it is swept, where they are also more than half of it.
const TOMBSTONES: usize = 1024;

/// What a lane was opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) limit: usize,
    pub(crate) capacity: usize,
    pub(crate) priority: u8,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel_grace: Duration,
    /// Of single types; few, so found by walking.
    pub(crate) type_timeouts: Vec<(Box<str>, Duration)>,
    /// Percent of its timeout after which a job is slow; 0 for never.
    pub(crate) slow_percent: u8,
    pub(crate) retry: Option<Retry>,
    pub(crate) retry_budget: Option<RetryBudget>,
}

impl Settings {
    pub(crate) fn timeout_of_type(&self, job_type: &str) -> Option<Duration> {
        let of_type = self.type_timeouts.iter();
        let mut found = of_type.filter(|(name, _)| **name == *job_type);
        found.next().map(|(_, timeout)| *timeout)
    }

    /// How long a job with this timeout runs until it is slow; `u64::MAX` for never.
    pub(crate) fn slow_after_ns(&self, timeout_ns: u64) -> u64 {
        if timeout_ns == u64::MAX || self.slow_percent == 0 {
            return u64::MAX;
        }
        timeout_ns / 100 * u64::from(self.slow_percent)
    }
}

/// Whether a lane takes and starts jobs. Only ever goes downwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Takes and starts.
    Open,
    /// Nobody can submit any more; what is queued still runs.
    Draining,
    /// Starts nothing any more.
    Stopping,
    /// Its runtime was shut down.
    Gone,
}

struct Core {
    /// Holds the ready jobs, and those cancelled since (tombstones), which are skipped.
    queue: Buckets<Arc<dyn Job>>,
    runners: Vec<RunnerEntry>,
    /// Parked runners; the last one is the warmest.
    idle: Vec<u32>,
    /// The runner that has been woken or spawned and has not looked at the queue yet.
    waking: Option<u32>,
    mode: Mode,
    /// Moves that have not been told to the listeners.
    outbox: Vec<JobEvent>,
}

#[derive(Default)]
struct RunnerEntry {
    waker: Option<Waker>,
    parked: bool,
    job: Option<Arc<dyn Job>>,
}

/// Written under the lane's lock with plain loads and stores, read by anyone.
#[derive(Default)]
struct Counts {
    pending: AtomicU64,
    running: AtomicU64,
    submitted: AtomicU64,
    rejected: AtomicU64,
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    panicked: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    waiting: AtomicU64,
    retried: AtomicU64,
    deferred: AtomicU64,
    zombies: AtomicU64,
}

fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

fn decrement(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) - 1, Relaxed);
}

/// What a runner does next.
pub(crate) enum Next {
    /// Run this job.
    Run(Arc<dyn Job>),
    /// Sleep until woken.
    Park,
    /// Let other tasks run, then come back.
    Yield,
    /// End: the lane is closed and has nothing left.
    Leave,
}

/// A job's attempt, ended.
pub(crate) struct Ended {
    pub(crate) end: End,
    /// It is to wait and to be tried again, unless something speaks against it.
    pub(crate) again: bool,
    pub(crate) zombie: bool,
    /// Why, where it did not succeed.
    pub(crate) reason: Option<Arc<str>>,
}

impl Ended {
    pub(crate) fn well() -> Self {
        Self {
            end: End::Succeeded,
            again: false,
            zombie: false,
            reason: None,
        }
    }
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Ended(End),
    Waits,
}

/// A runner to wake, once no lock is held.
pub(crate) enum Wake {
    Unpark(Waker),
    Spawn(u32),
}

/// A lane, as its handles, jobs and runners share it.
// Aligned so that the reference count, which every submit writes, shares no cache line with the lock and the counts.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) name: Box<str>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) settings: Settings,
    pub(crate) retry_grants: Option<Grants>,
    pub(crate) records: Mutex<Records>,
    /// Its runtime has several workers.
    parallel: bool,
    counts: Counts,
    core: Mutex<Core>,
    /// The outbox is not empty.
    noted: AtomicBool,
    /// Held by the thread that tells the listeners.
    telling: Mutex<()>,
    /// Notified when a lane that is not open has neither queued nor running jobs.
    drained: Notify,
}

impl Shared {
    pub(crate) fn new(name: &str, settings: Settings, hub: Arc<Hub>) -> Self {
        let runtime = hub.runtime.as_ref();
        let workers = runtime.map(|handle| handle.metrics().num_workers());
        Self {
            name: Box::from(name),
            hub,
            retry_grants: settings.retry_budget.map(Grants::new),
            settings,
            records: Mutex::default(),
            parallel: workers.is_some_and(|workers| workers > 1),
            counts: Counts::default(),
            core: Mutex::new(Core {
                queue: Buckets::new(),
                runners: Vec::new(),
                idle: Vec::new(),
                waking: None,
                mode: Mode::Open,
                outbox: Vec::new(),
            }),
            noted: AtomicBool::new(false),
            telling: Mutex::default(),
            drained: Notify::new(),
        }
    }

    pub(crate) fn has_runtime(&self) -> bool {
        self.hub.runtime.is_some()
    }

    /// How many jobs run now: a hint, exact only under the lock.
    pub(crate) fn running(&self) -> u64 {
        self.counts.running.load(Relaxed)
    }

    /// Queues a job, or refuses it.
    pub(crate) fn push(self: &Arc<Self>, job: Arc<dyn Job>) -> Result<(), SubmitError> {
        let admitted = self.admit(job, false);
        let refused = match admitted {
            Ok(wake) => {
                self.wake(wake);
                Ok(())
            }
            Err(refused) => Err(refused),
        };
        self.flush();
        refused
    }

    /// Chooses the runner to wake, where one is idle and none is being woken (rule 2).
    fn next_wake(&self, core: &mut Core) -> Option<Wake> {
        if core.waking.is_some() {
            return None;
        }
        if !core.idle.is_empty() {
            return unpark(core);
        }
        if core.runners.len() < self.settings.limit {
            let runner = core.runners.len() as u32;
            core.runners.push(RunnerEntry::default());
            core.waking = Some(runner);
            return Some(Wake::Spawn(runner));
        }
        None
    }

    pub(crate) fn wake(self: &Arc<Self>, wake: Option<Wake>) {
        match (wake, &self.hub.runtime) {
            (Some(Wake::Unpark(waker)), _) => waker.wake(),
            (Some(Wake::Spawn(runner)), Some(runtime)) => {
                // A runtime that was shut down drops the runner at once, which ends the jobs of this lane.
                runtime.spawn(Runner::new(Arc::clone(self), runner));
            }
            (Some(Wake::Spawn(_)) | None, _) => {}
        }
    }

    /// By a runner's first poll: how it is woken.
    pub(crate) fn register(&self, runner: u32, waker: &Waker) {
        self.core.lock().runners[runner as usize].waker = Some(waker.clone());
    }

    /// By a runner: counts how its job ended, if it had one, and takes the next, if it wants one. Both under one lock,
    /// so that a job costs its runner one.
    pub(crate) fn advance(
        self: &Arc<Self>,
        runner: u32,
        ended: Option<&Ended>,
        take: bool,
        now_ns: u64,
    ) -> (Next, Option<Fate>) {
        let mut core = self.core.lock();
        let before = ended.and_then(|ended| self.count_end(&mut core, runner, ended, now_ns));
        let (before, fate) = before.unzip();
        let (next, wake) = if take {
            self.take(&mut core, runner, now_ns)
        } else {
            (Next::Yield, None)
        };
        let drained = before.is_some() && self.is_drained(&core);
        drop(core);
        drop(before);
        if drained {
            self.drained.notify_waiters();
        }
        self.wake(wake);
        self.flush();
        (next, fate)
    }

    fn count_end(
        &self,
        core: &mut Core,
        runner: u32,
        ended: &Ended,
        now_ns: u64,
    ) -> Option<(Arc<dyn Job>, Fate)> {
        let job = core.runners[runner as usize].job.take()?;
        let header = job.header();
        let stopped = ended.again && (header.is_cancel_wanted() || core.mode >= Mode::Stopping);
        let full = self.counts.waiting.load(Relaxed) >= self.settings.capacity as u64;
        let fate = match ended.again && !full && !stopped {
            true => Fate::Waits,
            false if stopped => Fate::Ended(End::Cancelled),
            false => Fate::Ended(ended.end),
        };
        let counts = &self.counts;
        let (step, counter, kind) = match fate {
            Fate::Waits => (state::TRY_AGAIN, &counts.retried, JobEventKind::Retried),
            Fate::Ended(End::Succeeded) => {
                (state::SUCCEED, &counts.succeeded, JobEventKind::Succeeded)
            }
            Fate::Ended(End::Failed) => (state::FAIL, &counts.failed, JobEventKind::Failed),
            Fate::Ended(End::Panicked) => (state::FAIL, &counts.panicked, JobEventKind::Failed),
            Fate::Ended(End::TimedOut) => (state::FAIL, &counts.timed_out, JobEventKind::TimedOut),
            Fate::Ended(End::Cancelled) => {
                (state::STOP, &counts.cancelled, JobEventKind::Cancelled)
            }
        };
        let reason = ended.reason.as_ref();
        if ended.zombie {
            increment(&counts.zombies);
            let moved = (JobState::Running, JobState::Running);
            self.note(core, header, JobEventKind::Zombie, moved, reason, now_ns);
        }
        header.state.apply(step);
        increment(counter);
        decrement(&counts.running);
        if fate == Fate::Waits {
            increment(&counts.waiting);
        }
        self.note(core, header, kind, step.states(), reason, now_ns);
        Some((job, fate))
    }

    fn take(&self, core: &mut Core, runner: u32, now_ns: u64) -> (Next, Option<Wake>) {
        if core.waking == Some(runner) {
            core.waking = None;
        }
        if core.runners[runner as usize].parked {
            // Polled without being woken by the lane: an old timer, or the runtime.
            return (Next::Park, None);
        }
        let more = core.mode < Mode::Stopping && self.counts.pending.load(Relaxed) > 1;
        let wake = if more { self.next_wake(core) } else { None };
        if self.parallel && wake.is_some() {
            // The wake in flight is now this runner itself (rule 2).
            core.waking = Some(runner);
            return (Next::Yield, wake);
        }
        let job = if core.mode >= Mode::Stopping {
            None
        } else {
            pop_ready(&mut core.queue)
        };
        let entry = &mut core.runners[runner as usize];
        let Some(job) = job else {
            let waits = self.counts.waiting.load(Relaxed) > 0;
            if core.mode >= Mode::Stopping || (core.mode == Mode::Draining && !waits) {
                // The next one leaves too.
                return (Next::Leave, unpark(core));
            }
            entry.parked = true;
            core.idle.push(runner);
            return (Next::Park, wake);
        };
        let header = job.header();
        header.started_ns.store(now_ns, Relaxed);
        header.runner.store(runner, Relaxed);
        header.state.apply(state::START);
        header.begin_attempt();
        entry.job = Some(Arc::clone(&job));
        decrement(&self.counts.pending);
        increment(&self.counts.running);
        increment(&self.counts.started);
        let (kind, moved) = (JobEventKind::Started, state::START.states());
        self.note(core, header, kind, moved, None, now_ns);
        (Next::Run(job), wake)
    }

    /// Ends a queued job at once, asks a running one to end.
    pub(crate) fn cancel(&self, job: &dyn Job) {
        let header = job.header();
        let mut core = self.core.lock();
        match header.state.get() {
            JobState::Ready => {
                self.count_withdrawn(&mut core, job);
                self.sweep(&mut core);
                drop(core);
                self.end_withdrawn(job, JobError::Cancelled);
                self.notify_if_drained();
                self.flush();
            }
            JobState::Waiting => {
                drop(core);
                Hub::withdraw(job, JobError::Cancelled);
            }
            JobState::Running => {
                header.want_cancel();
                let runner = header.runner.load(Relaxed) as usize;
                let waker = core.runners[runner].waker.clone();
                drop(core);
                signal_cancel(job, waker);
            }
            // Not accepted, so nobody has a handle; or ended.
            _ => {}
        }
    }

    fn count_withdrawn(&self, core: &mut Core, job: &dyn Job) {
        let header = job.header();
        header.state.apply(state::WITHDRAW);
        decrement(&self.counts.pending);
        increment(&self.counts.cancelled);
        let (kind, moved) = (JobEventKind::Cancelled, state::WITHDRAW.states());
        if self.hub.listeners.want(kind) {
            self.note(core, header, kind, moved, None, time::now_ns());
        }
    }

    /// A queued job has been counted out: tells its handle and whoever depends on it.
    fn end_withdrawn(&self, job: &dyn Job, reason: JobError) {
        let header = job.header();
        header.task.cancelled_in_queue();
        if header.is_watched() || header.keeps_record() {
            let text = reason.text();
            if header.keeps_record() {
                self.record(header, Some(Arc::clone(&text)), time::now_ns());
            }
            job.publish_withdrawn(reason);
            self.hub.ended(header, Some(text));
        } else {
            job.publish_withdrawn(reason);
        }
    }

    fn notify_if_drained(&self) {
        if self.is_drained(&self.core.lock()) {
            self.drained.notify_waiters();
        }
    }

    /// Frees the tombstones when they are many: each sweep is paid for by the cancels since the last.
    fn sweep(&self, core: &mut Core) {
        let live = self.counts.pending.load(Relaxed) as usize;
        let tombstones = core.queue.len() - live;
        if tombstones > TOMBSTONES.max(live) {
            // A tombstone holds nothing of the user's: whoever withdrew it keeps it alive until it has been emptied.
            core.queue
                .retain(|job| job.header().state.get() == JobState::Ready);
        }
    }

    /// Asks every running job to end.
    pub(crate) fn cancel_running(&self) {
        let running: Vec<_> = {
            let core = self.core.lock();
            let busy = core.runners.iter().filter_map(|entry| {
                let job = entry.job.as_ref()?;
                job.header().want_cancel();
                Some((Arc::clone(job), entry.waker.clone()))
            });
            busy.collect()
        };
        for (job, waker) in running {
            signal_cancel(&*job, waker);
        }
    }

    /// Ends every queued job.
    pub(crate) fn cancel_queued(&self, reason: impl Fn() -> JobError) {
        let mut batch = Vec::new();
        loop {
            let drained = {
                let mut core = self.core.lock();
                while batch.len() < WITHDRAW_BATCH
                    && let Some(job) = pop_ready(&mut core.queue)
                {
                    self.count_withdrawn(&mut core, &*job);
                    batch.push(job);
                }
                self.is_drained(&core)
            };
            if batch.is_empty() {
                if drained {
                    self.drained.notify_waiters();
                }
                self.flush();
                return;
            }
            for job in batch.drain(..) {
                self.end_withdrawn(&*job, reason());
            }
        }
    }

    /// Moves on to `mode`, if it is not there yet, and wakes the idle runners to see it.
    pub(crate) fn close(&self, mode: Mode) {
        let idle: Vec<_> = {
            let mut core = self.core.lock();
            core.mode = core.mode.max(mode);
            let idle = mem::take(&mut core.idle);
            let wakers = idle.into_iter().filter_map(|runner| {
                let entry = &mut core.runners[runner as usize];
                entry.parked = false;
                entry.waker.clone()
            });
            wakers.collect()
        };
        for waker in idle {
            waker.wake();
        }
    }

    /// By a runner that its runtime drops: nothing of this lane will run any more.
    pub(crate) fn runtime_gone(&self) {
        self.close(Mode::Gone);
        self.cancel_queued(|| JobError::RuntimeGone);
    }

    fn is_drained(&self, core: &Core) -> bool {
        let waiting = self.counts.waiting.load(Relaxed);
        let jobs = self.counts.pending.load(Relaxed) + self.running() + waiting;
        core.mode != Mode::Open && jobs == 0
    }

    /// Waits until a closed lane has neither queued nor running jobs. Cancel safe.
    pub(crate) async fn drained(&self) {
        loop {
            let notified = self.drained.notified();
            // Created before the look, so that a notification after it is not missed.
            if self.is_drained(&self.core.lock()) {
                return;
            }
            notified.await;
        }
    }

    /// Counts, consistent among each other, and the running jobs.
    pub(crate) fn look(&self, now_ns: u64) -> (LaneSample, Vec<RunningJob>) {
        let core = self.core.lock();
        let jobs = core.runners.iter().filter_map(|entry| entry.job.as_deref());
        let running = jobs.map(|job| RunningJob::new(job.header(), now_ns));
        let running = running.collect();
        (self.sample(Some(&core), now_ns), running)
    }

    /// Counts, consistent among each other.
    pub(crate) fn counts(&self, now_ns: u64) -> LaneSample {
        self.sample(Some(&self.core.lock()), now_ns)
    }

    /// Counts without waiting: while the lock is held by another, each is exact, but they may be of different instants,
    /// and the age of the head is unknown.
    pub(crate) fn try_counts(&self, now_ns: u64) -> LaneSample {
        self.sample(self.core.try_lock().as_deref(), now_ns)
    }

    fn sample(&self, core: Option<&Core>, now_ns: u64) -> LaneSample {
        let counts = &self.counts;
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let head = core.and_then(|core| {
            // A bounded look: the head may stand behind cancelled jobs.
            let mut jobs = core.queue.iter().map(|job| job.header()).take(64);
            jobs.find(|header| header.state.get() == JobState::Ready)
        });
        LaneSample {
            name: self.name.to_string(),
            scheduler: self.hub.number,
            limit: self.settings.limit as u64,
            capacity: self.settings.capacity as u64,
            running: get(&counts.running),
            pending: get(&counts.pending),
            waiting: get(&counts.waiting),
            retried_total: get(&counts.retried),
            deferred_total: get(&counts.deferred),
            zombies_total: get(&counts.zombies),
            head_age_ns: head.map(|header| now_ns.saturating_sub(header.ready_ns())),
            counters: JobCounters {
                submitted_total: get(&counts.submitted),
                rejected_total: get(&counts.rejected),
                started_total: get(&counts.started),
                succeeded_total: get(&counts.succeeded),
                failed_total: get(&counts.failed),
                panicked_total: get(&counts.panicked),
                timed_out_total: get(&counts.timed_out),
                cancelled_total: get(&counts.cancelled),
            },
        }
    }
}

/// The next job that has not been cancelled.
fn pop_ready(queue: &mut Buckets<Arc<dyn Job>>) -> Option<Arc<dyn Job>> {
    std::iter::from_fn(|| queue.pop()).find(|job| job.header().state.get() == JobState::Ready)
}

/// Takes an idle runner to be woken; it is the wake in flight.
fn unpark(core: &mut Core) -> Option<Wake> {
    let runner = core.idle.pop()?;
    core.waking = Some(runner);
    let entry = &mut core.runners[runner as usize];
    entry.parked = false;
    entry.waker.clone().map(Wake::Unpark)
}

fn signal_cancel(job: &dyn Job, waker: Option<Waker>) {
    if let (true, Some(waker)) = (job.signal_cancel(), waker) {
        // The runner arms the timer of the grace.
        waker.wake();
    }
}
