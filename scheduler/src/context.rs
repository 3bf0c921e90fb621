//! What a running job knows of itself.

use std::{fmt, sync::Arc};

use ax_wire::{JobId, TraceId};
use tokio_util::sync::CancellationToken;

use crate::{cell::Job, plan::Progress, time};

/// Given to the job's closure.
///
/// Cheap to clone and free to ignore: the cancellation token is allocated on first use.
#[derive(Clone)]
pub struct JobContext {
    job: Arc<dyn Job>,
}

impl JobContext {
    pub(crate) fn new(job: Arc<dyn Job>) -> Self {
        Self { job }
    }

    /// The output of a registered handler, for the job's record.
    pub(crate) fn keep_output(&self, output: Arc<serde_json::Value>) {
        if let Some(plan) = self.job.header().plan() {
            *plan.output.lock() = Some(output);
        }
    }

    /// The job.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job.header().id
    }

    /// The trace that the job belongs to: inherited where it was submitted inside a job or a wrapped task, else new.
    /// What is submitted inside this job inherits it.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        self.job.header().trace()
    }

    /// Which run of the job this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.job.header().attempt()
    }

    /// A sign of life, for a job that promised them ([`JobBuilder::heartbeat`](crate::JobBuilder::heartbeat)). For any
    /// other job it does nothing.
    pub fn heartbeat(&self) {
        if let Some(plan) = self.job.header().plan() {
            plan.beat(time::now_ns());
        }
    }

    /// Says how far the job is, in steps, bytes or whatever it counts: `done` of `of`, 0 where that is not known.
    /// Counts as a heartbeat, and shows in [`Scheduler::page`](crate::Scheduler::page).
    pub fn progress(&self, done: u64, of: u64) {
        self.job.set_progress(Progress { done, of });
        self.heartbeat();
    }

    /// Whether this attempt has been asked to end: by [`JobHandle::cancel`](crate::JobHandle::cancel), by its timeout, or
    /// by the scheduler's shutdown.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.job.header().is_cancelling()
    }

    /// Waits until the job is asked to end. From then on the job has the lane's cancel grace until its future is
    /// dropped. Cancel safe.
    pub async fn cancelled(&self) {
        self.token().cancelled().await;
    }

    /// The token that fires when the job is asked to end, to hand on to what the job starts.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.job.token()
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("id", &self.id())
            .field("trace", &self.trace())
            .finish_non_exhaustive()
    }
}
