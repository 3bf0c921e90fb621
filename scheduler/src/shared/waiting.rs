//! The moves of jobs that wait, and the telling of all moves.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{Ordering::Relaxed, Ordering::SeqCst, fence},
    },
};

use ax_probe::task_type::End;
use ax_wire::{JobId, recorder::RecordedKind};

use super::{After, Core, Mode, Shared, decrement, increment};
use crate::{
    JobError, JobState, SubmitError,
    cell::{Header, Job},
    events::{JobEvent, JobEventKind, OUTBOX},
    records::{JobRecord, Outcome},
    state, time,
};

/// Jobs that are looked at under one lock to find one.
const FIND_SLICE: usize = 8_192;

/// Of these, so many are looked at again with the next ones: jobs leave the front meanwhile, and the others move up.
const FIND_OVERLAP: usize = 1_024;

impl Shared {
    /// Takes a job into the queue, or among those that wait; or refuses it, whatever the lane's policy. What is left to
    /// do is for [`Self::finish`], once no lock is held.
    pub(crate) fn admit(&self, job: Arc<dyn Job>, waits: bool) -> Result<After, SubmitError> {
        let mut after = After::default();
        let mut core = self.core.lock();
        self.check_open(&core)?;
        let header = job.header();
        let waiting = self.counts.waiting.load(Relaxed);
        let has_room = if waits {
            waiting < self.settings.capacity as u64 && core.room.can_hold(header.load())
        } else {
            core.room.take(header.load())
        };
        if !has_room {
            self.count_rejected(&mut core, header);
            return Err(self.full(&core));
        }
        increment(&self.counts.submitted);
        if waits {
            increment(&self.counts.waiting);
            header.task.submitted_waiting();
            header.tell(RecordedKind::Submitted, header.ready_ns(), None);
            header.state.apply(state::PUT_ASIDE);
            let (kind, moved) = (JobEventKind::Submitted, state::PUT_ASIDE.states());
            self.note(&mut core, header, kind, moved, None, header.ready_ns());
        } else {
            header.task.submitted();
            header.tell(RecordedKind::Ready, header.ready_ns(), None);
            self.enqueue(&mut core, job, state::ACCEPT);
            self.call_for_queued(&mut core, &mut after);
        }
        Ok(after)
    }

    /// Queues a job that has waited. One that waits no more (it was cancelled) is left alone.
    pub(crate) fn make_ready(self: &Arc<Self>, job: &Arc<dyn Job>) {
        let header = job.header();
        let mut after = After::default();
        {
            let mut core = self.core.lock();
            if header.state.get() != JobState::Waiting {
                return;
            }
            if core.mode >= Mode::Stopping {
                let gone = core.mode == Mode::Gone;
                drop(core);
                let reason = if gone {
                    JobError::RuntimeGone
                } else {
                    JobError::Cancelled
                };
                self.withdraw_waiting(&**job, reason);
                return;
            }
            header.set_ready_ns(time::now_ns());
            decrement(&self.counts.waiting);
            header.task.readied();
            header.tell(RecordedKind::Ready, header.ready_ns(), None);
            core.room.take_anyway(header.load());
            self.enqueue(&mut core, Arc::clone(job), state::COME_BACK);
            self.call_for_queued(&mut core, &mut after);
        }
        self.finish(after);
    }

    /// Ends a job if it waits, and what depends on it. It is to be out of the ledger.
    pub(crate) fn withdraw_waiting(self: &Arc<Self>, job: &dyn Job, reason: JobError) {
        let header = job.header();
        let text = reason.text();
        if self.withdraw_alone(job, reason) && header.is_watched() {
            self.hub.ended(header, Some(text));
        }
    }

    /// Ends a job if it waits. False where it did not wait.
    pub(crate) fn withdraw_alone(self: &Arc<Self>, job: &dyn Job, reason: JobError) -> bool {
        let header = job.header();
        let now_ns = time::now_ns();
        let text = reason.text();
        let dry = {
            let mut core = self.core.lock();
            if header.state.get() != JobState::Waiting {
                return false;
            }
            header.state.apply(state::GIVE_UP);
            decrement(&self.counts.waiting);
            increment(&self.counts.cancelled);
            let (kind, moved) = (JobEventKind::Cancelled, state::GIVE_UP.states());
            self.note(&mut core, header, kind, moved, Some(&text), now_ns);
            // Runners that wait for waiting jobs only leave.
            core.mode != Mode::Open && self.counts.waiting.load(Relaxed) == 0
        };
        header.task.cancelled_while_waiting();
        header.tell(RecordedKind::Cancelled, now_ns, None);
        let told = matches!(reason, JobError::Cancelled | JobError::RuntimeGone);
        if !told || header.keeps_record() {
            let mut outcome = Outcome::new(End::Cancelled, Some(text));
            if let JobError::Dependency(failure) = &reason {
                outcome.failure = Some(Arc::clone(failure));
            }
            self.record(header, outcome, now_ns);
        }
        job.publish_withdrawn(reason);
        if dry {
            self.close(Mode::Draining);
            if self.is_drained(&self.core.lock()) {
                self.drained.notify_waiters();
            }
        }
        self.flush();
        true
    }

    /// From now on the end of this job is told to the ledger; its state now, where it has ended already.
    pub(crate) fn watch(&self, header: &Header) -> JobState {
        let _core = self.core.lock();
        let state = header.state.get();
        if !state.is_end() {
            header.watch();
        }
        state
    }

    /// A retry is put off for a budget.
    pub(crate) fn count_deferred(&self) {
        let _core = self.core.lock();
        increment(&self.counts.deferred);
    }

    /// Appends jobs that run or are queued, those left out that `offset` still counts.
    pub(crate) fn copy_jobs(
        &self,
        state: JobState,
        offset: &mut usize,
        limit: usize,
        out: &mut Vec<Arc<dyn Job>>,
    ) {
        let room = limit - out.len();
        let core = self.core.lock();
        if state == JobState::Running {
            let jobs = core.runners.iter().filter_map(|entry| entry.job.as_ref());
            out.extend(jobs.skip(*offset).take(room).cloned());
            let running = self.counts.running.load(Relaxed) as usize;
            *offset = offset.saturating_sub(running);
        } else {
            let ready = |job: &&Arc<dyn Job>| job.header().state.get() == JobState::Ready;
            let jobs = core.queue.iter().skip(*offset).filter(ready);
            out.extend(jobs.take(room).cloned());
            *offset = offset.saturating_sub(core.queue.len());
        }
    }

    pub(crate) fn find_running(&self, id: JobId) -> Option<Arc<dyn Job>> {
        let core = self.core.lock();
        let mut jobs = core.runners.iter().filter_map(|entry| entry.job.as_ref());
        jobs.find(|job| job.header().id == id).cloned()
    }

    /// Looks through the whole queue: about 10 ns for each job in it, with the lane's lock held for a slice at a time.
    pub(crate) fn find_queued(&self, id: JobId) -> Option<Arc<dyn Job>> {
        let (mut priority, mut offset) = (u8::MAX, 0);
        loop {
            let core = self.core.lock();
            let mut levels = core.queue.levels();
            let (of, len, jobs) = levels.find(|(of, ..)| *of <= priority)?;
            if of < priority {
                (priority, offset) = (of, 0);
            }
            let mut slice = jobs.skip(offset).take(FIND_SLICE);
            if let Some(job) = slice.find(|job| job.header().id == id) {
                return Some(Arc::clone(job));
            }
            if offset + FIND_SLICE < len {
                offset += FIND_SLICE - FIND_OVERLAP;
            } else {
                (priority, offset) = (of - 1, 0);
            }
        }
    }

    /// Remembers how a job ended.
    pub(crate) fn record(&self, header: &Header, outcome: Outcome, now_ns: u64) {
        let record = JobRecord::new(header, outcome, now_ns);
        let mut records = self.records.lock();
        records.add(record, now_ns, self.hub.remember);
    }

    /// Under the lane's lock: keeps a move for [`Self::flush`], if anybody wants to know.
    #[inline]
    pub(super) fn note(
        &self,
        core: &mut Core,
        header: &Header,
        kind: JobEventKind,
        moved: (JobState, JobState),
        reason: Option<&Arc<str>>,
        now_ns: u64,
    ) {
        if self.hub.listeners.want(kind) {
            if core.outbox.len() >= OUTBOX {
                self.hub.listeners.lose();
                return;
            }
            let event = JobEvent::new(header, kind, moved, reason.cloned(), now_ns);
            core.outbox.push(event);
            self.noted.store(true, Relaxed);
        }
    }

    /// A job that is queued or spilled is cancelled.
    pub(super) fn note_cancelled(&self, core: &mut Core, header: &Header, step: state::Move) {
        let kind = JobEventKind::Cancelled;
        if self.hub.listeners.want(kind) {
            self.note(core, header, kind, step.states(), None, time::now_ns());
        }
    }

    /// A warning about a running job, which does not move.
    pub(crate) fn warn(&self, header: &Header, kind: JobEventKind, reason: &Arc<str>, now_ns: u64) {
        let moved = (JobState::Running, JobState::Running);
        let mut core = self.core.lock();
        self.note(&mut core, header, kind, moved, Some(reason), now_ns);
        drop(core);
        self.flush();
    }

    /// Tells what was noted. To be called without locks: it runs the code of whoever listens.
    #[inline]
    pub(crate) fn flush(&self) {
        if self.noted.load(Relaxed) {
            self.tell_noted();
        }
    }

    /// One thread tells at a time, so that the order stays; what is noted meanwhile, by others or by a listener that
    /// submits more, it tells too.
    #[cold]
    fn tell_noted(&self) {
        loop {
            fence(SeqCst);
            let Some(telling) = self.telling.try_lock() else {
                return;
            };
            let events = {
                let mut core = self.core.lock();
                self.noted.store(false, Relaxed);
                mem::take(&mut core.outbox)
            };
            for event in events {
                self.hub.listeners.tell(event);
            }
            drop(telling);
            // Pairs with the fence above: who noted and found this thread telling is seen here.
            fence(SeqCst);
            if !self.noted.load(Relaxed) {
                return;
            }
        }
    }
}
