//! The thread that looks at every worker, fifty or a hundred times a second, and times the runtimes' queues.

mod lag;
mod worker;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ax_wire::{
    RuntimeId,
    event::{Event, ObserverGap, Stall, StallKind},
    incident::Reason,
    recorder::RecordedKind,
};
use tokio::runtime::RuntimeMetrics;

use self::{
    lag::{BlockingProbe, LagProbe},
    worker::WatchedThread,
};
use crate::{
    clock,
    incident::{self, Decision, Recent, Scene, Trigger},
    recorder,
    runtime::{self, Watched},
    shared::Shared,
    slot::{self, ByWorker, Slot},
    stall::Counters,
    threads,
};

/// From one look to the next while every worker is parked.
const TICK_AT_REST_NS: u64 = 20_000_000;

/// From one look to the next while a worker is busy.
const TICK_BUSY_NS: u64 = 10_000_000;

/// For how long a tick takes stacks. One takes 0.2 ms, and 25 where its thread gets no CPU.
const STACKS_NS: u64 = 50_000_000;

/// One runtime and what is watched in it.
struct WatchedRuntime {
    watched: Arc<Watched>,
    metrics: RuntimeMetrics,
    workers: Vec<WatchedThread>,
    lag: LagProbe,
    blocking: BlockingProbe,
}

impl WatchedRuntime {
    fn new(watched: Arc<Watched>, shared: &Shared, now_ns: u64) -> Self {
        let threshold_ns = shared.settings.stall_threshold_ns;
        Self {
            metrics: watched.handle.metrics(),
            workers: (0..watched.info.workers)
                .map(|index| WatchedThread::new(watched.info.id, Some(index), threshold_ns, now_ns))
                .collect(),
            lag: LagProbe::new(&watched, &shared.settings, now_ns),
            blocking: BlockingProbe::new(&shared.settings, now_ns),
            watched,
        }
    }

    fn id(&self) -> RuntimeId {
        self.watched.info.id
    }

    /// Looks at each worker; returns how many are not parked.
    fn look_at_workers(
        &mut self,
        now_ns: u64,
        slots: &ByWorker<'_>,
        events: &mut Vec<Event>,
    ) -> usize {
        let mut busy = 0;
        for index in 0..self.workers.len() {
            let counters = counters(&self.metrics, index);
            busy += usize::from(!counters.parked());
            let slot = slots.get(&(self.id(), index as u32));
            let slot = slot.map(|(_, slot)| *slot);
            let worker = &mut self.workers[index];
            worker.tick(now_ns, Some(counters), slot, events);
            self.watched.set_stalled(index as u32, worker.is_stalled());
        }
        busy
    }
}

fn counters(metrics: &RuntimeMetrics, worker: usize) -> Counters {
    Counters {
        park_unpark: metrics.worker_park_unpark_count(worker),
        busy_ns: clock::duration_ns(metrics.worker_total_busy_duration(worker)),
    }
}

/// Tells the flight recorder of stalls.
fn record(event: &Event, now_ns: u64) {
    let (kind, stall) = match event {
        Event::StallBegan(stall) => (RecordedKind::StallBegan, stall),
        Event::StallEnded(stall) => (RecordedKind::StallEnded, stall),
        Event::ObserverNotScheduled(_) | Event::Stack(_) | Event::Exemplar(_) | Event::Unknown => {
            return;
        }
    };
    recorder::record_stall(kind, stall, now_ns);
}

/// A thread that polls a watched future outside the workers.
struct WatchedRoot {
    slot: Arc<Slot>,
    runtime: RuntimeId,
    thread: WatchedThread,
}

pub(crate) struct Watchdog {
    shared: Arc<Shared>,
    runtimes: Vec<WatchedRuntime>,
    roots: Vec<WatchedRoot>,
    generation: Option<usize>,
    due_ns: u64,
    recent: Recent,
    trigger: Trigger,
}

impl Watchdog {
    /// Looks again and again until the probe is stopped.
    pub(crate) fn run(shared: &Arc<Shared>) {
        let start_ns = clock::now_ns();
        let mut watchdog = Self {
            shared: Arc::clone(shared),
            runtimes: Vec::new(),
            roots: Vec::new(),
            generation: None,
            due_ns: start_ns,
            recent: Recent::default(),
            trigger: Trigger::new(shared.settings.limits, start_ns),
        };
        let tid = rustix::thread::gettid().as_raw_pid().unsigned_abs();
        shared.watchdog_tid.store(tid, Relaxed);
        loop {
            watchdog.tick(clock::now_ns());
            let sleep_ns = watchdog.due_ns.saturating_sub(clock::now_ns());
            if shared.watchdog.wait(Duration::from_nanos(sleep_ns)) {
                return;
            }
        }
    }

    fn tick(&mut self, now_ns: u64) {
        let mut events = Vec::new();
        self.check_own_lateness(now_ns, &mut events);
        self.follow_runtimes(now_ns, &mut events);

        let slots = slot::all();
        let by_worker = slot::by_worker(&slots);

        self.look_at_roots(now_ns, &slots, &mut events);
        let mut any_busy = self
            .roots
            .iter()
            .any(|root| root.slot.poll_in_progress().is_some());
        let mut points = Vec::new();
        for of in &mut self.runtimes {
            let busy = of.look_at_workers(now_ns, &by_worker, &mut events);
            any_busy |= busy > 0;
            let of_runtime = self
                .roots
                .iter()
                .filter(|root| root.runtime == of.watched.info.id);
            let threads = of.workers.iter().chain(of_runtime.map(|root| &root.thread));
            let stall_ns = threads.filter_map(WatchedThread::stall_age_ns).max();
            points.extend(of.lag.tick(now_ns, busy == of.workers.len(), stall_ns));
            of.blocking.tick(now_ns, &of.watched, of.lag.time_is_real());
        }

        for point in &points {
            self.recent.push_lag(*point);
        }
        let took_stacks = self.shared.settings.stacks && self.take_stacks(&by_worker, &mut events);
        // Before the evidence, which is to have them.
        for event in &events {
            record(event, now_ns);
        }
        let took_evidence = self.take_evidence(now_ns, &slots, &by_worker) || took_stacks;

        if !events.is_empty() || !points.is_empty() {
            let mut outbox = self.shared.outbox.lock();
            for event in events {
                outbox.push_event(event);
            }
            for point in points {
                outbox.push_lag(point);
            }
        }
        let tick_ns = if any_busy {
            TICK_BUSY_NS
        } else {
            TICK_AT_REST_NS
        };
        // The time that evidence takes is no gap in which the process got no CPU.
        let from_ns = if took_evidence {
            clock::now_ns()
        } else {
            now_ns
        };
        self.due_ns = from_ns + tick_ns;
    }

    /// Takes the stacks of the stalls that were just found or last on; returns whether that took any time. What would
    /// take more than [`STACKS_NS`] is left to the next tick.
    fn take_stacks(&mut self, by_worker: &ByWorker<'_>, events: &mut Vec<Event>) -> bool {
        let threshold_ns = self.shared.settings.stall_threshold_ns;
        let until_ns = clock::now_ns() + STACKS_NS;
        let mut any = false;
        for of in &mut self.runtimes {
            let (metrics, id) = (&of.metrics, of.watched.info.id);
            for (index, worker) in of.workers.iter_mut().enumerate() {
                let slot = by_worker.get(&(id, index as u32)).map(|(_, slot)| *slot);
                let counters = || Some(counters(metrics, index));
                any |= worker.take_stack(threshold_ns, slot, counters, events);
                if any && clock::now_ns() > until_ns {
                    return any;
                }
            }
        }
        for root in &mut self.roots {
            let slot = Some(&*root.slot);
            any |= root.thread.take_stack(threshold_ns, slot, || None, events);
            if any && clock::now_ns() > until_ns {
                return any;
            }
        }
        any
    }

    /// A tick that comes late by more than half the threshold means that this thread got no CPU: the process was
    /// throttled, stopped or suspended, and its workers may have had none either.
    fn check_own_lateness(&mut self, now_ns: u64, events: &mut Vec<Event>) {
        let late_ns = now_ns.saturating_sub(self.due_ns);
        if late_ns <= self.shared.settings.stall_threshold_ns / 2 {
            return;
        }
        let gap = ObserverGap {
            due_mono_ns: self.due_ns,
            late_ns,
        };
        events.push(Event::ObserverNotScheduled(gap));
        self.recent.push_gap(gap);
        if late_ns >= self.shared.settings.snapshot_threshold_ns {
            for of in &mut self.runtimes {
                of.lag.restart(now_ns);
                of.blocking.restart(now_ns);
            }
        }
        let workers = self.runtimes.iter_mut().flat_map(|of| &mut of.workers);
        let roots = self.roots.iter_mut().map(|root| &mut root.thread);
        workers
            .chain(roots)
            .for_each(|thread| thread.restart(now_ns));
    }

    /// Takes up new runtimes, forgets those that were dropped.
    fn follow_runtimes(&mut self, now_ns: u64, events: &mut Vec<Event>) {
        if self.runtimes.iter().any(|of| of.watched.is_gone()) {
            for of in self.runtimes.extract_if(.., |of| of.watched.is_gone()) {
                for mut worker in of.workers {
                    worker.end(now_ns, events);
                }
            }
            runtime::forget(Watched::is_gone);
        }
        let generation = runtime::generation();
        if self.generation == Some(generation) {
            return;
        }
        self.generation = Some(generation);
        for watched in runtime::all() {
            if self.runtimes.iter().all(|of| of.id() != watched.info.id) {
                let of = WatchedRuntime::new(watched, &self.shared, now_ns);
                self.runtimes.push(of);
            }
        }
    }

    /// Takes evidence where something has gone wrong, and where somebody has asked for it; returns whether it did.
    fn take_evidence(
        &mut self,
        now_ns: u64,
        slots: &[Arc<Slot>],
        by_worker: &ByWorker<'_>,
    ) -> bool {
        let shared = &self.shared;
        let mut reasons = shared.incidents.take_asked();
        reasons.retain(|_| {
            let may = self.trigger.may_capture(now_ns);
            if !may {
                shared.incidents.count_suppressed();
            }
            may
        });
        let wrong = self.wrong();
        let decided = self
            .trigger
            .tick(now_ns, wrong.is_some(), threads::is_debugged);
        match decided {
            Decision::Take => reasons.extend(wrong),
            Decision::Suppressed => shared.incidents.count_suppressed(),
            Decision::Nothing => {}
        }
        let taken = !reasons.is_empty();
        for reason in reasons {
            let evidence = incident::take(
                shared,
                reason,
                Scene {
                    now_ns,
                    slots,
                    by_worker,
                    stalls: self.ongoing(),
                    stacks: self
                        .watched()
                        .flat_map(WatchedThread::stacks)
                        .cloned()
                        .collect(),
                    recent: &self.recent,
                },
            );
            shared.incidents.push_taken(evidence);
            shared.publisher.nudge();
        }
        taken
    }

    /// The worst that has reached the snapshot threshold: a stall, which names its culprit, before a lag.
    fn wrong(&self) -> Option<Reason> {
        let threshold_ns = self.shared.settings.snapshot_threshold_ns;
        let lag = || {
            let lags = self.runtimes.iter();
            let lags = lags.filter_map(|of| Some((of.lag.current_ns()?, of.id())));
            let (lag_ns, runtime) = lags.max()?;
            (lag_ns >= threshold_ns).then_some(Reason::Lag { runtime, lag_ns })
        };
        let watched = self.watched();
        match watched.filter_map(WatchedThread::stall_age_ns).max() {
            Some(age_ns) if age_ns >= threshold_ns => {
                let ongoing = self.ongoing().into_iter();
                let longest = ongoing
                    .filter(|stall| stall.kind == StallKind::Stall)
                    .max_by_key(|stall| stall.length_ns)?;
                Some(Reason::Stall {
                    stall: longest.id,
                    length_ns: longest.length_ns,
                })
            }
            _ => lag(),
        }
    }

    fn watched(&self) -> impl Iterator<Item = &WatchedThread> {
        let workers = self.runtimes.iter().flat_map(|of| &of.workers);
        workers.chain(self.roots.iter().map(|root| &root.thread))
    }

    fn ongoing(&self) -> Vec<Stall> {
        self.watched().filter_map(WatchedThread::ongoing).collect()
    }

    /// Looks at the futures that are watched outside the workers.
    fn look_at_roots(&mut self, now_ns: u64, slots: &[Arc<Slot>], events: &mut Vec<Event>) {
        for slot in slots {
            let poll = slot.poll_in_progress();
            let is_root = poll.is_some_and(|poll| poll.subject.task.is_root());
            let Some(runtime) = slot.runtime_outside_workers().filter(|_| is_root) else {
                continue;
            };
            if self.roots.iter().all(|root| !Arc::ptr_eq(&root.slot, slot)) {
                let threshold_ns = self.shared.settings.stall_threshold_ns;
                self.roots.push(WatchedRoot {
                    slot: Arc::clone(slot),
                    runtime,
                    thread: WatchedThread::new(runtime, None, threshold_ns, now_ns),
                });
            }
        }
        self.roots.retain_mut(|root| {
            let alive = slots.iter().any(|slot| Arc::ptr_eq(slot, &root.slot));
            if alive {
                root.thread.tick(now_ns, None, Some(&root.slot), events);
            } else {
                root.thread.end(now_ns, events);
            }
            alive
        });
    }
}
