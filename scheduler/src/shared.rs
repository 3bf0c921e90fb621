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
//! 4. A runner runs one job at a time, and begins one only while [`Slots`] has room: the limit holds at every start.
//! 5. An end is counted under the lock before the handle learns of it: counts are exact at every instant.

mod admit;
mod counts;
mod facts;
mod oldest;
mod preempt;
mod search;
mod steer;
mod stop;
mod waiting;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Waker,
};

use ax_probe::task_type::End;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use self::search::Cursor;
use self::{
    admit::HighWater,
    counts::{Counts, decrement, increment},
    stop::end_withdrawn,
};
use crate::{
    JobState,
    buckets::{Buckets, Queued},
    budget::Grants,
    cell::{Header, Job},
    events::{JobEvent, JobEventKind},
    hub::Hub,
    limit::{Limit, Run},
    records::Records,
    room::Room,
    runner::Runner,
    settings::Settings,
    slots::{Call, Slots},
    state,
};

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
    room: Room<Waker>,
    slots: Slots,
    limit: Limit,
    high_water: HighWater,
    /// By number, as in `slots`.
    runners: Vec<RunnerEntry>,
    mode: Mode,
    /// Moves that have not been told to the listeners.
    outbox: Vec<JobEvent>,
}

#[derive(Default)]
struct RunnerEntry {
    waker: Option<Waker>,
    job: Option<Arc<dyn Job>>,
}

impl Queued for Arc<dyn Job> {
    fn ready_ns(&self) -> u64 {
        self.header().ready_ns()
    }
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

pub(crate) enum Wake {
    Unpark(Waker),
    Spawn(u32),
}

/// What is left to do once the lock is free: all of it runs code that is not ours.
#[derive(Default)]
#[must_use]
pub(crate) struct After {
    wake: Option<Wake>,
    /// Submitters whose room has been promised.
    promised: Vec<Waker>,
    drained: bool,
    /// The runner of a job that is to be stopped for another.
    preempted: Option<Waker>,
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
    /// It was preempted, and is queued again.
    Queued,
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
        let limit = settings.limit;
        let core = Core {
            queue: Buckets::new(settings.ageing, settings.turn_every),
            room: Room::new(settings.room()),
            slots: Slots::new(limit),
            limit: Limit::new(limit, settings.adaptive),
            high_water: HighWater::new(&settings),
            runners: Vec::new(),
            mode: Mode::Open,
            outbox: Vec::new(),
        };
        Self {
            name: Box::from(name),
            hub,
            retry_grants: settings.retry_budget.map(Grants::new),
            settings,
            records: Mutex::default(),
            parallel: workers.is_some_and(|workers| workers > 1),
            counts: Counts::new(limit),
            core: Mutex::new(core),
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

    /// Chooses the runner to wake (rule 2), while the caller is about to begin `beginning` jobs itself.
    fn next_wake(core: &mut Core, beginning: usize) -> Option<Wake> {
        match core.slots.call(beginning)? {
            Call::Wake(runner) => core.runners[runner as usize]
                .waker
                .clone()
                .map(Wake::Unpark),
            Call::Make(runner) => {
                core.runners.push(RunnerEntry::default());
                Some(Wake::Spawn(runner))
            }
        }
    }

    /// Does what was left to do.
    pub(crate) fn finish(self: &Arc<Self>, after: After) {
        if after.drained {
            self.drained.notify_waiters();
        }
        match (after.wake, &self.hub.runtime) {
            (Some(Wake::Unpark(waker)), _) => waker.wake(),
            (Some(Wake::Spawn(runner)), Some(runtime)) => {
                // A runtime that was shut down drops the runner at once, which ends the jobs of this lane.
                runtime.spawn(Runner::new(Arc::clone(self), runner));
            }
            (Some(Wake::Spawn(_)) | None, _) => {}
        }
        for waker in after.promised.into_iter().chain(after.preempted) {
            waker.wake();
        }
        self.flush();
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
        let mut after = After::default();
        let mut core = self.core.lock();
        let before = ended.and_then(|ended| self.count_end(&mut core, runner, ended, now_ns));
        let (before, fate) = before.unzip();
        let next = if take {
            self.take(&mut core, runner, now_ns, &mut after)
        } else {
            Next::Yield
        };
        after.drained = before.is_some() && self.is_drained(&core);
        drop(core);
        drop(before);
        self.finish(after);
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
        let counts = &self.counts;
        let stopped = ended.again && (header.is_cancel_wanted() || core.mode >= Mode::Stopping);
        let full = counts.waiting.load(Relaxed) >= self.settings.capacity as u64;
        let fate = if stopped {
            Fate::Ended(End::Cancelled)
        } else if ended.again && ended.end == End::Cancelled {
            Fate::Queued
        } else if ended.again && !full {
            Fate::Waits
        } else {
            Fate::Ended(ended.end)
        };
        let (step, counter, kind) = match fate {
            Fate::Waits => (state::TRY_AGAIN, &counts.retried, JobEventKind::Retried),
            Fate::Queued => (state::PREEMPT, &counts.preempted, JobEventKind::Preempted),
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
        if fate == Fate::Waits {
            increment(&counts.waiting);
        }
        header.set_preempting(false);
        self.count_stopped(core, header, ended.end, now_ns);
        self.note(core, header, kind, step.states(), reason, now_ns);
        if fate == Fate::Queued {
            self.requeue(core, &job, now_ns);
        }
        Some((job, fate))
    }

    /// A job does not run any more: its slot is free.
    fn count_stopped(&self, core: &mut Core, header: &Header, end: End, now_ns: u64) {
        if matches!(end, End::Succeeded | End::TimedOut) {
            let run = Run {
                started_ns: header.started_ns(),
                ended_ns: now_ns,
                running: core.slots.running(),
                others_wait: core.room.taken().jobs > 0,
            };
            if let Some(limit) = core.limit.job_ended(&run, now_ns) {
                self.set_limit(core, limit);
            }
        }
        core.slots.end();
        self.counts.stopped(header);
        self.counts.add_run(header.run_ns(now_ns));
    }

    fn take(&self, core: &mut Core, runner: u32, now_ns: u64, after: &mut After) -> Next {
        if !core.slots.arrive(runner) {
            // Polled without being woken by the lane: an old timer, or the runtime.
            return Next::Park;
        }
        let limit = core.limit.effective(now_ns);
        if limit != core.slots.limit() {
            self.set_limit(core, limit);
        }
        let starts = core.mode < Mode::Stopping;
        if starts && core.room.taken().jobs > 1 {
            after.wake = Self::next_wake(core, 1);
            if self.parallel && after.wake.is_some() {
                core.slots.hand_on(runner);
                return Next::Yield;
            }
        }
        let job = if starts && core.slots.has_room() {
            core.queue.pop(now_ns, is_live)
        } else {
            None
        };
        let Some(job) = job else {
            let waits = self.counts.waiting.load(Relaxed) > 0;
            if core.mode >= Mode::Stopping || (core.mode == Mode::Draining && !waits) {
                // Those that parked while jobs waited leave one after the other.
                let next = core.slots.call_parked();
                let waker = next.and_then(|runner| core.runners[runner as usize].waker.clone());
                after.wake = waker.map(Wake::Unpark);
                return Next::Leave;
            }
            core.slots.park(runner);
            return Next::Park;
        };
        let header = job.header();
        self.leave_queue(core, header, after);
        header.started_ns.store(now_ns, Relaxed);
        header.runner.store(runner, Relaxed);
        header.state.apply(state::START);
        header.begin_attempt();
        core.runners[runner as usize].job = Some(Arc::clone(&job));
        core.slots.begin();
        self.counts.begun(header);
        increment(&self.counts.started);
        let (kind, moved) = (JobEventKind::Started, state::START.states());
        self.note(core, header, kind, moved, None, now_ns);
        // It took the last slot, and what is queued behind it may stop another.
        self.preempt(core, after);
        Next::Run(job)
    }
}

/// Whether a job in the queue has not been cancelled.
fn is_live(job: &Arc<dyn Job>) -> bool {
    job.header().state.get() == JobState::Ready
}
