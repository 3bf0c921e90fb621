//! The newest second of a service alone, in a form that adds up: for whoever puts together spans of its own, such as the
//! steps of a load session. The quantiles of a view are over its window, and quantiles cannot be added.

use serde::{Deserialize, Serialize};

use crate::histogram::LatencyHistogram;

/// What the newest sample brought. Totals stand in the view itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewestSecond {
    /// When the sample was taken, by the service's clock.
    pub at_unix_ns: u64,
    /// The time since the sample before it. `None` for the first.
    pub interval_ns: Option<u64>,
    /// The points of event-loop lag, oldest first: some ten a second and runtime.
    pub lag_ns: Vec<u64>,
    /// How long the requests that ended took, all routes together. `None`: none ended.
    pub requests: Option<LatencyHistogram>,
    /// Each lane of the view, in its order.
    pub lanes: Vec<NewestOfLane>,
    /// How long the calls that ended took, for each downstream of the view, in its order. `None`: none ended.
    pub downstreams: Vec<Option<LatencyHistogram>>,
}

/// The jobs of one lane that began or ended in a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewestOfLane {
    /// How long those that began had waited. `None`: none began.
    pub queue_wait: Option<LatencyHistogram>,
    /// How long those that ended had run. `None`: none ended.
    pub run: Option<LatencyHistogram>,
}
