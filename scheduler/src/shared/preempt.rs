//! Preemption (opt in on both sides): a running job stopped for one of a higher priority, and queued again.
//!
//! The lane only marks the job, under its lock, and wakes its runner. The runner fires the token and ends the attempt,
//! so that none but the marked attempt is ever stopped; the slot is free when it has ended, not before.

use std::{cmp::Reverse, sync::Arc};

use ax_wire::recorder::RecordedKind;

use super::{After, Core, Mode, Shared, is_live};
use crate::cell::Job;

impl Shared {
    /// A job has been queued: chooses the runner to wake for it, or to take its slot from.
    pub(super) fn call_for_queued(&self, core: &mut Core, after: &mut After) {
        after.wake = Self::next_wake(core, 0);
        self.preempt(core, after);
    }

    /// Marks one running job to be stopped, where more jobs above it are queued than are being stopped already.
    pub(super) fn preempt(&self, core: &mut Core, after: &mut After) {
        if !self.settings.preempt || !core.slots.is_full() || core.mode >= Mode::Stopping {
            return;
        }
        let running = || {
            let entries = core.runners.iter();
            entries.filter_map(|entry| Some((entry.job.as_ref()?.header(), &entry.waker)))
        };
        let stopping = running()
            .filter(|(header, _)| header.is_preempting())
            .count();
        let may_stop = running().filter(|(header, _)| {
            header.is_preemptible() && !header.is_preempting() && !header.is_cancel_wanted()
        });
        let lowest = may_stop.min_by_key(|(job, _)| (job.priority, Reverse(job.started_ns())));
        let Some((victim, waker)) = lowest else {
            return;
        };
        let above = core.queue.above(victim.priority).filter(|job| is_live(job));
        if above.take(stopping + 1).count() > stopping {
            victim.set_preempting(true);
            after.preempted.clone_from(waker);
        }
    }

    /// Queues a preempted job again, first of its priority and as old as it is. It needs no room that others wait for.
    pub(super) fn requeue(&self, core: &mut Core, job: &Arc<dyn Job>, now_ns: u64) {
        let header = job.header();
        header.uncharge_attempt();
        header.task.retried(header.run_ns(now_ns));
        header.task.readied();
        header.tell(RecordedKind::Ready, now_ns, None);
        self.counts.queued(header.priority);
        core.room.take_anyway(header.load());
        core.queue.push_front(header.priority, Arc::clone(job));
    }
}
