//! What a viewer is shown: figures that the agent has already worked out of the samples.
//!
//! Rates are per second and quantiles are over the last [`ServiceView::window_ns`]; shares are 0 to 1 of the thing
//! named (one CPU, one worker).

use serde::{Deserialize, Serialize};

use crate::{
    alert::Alert,
    event::{ObserverGap, Stall},
    hello::{Hello, RuntimeInfo},
    id::InstanceId,
    incident::SnapshotSummary,
    mark::Mark,
    sample::{
        BlockingPoolSample, CallInFlight, CallerSample, CurrentPoll, Dropped, JobCounters,
        LimitReason, OverloadSample, PoolSample, QueueBand, RouteSample, TaskKind, ThreadSample,
        WaitingFor, WorkerState,
    },
    second::NewestSecond,
    verdict::Diagnosis,
};

/// One line about a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceSummary {
    /// Which start of which service.
    pub instance: InstanceId,
    /// Its name.
    pub service: String,
    /// Its process id, in its own pid namespace.
    pub pid: u32,
    /// The user it runs as, as the kernel told the agent.
    pub uid: u32,
    /// Whether it speaks.
    pub state: ServiceState,
    /// When the process started.
    pub process_start_unix_ns: u64,
    /// When its last frame came.
    pub last_seen_unix_ns: u64,
}

/// Whether a service speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Samples arrive.
    Live,
    /// Connected, but no sample has come for 3 s.
    Silent,
    /// It said goodbye.
    Ended,
    /// The connection broke without a goodbye.
    Lost,
    /// A state that this reader does not know.
    #[serde(other)]
    Other,
}

/// Everything that a screen shows of one service, once a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceView {
    /// Who, and whether it speaks.
    pub summary: ServiceSummary,
    /// What it said of itself.
    pub hello: Hello,
    /// When the agent made this view.
    pub at_unix_ns: u64,
    /// The span that the figures below cover; less than a minute at first.
    pub window_ns: u64,
    /// Event-loop lag.
    pub lag: LagView,
    /// The process.
    pub process: ProcessView,
    /// Each runtime.
    pub runtimes: Vec<RuntimeView>,
    /// Each lane.
    pub lanes: Vec<LaneView>,
    /// Each job type and named task.
    pub types: Vec<TypeView>,
    /// What each route answered, totals since the process started. How many requests run and how long they take stands in
    /// the [`TypeView`] of kind [`TaskKind::Request`] and the same name.
    #[serde(default)]
    pub routes: Vec<RouteSample>,
    /// Each downstream.
    #[serde(default)]
    pub downstreams: Vec<DownstreamView>,
    /// Stalls going on, then the latest ended ones, newest first.
    pub stalls: Vec<StallView>,
    /// Gaps in the watchdog's schedule, newest first.
    pub observer_gaps: Vec<ObserverGap>,
    /// Alerts: pending and firing ones, worst first, then resolved ones, newest first. Bounded.
    #[serde(default)]
    pub alerts: Vec<Alert>,
    /// Why it is slow, or that it is not.
    #[serde(default)]
    pub diagnosis: Diagnosis,
    /// What changed, oldest first. Bounded.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// Snapshots of this service, newest first. Bounded.
    #[serde(default)]
    pub snapshots: Vec<SnapshotSummary>,
    /// What became of incidents that have no snapshot.
    #[serde(default)]
    pub snapshots_suppressed: Suppressed,
    /// What was lost in the service.
    pub dropped: Dropped,
    /// What the agent lost or refused of this service.
    pub agent_dropped: AgentDropped,
    /// The newest second of the charts.
    pub point: Option<Point>,
    /// The newest second in a form that adds up. `None` until the first sample has come.
    #[serde(default)]
    pub newest: Option<NewestSecond>,
}

/// Incidents that have no snapshot, since the service's first instance that the agent remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suppressed {
    /// Not taken down by the service: its cooldown or rate.
    pub by_service_total: u64,
    /// Not written by the agent: its cooldown, rate, count or bytes.
    pub by_agent_total: u64,
    /// Could not be written, such as to a full disk.
    pub failed_total: u64,
    /// Why, for a person: the newest reason.
    pub last_reason: Option<String>,
}

/// Event-loop lag over the window. `None`: nothing measured yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LagView {
    /// The newest figure.
    pub now_ns: Option<u64>,
    /// Median of the 100 ms points.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the 100 ms points.
    pub p99_ns: Option<u64>,
    /// Largest.
    pub max_ns: Option<u64>,
    /// Largest of the schedule lag alone.
    pub schedule_max_ns: Option<u64>,
    /// Largest of the timer lag alone.
    pub timer_max_ns: Option<u64>,
    /// Longest stall, gone or going on.
    pub stall_max_ns: Option<u64>,
    /// How many points.
    pub points: u64,
}

/// The process, over the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessView {
    /// CPU used, in CPUs (1.0 is one CPU all the time).
    pub cpus_used: Option<f64>,
    /// The part of it that is the probe's own.
    pub probe_cpus_used: Option<f64>,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// Their soft limit.
    pub open_files_limit: Option<u64>,
}

/// One runtime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuntimeView {
    /// What does not change.
    pub info: RuntimeInfo,
    /// Tasks alive.
    pub alive_tasks: u64,
    /// Tasks in the global queue.
    pub global_queue_depth: u64,
    /// The blocking pool.
    pub blocking: BlockingPoolSample,
    /// Each worker.
    pub workers: Vec<WorkerView>,
}

/// One worker, over the last second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerView {
    /// Index within its runtime.
    pub index: u32,
    /// Kernel thread id.
    pub tid: Option<u32>,
    /// What it is doing.
    pub state: WorkerState,
    /// Share of the time outside parking.
    pub busy_share: Option<f64>,
    /// Share of the time on a CPU.
    pub on_cpu_share: Option<f64>,
    /// Share of the time runnable and waiting for a CPU.
    pub run_queue_share: Option<f64>,
    /// The wrapped poll it is in.
    pub poll: Option<CurrentPoll>,
    /// What the kernel says.
    pub thread: Option<ThreadSample>,
}

/// Quantiles of a latency over the window. All `None` when nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// How many were recorded.
    pub count: u64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Exact maximum.
    pub max_ns: Option<u64>,
}

/// Rates over the window. `None` until two samples have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rates {
    /// Accepted.
    pub submitted_per_s: Option<f64>,
    /// Ended, in whichever way.
    pub finished_per_s: Option<f64>,
    /// Ended without success.
    pub unsuccessful_per_s: Option<f64>,
    /// Refused.
    pub rejected_per_s: Option<f64>,
}

/// One lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneView {
    /// Its name.
    pub name: String,
    /// Its scheduler.
    pub scheduler: u32,
    /// Most jobs at once.
    pub limit: u64,
    /// Most jobs queued.
    pub capacity: u64,
    /// Running now.
    pub running: u64,
    /// Queued now.
    pub pending: u64,
    /// Waiting for time or dependencies.
    pub waiting: u64,
    /// Age of the job at the head of the highest priority.
    pub head_age_ns: Option<u64>,
    /// How long all of its slots have been taken without a break.
    pub full_ns: Option<u64>,
    /// Totals since the process started.
    pub counters: JobCounters,
    /// Rates.
    pub rates: Rates,
    /// Rates over the last two seconds alone: they fall as soon as a lane comes to a stop.
    #[serde(default)]
    pub recent: Rates,
    /// Queue wait of its job types together.
    pub queue_wait: Quantiles,
    /// Run time of its job types together.
    pub run: Quantiles,
    /// Attempts that failed and were followed by a wait for another, since the process started.
    #[serde(default)]
    pub retried_total: u64,
    /// Retries that a retry budget put off, since the process started.
    #[serde(default)]
    pub deferred_total: u64,
    /// Attempts that ended because a promised heartbeat did not come, since the process started.
    #[serde(default)]
    pub zombies_total: u64,
    /// Whether it was told to begin no job for now.
    #[serde(default)]
    pub paused: bool,
    /// What it did about having too much to do.
    #[serde(default)]
    pub overload: OverloadSample,
    /// The last moves of its limit, oldest first.
    #[serde(default)]
    pub limit_moves: Vec<LimitMoveView>,
    /// Attempts that were stopped for a job of a higher priority and queued again, since the process started.
    #[serde(default)]
    pub preempted_total: u64,
    /// The queued jobs by their priority, highest band first, those of none left out. `None` where the service does not
    /// tell.
    #[serde(default)]
    pub queue: Option<Vec<QueueBand>>,
    /// What its waiting jobs wait for. `None` where the service does not tell.
    #[serde(default)]
    pub waiting_for: Option<WaitingFor>,
    /// Of the running jobs, those that do not run for the first time. `None` where the service does not tell.
    #[serde(default)]
    pub retrying: Option<u64>,
}

/// A move of a lane's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitMoveView {
    /// When, by the wall clock.
    pub at_unix_ns: u64,
    /// The limit before.
    pub from: u64,
    /// The limit since.
    pub to: u64,
    /// Why.
    pub reason: LimitReason,
}

/// One downstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DownstreamView {
    /// Its name.
    pub name: String,
    /// Calls under way.
    pub in_flight: u64,
    /// Callers that wait for a client or a connection.
    pub waiting: u64,
    /// Calls begun since the process started.
    pub calls_total: u64,
    /// Calls that ended with an error, since the process started.
    pub errors_total: u64,
    /// Calls that were dropped before their end, since the process started.
    pub cancelled_total: u64,
    /// Calls begun, over the last second.
    pub calls_per_s: Option<f64>,
    /// Calls that ended with an error, over the last second.
    pub errors_per_s: Option<f64>,
    /// From the beginning of a call to its end, over the window.
    pub latency: Quantiles,
    /// How long callers waited for a client or a connection, over the window.
    pub wait: Quantiles,
    /// The pool of clients, where the service shows it.
    pub pool: Option<PoolSample>,
    /// Who calls it.
    pub callers: Vec<CallerSample>,
    /// The calls under way that began first.
    pub oldest: Vec<CallInFlight>,
    /// The delay that is being added to each call, on purpose.
    pub injected_delay_ns: Option<u64>,
}

/// One job type or named task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TypeView {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TaskKind,
    /// Its lane.
    pub lane: Option<String>,
    /// Where it was first started.
    pub place: Option<String>,
    /// Running now.
    pub running: u64,
    /// Queued now.
    pub pending: u64,
    /// Totals since the process started.
    pub counters: JobCounters,
    /// Rates.
    pub rates: Rates,
    /// Ready to started.
    pub queue_wait: Quantiles,
    /// Started to finished.
    pub run: Quantiles,
    /// One poll.
    pub poll: Quantiles,
    /// How the 99th percentile of run time went over the last 15 minutes: the worst second of each half minute, oldest
    /// first; the newest half minute is not yet over.
    pub run_p99_trend_ns: Vec<Option<u64>>,
}

/// A stall, gone or going on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallView {
    /// The stall as the service told it.
    pub stall: Stall,
    /// Whether it goes on.
    pub ongoing: bool,
    /// When it began, by the wall clock.
    pub began_unix_ns: u64,
}

/// One second of the charts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// When the sample was taken, by the service's clock.
    pub at_unix_ns: u64,
    /// Median lag of that second.
    pub lag_p50_ns: Option<u64>,
    /// Largest lag of that second.
    pub lag_max_ns: Option<u64>,
    /// CPUs used.
    pub cpus_used: Option<f64>,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Busy share of each worker, runtime by runtime.
    pub busy_shares: Vec<Option<f64>>,
    /// Jobs running in all lanes.
    pub running: u64,
    /// Jobs queued in all lanes.
    pub pending: u64,
    /// Jobs finished per second in all lanes.
    pub finished_per_s: Option<f64>,
}

/// The charts of one service from before the viewer came, or from before the agent did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Backfill {
    /// Of which service.
    pub instance: InstanceId,
    /// Oldest first, a point a second, at most 15 minutes.
    pub points: Vec<Point>,
}

/// What the agent lost or refused, since it started. Every count that is not zero is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentDropped {
    /// Lines that were not frames.
    pub bad_frames_total: u64,
    /// Lines longer than the cap.
    pub oversized_frames_total: u64,
    /// Connections refused: version, user, or too many.
    pub refused_connections_total: u64,
    /// Job types, lanes, workers or lag points beyond what is kept of one service.
    pub folded_total: u64,
    /// Frames that a slow viewer did not get.
    pub viewer_frames_total: u64,
}

/// All services of the agent that the viewer may see.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Services {
    /// By name, then by start, newest first.
    pub services: Vec<ServiceSummary>,
    /// What the agent lost over all of its connections.
    pub agent_dropped: AgentDropped,
    /// Why the agent's configuration file is not in force, a line each, with file, line and column. `None`: it is, or there
    /// is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_problem: Option<String>,
}
