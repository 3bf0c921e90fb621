//! Marks: what changed, and when, for every chart.

use serde::{Deserialize, Serialize};

/// An instant at which something changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mark {
    /// When, by the wall clock.
    pub at_unix_ns: u64,
    /// What kind of change.
    pub kind: MarkKind,
    /// For a person: what changed, such as `db: limit 40 -> 20`.
    pub text: String,
}

/// What kind of change a [`Mark`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// The process started.
    Started,
    /// It is another build than the instance before it.
    Build,
    /// The limit of a lane moved, or a lane was paused or resumed.
    Limit,
    /// The agent's rules were read anew.
    Rules,
    /// An alert began to fire.
    AlertBegan,
    /// An alert ended.
    AlertEnded,
    /// A finding became the first one.
    Verdict,
    /// A snapshot was written.
    Snapshot,
    /// A step of a load session began.
    Load,
    /// Somebody changed something: cancelled or retried a job, delayed a downstream.
    Control,
    /// A kind that this reader does not know.
    #[serde(other)]
    Other,
}
