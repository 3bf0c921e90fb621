//! Alert rules as an agent tells them to viewers: what they are, what each says of each service, and why one is quiet.

use serde::{Deserialize, Serialize};

use crate::{
    alert::{Alert, Severity, Unit},
    id::InstanceId,
};

/// Everything that `ax-top rules` shows; the answer to [`ToAgent::Rules`](crate::ToAgent::Rules).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RulesReport {
    /// The file that the agent looks at, whether or not it is there; `None` where it was told of none.
    pub file: Option<String>,
    /// When the rules in force were read, by the wall clock.
    pub read_unix_ns: u64,
    /// What is wrong with the file, with lines, where its rules are not in force: those before it still are.
    pub problem: Option<String>,
    /// What works, but may not be what was meant: a page that goes nowhere.
    pub warnings: Vec<String>,
    /// Each rule in force, and those that are switched off.
    pub rules: Vec<RuleInfo>,
    /// Each service that the viewer may see.
    pub services: Vec<ServiceRules>,
    /// Silences in force.
    pub silences: Vec<SilenceInfo>,
    /// What rules did lately, newest first. Bounded.
    pub actions: Vec<ActionTaken>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleInfo {
    /// Its name.
    pub name: String,
    /// `built in`, or the place in the file: `FILE:LINE`.
    pub origin: String,
    /// Whether it is judged.
    pub enabled: bool,
    /// What it looks at.
    pub metric: String,
    /// The condition, as the file says it: `lag-p99 > 50ms for 10s`.
    pub condition: String,
    /// How bad it is.
    pub severity: Severity,
    /// After it acted, how long until it acts again on the same subject.
    pub cooldown_ns: u64,
    /// What it does, for a person, without secrets.
    pub actions: Vec<String>,
}

/// What the rules say of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceRules {
    /// Which start of which service.
    pub instance: InstanceId,
    /// Its name.
    pub service: String,
    /// Its process id, in its own pid namespace.
    pub pid: u32,
    /// A line or more for each rule that is switched on: one for each subject that it has a figure of.
    pub states: Vec<RuleState>,
    /// Its alerts that ended, newest first. Bounded.
    pub history: Vec<Alert>,
}

/// What one rule says of one subject of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleState {
    /// The rule's name.
    pub rule: String,
    /// A lane, a type, a runtime; `None` for the service as a whole.
    pub subject: Option<String>,
    /// Where it is.
    pub standing: Standing,
    /// The figure; unknown where there is none.
    pub value: Option<f64>,
    /// What it is held against.
    pub threshold: f64,
    /// What both are.
    pub unit: Unit,
    /// For a person: why it fires, or why not.
    pub why: String,
}

/// Where a rule is with a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It fires.
    Firing,
    /// It fires and tells nobody: it is silenced.
    Silenced,
    /// It fires and tells nobody for now: it acted less than its cooldown ago.
    Cooldown,
    /// The condition holds, and not yet for long enough.
    Pending,
    /// The condition does not hold.
    Fine,
    /// There is no figure to judge.
    Unknown,
    /// The service has only just come, or a debugger holds it: nothing is judged.
    Quiet,
    /// A standing that this reader does not know.
    #[serde(other)]
    Other,
}

/// A silence that is in force: alerts that it covers are kept and shown, and nobody is told of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SilenceInfo {
    /// Of which rule; all where it is left out.
    pub rule: Option<String>,
    /// Of which service, by name; all where it is left out.
    pub service: Option<String>,
    /// Of which subject: a lane, a type; all where it is left out.
    pub subject: Option<String>,
    /// The user for whose services it was asked; of all users where it is left out.
    pub uid: Option<u32>,
    /// Until when.
    pub until_unix_ns: u64,
    /// Why.
    pub reason: String,
    /// `file`, or who asked for it: `user 1000`.
    pub by: String,
}

/// A viewer asks for a silence, or ends one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SilenceRequest {
    /// Of which rule.
    pub rule: Option<String>,
    /// Of which service, by name.
    pub service: Option<String>,
    /// Of which subject.
    pub subject: Option<String>,
    /// For how long, from now; 0 ends the silences that were asked for with the same rule, service and subject.
    pub for_ns: u64,
    /// Why.
    pub reason: String,
}

/// What became of a [`SilenceRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SilenceAnswer {
    /// The silences that began, or that ended; or why nothing changed, for a person.
    pub outcome: Result<Vec<SilenceInfo>, String>,
}

/// What a rule did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActionTaken {
    /// When it ended.
    pub at_unix_ns: u64,
    /// For which service.
    pub service: String,
    /// Of which rule.
    pub rule: String,
    /// On which subject.
    pub subject: Option<String>,
    /// What, for a person, without secrets.
    pub action: String,
    /// Whether it was done.
    pub done: bool,
    /// What came of it, for a person.
    pub outcome: String,
}
