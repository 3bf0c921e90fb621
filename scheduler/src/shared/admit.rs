//! Into the queue and out of it: room, what happens when there is none, and who waits for it.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    After, Core, Mode, Shared,
    counts::{decrement, increment},
    end_withdrawn, is_live,
};
use crate::{
    JobError, JobState, SubmitError,
    cell::{Header, Job},
    events::JobEventKind,
    place::{InLine, Place},
    policy::{self, FullPolicy, Spill, SpilledJob},
    room::{Load, Room},
    settings::Settings,
    state,
};

/// Whether the queue has passed its high-water mark. It is said once, and again after the queue has been below three
/// quarters of it.
pub(super) struct HighWater {
    mark: Load,
    above: bool,
}

impl HighWater {
    pub(super) fn new(settings: &Settings) -> Self {
        let percent = u128::from(settings.high_water_percent);
        let share = |capacity: usize| match capacity {
            usize::MAX => usize::MAX,
            capacity => (capacity as u128 * percent).div_ceil(100) as usize,
        };
        let room = settings.room();
        Self {
            mark: Load {
                jobs: share(room.jobs),
                bytes: share(room.bytes),
            },
            above: false,
        }
    }

    /// True when the queue comes above its mark.
    fn rises(&mut self, taken: Load) -> bool {
        let above = taken.jobs >= self.mark.jobs || taken.bytes >= self.mark.bytes;
        above && !mem::replace(&mut self.above, true)
    }

    fn falls(&mut self, taken: Load) {
        let low = |mark: usize| (mark / 4 * 3).max(1);
        if taken.jobs < low(self.mark.jobs) && taken.bytes < low(self.mark.bytes) {
            self.above = false;
        }
    }
}

/// What became of a job that asked for room.
enum Asked {
    Queued,
    Refused(SubmitError),
    Spill(Arc<dyn Spill>),
}

impl Shared {
    /// Queues a job, or does what the lane's policy says. `place` is room that was promised to it.
    pub(crate) fn push(
        self: &Arc<Self>,
        job: Arc<dyn Job>,
        place: Option<Place>,
    ) -> Result<(), SubmitError> {
        let mut after = After::default();
        let mut shed = Vec::new();
        // Before the lock: a place that is dropped takes it.
        let promised = place.map(Place::settle);
        let (asked, unqueued) = {
            let mut core = self.core.lock();
            let load = job.header().load();
            if let Some(promised) = promised {
                core.room.return_promise(promised);
            }
            let admitted = self.check_open(&core).map(|()| match promised {
                Some(_) => core.room.take_first(load),
                None => core.room.take(load) || self.shed_for(&mut core, job.header(), &mut shed),
            });
            match admitted {
                Ok(true) => {
                    increment(&self.counts.submitted);
                    self.enqueue(&mut core, job, state::ACCEPT);
                    self.call_for_queued(&mut core, &mut after);
                    (Asked::Queued, None)
                }
                Ok(false) => (self.refuse(&mut core, job.header()), Some(job)),
                Err(closed) => (Asked::Refused(closed), Some(job)),
            }
        };
        if promised.is_some() && unqueued.is_some() {
            self.release(|_| None);
        }
        for victim in shed {
            end_withdrawn(&*victim, JobError::Shed);
        }
        self.finish(after);
        match (asked, unqueued) {
            (Asked::Refused(error), _) => Err(error),
            (Asked::Spill(spill), Some(job)) => self.spill(&*spill, &job),
            (Asked::Queued | Asked::Spill(_), _) => Ok(()),
        }
    }

    pub(super) fn check_open(&self, core: &Core) -> Result<(), SubmitError> {
        let lane = || self.name.clone();
        match core.mode {
            Mode::Open => Ok(()),
            Mode::Draining | Mode::Stopping => Err(SubmitError::Closed { lane: lane() }),
            Mode::Gone => Err(SubmitError::RuntimeGone { lane: lane() }),
        }
    }

    /// The job has room: puts it in.
    pub(super) fn enqueue(&self, core: &mut Core, job: Arc<dyn Job>, step: state::Move) {
        let header = job.header();
        self.counts.queued(header.priority);
        header.state.apply(step);
        let moved = step.states();
        let kind = match moved.0 {
            JobState::Pending => JobEventKind::Submitted,
            _ => JobEventKind::Ready,
        };
        self.note(core, header, kind, moved, None, header.ready_ns());
        if core.high_water.rises(core.room.taken()) {
            self.note_high_water(core, header);
        }
        core.queue.push(header.priority, job);
    }

    #[cold]
    fn note_high_water(&self, core: &mut Core, header: &Header) {
        increment(&self.counts.high_water);
        let kind = JobEventKind::HighWater;
        if !self.hub.listeners.want(kind) {
            return;
        }
        let taken = core.room.taken();
        let of_bytes = self
            .settings
            .capacity_bytes
            .map_or_else(String::new, |most| {
                format!(", {} of {most} bytes", taken.bytes)
            });
        let reason: Arc<str> = Arc::from(format!(
            "the lane's queue fills up: {} of {} jobs{of_bytes}",
            taken.jobs, self.settings.capacity
        ));
        let moved = (JobState::Ready, JobState::Ready);
        self.note(core, header, kind, moved, Some(&reason), header.ready_ns());
    }

    /// A job has left the queue: the room that it leaves goes to who waits for it.
    pub(super) fn leave_queue(&self, core: &mut Core, header: &Header, after: &mut After) {
        self.counts.unqueued(header.priority);
        core.room.leave(header.load());
        core.high_water.falls(core.room.taken());
        after
            .promised
            .extend(std::iter::from_fn(|| core.room.promise_next()));
    }

    /// Under [`FullPolicy::ShedLowest`]: takes out of the queue what is below the priority of `header`, the lowest and
    /// newest first, until the job has room. Where that is not enough, all stay.
    fn shed_for(&self, core: &mut Core, header: &Header, shed: &mut Vec<Arc<dyn Job>>) -> bool {
        if self.settings.when_full != FullPolicy::ShedLowest {
            return false;
        }
        let load = header.load();
        let mut freed = Load::default();
        while !core.room.take_in_place_of(freed, load) {
            let Some(victim) = core.queue.pop_lowest_below(header.priority, is_live) else {
                // In the reverse order each stands where it stood.
                for victim in shed.drain(..).rev() {
                    core.queue.push(victim.header().priority, victim);
                }
                return false;
            };
            freed.add(victim.header().load());
            shed.push(victim);
        }
        for victim in shed.iter() {
            victim.header().state.apply(state::WITHDRAW);
            self.counts.unqueued(victim.header().priority);
            increment(&self.counts.shed);
            increment(&self.counts.cancelled);
            self.note_cancelled(core, victim.header(), state::WITHDRAW);
        }
        true
    }

    fn refuse(&self, core: &mut Core, header: &Header) -> Asked {
        if let Err(too_large) = self.check_size(core, header.load()) {
            self.count_rejected(core, header);
            return Asked::Refused(too_large);
        }
        if let FullPolicy::Spill(spill) = &self.settings.when_full {
            increment(&self.counts.submitted);
            increment(&self.counts.spilled);
            increment(&self.counts.spilled_now);
            header.state.apply(state::PUT_ASIDE);
            header.set_spilled(true);
            let (kind, moved) = (JobEventKind::Submitted, state::PUT_ASIDE.states());
            self.note(core, header, kind, moved, None, header.ready_ns());
            return Asked::Spill(Arc::clone(spill));
        }
        self.count_rejected(core, header);
        Asked::Refused(self.full(core))
    }

    pub(super) fn count_rejected(&self, core: &mut Core, header: &Header) {
        increment(&self.counts.rejected);
        let moved = (JobState::Pending, JobState::Pending);
        let kind = JobEventKind::Rejected;
        self.note(core, header, kind, moved, None, header.ready_ns());
    }

    fn check_size(&self, core: &Core, load: Load) -> Result<(), SubmitError> {
        if core.room.can_hold(load) {
            return Ok(());
        }
        Err(SubmitError::TooLarge {
            lane: self.name.clone(),
            bytes: load.bytes,
            capacity_bytes: self.settings.room().bytes,
        })
    }

    pub(super) fn full(&self, core: &Core) -> SubmitError {
        let taken = core.room.taken();
        SubmitError::Full {
            lane: self.name.clone(),
            pending: taken.jobs,
            capacity: self.settings.capacity,
        }
    }

    /// Hands the job, which has been counted as accepted, to the spill.
    fn spill(self: &Arc<Self>, spill: &dyn Spill, job: &Arc<dyn Job>) -> Result<(), SubmitError> {
        let Some(refused) = policy::hand_over(spill, Arc::clone(job)) else {
            return Ok(());
        };
        if !Arc::ptr_eq(&refused, job) {
            // The spill kept this job and gave up another one.
            drop(SpilledJob::new(refused));
            return Ok(());
        }
        let core = self.core.lock();
        job.header().state.apply(state::GIVE_UP);
        decrement(&self.counts.submitted);
        decrement(&self.counts.spilled);
        decrement(&self.counts.spilled_now);
        increment(&self.counts.rejected);
        Err(self.full(&core))
    }

    /// A spilled job comes back: true where it is queued, or has ended meanwhile; false where there is no room yet.
    /// `place` is room that was promised to it.
    pub(crate) fn take_back(
        self: &Arc<Self>,
        job: &Arc<dyn Job>,
        place: Option<Place>,
        now_ns: u64,
    ) -> bool {
        let Some(place) = place else {
            return self.try_take_back(job, None, now_ns);
        };
        // Before the lock: a place that is dropped takes it.
        let back = self.try_take_back(job, Some(place.settle()), now_ns);
        // Room that was promised and not used goes to the next in line.
        self.release(|_| None);
        back
    }

    fn try_take_back(
        self: &Arc<Self>,
        job: &Arc<dyn Job>,
        promised: Option<Load>,
        now_ns: u64,
    ) -> bool {
        let mut after = After::default();
        {
            let mut core = self.core.lock();
            let header = job.header();
            if let Some(promised) = promised {
                core.room.return_promise(promised);
            }
            if header.state.get() != JobState::Waiting {
                return true;
            }
            if core.mode != Mode::Open {
                self.count_spill_lost(&mut core, &**job);
                drop(core);
                end_withdrawn(&**job, JobError::Cancelled);
                return true;
            }
            let taken = match promised {
                Some(_) => core.room.take_first(header.load()),
                None => core.room.take(header.load()),
            };
            if !taken {
                return false;
            }
            decrement(&self.counts.spilled_now);
            header.set_spilled(false);
            header.set_ready_ns(now_ns);
            self.enqueue(&mut core, Arc::clone(job), state::COME_BACK);
            self.call_for_queued(&mut core, &mut after);
        }
        self.finish(after);
        true
    }

    /// The spill dropped a job. One that has ended meanwhile stays as it is.
    pub(crate) fn give_up_spilled(&self, job: &dyn Job) {
        {
            let mut core = self.core.lock();
            if job.header().state.get() != JobState::Waiting {
                return;
            }
            self.count_spill_lost(&mut core, job);
        }
        end_withdrawn(job, JobError::SpillLost);
    }

    /// Under the lock.
    pub(super) fn count_spill_lost(&self, core: &mut Core, job: &dyn Job) {
        job.header().state.apply(state::GIVE_UP);
        job.header().set_spilled(false);
        self.note_cancelled(core, job.header(), state::GIVE_UP);
        decrement(&self.counts.spilled_now);
        increment(&self.counts.cancelled);
    }

    /// Room for a job of this load, at once where there is some and nobody waits for it, else through the line.
    pub(crate) fn poll_place(
        self: &Arc<Self>,
        in_line: &mut Option<InLine>,
        load: Load,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Place, SubmitError>> {
        // Cloned before the lock and dropped after it: a waker is the user's code.
        let waker = cx.waker().clone();
        let (result, _unused) = {
            let mut core = self.core.lock();
            let refused = self
                .check_open(&core)
                .and_then(|()| self.check_size(&core, load));
            match refused {
                Ok(()) => self.stand_in_line(&mut core.room, in_line, load, waker),
                Err(refused) => (Poll::Ready(Err(refused)), Some(waker)),
            }
        };
        result
    }

    /// Also returns the waker that is of no more use.
    fn stand_in_line(
        self: &Arc<Self>,
        room: &mut Room<Waker>,
        in_line: &mut Option<InLine>,
        load: Load,
        waker: Waker,
    ) -> (Poll<Result<Place, SubmitError>>, Option<Waker>) {
        let promised = || Poll::Ready(Ok(Place::new(Arc::clone(self), load)));
        match in_line.take() {
            Some(waiting) => match room.check(waiting.ticket(), waker) {
                Ok(unused) => {
                    waiting.settle();
                    (promised(), Some(unused))
                }
                Err(before) => {
                    *in_line = Some(waiting);
                    (Poll::Pending, Some(before))
                }
            },
            None => match room.wait(load, waker) {
                Ok(unused) => (promised(), Some(unused)),
                Err(ticket) => {
                    *in_line = Some(InLine::new(Arc::clone(self), ticket, load));
                    (Poll::Pending, None)
                }
            },
        }
    }

    /// Promised room, or a place in the line, is given up: it goes to the next.
    pub(crate) fn release(
        self: &Arc<Self>,
        give_up: impl FnOnce(&mut Room<Waker>) -> Option<Waker>,
    ) {
        let mut after = After::default();
        let _unused = {
            let mut core = self.core.lock();
            let waker = give_up(&mut core.room);
            after
                .promised
                .extend(std::iter::from_fn(|| core.room.promise_next()));
            waker
        };
        self.finish(after);
    }
}
