//! The lanes of a service's schedulers.

use serde::{Deserialize, Serialize};

/// One lane of a scheduler. All counts are exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneSample {
    /// Its name. Two schedulers of one process may have lanes of one name: `scheduler` tells them apart.
    pub name: String,
    /// The scheduler it belongs to, numbered from 1 in this process.
    pub scheduler: u32,
    /// Most jobs that may run at once.
    pub limit: u64,
    /// Most jobs that may be queued.
    pub capacity: u64,
    /// Jobs running now.
    pub running: u64,
    /// Jobs queued and ready.
    pub pending: u64,
    /// Jobs waiting for time or dependencies.
    pub waiting: u64,
    /// Age of the job at the head of the highest priority, where the lane could be looked at.
    pub head_age_ns: Option<u64>,
    /// What happened to jobs since the process started.
    pub counters: JobCounters,
    /// How long the attempts that have ended ran, together.
    #[serde(default)]
    pub run_ns_total: u64,
    /// Attempts that failed and were followed by a wait for another.
    #[serde(default)]
    pub retried_total: u64,
    /// Retries that a retry budget put off.
    #[serde(default)]
    pub deferred_total: u64,
    /// Attempts that ended because a promised heartbeat did not come.
    #[serde(default)]
    pub zombies_total: u64,
    /// Attempts that were stopped for a job of a higher priority and queued again.
    #[serde(default)]
    pub preempted_total: u64,
    /// Whether it was told to begin no job for now.
    #[serde(default)]
    pub paused: bool,
    /// What it did about having too much to do.
    #[serde(default)]
    pub overload: OverloadSample,
    /// The last moves of its limit, oldest first; the same one is in several samples, told by its `seq`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limit_moves: Vec<LimitMove>,
    /// The queued jobs by their priority, highest band first, those of none left out. `None` where it is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<QueueBand>>,
    /// What its waiting jobs wait for. `None` where it is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
    /// Of the running jobs, those that do not run for the first time. `None` where it is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrying: Option<u64>,
}

/// The queued jobs of a band of priorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueBand {
    /// The lowest priority in it.
    pub lowest: u8,
    /// The highest priority in it.
    pub highest: u8,
    /// Jobs queued.
    pub pending: u64,
    /// Age of the oldest, where the lane could be looked at.
    pub oldest_ns: Option<u64>,
}

/// Waiting jobs by what they wait for. Taken one after the other: for an instant the sum may differ from the lane's
/// `waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingFor {
    /// For their time.
    pub time: u64,
    /// For other jobs.
    pub dependencies: u64,
    /// For the backoff after a failed attempt.
    pub retry: u64,
    /// Their backoff is over; for a retry budget.
    pub budget: u64,
    /// All their attempts have failed; for a person.
    pub person: u64,
}

/// What a lane did about having too much to do, since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverloadSample {
    /// What the queued jobs take, where the lane could be looked at.
    pub queued_bytes: Option<u64>,
    /// The most that they may take; `None` for no bound in bytes.
    pub capacity_bytes: Option<u64>,
    /// Submitters that wait for room, where the lane could be looked at.
    pub submitters_waiting: Option<u64>,
    /// Queued jobs that were ended to make room for a higher priority; included in `cancelled_total`.
    pub shed_total: u64,
    /// Jobs that were handed to the spill, being accepted.
    pub spilled_total: u64,
    /// Jobs that are in the hands of the spill now.
    pub spilled: u64,
    /// Times that the queue passed its high-water mark.
    pub high_water_total: u64,
}

/// A move of a lane's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitMove {
    /// Counts up from 1 in its lane.
    pub seq: u64,
    /// When.
    pub at_mono_ns: u64,
    /// The limit before.
    pub from: u64,
    /// The limit since.
    pub to: u64,
    /// Why.
    pub reason: LimitReason,
}

/// Why a limit moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitReason {
    /// It was set.
    Resized,
    /// Adaptive: jobs were fast, and more were held back.
    Fast,
    /// Adaptive: jobs were slow.
    Slow,
    /// It was raised for a while.
    Boost,
    /// That while is over.
    BoostEnded,
    /// A reason that this reader does not know.
    #[serde(other)]
    Other,
}

/// What happened to jobs since the process started. Each accepted job ends in exactly one of `succeeded`, `failed`,
/// `panicked`, `timed_out`, `cancelled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobCounters {
    /// Accepted.
    pub submitted_total: u64,
    /// Refused because the queue was full.
    pub rejected_total: u64,
    /// Begun (each attempt).
    pub started_total: u64,
    /// Ended well.
    pub succeeded_total: u64,
    /// Ended with an error of their own.
    pub failed_total: u64,
    /// Ended by a panic.
    pub panicked_total: u64,
    /// Ended by their timeout.
    pub timed_out_total: u64,
    /// Ended by cancellation, before or while running.
    pub cancelled_total: u64,
}

impl JobCounters {
    /// Jobs that have ended, in whichever way.
    #[must_use]
    pub fn finished_total(&self) -> u64 {
        self.succeeded_total + self.unsuccessful_total()
    }

    /// Jobs that ended without success.
    #[must_use]
    pub fn unsuccessful_total(&self) -> u64 {
        self.failed_total + self.panicked_total + self.timed_out_total + self.cancelled_total
    }
}
