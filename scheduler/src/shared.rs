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

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
    time::Duration,
};

use ax_probe::task_type::End;
use ax_wire::sample::{JobCounters, LaneSample};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::Notify};

use crate::{
    JobError, JobState, SubmitError, buckets::Buckets, cell::Job, runner::Runner,
    snapshot::RunningJob, state,
};

/// Jobs that are withdrawn in one go: bounds how long the lock is held.
const WITHDRAW_BATCH: usize = 256;

/// Cancelled jobs that may stay in the queue before it is swept, where they are also more than half of it.
const TOMBSTONES: usize = 1024;

/// What a lane was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) limit: usize,
    pub(crate) capacity: usize,
    pub(crate) priority: u8,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel_grace: Duration,
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

enum Wake {
    Unpark(Waker),
    Spawn(u32),
}

/// A lane, as its handles, jobs and runners share it.
// Aligned so that the reference count, which every submit writes, shares no cache line with the lock and the counts.
#[repr(align(128))]
pub(crate) struct Shared {
    pub(crate) name: Box<str>,
    /// The number of its scheduler in this process.
    pub(crate) scheduler: u32,
    pub(crate) settings: Settings,
    runtime: Option<Handle>,
    /// Its runtime has several workers.
    parallel: bool,
    counts: Counts,
    core: Mutex<Core>,
    /// Notified when a lane that is not open has neither queued nor running jobs.
    drained: Notify,
}

impl Shared {
    pub(crate) fn new(
        name: &str,
        scheduler: u32,
        settings: Settings,
        runtime: Option<Handle>,
    ) -> Self {
        let workers = runtime
            .as_ref()
            .map(|handle| handle.metrics().num_workers());
        Self {
            name: Box::from(name),
            scheduler,
            settings,
            runtime,
            parallel: workers.is_some_and(|workers| workers > 1),
            counts: Counts::default(),
            core: Mutex::new(Core {
                queue: Buckets::new(),
                runners: Vec::new(),
                idle: Vec::new(),
                waking: None,
                mode: Mode::Open,
            }),
            drained: Notify::new(),
        }
    }

    pub(crate) fn has_runtime(&self) -> bool {
        self.runtime.is_some()
    }

    /// How many jobs run now: a hint, exact only under the lock.
    pub(crate) fn running(&self) -> u64 {
        self.counts.running.load(Relaxed)
    }

    /// Queues a job, or refuses it.
    pub(crate) fn push(self: &Arc<Self>, job: Arc<dyn Job>) -> Result<(), SubmitError> {
        let wake = {
            let mut core = self.core.lock();
            match core.mode {
                Mode::Open => {}
                Mode::Draining | Mode::Stopping => {
                    return Err(SubmitError::Closed {
                        lane: self.name.clone(),
                    });
                }
                Mode::Gone => {
                    return Err(SubmitError::RuntimeGone {
                        lane: self.name.clone(),
                    });
                }
            }
            let capacity = self.settings.capacity;
            if self.counts.pending.load(Relaxed) >= capacity as u64 {
                increment(&self.counts.rejected);
                let lane = self.name.clone();
                return Err(SubmitError::Full { lane, capacity });
            }
            increment(&self.counts.submitted);
            increment(&self.counts.pending);
            let header = job.header();
            header.state.apply(state::ACCEPT);
            core.queue.push(header.priority, job);
            self.next_wake(&mut core)
        };
        self.wake(wake);
        Ok(())
    }

    /// Chooses the runner to wake, where one is idle and none is being woken (rule 2).
    fn next_wake(&self, core: &mut Core) -> Option<Wake> {
        if core.waking.is_some() {
            return None;
        }
        if let Some(runner) = core.idle.pop() {
            core.waking = Some(runner);
            let entry = &mut core.runners[runner as usize];
            entry.parked = false;
            return entry.waker.clone().map(Wake::Unpark);
        }
        if core.runners.len() < self.settings.limit {
            let runner = core.runners.len() as u32;
            core.runners.push(RunnerEntry::default());
            core.waking = Some(runner);
            return Some(Wake::Spawn(runner));
        }
        None
    }

    fn wake(self: &Arc<Self>, wake: Option<Wake>) {
        match (wake, &self.runtime) {
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
        ended: Option<End>,
        take: bool,
        now_ns: u64,
    ) -> Next {
        let mut core = self.core.lock();
        let before = ended.and_then(|end| self.count_end(&mut core, runner, end));
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
        next
    }

    fn count_end(&self, core: &mut Core, runner: u32, end: End) -> Option<Arc<dyn Job>> {
        let job = core.runners[runner as usize].job.take()?;
        let (step, counter) = match end {
            End::Succeeded => (state::SUCCEED, &self.counts.succeeded),
            End::Failed => (state::FAIL, &self.counts.failed),
            End::Panicked => (state::FAIL, &self.counts.panicked),
            End::TimedOut => (state::FAIL, &self.counts.timed_out),
            End::Cancelled => (state::STOP, &self.counts.cancelled),
        };
        job.header().state.apply(step);
        increment(counter);
        decrement(&self.counts.running);
        Some(job)
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
            if core.mode != Mode::Open {
                return (Next::Leave, wake);
            }
            entry.parked = true;
            core.idle.push(runner);
            return (Next::Park, wake);
        };
        let header = job.header();
        header.started_ns.store(now_ns, Relaxed);
        header.runner.store(runner, Relaxed);
        header.state.apply(state::START);
        entry.job = Some(Arc::clone(&job));
        decrement(&self.counts.pending);
        increment(&self.counts.running);
        increment(&self.counts.started);
        (Next::Run(job), wake)
    }

    /// Ends a queued job at once, asks a running one to end.
    pub(crate) fn cancel(&self, job: &dyn Job) {
        let header = job.header();
        let mut core = self.core.lock();
        match header.state.get() {
            JobState::Ready => {
                self.count_withdrawn(job);
                self.sweep(&mut core);
                let drained = self.is_drained(&core);
                drop(core);
                end_withdrawn(job, JobError::Cancelled);
                if drained {
                    self.drained.notify_waiters();
                }
            }
            JobState::Running => {
                let runner = header.runner.load(Relaxed) as usize;
                let waker = core.runners[runner].waker.clone();
                drop(core);
                signal_cancel(job, waker);
            }
            // Not accepted, so nobody has a handle; or ended.
            _ => {}
        }
    }

    fn count_withdrawn(&self, job: &dyn Job) {
        job.header().state.apply(state::WITHDRAW);
        decrement(&self.counts.pending);
        increment(&self.counts.cancelled);
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
                    self.count_withdrawn(&*job);
                    batch.push(job);
                }
                self.is_drained(&core)
            };
            if batch.is_empty() {
                if drained {
                    self.drained.notify_waiters();
                }
                return;
            }
            for job in batch.drain(..) {
                end_withdrawn(&*job, reason());
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
        let jobs = self.counts.pending.load(Relaxed) + self.running();
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
            scheduler: self.scheduler,
            limit: self.settings.limit as u64,
            capacity: self.settings.capacity as u64,
            running: get(&counts.running),
            pending: get(&counts.pending),
            waiting: 0,
            head_age_ns: head.map(|header| now_ns.saturating_sub(header.ready_ns)),
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

fn end_withdrawn(job: &dyn Job, reason: JobError) {
    job.header().task.cancelled_in_queue();
    job.publish_withdrawn(reason);
}

fn signal_cancel(job: &dyn Job, waker: Option<Waker>) {
    if let (true, Some(waker)) = (job.signal_cancel(), waker) {
        // The runner arms the timer of the grace.
        waker.wake();
    }
}
