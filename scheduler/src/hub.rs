//! What the lanes of a scheduler share: waiting jobs, listeners, budgets. Ordinary jobs do not come here.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use ax_wire::JobId;
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::mpsc};

use crate::{
    JobError, JobState, SubmitError,
    budget::Grants,
    cell::{Header, Job},
    events::Listeners,
    handler::Handlers,
    job_ref::JobRef,
    ledger::{Changes, Ledger, Registered, Registration, WaitKind, Waiting, step_of},
    plan::{Dependency, DependencyFailure},
    time,
    timer::{Due, Order, Stage, Timer},
};

/// For how long ended jobs with a name, a key or a record are remembered, unless set.
pub const DEFAULT_REMEMBER: Duration = Duration::from_mins(10);

/// How many of them, unless set: of names and keys in the scheduler, of records in each lane. About 300 bytes each.
pub const DEFAULT_REMEMBER_COUNT: usize = 10_000;

/// Bounds of what is known of jobs that have ended.
#[derive(Clone, Copy)]
pub(crate) struct Remember {
    pub(crate) time: Duration,
    pub(crate) count: usize,
}

pub(crate) struct Hub {
    /// Of the scheduler, in this process.
    pub(crate) number: u32,
    pub(crate) runtime: Option<Handle>,
    pub(crate) listeners: Listeners,
    pub(crate) remember: Remember,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) retry_grants: Option<Grants>,
    pub(crate) handlers: Handlers,
    timer: OnceLock<mpsc::UnboundedSender<Order>>,
}

impl Hub {
    pub(crate) fn new(
        number: u32,
        runtime: Option<Handle>,
        listeners: Listeners,
        remember: Remember,
        retry_grants: Option<Grants>,
    ) -> Self {
        Self {
            number,
            runtime,
            listeners,
            remember,
            ledger: Mutex::default(),
            retry_grants,
            handlers: Handlers::default(),
            timer: OnceLock::new(),
        }
    }

    /// Without a runtime.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let remember = Remember {
            time: DEFAULT_REMEMBER,
            count: DEFAULT_REMEMBER_COUNT,
        };
        Self::new(0, None, Listeners::new(None, 1), remember, None)
    }

    /// Accepts a job that is not plain. `Some` is the job that has its key already.
    pub(crate) fn submit(
        self: &Arc<Self>,
        job: &Arc<dyn Job>,
        submission: &Submission,
        now_ns: u64,
    ) -> Result<Option<JobRef>, SubmitError> {
        let delay_ns = ax_probe::clock::duration_ns(submission.delay);
        let registered = {
            let mut ledger = self.ledger.lock();
            ledger.forget_old(now_ns, self.remember);
            ledger.register(&Registration {
                job,
                after: &submission.after,
                any: submission.any,
                until_ns: if delay_ns == 0 {
                    0
                } else {
                    now_ns.saturating_add(delay_ns)
                },
                now_ns,
            })?
        };
        let lane = &job.header().lane;
        match registered {
            Registered::Known(known) => return Ok(Some(known)),
            Registered::Ready(after) => lane.finish(after),
            Registered::Waiting if submission.after.is_empty() => {
                self.wake_at(job, now_ns.saturating_add(delay_ns), Stage::Ready);
            }
            // Dependencies may have been met already, and the time not.
            Registered::Waiting => {
                let until_ns = {
                    let ledger = self.ledger.lock();
                    let waiting = ledger.waiting.get(&job.header().id);
                    waiting
                        .filter(|waiting| waiting.kind == WaitKind::Time)
                        .map(|waiting| waiting.until_ns)
                };
                self.ensure_timer();
                if let Some(until_ns) = until_ns {
                    self.wake_at(job, until_ns, Stage::Ready);
                }
            }
            Registered::Doomed(failure) => Self::withdraw(&**job, JobError::Dependency(failure)),
        }
        lane.flush();
        Ok(None)
    }

    /// The task whose end says that the runtime is gone; it runs from the first job that waits.
    fn ensure_timer(self: &Arc<Self>) -> &mpsc::UnboundedSender<Order> {
        let mut timer = None;
        let sender = self.timer.get_or_init(|| {
            let (sender, task) = Timer::new(Arc::downgrade(self));
            timer = Some(task);
            sender
        });
        if let (Some(timer), Some(runtime)) = (timer, &self.runtime) {
            runtime.spawn(timer.run());
        }
        if sender.is_closed() {
            self.cancel_waiting(|| JobError::RuntimeGone);
        }
        sender
    }

    fn wake_at(self: &Arc<Self>, job: &Arc<dyn Job>, at_ns: u64, stage: Stage) {
        let due = Due {
            job: Arc::clone(job),
            stage,
        };
        // Refused where the runtime is gone, in which case all that waits is cancelled.
        let _ = self.ensure_timer().send(Order::WakeAt(due, at_ns));
        if job.header().state.get() != JobState::Waiting {
            self.forget(job.header().id);
        }
    }

    /// A job that has just moved from running to waiting.
    pub(crate) fn wait(self: &Arc<Self>, waiting: Waiting) {
        let job = Arc::clone(&waiting.job);
        let (kind, until_ns) = (waiting.kind, waiting.until_ns);
        self.ledger.lock().put(waiting);
        if kind == WaitKind::Person {
            self.ensure_timer();
        } else {
            self.wake_at(&job, until_ns, Stage::LaneBudget);
        }
        // Cancelled since it moved.
        if job.header().state.get() != JobState::Waiting {
            self.forget(job.header().id);
        }
    }

    /// By the timer: the time of a job has come. `Some` where it has to wait on, for its retry budget.
    pub(crate) fn due(due: Due, now_ns: u64) -> Option<(Due, u64)> {
        let Due { job, stage } = due;
        let lane = Arc::clone(&job.header().lane);
        let hub = &lane.hub;
        if !hub.ledger.lock().waiting.contains_key(&job.header().id) {
            return None;
        }
        let grants = [
            (Stage::LaneBudget, Stage::Budget, &lane.retry_grants),
            (Stage::Budget, Stage::Ready, &hub.retry_grants),
        ];
        let mut stage = stage;
        for (at, next, grants) in grants {
            if stage != at {
                continue;
            }
            stage = next;
            let at_ns = grants
                .as_ref()
                .map_or(now_ns, |grants| grants.reserve(now_ns));
            if at_ns > now_ns {
                lane.count_deferred();
                let mut ledger = hub.ledger.lock();
                let waits = ledger.wait_on(job.header().id, WaitKind::Budget, at_ns);
                drop(ledger);
                return waits.then_some((Due { job, stage }, at_ns));
            }
        }
        let waiting = hub.ledger.lock().remove(job.header().id)?;
        lane.make_ready(&waiting.job);
        None
    }

    /// A job does not wait any more.
    pub(crate) fn forget(&self, id: JobId) {
        let waiting = self.ledger.lock().remove(id);
        if let Some(timer) = self.timer.get() {
            let _ = timer.send(Order::Forget(id));
        }
        if let Some(waiting) = waiting {
            drop_error(waiting);
        }
    }

    /// Ends a waiting job, if it waits still, and what depends on it.
    pub(crate) fn withdraw(job: &dyn Job, reason: JobError) {
        let lane = &job.header().lane;
        lane.hub.forget(job.header().id);
        lane.withdraw_waiting(job, reason);
    }

    /// A watched job has ended: releases and cancels what depends on it, however far.
    pub(crate) fn ended(&self, header: &Header, reason: Option<Arc<str>>) {
        let failure = reason.map(|reason| {
            Arc::new(DependencyFailure {
                path: vec![step_of(header)],
                left_out: 0,
                reason,
            })
        });
        let now_ns = time::now_ns();
        let changes = self
            .ledger
            .lock()
            .ended(header, failure.as_ref(), now_ns, self.remember);
        self.apply(changes, now_ns);
    }

    /// In a loop: a chain of dependents may be longer than the stack is deep.
    fn apply(&self, changes: Changes, now_ns: u64) {
        let mut all = vec![changes];
        while let Some(changes) = all.pop() {
            for job in changes.ready {
                job.header().lane.make_ready(&job);
            }
            for (job, until_ns) in changes.timed {
                job.header().lane.hub.wake_at(&job, until_ns, Stage::Ready);
            }
            for (waiting, failure) in changes.doomed {
                let job = Arc::clone(&waiting.job);
                drop_error(waiting);
                let header = job.header();
                let reason = JobError::Dependency(Arc::clone(&failure));
                if header.lane.withdraw_alone(&*job, reason) && header.is_watched() {
                    let failure = Arc::new(failure.by_way_of(step_of(header)));
                    let mut ledger = self.ledger.lock();
                    all.push(ledger.ended(header, Some(&failure), now_ns, self.remember));
                }
            }
        }
    }

    /// Nobody can submit any more: who waits for a name that is not there, or for a person, waits in vain.
    pub(crate) fn nobody_submits(&self) {
        let now_ns = time::now_ns();
        let (changes, manual) = {
            let mut ledger = self.ledger.lock();
            let changes = ledger.close_names(now_ns);
            (changes, ledger.manual.clone())
        };
        self.apply(changes, now_ns);
        for id in manual {
            self.drop_manual(id);
        }
    }

    /// Ends all that waits.
    pub(crate) fn cancel_waiting(&self, reason: impl Fn() -> JobError) {
        loop {
            let jobs: Vec<_> = {
                let ledger = self.ledger.lock();
                let waiting = ledger.waiting.values().take(256);
                waiting.map(|waiting| Arc::clone(&waiting.job)).collect()
            };
            if jobs.is_empty() {
                return;
            }
            for job in jobs {
                Self::withdraw(&*job, reason());
            }
        }
    }

    /// From the manual list back to the queue. False where it is not there.
    pub(crate) fn retry_manual(&self, id: JobId) -> bool {
        let Some(waiting) = self.take_manual(id) else {
            return false;
        };
        let job = Arc::clone(&waiting.job);
        drop_error(waiting);
        job.header().forget_attempts();
        job.header().lane.make_ready(&job);
        true
    }

    /// Gives up a job of the manual list: its handle gets the error of the last attempt.
    pub(crate) fn drop_manual(&self, id: JobId) -> bool {
        let Some(mut waiting) = self.take_manual(id) else {
            return false;
        };
        let error = waiting.error.take().unwrap_or(JobError::Cancelled);
        let job = &*waiting.job;
        job.header().lane.withdraw_waiting(job, error);
        true
    }

    fn take_manual(&self, id: JobId) -> Option<Waiting> {
        let mut ledger = self.ledger.lock();
        if ledger.manual.contains(&id) {
            ledger.remove(id)
        } else {
            None
        }
    }
}

/// The part of a submit that is the ledger's.
pub(crate) struct Submission {
    pub(crate) after: Vec<Dependency>,
    pub(crate) any: bool,
    pub(crate) delay: Duration,
}

impl Submission {
    /// Whether the job can be queued at once, unknown to the ledger.
    pub(crate) fn is_plain(&self, header: &Header) -> bool {
        self.after.is_empty() && self.delay.is_zero() && !header.is_watched()
    }
}

/// An error is the user's, and so is its destructor.
fn drop_error(waiting: Waiting) {
    let header = Arc::clone(&waiting.job);
    if let Err(message) = crate::guard::catch(|| drop(waiting)) {
        crate::cell::warn_of_panic(header.header(), &message);
    }
}
