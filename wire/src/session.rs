//! Load sessions: what was sent, what came back, and what the service's inside said at the same moment.
//!
//! A session is raw figures alone. What they mean (the knee, what filled first, advice) is worked out anew whenever one
//! is read, so that an old file is judged by the newest rules.
//!
//! Never in one: bodies, values of headers, the environment. Arguments of a wrapped command that look like secrets are
//! taken out before it is written.

mod errors;
mod file;

use serde::{Deserialize, Serialize};

pub use self::{
    errors::{Errors, StatusCount},
    file::{MAX_SESSION_BYTES, SessionFileError, default_folder, file_name, folder, read, write},
};
use crate::{hello::Hello, histogram::LatencyHistogram, mark::Mark, verdict::Verdict};

/// Version of the session file. Bumped when an old reader would misread a file; a reader refuses newer ones and reads all
/// older ones.
pub const SESSION_VERSION: u32 = 1;

/// A load session, whole or so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// See [`SESSION_VERSION`].
    pub version: u32,
    /// What wrote it.
    pub written_by: String,
    /// When it began.
    pub began_unix_ns: u64,
    /// When the last of it was written.
    pub written_unix_ns: u64,
    /// How it ended.
    pub end: End,
    /// What makes the load.
    pub driver: Driver,
    /// What was to be done, and within which limits.
    pub plan: Plan,
    /// The service whose inside was watched. `None`: none was.
    pub service: Option<Hello>,
    /// What the service said at rest, before the first step of a wrapped command: its other traffic. Oldest first.
    #[serde(default)]
    pub background: Vec<ServiceSecond>,
    /// The steps that were begun, in order.
    pub steps: Vec<Step>,
    /// Findings of the agent while it ran, in the order in which they came.
    #[serde(default)]
    pub verdicts: Vec<SeenVerdict>,
    /// What changed in the service while it ran, oldest first.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// What must be known to believe the figures, for a person.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct End {
    /// In which way.
    pub kind: EndKind,
    /// For a person: why, where there is more to say.
    #[serde(default)]
    pub why: Option<String>,
}

/// In which way a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// It has not: it runs, or was killed.
    Unfinished,
    /// All steps were done.
    Completed,
    /// A threshold broke that was to end it.
    Aborted,
    /// Somebody ended it.
    Interrupted,
    /// Nothing answered at the address from the beginning.
    Unreachable,
    /// The first requests were answered with failures, such as status 404: no load was made.
    Refused,
    /// The service went away while it ran.
    ServiceGone,
    /// The wrapped command could not be run, or failed.
    CommandFailed,
    /// A way that this reader does not know.
    #[serde(other)]
    Other,
}

/// What makes the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// Requests over HTTP/1.1 on a schedule that answers do not move.
    Http {
        /// Where to.
        url: String,
        /// `GET` and the like.
        method: String,
        /// The names of the headers that were added; their values are not kept.
        header_names: Vec<String>,
        /// Length of the body.
        body_bytes: u64,
        /// How the intended send times are spread.
        arrivals: Arrivals,
        /// Most requests under way at once.
        max_in_flight: u64,
    },
    /// Another load tool. Throughput is what the service itself counted.
    Command {
        /// Its arguments, the program first, with `{rate}` and `{connections}` as they were typed.
        arguments: Vec<String>,
        /// The lane whose jobs are counted. `None`: requests, or where there are none the jobs of all lanes.
        lane: Option<String>,
    },
    /// Something that this reader does not know.
    #[serde(untagged)]
    Other(serde_json::Value),
}

/// How intended send times are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Uniform,
    /// At random, as independent clients come.
    Poisson,
    /// In a way that this reader does not know.
    #[serde(other)]
    Other,
}

/// What was to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The load of each planned step.
    pub loads: Vec<Load>,
    /// How long each step lasts.
    pub step_ns: u64,
    /// How long load was applied, unmeasured, before the first step.
    pub warm_up_ns: u64,
    /// How near the search for the knee was to come, as a share of it. `None`: it was not searched for between steps.
    pub precision: Option<f64>,
    /// What a step must keep within.
    pub limits: Limits,
    /// Delays put on downstreams on purpose.
    #[serde(default)]
    pub injections: Vec<Injection>,
    /// Thresholds that were to end the session, as they were typed.
    #[serde(default)]
    pub abort: Vec<String>,
}

/// How much load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Requests per second, whatever comes back.
    RatePerS(f64),
    /// Connections that each send the next request when the last was answered.
    Connections(u64),
    /// Whatever the wrapped command does.
    Unknown,
}

/// What a step must keep within to count as good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// The least share of the offered load that must be achieved.
    pub achieved_share: f64,
    /// Most 99th percentile of latency.
    pub p99_ns: Option<u64>,
    /// Most 99th percentile of event-loop lag.
    pub lag_p99_ns: Option<u64>,
    /// Most share of requests that may fail.
    pub error_share: Option<f64>,
}

/// A delay put on every call of a downstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Injection {
    /// Which downstream.
    pub downstream: String,
    /// How much longer each call takes.
    pub delay_ns: u64,
}

/// One step: so much load for so long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Its number in the order of time, from 1.
    pub number: u32,
    /// Whether it stood in the plan or was added.
    pub kind: StepKind,
    /// How much load.
    pub load: Load,
    /// When what is counted began: the run-in before it is not.
    pub began_unix_ns: u64,
    /// When it ended.
    pub ended_unix_ns: u64,
    /// What the own generator saw.
    #[serde(default)]
    pub client: Option<Client>,
    /// What became of the wrapped command.
    #[serde(default)]
    pub command: Option<CommandRun>,
    /// What the service said, a sample each, oldest first: those that lie in the step as a whole.
    #[serde(default)]
    pub service: Vec<ServiceSecond>,
    /// How many samples of the service in it were missed.
    #[serde(default)]
    pub missed_seconds: u64,
}

/// Why a step was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// It was planned.
    Planned,
    /// To come nearer to the knee, between the last good step and the first bad one.
    Search,
    /// The same load again, since the first time told nothing certain.
    Repeat,
    /// For a reason that this reader does not know.
    #[serde(other)]
    Other,
}

/// What the own generator saw in one step. Requests belong to the step in which they were to be sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Client {
    /// Requests that the schedule had.
    pub scheduled_total: u64,
    /// Those of them that were sent.
    pub sent_total: u64,
    /// Those of them that were not, since too many were under way. They are not made up for.
    pub dropped_total: u64,
    /// Those of them that got no answer before the session went on.
    pub unfinished_total: u64,
    /// Answers that came while the step lasted and were no errors, of whichever step.
    pub achieved_total: u64,
    /// Failures, by kind.
    pub errors: Errors,
    /// From the intended send time to the end of the answer; errors and what timed out count with the time they took.
    pub latency: LatencyHistogram,
    /// The same from the moment in which it was really sent: what a tool sees that waits for answers.
    pub service_time: LatencyHistogram,
    /// From the intended send time to the moment in which the bytes were handed to the system.
    pub send_error: LatencyHistogram,
    /// The mean of requests under way.
    pub mean_in_flight: f64,
    /// The share of the time in which a thread of the generator could run and got no CPU. `None`: unknown.
    pub starved_share: Option<f64>,
    /// Slices of time, oldest first.
    pub slices: Vec<Slice>,
}

/// A slice of a step, as the generator saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// When it began.
    pub at_unix_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// Answers without error that came in it.
    pub achieved: u64,
    /// Failures in it.
    pub errors: u64,
    /// Requests under way at its end.
    pub in_flight: u64,
    /// Latency, from the intended send time, of what ended in it.
    pub latency: Option<LatencyHistogram>,
}

/// A run of the wrapped command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandRun {
    /// Its arguments, the program first.
    pub arguments: Vec<String>,
    /// Its exit code. `None`: it did not exit by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The end of what it wrote to its standard output.
    pub stdout: String,
    /// The end of what it wrote to its standard error.
    pub stderr: String,
    /// Bytes of both that are not kept.
    pub cut_bytes: u64,
}

/// What one sample of the service brought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceSecond {
    /// When the sample was taken.
    pub at_unix_ns: u64,
    /// The time since the sample before it, or since the one before the missed ones.
    pub interval_ns: u64,
    /// The points of event-loop lag.
    pub lag_ns: Vec<u64>,
    /// CPUs that the process used.
    pub cpus_used: Option<f64>,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// How long the requests that ended took.
    pub requests: Option<LatencyHistogram>,
    /// Each lane.
    pub lanes: Vec<LaneSecond>,
    /// Each downstream.
    pub downstreams: Vec<DownstreamSecond>,
}

/// One lane in one sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneSecond {
    /// Its name.
    pub name: String,
    /// Its scheduler.
    pub scheduler: u32,
    /// Most jobs at once.
    pub limit: u64,
    /// Running.
    pub running: u64,
    /// Queued.
    pub pending: u64,
    /// How long all of its slots have been taken without a break.
    pub full_ns: Option<u64>,
    /// Jobs that ended in it, in whichever way.
    pub finished: u64,
    /// Those of them that ended without success.
    pub unsuccessful: u64,
    /// Jobs that were refused in it.
    pub rejected: u64,
    /// Queue wait of those that began.
    pub queue_wait: Option<LatencyHistogram>,
    /// Run time of those that ended.
    pub run: Option<LatencyHistogram>,
}

/// One downstream in one sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DownstreamSecond {
    /// Its name.
    pub name: String,
    /// Calls under way.
    pub in_flight: u64,
    /// Callers that wait for a client or a connection.
    pub waiting: u64,
    /// Most clients or connections, where the service shows its pool.
    pub pool_size: Option<u64>,
    /// Calls begun in it.
    pub calls: u64,
    /// Calls that failed in it.
    pub errors: u64,
    /// Latency of those that ended.
    pub latency: Option<LatencyHistogram>,
    /// The delay that is added on purpose.
    pub injected_delay_ns: Option<u64>,
}

/// A finding while a session ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeenVerdict {
    /// When it was seen first.
    pub first_unix_ns: u64,
    /// When it was seen last.
    pub last_unix_ns: u64,
    /// The step in which it was seen first.
    pub step: u32,
    /// The finding, as it was when it was surest.
    pub verdict: Verdict,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_writer_adds_is_read() {
        let driver = r#"{"pigeons":{"count":3}}"#;
        let driver: Driver = serde_json::from_str(driver).expect("reads");
        assert!(matches!(driver, Driver::Other(_)));
        let end: End = serde_json::from_str(r#"{"kind":"melted","why":null}"#).expect("reads");
        assert_eq!(end.kind, EndKind::Other);
    }
}
