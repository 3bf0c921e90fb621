//! Which jobs wait for which: a bounded part of the graph of dependencies, which has no cycles.

use serde::{Deserialize, Serialize};

use crate::{
    id::{JobId, TraceId},
    job::JobState,
};

/// Most nodes of an answer.
pub const MAX_NODES: usize = 500;

/// Most jobs that one node is said to wait for.
pub const MAX_EDGES: usize = 64;

/// Most steps of a path.
pub const MAX_STEPS: usize = 16;

/// From which wait on a job is listed as one that waits long.
pub const LONG_WAIT_NS: u64 = 5 * 60 * 1_000_000_000;

/// A question for a part of the graph: that of the jobs which have waited longest, or around one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphQuery {
    /// Everything that this job waits for, and that waits for it, however far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<JobId>,
    /// Only jobs of this lane that wait, with what they wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
}

/// A part of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Graph {
    /// At most [`MAX_NODES`].
    pub nodes: Vec<Node>,
    /// Jobs that wait for others, in all.
    pub waiting: u64,
    /// Jobs that have waited for others longer than [`LONG_WAIT_NS`]. `None` where not all were looked at.
    pub long_waiting: Option<u64>,
    /// Whether jobs that wait are missing from the nodes, because there are too many.
    pub cut: bool,
    /// What could not be looked at, and why, for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A job, or a name that no job has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// The job; `None` for a name that somebody waits for and no job has.
    pub job: Option<JobId>,
    /// Its name, or else its type.
    pub name: String,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    /// Its lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Where it stands; [`JobState::Other`] for a name that no job has.
    pub state: JobState,
    /// How long it has stood there; of a job that has ended, since its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
    /// The trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceId>,
    /// What it waits for, at most [`MAX_EDGES`]; of a job that was cancelled for a failure, what it waited for in vain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Edge>,
    /// Whether one of them is enough.
    #[serde(default)]
    pub any: bool,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// A job.
    Job(JobId),
    /// A name that no job has yet.
    Name(String),
}

/// Why a job did not succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// The job that failed by itself, then those on the way from it, the one that was waited for directly last. Empty
    /// where the job failed by itself. At most [`MAX_STEPS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Step>,
    /// Jobs left out in the middle of the path.
    #[serde(default)]
    pub left_out: u64,
    /// Why the first one failed.
    pub reason: String,
}

/// A job on a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The job; `None` for a name that no job had.
    pub job: Option<JobId>,
    /// Its name, or else its type.
    pub name: String,
}
