//! What a service measured in the last second.
//!
//! Counters (`*_total`) count from the start of the process, so that a lost frame loses resolution, not counts.
//! Histograms hold what was recorded since the last frame that was handed to the socket: a frame that could not be
//! sent leaves its recordings to the next one.

mod downstream;
mod kernel;
mod lane;
mod waiting;

use serde::{Deserialize, Serialize};

pub use self::{
    downstream::{CallInFlight, CallerSample, DownstreamSample, PoolSample},
    kernel::{
        CgroupCpuSample, KernelWait, MAX_THREAD_GROUPS, ProcessSample, ThreadGroupKind,
        ThreadGroupSample, ThreadSample,
    },
    lane::{
        JobCounters, LaneSample, LimitMove, LimitReason, OverloadSample, QueueBand, WaitingFor,
    },
    waiting::{
        MAX_OLDEST_JOBS, MAX_WAITED_FOR, MAX_WAITING_JOBS, WaitedFor, WaitingJob, WaitingReason,
    },
};
use crate::{
    hello::{ClockAnchor, RuntimeInfo},
    histogram::LatencyHistogram,
    id::RuntimeId,
    incident::RunningJob,
};

/// One frame a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Counts up by one from 0 with each sample taken, sent or not.
    pub seq: u64,
    /// When it was taken.
    pub at_mono_ns: u64,
    /// The time it covers: since the last sample that was handed to the socket.
    pub interval_ns: u64,
    /// Sent when the wall clock was stepped against the anchor of `hello`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockAnchor>,
    /// The lag of each runtime at its own 100 ms cadence, oldest first.
    pub lag: Vec<LagPoint>,
    /// Each runtime that is alive.
    pub runtimes: Vec<RuntimeSample>,
    /// The process as a whole.
    pub process: ProcessSample,
    /// The CPU time of its threads by name, while those that are no workers use much of it; at most
    /// [`MAX_THREAD_GROUPS`]. Empty: not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadGroupSample>,
    /// Each lane of each scheduler.
    pub lanes: Vec<LaneSample>,
    /// The jobs that have run longest, of each lane at most [`MAX_OLDEST_JOBS`] and none younger than a second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oldest_jobs: Vec<RunningJob>,
    /// The jobs that have waited longest for other jobs or a person, of each scheduler at most [`MAX_WAITING_JOBS`], and
    /// the jobs that they wait for as far as those wait too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_jobs: Vec<WaitingJob>,
    /// Each job type, each named task, and each route.
    pub types: Vec<TypeSample>,
    /// What each route answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteSample>,
    /// Each downstream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub downstreams: Vec<DownstreamSample>,
    /// What the probe could not keep or send since the process started.
    pub dropped: Dropped,
    /// Incidents that the probe did not take down since the process started: because of cooldown, rate, the quiet
    /// seconds of a start, or a debugger.
    #[serde(default)]
    pub incidents_suppressed_total: u64,
}

/// The three parts of event-loop lag at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LagPoint {
    /// Of which runtime.
    pub runtime: RuntimeId,
    /// When.
    pub at_mono_ns: u64,
    /// From inject to poll of a no-op task; while it has not been polled, its age. Blind to one blocked worker of
    /// several.
    pub schedule_ns: Option<u64>,
    /// Overshoot of a sleep inside the runtime, less the timer's granularity.
    pub timer_ns: Option<u64>,
    /// Age of the longest stall going on.
    pub stall_ns: Option<u64>,
}

impl LagPoint {
    /// The one figure where one is needed: the largest part that is known.
    #[must_use]
    pub fn lag_ns(&self) -> Option<u64> {
        self.schedule_ns.max(self.timer_ns).max(self.stall_ns)
    }
}

/// One runtime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuntimeSample {
    /// What does not change.
    pub info: RuntimeInfo,
    /// Tasks that have been spawned and have not ended.
    pub alive_tasks: u64,
    /// Tasks waiting in the global (injection) queue.
    pub global_queue_depth: u64,
    /// The pool behind `spawn_blocking`.
    pub blocking: BlockingPoolSample,
    /// Each worker, by index.
    pub workers: Vec<WorkerSample>,
}

/// The pool behind `spawn_blocking`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockingPoolSample {
    /// Threads alive. Known only under `tokio_unstable`.
    pub threads: Option<u64>,
    /// Threads alive and idle. Known only under `tokio_unstable`.
    pub idle_threads: Option<u64>,
    /// Closures waiting for a thread. Known only under `tokio_unstable`.
    pub queue_depth: Option<u64>,
    /// How long a no-op waited for a thread; while it waits, its age.
    pub lag_ns: Option<u64>,
    /// Closures running now that were started through `ax_probe::spawn_blocking` or a blocking lane.
    pub watched_running: u64,
}

/// One worker thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerSample {
    /// Index within its runtime.
    pub index: u32,
    /// Kernel thread id, once the probe has met the thread.
    pub tid: Option<u32>,
    /// Time spent outside parking, as tokio counts it (published at the latest every 61 polls).
    pub busy_ns_total: u64,
    /// Times parked.
    pub parks_total: u64,
    /// What it is doing.
    pub state: WorkerState,
    /// The wrapped poll that it is in.
    pub poll: Option<CurrentPoll>,
    /// What the kernel says of the thread.
    pub thread: Option<ThreadSample>,
}

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// Waiting for work.
    Parked,
    /// Polling tasks, and its counters move.
    Busy,
    /// Has not moved for the stall threshold.
    Stalled,
    /// A state that this reader does not know.
    #[serde(other)]
    Other,
}

/// A wrapped poll that has not returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurrentPoll {
    /// Whose.
    pub task: TaskRef,
    /// For how long.
    pub age_ns: u64,
}

/// A job or wrapped task, named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRef {
    /// Job type, or the name given to `spawn`.
    pub name: String,
    /// Whether it is a job, a task or a blocking closure.
    pub kind: TaskKind,
    /// The job, where it is one.
    pub job: Option<crate::id::JobId>,
    /// The lane, where it is a job.
    pub lane: Option<String>,
    /// Where it was started: `file:line`.
    pub place: Option<String>,
    /// The trace it belongs to.
    pub trace: Option<crate::id::TraceId>,
}

/// What a [`TypeSample`] or [`TaskRef`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Submitted to a lane.
    Job,
    /// Started by `ax_probe::spawn` or watched by `Probe::watch`.
    Task,
    /// Started by `ax_probe::spawn_blocking`.
    Blocking,
    /// A request that came in through the tower layer; its name is its route.
    Request,
    /// A kind that this reader does not know.
    #[serde(other)]
    Other,
}

/// One job type, or one named task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TypeSample {
    /// Its name; `other` gathers what came after the 128th.
    pub name: String,
    /// What it is.
    pub kind: TaskKind,
    /// The lane, for a job.
    pub lane: Option<String>,
    /// Where it was first started: `file:line`.
    pub place: Option<String>,
    /// Alive and begun.
    pub running: u64,
    /// Queued; for a task, always 0.
    pub pending: u64,
    /// What happened to them; for a task `started` and one of the ends.
    pub counters: JobCounters,
    /// Ready to started. Jobs only.
    pub queue_wait: Option<LatencyHistogram>,
    /// Started to finished.
    pub run: Option<LatencyHistogram>,
    /// One poll.
    pub poll: Option<LatencyHistogram>,
    /// Woken to polled, of one poll in 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_delay: Option<LatencyHistogram>,
}

/// What one route answered, by class of HTTP status, since the process started.
///
/// How many requests came and how long they took stands in the [`TypeSample`] of kind [`TaskKind::Request`] and the same
/// name: `started_total`, `run`; there a status of 500 and above counts as failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteSample {
    /// Method and route, such as `GET /orders/{id}`; `unmatched` gathers what no route took, `other` what came after
    /// the 64th.
    pub name: String,
    /// Status below 300.
    pub successes_total: u64,
    /// Status 300 to 399.
    pub redirections_total: u64,
    /// Status 400 to 499.
    pub client_errors_total: u64,
    /// Status 429, included in the above: the service was asked for more than it takes.
    pub too_many_requests_total: u64,
    /// Status 500 and above.
    pub server_errors_total: u64,
}

/// What was lost in the service since the process started. Every count that is not zero is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dropped {
    /// Frames that the socket did not take in time.
    pub frames_total: u64,
    /// Events that found their buffer full while an agent was connected. What aged out before one came is not counted.
    pub events_total: u64,
    /// Lag points that found their buffer full while an agent was connected.
    pub lag_points_total: u64,
    /// Job types and named tasks beyond the 128th, counted in `other`.
    pub types_folded_total: u64,
    /// Threads beyond the slots that the probe keeps: their polls have no name.
    pub threads_unseen_total: u64,
    /// Baggage entries that were malformed or beyond the caps.
    #[serde(default)]
    pub baggage_entries_total: u64,
    /// Snapshots that the probe was to write, because no agent did, and could not. The service's log says why.
    #[serde(default)]
    pub snapshots_failed_total: u64,
}

impl Dropped {
    /// Whether anything at all was lost.
    #[must_use]
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}
