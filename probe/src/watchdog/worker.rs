//! What the watchdog keeps of one thread that it watches for stalls: a worker, or a future outside the workers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ax_wire::{
    RuntimeId,
    event::{Event, Stall, StallKind},
    sample::{TaskRef, ThreadSample},
    stack::{StackProof, ThreadStack},
};

use crate::{
    slot::Slot,
    stack,
    stall::{Changes, Counters, CpuTimes, Found, Reading, Watch},
    threads::{self, ThreadFiles},
};

/// The part of a stall's event that does not change.
struct Identity {
    id: u64,
    tid: Option<u32>,
    task: Option<TaskRef>,
    thread: Option<ThreadSample>,
    /// How often its stack was asked for, whatever came of it.
    asked: u64,
    stacks: Vec<ThreadStack>,
}

/// After how many thresholds the second and last stack is taken, which shows whether the first one moves.
const SECOND_STACK_AT: u64 = 10;

/// What tells whether a thread has moved on.
#[derive(PartialEq)]
struct Standing {
    poll_start_ns: Option<u64>,
    counters: Option<Counters>,
}

impl Standing {
    fn is_parked(&self) -> bool {
        self.counters.is_some_and(Counters::parked)
    }
}

/// One watched thread.
pub(super) struct WatchedThread {
    runtime: RuntimeId,
    worker: Option<u32>,
    watch: Watch,
    files: Option<ThreadFiles>,
    /// The account of the thread when its counters last moved: a parked thread has no other.
    account: Option<(Counters, Option<CpuTimes>)>,
    stall: Option<Identity>,
}

impl WatchedThread {
    pub(super) fn new(
        runtime: RuntimeId,
        worker: Option<u32>,
        threshold_ns: u64,
        now_ns: u64,
    ) -> Self {
        Self {
            runtime,
            worker,
            watch: Watch::new(threshold_ns, now_ns),
            files: None,
            account: None,
            stall: None,
        }
    }

    pub(super) fn restart(&mut self, now_ns: u64) {
        self.watch.restart(now_ns);
    }

    /// The age of the stall that goes on. A starved worker or a long busy window is none.
    pub(super) fn stall_age_ns(&self) -> Option<u64> {
        let found = self.watch.ongoing()?;
        (found.kind == StallKind::Stall).then_some(found.length_ns)
    }

    /// What goes on, of whichever kind.
    pub(super) fn ongoing(&self) -> Option<Stall> {
        Some(self.event(self.watch.ongoing()?, self.stall.as_ref()?))
    }

    /// Whether something goes on that is no long busy window, which may be many healthy polls.
    pub(super) fn is_stalled(&self) -> bool {
        let kind = self.watch.ongoing().map(|found| found.kind);
        matches!(kind, Some(StallKind::Stall | StallKind::Starved))
    }

    /// Looks at the thread. `slot` is the one whose thread is this worker now, where the probe has met it.
    pub(super) fn tick(
        &mut self,
        now_ns: u64,
        counters: Option<Counters>,
        slot: Option<&Slot>,
        events: &mut Vec<Event>,
    ) {
        self.follow(slot.and_then(Slot::tid));
        // Outside the workers a long poll is a stall only where it is the body of a `block_on`.
        let poll = slot
            .and_then(Slot::poll_in_progress)
            .filter(|poll| self.worker.is_some() || poll.subject.task.is_root());
        let reading = Reading {
            now_ns,
            counters,
            poll_start_ns: poll.map(|poll| poll.start_ns),
            long_poll_ns: slot.and_then(Slot::long_poll_ns),
            cpu: self.cpu_times(counters),
            runnable: match self.watch.unmoved_ns(now_ns) {
                0 => None,
                _ => self.files.as_ref().and_then(ThreadFiles::runnable),
            },
        };
        let Changes { ended, began } = self.watch.tick(&reading);
        if let Some(found) = ended {
            self.ended(&found, events);
        }
        if let Some(found) = began {
            let named = poll.filter(|_| found.poll_start_ns.is_some());
            self.began(&found, named.map(|poll| poll.task_ref()), events);
        }
    }

    /// Takes the stack where the stall has just been found, or has lasted for [`SECOND_STACK_AT`] thresholds. What shows
    /// a thread that has moved on meanwhile is thrown away. Returns whether a stack was asked for, which takes time.
    pub(super) fn take_stack(
        &mut self,
        threshold_ns: u64,
        slot: Option<&Slot>,
        counters: impl Fn() -> Option<Counters>,
        events: &mut Vec<Event>,
    ) -> bool {
        let (Some(found), Some(identity)) = (self.watch.ongoing(), &mut self.stall) else {
            return false;
        };
        let due_ns = match identity.asked {
            0 => 0,
            1 => threshold_ns.saturating_mul(SECOND_STACK_AT),
            _ => return false,
        };
        // A starved thread waits for a CPU, wherever it stands; of interest is one that has also computed for long.
        let starved = found.kind == StallKind::Starved && found.on_cpu_ns < Some(threshold_ns);
        if found.length_ns < due_ns || starved {
            return false;
        }
        let Some((slot, tid, stack)) =
            slot.and_then(|slot| Some((slot, slot.tid()?, slot.stack()?)))
        else {
            return false;
        };
        let seen = |counters| Standing {
            poll_start_ns: slot.poll_in_progress().map(|poll| poll.start_ns),
            counters,
        };
        let before = seen(counters());
        let proof = match found.poll_start_ns {
            Some(start_ns) if before.poll_start_ns == Some(start_ns) => StackProof::SamePoll,
            None if Some(tid) == identity.tid && !before.is_parked() => {
                StackProof::CountersStoodStill
            }
            _ => return false,
        };
        identity.asked += 1;
        match stack::take(tid, &stack) {
            Ok(taken) if seen(counters()) == before => {
                let stack = ThreadStack {
                    stall: identity.id,
                    runtime: self.runtime,
                    worker: self.worker,
                    tid,
                    at_mono_ns: taken.at_ns,
                    stall_age_ns: taken.at_ns.saturating_sub(found.began_ns),
                    held_up_ns: taken.held_up_ns,
                    proof,
                    end: taken.end,
                    modules: taken.modules,
                    frames: taken.frames,
                };
                identity.stacks.push(stack.clone());
                events.push(Event::Stack(Box::new(stack)));
            }
            Ok(_) => tracing::debug!(tid, "the thread moved on while its stack was taken"),
            Err(error) => tracing::debug!(tid, %error, "no stack of a worker that does not move"),
        }
        true
    }

    /// The stacks of the stall that goes on.
    pub(super) fn stacks(&self) -> &[ThreadStack] {
        self.stall.as_ref().map_or(&[], |stall| &stall.stacks)
    }

    /// The thread or its runtime is gone.
    pub(super) fn end(&mut self, now_ns: u64, events: &mut Vec<Event>) {
        if let Some(found) = self.watch.end(now_ns) {
            self.ended(&found, events);
        }
    }

    /// Opens the files of the thread that the worker is on now.
    fn follow(&mut self, tid: Option<u32>) {
        let known = self.files.as_ref().map(ThreadFiles::tid);
        if tid.is_some() && tid != known {
            self.files = tid.and_then(ThreadFiles::open);
            self.account = None;
            self.watch.other_thread();
        }
    }

    /// Reads the kernel's account of the thread, but for a worker that stays parked.
    fn cpu_times(&mut self, counters: Option<Counters>) -> Option<CpuTimes> {
        let files = self.files.as_ref()?;
        match (self.account, counters) {
            (Some((at, cpu)), Some(counters)) if at == counters && counters.parked() => cpu,
            (_, counters) => {
                let cpu = files.cpu_times();
                self.account = counters.map(|counters| (counters, cpu));
                cpu
            }
        }
    }

    fn began(&mut self, found: &Found, task: Option<TaskRef>, events: &mut Vec<Event>) {
        static STALLS: AtomicU64 = AtomicU64::new(1);
        let tid = self.files.as_ref().map(ThreadFiles::tid);
        let identity = Identity {
            id: STALLS.fetch_add(1, Relaxed),
            tid,
            task,
            thread: tid.and_then(threads::thread_sample),
            asked: 0,
            stacks: Vec::new(),
        };
        events.push(Event::StallBegan(self.event(found, &identity)));
        self.stall = Some(identity);
    }

    fn ended(&mut self, found: &Found, events: &mut Vec<Event>) {
        if let Some(identity) = self.stall.take() {
            events.push(Event::StallEnded(self.event(found, &identity)));
        }
    }

    fn event(&self, found: &Found, identity: &Identity) -> Stall {
        Stall {
            id: identity.id,
            runtime: self.runtime,
            worker: self.worker,
            tid: identity.tid,
            kind: found.kind,
            began_mono_ns: found.began_ns,
            length_ns: found.length_ns,
            run_queue_ns: found.run_queue_ns,
            on_cpu_ns: found.on_cpu_ns,
            task: identity.task.clone(),
            thread: identity.thread,
        }
    }
}
