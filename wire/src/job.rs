//! Single jobs: one as a list shows it, and the question for a page of them.

mod filter;

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

pub use self::filter::{Comparison, Facts, MatchKind, NumberField, Term, TextField};
use crate::{
    id::{JobId, TraceId},
    incident::WaitsFor,
};

/// Most jobs of a page.
pub const MAX_PAGE_ROWS: usize = 200;

/// Most jobs that a page may begin after, with its own: whoever looks for a later one narrows the query.
pub const MAX_DEPTH: usize = 1_000;

/// Most terms of a query.
pub const MAX_TERMS: usize = 16;

/// Most jobs or names that a waiting job is said to wait for.
pub const MAX_NAMED_WAITS: usize = 16;

/// Where a job stands, or how it ended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Begun, and not ended.
    Running,
    /// Queued: it begins as soon as its lane has room.
    Ready,
    /// Waits for a time, for other jobs, or for a person.
    Waiting,
    /// Ended well.
    Succeeded,
    /// Ended with an error of its own.
    Failed,
    /// Ended by a panic.
    Panicked,
    /// Ended by its timeout.
    TimedOut,
    /// Ended by cancellation.
    Cancelled,
    /// Refused by its lane.
    Rejected,
    /// A state that this reader does not know.
    #[default]
    #[serde(other)]
    Other,
}

impl JobState {
    /// All that have a word.
    pub const ALL: [Self; 9] = [
        Self::Running,
        Self::Ready,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Panicked,
        Self::TimedOut,
        Self::Cancelled,
        Self::Rejected,
    ];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed out",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::Other => "unknown",
        }
    }

    /// Whether it has not ended.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Ready | Self::Waiting)
    }

    /// Whether it ended without success.
    #[must_use]
    pub const fn is_unsuccessful(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::Panicked | Self::TimedOut | Self::Cancelled | Self::Rejected
        )
    }
}

/// A job as a list shows it. What is `None` is unknown, or does not apply to its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobRow {
    /// Which.
    pub id: JobId,
    /// Its type.
    pub job_type: String,
    /// Its lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// The name by which others depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceId>,
    /// The job inside which it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
    /// Where it was submitted: `file:line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Where it stands, or how it ended.
    pub state: JobState,
    /// How long it has stood there; of a job that has ended, since its end.
    pub age_ns: u64,
    /// Which attempt, from 1; 0 before the first.
    #[serde(default)]
    pub attempt: u32,
    /// How long it was queued before its last attempt, or has been queued so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_wait_ns: Option<u64>,
    /// How long its last attempt ran, or has run so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ns: Option<u64>,
    /// The poll that it is in has lasted so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_age_ns: Option<u64>,
    /// Of a running job that is not being polled: how long ago its last poll ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_poll_ns: Option<u64>,
    /// What its code says that it awaits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<JobWait>,
    /// Why it, or its last attempt, did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How far it says that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Whether it has been asked to end.
    #[serde(default)]
    pub cancelling: bool,
}

/// How far a job says that it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Progress {
    /// Done so far.
    pub done: u64,
    /// Of so many; 0 where it does not say.
    pub of: u64,
}

/// Why a waiting job is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobWait {
    /// What it waits for.
    pub kind: WaitKind,
    /// The time until it is ready, where it waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ns: Option<u64>,
    /// The jobs that it waits for, at most [`MAX_NAMED_WAITS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobId>,
    /// The names that it waits for and no job has, at most [`MAX_NAMED_WAITS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// What a waiting job waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// Other jobs.
    Dependencies,
    /// Its time.
    Time,
    /// The backoff after a failed attempt.
    Retry,
    /// The retry budget.
    Budget,
    /// A person, who retries or drops it.
    Person,
    /// Something that this reader does not know.
    #[default]
    #[serde(other)]
    Other,
}

impl WaitKind {
    /// The words for it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Dependencies => "other jobs",
            Self::Time => "its time",
            Self::Retry => "its backoff",
            Self::Budget => "the retry budget",
            Self::Person => "a person",
            Self::Other => "something unknown",
        }
    }
}

/// A question for jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobsQuery {
    /// All must hold; at most [`MAX_TERMS`].
    #[serde(default)]
    pub terms: Vec<Term>,
    /// What the jobs are sorted by.
    pub sort: JobSort,
    /// The largest first.
    pub descending: bool,
    /// Jobs left out before the first; with the limit at most [`MAX_DEPTH`].
    #[serde(default)]
    pub offset: u32,
    /// Most jobs to be answered; at most [`MAX_PAGE_ROWS`] to a viewer. A service, which does not know the jobs that only
    /// the agent has kept, is asked for all from the first on.
    pub limit: u32,
}

impl JobsQuery {
    /// Whether every term holds.
    pub fn matches(&self, job: &impl Facts) -> bool {
        self.terms.iter().all(|term| term.holds(job))
    }

    /// Whether some job of this state may match.
    #[must_use]
    pub fn admits(&self, state: JobState) -> bool {
        self.terms.iter().all(|term| term.admits(state))
    }

    /// The one job that is asked for, where one is.
    #[must_use]
    pub fn id(&self) -> Option<JobId> {
        self.terms.iter().find_map(Term::id)
    }

    /// Which of two jobs comes first. Equals stand by their ids, so that a page does not change by itself.
    pub fn order(&self, a: &impl Facts, b: &impl Facts) -> Ordering {
        let by = match self.sort {
            JobSort::State => a.state().cmp(&b.state()),
            JobSort::Type => a.job_type().cmp(b.job_type()),
            JobSort::Lane => a.lane().cmp(&b.lane()),
            JobSort::Id => a.id().cmp(&b.id()),
            JobSort::Age => return self.by_number(NumberField::Age, a, b),
            JobSort::Wait => return self.by_number(NumberField::Wait, a, b),
            JobSort::Run => return self.by_number(NumberField::Run, a, b),
            JobSort::Priority => return self.by_number(NumberField::Priority, a, b),
            JobSort::Attempt => return self.by_number(NumberField::Attempt, a, b),
            JobSort::Other => Ordering::Equal,
        };
        self.directed(by).then_with(|| a.id().cmp(&b.id()))
    }

    fn directed(&self, by: Ordering) -> Ordering {
        if self.descending { by.reverse() } else { by }
    }

    /// Unknown comes last, whichever way the numbers run.
    fn by_number(&self, field: NumberField, a: &impl Facts, b: &impl Facts) -> Ordering {
        let by = match (a.number(field), b.number(field)) {
            (Some(a), Some(b)) => self.directed(a.cmp(&b)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        by.then_with(|| a.id().cmp(&b.id()))
    }
}

/// What jobs are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobSort {
    /// Running, ready, waiting, then the ended ones.
    #[default]
    State,
    /// The job's type.
    Type,
    /// The job's lane.
    Lane,
    /// The order of submission.
    Id,
    /// [`JobRow::age_ns`].
    Age,
    /// [`JobRow::queue_wait_ns`].
    Wait,
    /// [`JobRow::run_ns`].
    Run,
    /// [`JobRow::priority`].
    Priority,
    /// [`JobRow::attempt`].
    Attempt,
    /// Something that this reader does not know: by id.
    #[serde(other)]
    Other,
}

/// Jobs that match a [`JobsQuery`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobsPage {
    /// In the order that was asked for.
    pub rows: Vec<JobRow>,
    /// How many match among those that were looked at.
    pub matching: u64,
    /// Jobs that have not ended.
    pub live: u64,
    /// Jobs that were looked at. Fewer than there are where a look at all would have taken too long.
    pub looked_at: u64,
    /// Whether all were looked at, so that nothing that matches is missing.
    pub complete: bool,
    /// What could not be looked at, and why, for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}
