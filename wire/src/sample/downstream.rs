//! What a service calls and waits for.

use serde::{Deserialize, Serialize};

use super::TaskKind;
use crate::{
    histogram::LatencyHistogram,
    id::{JobId, TraceId},
};

/// Something that the service calls and waits for. Counters are since the process started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DownstreamSample {
    /// Its name; `other` gathers what came after the 64th.
    pub name: String,
    /// Calls under way.
    pub in_flight: u64,
    /// Callers that wait for a client or a connection.
    pub waiting: u64,
    /// Calls begun.
    pub calls_total: u64,
    /// Calls that ended with an error.
    pub errors_total: u64,
    /// Calls that were dropped before their end.
    pub cancelled_total: u64,
    /// From the beginning of a call to its end, whichever it was.
    pub latency: Option<LatencyHistogram>,
    /// How long callers waited for a client or a connection.
    pub wait: Option<LatencyHistogram>,
    /// The pool of clients, where the service shows it.
    pub pool: Option<PoolSample>,
    /// Who calls it.
    pub callers: Vec<CallerSample>,
    /// The calls under way that began first, at most 16.
    pub oldest: Vec<CallInFlight>,
    /// The delay that is being added to each call, on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected_delay_ns: Option<u64>,
}

/// A pool of clients at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolSample {
    /// Clients in use.
    pub in_use: u64,
    /// Clients that are ready and unused.
    pub idle: u64,
    /// Callers that wait for one; unknown where the pool does not say.
    pub waiting: Option<u64>,
}

/// One kind of caller of a downstream. Counters are since the process started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallerSample {
    /// Job type, task name or route.
    pub name: String,
    /// What it is.
    pub kind: TaskKind,
    /// The lane, for a job.
    pub lane: Option<String>,
    /// Its calls under way.
    pub in_flight: u64,
    /// Its calls begun.
    pub calls_total: u64,
    /// Its calls that ended with an error.
    pub errors_total: u64,
    /// Time that its ended calls took together.
    pub time_ns_total: u64,
}

/// A call to a downstream that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallInFlight {
    /// For how long.
    pub age_ns: u64,
    /// Job type, task name or route of the caller, where it has one.
    pub caller: Option<String>,
    /// The job that called, where it is one.
    pub job: Option<JobId>,
    /// The trace that the call belongs to.
    pub trace: Option<TraceId>,
}
