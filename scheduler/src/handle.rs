//! The submitter's end of a job.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use ax_wire::{JobId, TraceId};

use crate::{
    JobError, JobState,
    cell::{Job, Join},
    job_ref::JobRef,
    waits::{Kind, Waits},
};

/// A submitted job: a future of its result.
///
/// Dropping the handle detaches the job: it runs on, it is counted as ever, and its result is dropped when it ends.
/// Use [`JobHandle::cancel`] to stop it.
///
/// Cancel safe: `&mut handle` may be polled in a `select!` and again later. By the time the result is there, the
/// job's slot in the lane is free and every count says so.
///
/// # Panics
///
/// When polled again after it gave the result.
pub struct JobHandle<T> {
    job: Arc<dyn Join<T>>,
    /// A job awaits it. Boxed, since few handles have it and many wait in memory.
    waits: Option<Box<Waits>>,
}

impl<T> JobHandle<T> {
    pub(crate) fn new(job: Arc<dyn Join<T>>) -> Self {
        Self { job, waits: None }
    }

    /// The job. Ids of one process are unique and sort by submission.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job.header().id
    }

    /// The trace that the job belongs to.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        self.job.header().trace()
    }

    /// Where the job stands now.
    #[must_use]
    pub fn status(&self) -> JobState {
        self.job.header().state.get()
    }

    /// The job without its result: to hand on, or to depend on.
    #[must_use]
    pub fn job_ref(&self) -> JobRef
    where
        T: 'static,
    {
        let job: Arc<dyn Job> = Arc::<dyn Join<T>>::clone(&self.job);
        JobRef { job }
    }

    /// Asks the job to end; does not wait for it.
    ///
    /// A queued or waiting job ends at once, and its closure is dropped on this thread. A running job gets its token
    /// ([`JobContext::cancelled`](crate::JobContext::cancelled)); if its future is not ready by the end of the lane's
    /// cancel grace, the future is dropped. What the job returns meanwhile counts: `Ok` is a success, an error becomes
    /// [`JobError::Cancelled`]; there is no other attempt. For a job that has ended this does nothing.
    pub fn cancel(&self) {
        let job: &dyn Job = &*self.job;
        job.header().lane.cancel(job);
    }
}

impl<T> Future for JobHandle<T> {
    type Output = Result<T, JobError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = self.get_mut();
        let outcome = me.job.poll_outcome(cx);
        if outcome.is_ready() {
            me.waits = None;
        } else if me.waits.is_none() {
            me.waits = Waits::begin(Kind::Lane, &me.job.header().lane.name).map(Box::new);
        }
        outcome
    }
}

impl<T> Drop for JobHandle<T> {
    fn drop(&mut self) {
        self.job.detach();
    }
}

impl<T> fmt::Debug for JobHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("id", &self.id())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
