//! Incidents and the snapshot file.
//!
//! An [`Incident`] is what only the service can know, taken by the probe at the instant when something went wrong. A
//! [`Snapshot`] is the file that keeps it: the incident and what its writer knows besides. The agent writes it where
//! one answers within 200 ms, else the probe does; never both.
//!
//! Never in either: payloads, environment, command lines.

use serde::{Deserialize, Serialize};

use crate::{
    alert::Alert,
    event::{ObserverGap, Stall},
    hello::Hello,
    id::{JobId, RuntimeId},
    recorder::RecorderDump,
    sample::{
        Dropped, LagPoint, LaneSample, ProcessSample, RuntimeSample, TaskRef, TypeSample,
        WaitingJob,
    },
    stack::ThreadStack,
    view::{AgentDropped, Point, ServiceView},
};

/// Version of the snapshot file. Bumped when an old reader would misread a file; a reader refuses newer ones and reads
/// all older ones.
pub const SNAPSHOT_VERSION: u32 = 1;

/// One incident, and the snapshot of it: sorts by time (UUID v7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct IncidentId(pub uuid::Uuid);

impl IncidentId {
    /// A new id for an incident of this moment.
    #[must_use]
    pub fn new_now() -> Self {
        Self(uuid::Uuid::now_v7())
    }
}

impl std::fmt::Display for IncidentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Why evidence was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// A worker has not moved for the snapshot threshold.
    Stall {
        /// [`Stall::id`].
        stall: u64,
        /// Its length when the evidence was taken.
        length_ns: u64,
    },
    /// Schedule or timer lag reached the snapshot threshold.
    Lag {
        /// Of which runtime.
        runtime: RuntimeId,
        /// The lag.
        lag_ns: u64,
    },
    /// A person asked for it.
    Capture,
    /// The service's own code asked for it.
    Code {
        /// The label that it gave.
        label: String,
    },
    /// A rule asked for it when its alert began.
    Alert {
        /// The rule's name.
        rule: String,
    },
    /// The service has gone without a goodbye; this is what the agent had last seen.
    LastSeen,
    /// A reason that this reader does not know.
    #[serde(other)]
    Other,
}

/// What the probe takes down at the instant of an incident.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Incident {
    /// Its id.
    pub id: IncidentId,
    /// Why.
    pub reason: Reason,
    /// When, on the service's monotonic clock.
    pub at_mono_ns: u64,
    /// When, by the wall clock.
    pub at_unix_ns: u64,
    /// The stalls going on.
    pub stalls: Vec<Stall>,
    /// The stacks of these stalls that were taken by then, at most two for each. A later one comes as an event.
    #[serde(default)]
    pub stacks: Vec<ThreadStack>,
    /// Each runtime with its workers: what they are polling, what the kernel says of them.
    pub runtimes: Vec<RuntimeSample>,
    /// Process figures.
    pub process: ProcessSample,
    /// Each lane's counts.
    pub lanes: Vec<LaneSample>,
    /// The jobs running, longest first, at most [`MAX_RUNNING_JOBS`].
    pub running: Vec<RunningJob>,
    /// How many ran in all; more than `running` holds where that was cut.
    pub running_total: u64,
    /// What is queued, lane by lane.
    pub queues: Vec<QueueFacts>,
    /// The jobs that wait for other jobs or a person, as in [`Sample::waiting_jobs`](crate::sample::Sample::waiting_jobs).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingJob>,
    /// Lag points of the last seconds, as the probe still had them.
    pub lag: Vec<LagPoint>,
    /// What the flight recorder held, at most [`MAX_RECORDED_EVENTS`](crate::recorder::MAX_RECORDED_EVENTS). `None` from
    /// a service without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<RecorderDump>,
    /// Incidents since the process started that were not taken down, because of cooldown or rate.
    pub suppressed_total: u64,
    /// What was lost in the service.
    pub dropped: Dropped,
    /// What could not be looked at, and why, for a person.
    pub unknown: Vec<String>,
}

/// Most running jobs that an incident lists, about 300 bytes each.
pub const MAX_RUNNING_JOBS: usize = 1_000;

/// Most jobs of a lane's queue that an incident lists, at each end.
pub const MAX_QUEUED_JOBS: usize = 20;

/// A job that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningJob {
    /// Which, and where it was started.
    pub task: TaskRef,
    /// Since it began.
    pub elapsed_ns: u64,
    /// How long it waited in the queue before that.
    pub queue_wait_ns: u64,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Its priority.
    pub priority: u8,
    /// The poll it is in has lasted so long; `None` when it is not being polled.
    pub poll_age_ns: Option<u64>,
    /// Since its last poll ended. `None`: its first one has not, or that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpolled_ns: Option<u64>,
    /// What it waits for. `None`: nothing that it has given a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitsFor {
    /// The label that its code gave, or by itself `downstream NAME`, `pool NAME` or `lane NAME`.
    pub label: String,
    /// For how long.
    pub since_ns: u64,
}

/// What is queued in one lane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueFacts {
    /// The lane.
    pub lane: String,
    /// Its scheduler.
    pub scheduler: u32,
    /// Queued jobs.
    pub pending: u64,
    /// By job type, most first. `None` where the lane's lock was held.
    pub by_type: Option<Vec<CountOf>>,
    /// By priority, highest first. `None` where the lane's lock was held.
    pub by_priority: Option<Vec<CountAt>>,
    /// The jobs that have waited longest, at most [`MAX_QUEUED_JOBS`].
    pub oldest: Vec<QueuedJob>,
    /// The jobs that are next, at most [`MAX_QUEUED_JOBS`].
    pub next: Vec<QueuedJob>,
}

/// How many of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountOf {
    /// The name.
    pub name: String,
    /// How many.
    pub count: u64,
}

/// How many at a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountAt {
    /// 1 to 100.
    pub priority: u8,
    /// How many.
    pub count: u64,
    /// Age of the oldest of them.
    pub oldest_ns: Option<u64>,
}

/// A job that waits its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuedJob {
    /// Which.
    pub job: JobId,
    /// Its type.
    pub name: String,
    /// Its priority.
    pub priority: u8,
    /// Since it was ready.
    pub age_ns: u64,
}

/// The file: one JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`] of the writer.
    pub version: u32,
    /// When it was written.
    pub written_unix_ns: u64,
    /// By whom.
    pub writer: Writer,
    /// Who the service is.
    pub hello: Hello,
    /// What the service knew at that instant. `None` in a "last seen" snapshot, whose service could not be asked.
    pub incident: Option<Incident>,
    /// Why it was written.
    pub reason: Reason,
    /// Alerts at that time: firing ones, then those of the last minutes.
    pub alerts: Vec<Alert>,
    /// The figures of the last minute, as a screen showed them. `None` when the probe is the writer.
    pub view: Option<ServiceView>,
    /// Job types and named tasks with their histograms over the last minute.
    pub types: Vec<TypeSample>,
    /// Up to five minutes before, a point a second, oldest first.
    pub history: Vec<Point>,
    /// Gaps in the watchdog's schedule, newest first.
    pub observer_gaps: Vec<ObserverGap>,
    /// What the agent lost or refused of this service.
    pub agent_dropped: AgentDropped,
    /// What could not be had, and why, for a person.
    pub unknown: Vec<String>,
}

/// Who wrote a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// The agent, which adds history and alerts.
    Agent,
    /// The probe inside the service, because no agent answered in time.
    Probe,
    /// A writer that this reader does not know.
    #[serde(other)]
    Other,
}

/// One line about a snapshot file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotSummary {
    /// Its incident.
    pub id: IncidentId,
    /// Where it is.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Of which service.
    pub service: String,
    /// When.
    pub at_unix_ns: u64,
    /// Why.
    pub reason: Reason,
    /// The job type or task that held the worker, where one was named.
    pub culprit: Option<String>,
}
