//! The probes that run inside the observed runtime: a no-op task, a short sleep in it, and a no-op closure on the
//! blocking pool. One of each at a time, none that stays.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use ax_wire::sample::LagPoint;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::{clock, runtime::Watched, shared::Settings, slot};

/// How often a no-op is injected, and how often a lag point is made of what came back.
pub(super) const INJECT_NS: u64 = 100_000_000;

/// How often a no-op is injected while every worker is busy, so that one that waits is seen soon. At rest this rate
/// would cost over 1 % of a shared, and wake the idle peer that hides the service's own late timers.
const INJECT_ALL_BUSY_NS: u64 = 10_000_000;

/// How often the blocking pool is timed. Keeps one of its threads alive, whose idle timeout is longer.
const BLOCKING_NS: u64 = 1_000_000_000;

/// The sleep whose overshoot is the timer lag: the shortest that tokio's timer knows.
const SLEEP_NS: u64 = 1_000_000;

/// How late a sleep is on an idle runtime: tokio's timer and `epoll_wait` each round up to a whole millisecond. Not lag,
/// so subtracted.
const TIMER_GRANULARITY_NS: u64 = 1_100_000;

/// How far tokio's clock may part from the system's between two injections: more, and it is paused.
const PARTED_NS: u64 = 5_000_000;

/// What the injected task leaves for the watchdog. Zero: not yet.
#[derive(Default)]
struct Round {
    polled_ns: AtomicU64,
    due_ns: AtomicU64,
    woke_ns: AtomicU64,
    done: AtomicBool,
}

/// Both clocks at the last injection.
#[derive(Default)]
struct Clocks {
    last: Mutex<Option<(u64, Instant)>>,
    /// Whether they have gone on together since the injection before.
    together: AtomicBool,
}

impl Clocks {
    /// Called inside the runtime, whose clock the tests of a service may have paused.
    fn compare(&self, now_ns: u64) -> bool {
        let now = Instant::now();
        let last = self.last.lock().replace((now_ns, now));
        let together = last.is_some_and(|(last_ns, last)| {
            let theirs = clock::duration_ns(now.saturating_duration_since(last));
            theirs.abs_diff(now_ns.saturating_sub(last_ns)) < PARTED_NS
        });
        self.together.store(together, Relaxed);
        together
    }
}

/// Lives in the injected task. The runtime drops that task unfinished only when it ends itself, which is how the probe
/// learns of it.
struct InTask {
    watched: Arc<Watched>,
    round: Arc<Round>,
}

impl Drop for InTask {
    fn drop(&mut self) {
        if !self.round.done.load(Relaxed) {
            self.watched.set_gone();
        }
    }
}

/// Measures the lag of one runtime.
pub(super) struct LagProbe {
    watched: Arc<Watched>,
    clocks: Arc<Clocks>,
    schedule: bool,
    /// The task that has not come back, and when it was injected.
    outstanding: Option<(Arc<Round>, u64)>,
    inject_at_ns: u64,
    point_at_ns: u64,
    /// The worst since the last lag point.
    schedule_ns: Option<u64>,
    timer_ns: Option<u64>,
    /// What this tick found, of the task that is out or has just come back.
    current_ns: Option<u64>,
}

impl LagProbe {
    pub(super) fn new(watched: &Arc<Watched>, settings: &Settings, now_ns: u64) -> Self {
        Self {
            watched: Arc::clone(watched),
            clocks: Arc::default(),
            schedule: settings.schedule_probe,
            outstanding: None,
            inject_at_ns: now_ns,
            point_at_ns: now_ns + INJECT_NS,
            schedule_ns: None,
            timer_ns: None,
            current_ns: None,
        }
    }

    /// The process got no CPU for so long that the gap alone would look like trouble of the service: what was under way
    /// says nothing.
    pub(super) fn restart(&mut self, now_ns: u64) {
        self.outstanding = None;
        self.schedule_ns = None;
        self.timer_ns = None;
        self.inject_at_ns = now_ns;
    }

    /// The schedule or timer lag of this tick.
    pub(super) fn current_ns(&self) -> Option<u64> {
        self.current_ns
    }

    /// Takes in what came back, injects when it is time, and makes a lag point every [`INJECT_NS`].
    pub(super) fn tick(
        &mut self,
        now_ns: u64,
        all_busy: bool,
        stall_ns: Option<u64>,
    ) -> Option<LagPoint> {
        self.collect(now_ns);
        let due = now_ns >= self.inject_at_ns
            || (all_busy && now_ns + INJECT_NS >= self.inject_at_ns + INJECT_ALL_BUSY_NS);
        if due && self.outstanding.is_none() && self.injects() {
            self.inject(now_ns);
        }
        if now_ns < self.point_at_ns {
            return None;
        }
        self.point_at_ns = (self.point_at_ns + INJECT_NS).max(now_ns);
        let schedule_ns = self.schedule_ns.take();
        Some(LagPoint {
            runtime: self.watched.info.id,
            at_mono_ns: now_ns,
            schedule_ns: schedule_ns.filter(|_| self.schedule),
            timer_ns: self.timer_ns.take(),
            stall_ns,
        })
    }

    /// Whether tokio's clock is the system's, as far as the probe can know: without injections it has to believe it.
    pub(super) fn time_is_real(&self) -> bool {
        !self.injects() || self.clocks.together.load(Relaxed)
    }

    fn injects(&self) -> bool {
        self.schedule || self.watched.has_timer()
    }

    fn collect(&mut self, now_ns: u64) {
        self.current_ns = None;
        let Some((round, injected_ns)) = &self.outstanding else {
            return;
        };
        let done = round.done.load(Acquire);
        // What has not happened yet is as late as now.
        let or_now = |ns: u64| if ns == 0 { now_ns } else { ns };
        let polled_ns = or_now(round.polled_ns.load(Relaxed));
        let schedule_ns = polled_ns.saturating_sub(*injected_ns);
        self.schedule_ns = self.schedule_ns.max(Some(schedule_ns));
        self.current_ns = Some(schedule_ns).filter(|_| self.schedule);
        let due_ns = round.due_ns.load(Relaxed);
        if due_ns != 0 {
            let woke_ns = or_now(round.woke_ns.load(Relaxed));
            let late_ns = woke_ns.saturating_sub(due_ns + TIMER_GRANULARITY_NS);
            self.timer_ns = self.timer_ns.max(Some(late_ns));
            self.current_ns = self.current_ns.max(Some(late_ns));
        }
        if done {
            self.outstanding = None;
        }
    }

    fn inject(&mut self, now_ns: u64) {
        let round = Arc::new(Round::default());
        let task = InTask {
            watched: Arc::clone(&self.watched),
            round: Arc::clone(&round),
        };
        let clocks = Arc::clone(&self.clocks);
        let timer = self.watched.has_timer();
        self.outstanding = Some((Arc::clone(&round), now_ns));
        self.inject_at_ns = now_ns + INJECT_NS;
        self.watched.handle.spawn(async move {
            let polled_ns = clock::now_ns();
            task.round.polled_ns.store(polled_ns, Relaxed);
            slot::refresh_worker();
            if clocks.compare(polled_ns) && timer {
                task.round.due_ns.store(clock::now_ns() + SLEEP_NS, Relaxed);
                sleep(Duration::from_nanos(SLEEP_NS)).await;
                task.round.woke_ns.store(clock::now_ns(), Relaxed);
                slot::refresh_worker();
            }
            task.round.done.store(true, Release);
        });
    }
}

/// Times the blocking pool's queue.
pub(super) struct BlockingProbe {
    enabled: bool,
    began_ns: Arc<AtomicU64>,
    outstanding_ns: Option<u64>,
    next_ns: u64,
}

impl BlockingProbe {
    pub(super) fn new(settings: &Settings, now_ns: u64) -> Self {
        Self {
            enabled: settings.blocking_probe,
            began_ns: Arc::default(),
            outstanding_ns: None,
            // Not before the injected task has compared the clocks twice: a closure on the pool keeps a paused clock
            // from moving on.
            next_ns: now_ns + 3 * INJECT_NS,
        }
    }

    /// As [`LagProbe::restart`].
    pub(super) fn restart(&mut self, now_ns: u64) {
        if self.outstanding_ns.is_some() {
            self.outstanding_ns = Some(now_ns);
        }
    }

    pub(super) fn tick(&mut self, now_ns: u64, watched: &Watched, time_is_real: bool) {
        if let Some(since_ns) = self.outstanding_ns {
            let began_ns = self.began_ns.load(Relaxed);
            let until_ns = if began_ns == 0 { now_ns } else { began_ns };
            watched.set_blocking_lag_ns(until_ns.saturating_sub(since_ns));
            if began_ns != 0 {
                self.outstanding_ns = None;
            }
        } else if self.enabled && time_is_real && now_ns >= self.next_ns {
            self.next_ns = now_ns + BLOCKING_NS;
            self.began_ns.store(0, Relaxed);
            let began_ns = Arc::clone(&self.began_ns);
            // tokio panics where the system gives it no thread at all: the pool then lags for ever, which is the truth.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                watched
                    .handle
                    .spawn_blocking(move || began_ns.store(clock::now_ns(), Relaxed));
            }));
            self.outstanding_ns = Some(now_ns);
        }
    }
}
