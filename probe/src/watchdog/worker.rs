//! What the watchdog keeps of one thread that it watches for stalls: a worker, or a future outside the workers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ax_wire::{
    RuntimeId,
    event::{Event, Stall, StallKind},
    sample::{TaskRef, ThreadSample},
};

use crate::{
    slot::Slot,
    stall::{Changes, Counters, CpuTimes, Found, Reading, Watch},
    threads::{self, ThreadFiles},
};

/// The part of a stall's event that does not change.
struct Identity {
    id: u64,
    tid: Option<u32>,
    task: Option<TaskRef>,
    thread: Option<ThreadSample>,
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
