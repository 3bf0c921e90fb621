//! A job without its result.

use std::{fmt, sync::Arc};

use ax_wire::{JobId, TraceId};

use crate::{JobState, cell::Job};

/// A submitted job, by reference: to look at it, to cancel it, or to depend on it. Its result is its handle's.
#[derive(Clone)]
pub struct JobRef {
    pub(crate) job: Arc<dyn Job>,
}

impl JobRef {
    /// The job. Ids of one process are unique and sort by submission.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job.header().id
    }

    /// Its type.
    #[must_use]
    pub fn job_type(&self) -> &'static str {
        self.job.header().task.name()
    }

    /// The lane that it runs in.
    #[must_use]
    pub fn lane(&self) -> &str {
        &self.job.header().lane.name
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

    /// Runs begun so far.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.job.header().attempt()
    }

    /// Asks the job to end: see [`JobHandle::cancel`](crate::JobHandle::cancel).
    pub fn cancel(&self) {
        self.job.header().lane.cancel(&*self.job);
    }
}

impl fmt::Debug for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRef")
            .field("id", &self.id())
            .field("job_type", &self.job_type())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
