//! Jobs that wait for other jobs.

use serde::{Deserialize, Serialize};

use super::TaskRef;
use crate::id::JobId;

/// Most jobs of each lane among the [`oldest_jobs`](super::Sample::oldest_jobs) of a sample, about 300 bytes each.
pub const MAX_OLDEST_JOBS: usize = 8;

/// Most jobs of each scheduler among the [`waiting_jobs`](super::Sample::waiting_jobs) of a sample, about 300 bytes each.
pub const MAX_WAITING_JOBS: usize = 32;

/// Most jobs that a [`WaitingJob`] is told to wait for.
pub const MAX_WAITED_FOR: usize = 8;

/// A job that waits for other jobs, for its time or for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingJob {
    /// Which, and where it was started.
    pub task: TaskRef,
    /// The name that its submitter gave it, by which others wait for it.
    pub name: Option<String>,
    /// For how long it has waited.
    pub age_ns: u64,
    /// Why.
    pub reason: WaitingReason,
    /// The jobs that it waits for, at most [`MAX_WAITED_FOR`].
    pub on: Vec<WaitedFor>,
}

/// Why a job is not yet queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitingReason {
    /// For other jobs.
    Dependencies,
    /// For its time.
    Time,
    /// For the backoff after a failed attempt, or a retry budget.
    Retry,
    /// All its attempts have failed: for a person to retry or drop it.
    Person,
    /// A reason that this reader does not know.
    #[serde(other)]
    Other,
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitedFor {
    /// The job. `None`: nobody has submitted a job of that name yet.
    pub job: Option<JobId>,
    /// Its name, where it is waited for by name.
    pub name: Option<String>,
}
