//! Alerts: "is something wrong?", answered by the agent's rules.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One alert of one rule on one subject, from its beginning to its end. Its identity outlives reconnects of the
/// service and of the viewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alert {
    /// The rule's name, such as `lag-high`.
    pub rule: String,
    /// What of the service it is about, where the rule looks at several things: a lane, a job type.
    pub subject: Option<String>,
    /// How bad.
    pub severity: Severity,
    /// Where it is in its life.
    pub state: AlertState,
    /// When the condition was first seen.
    pub began_unix_ns: u64,
    /// When it had held for long enough to fire. `None` while pending.
    pub fired_unix_ns: Option<u64>,
    /// When it ended. `None` before that.
    pub resolved_unix_ns: Option<u64>,
    /// The newest figure.
    pub value: f64,
    /// The worst figure since it began.
    pub peak: f64,
    /// The figure that it is held against.
    pub threshold: f64,
    /// What `value`, `peak` and `threshold` are.
    pub unit: Unit,
    /// For a person: what is wrong, in one sentence.
    pub sentence: String,
    /// The silence that covers it: it is shown, and nobody is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silenced: Option<Silenced>,
    /// Whether viewers ring once when it begins to fire: it has the action `bell`, and neither a silence nor a cooldown
    /// holds it back.
    #[serde(default)]
    pub bell: bool,
}

/// A silence that covers an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Silenced {
    /// Until when.
    pub until_unix_ns: u64,
    /// Why, for a person.
    pub reason: String,
}

/// How bad an alert is, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; needs nobody.
    Info,
    /// Look at it today.
    Warning,
    /// Look at it now.
    Critical,
    /// Wake somebody up.
    Page,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Page => "page",
        })
    }
}

/// Where an alert is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// The condition holds, but not yet for as long as the rule asks.
    Pending,
    /// The condition has held for long enough.
    Firing,
    /// The condition holds no longer.
    Resolved,
    /// A state that this reader does not know.
    #[serde(other)]
    Other,
}

/// What a figure of an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
    /// Things a second.
    PerSecond,
    /// 0 to 1.
    Share,
    /// A unit that this reader does not know.
    #[serde(other)]
    Other,
}
