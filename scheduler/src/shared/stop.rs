//! What is stopped: single jobs, the queue, the lane.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Waker,
};

use ax_probe::task_type::End;
use ax_wire::recorder::RecordedKind;

use super::{After, Core, Mode, Shared, counts::increment, is_live};
use crate::{JobError, JobState, cell::Job, hub::Hub, records::Outcome, state, time};

/// Jobs that are withdrawn in one go: bounds how long the lock is held.
const WITHDRAW_BATCH: usize = 256;

/// Cancelled jobs that may stay in the queue before it is swept, where they are also more than half of it.
const TOMBSTONES: usize = 1024;

impl Shared {
    /// Ends a queued job at once, asks a running one to end.
    pub(crate) fn cancel(self: &Arc<Self>, job: &dyn Job) {
        let header = job.header();
        let mut core = self.core.lock();
        match header.state.get() {
            JobState::Ready => {
                let mut after = After::default();
                self.count_withdrawn(&mut core, job, &mut after);
                self.sweep(&mut core);
                after.drained = self.is_drained(&core);
                drop(core);
                end_withdrawn(job, JobError::Cancelled);
                self.finish(after);
            }
            JobState::Waiting if header.is_spilled() => {
                self.count_spill_lost(&mut core, job);
                drop(core);
                end_withdrawn(job, JobError::Cancelled);
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

    fn count_withdrawn(&self, core: &mut Core, job: &dyn Job, after: &mut After) {
        job.header().state.apply(state::WITHDRAW);
        increment(&self.counts.cancelled);
        self.leave_queue(core, job.header(), after);
        self.note_cancelled(core, job.header(), state::WITHDRAW);
    }

    /// Frees the tombstones when they are many: each sweep is paid for by the cancels since the last.
    fn sweep(&self, core: &mut Core) {
        let live = self.counts.pending.load(Relaxed) as usize;
        let tombstones = core.queue.len() - live;
        if tombstones > TOMBSTONES.max(live) {
            // A tombstone holds nothing of the user's: whoever withdrew it keeps it alive until it has been emptied.
            core.queue.retain(is_live);
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
    pub(crate) fn cancel_queued(self: &Arc<Self>, reason: impl Fn() -> JobError) {
        let mut batch = Vec::new();
        loop {
            let mut after = After::default();
            {
                let mut core = self.core.lock();
                while batch.len() < WITHDRAW_BATCH
                    && let Some(job) = core.queue.pop(0, is_live)
                {
                    self.count_withdrawn(&mut core, &*job, &mut after);
                    batch.push(job);
                }
                after.drained = self.is_drained(&core);
            }
            let done = batch.is_empty();
            for job in batch.drain(..) {
                end_withdrawn(&*job, reason());
            }
            self.finish(after);
            if done {
                return;
            }
        }
    }

    /// Moves on to `mode`, if it is not there yet, and wakes the idle runners and the submitters in line to see it.
    pub(crate) fn close(self: &Arc<Self>, mode: Mode) {
        let mut after = After::default();
        let wakers: Vec<_> = {
            let mut core = self.core.lock();
            core.mode = core.mode.max(mode);
            // Nobody is left who could resume it.
            core.slots.set_paused(false);
            if core.mode < Mode::Stopping && core.room.taken().jobs > 0 {
                after.wake = Self::next_wake(&mut core, 0);
            }
            let idle = core.slots.call_all().into_iter();
            let runners = idle.filter_map(|runner| core.runners[runner as usize].waker.as_ref());
            runners.chain(core.room.wakers()).cloned().collect()
        };
        for waker in wakers {
            waker.wake();
        }
        self.finish(after);
    }

    /// By a runner that its runtime drops: nothing of this lane will run any more.
    pub(crate) fn runtime_gone(self: &Arc<Self>) {
        self.close(Mode::Gone);
        self.cancel_queued(|| JobError::RuntimeGone);
    }

    pub(super) fn is_drained(&self, core: &Core) -> bool {
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
}

/// A queued job has been counted out: tells its handle and whoever depends on it.
pub(super) fn end_withdrawn(job: &dyn Job, reason: JobError) {
    let header = job.header();
    header.task.cancelled_in_queue();
    header.tell(RecordedKind::Cancelled, time::now_ns(), None);
    if !header.is_watched() && !header.keeps_record() {
        job.publish_withdrawn(reason);
        return;
    }
    let text = reason.text();
    if header.keeps_record() {
        let lane = &header.lane;
        let outcome = Outcome::new(End::Cancelled, Some(Arc::clone(&text)));
        lane.record(header, outcome, time::now_ns());
    }
    job.publish_withdrawn(reason);
    header.lane.hub.ended(header, Some(text));
}

fn signal_cancel(job: &dyn Job, waker: Option<Waker>) {
    if let (true, Some(waker)) = (job.signal_cancel(), waker) {
        // The runner arms the timer of the grace.
        waker.wake();
    }
}
