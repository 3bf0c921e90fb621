//! Traces as they are kept: what was recorded of them, and why they were.

use serde::{Deserialize, Serialize};

use crate::{
    id::{JobId, TraceId},
    job::{JobRow, JobState},
    recorder::{RecordedEvent, RecordedName},
};

/// Most events that are kept of one trace, about 130 bytes each on the way. The oldest stay, since they tell how it began.
pub const MAX_TRACE_EVENTS: usize = 400;

/// Most traces of a list.
pub const MAX_TRACES: usize = 300;

/// One in so many traces is kept whatever becomes of it: a power of two.
pub const SAMPLED_ONE_IN: u128 = 64;

/// Whether a trace is one of those that are kept whatever becomes of them. Decided by its id alone, so that it is kept
/// whole, by every process that it passes through, or not at all.
#[must_use]
pub fn is_sampled(trace: TraceId) -> bool {
    // The ids of strangers may count up or end in zeros: multiplied, each bit of an id moves the uppermost ones.
    let mixed = trace
        .get()
        .wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    mixed.leading_zeros() >= SAMPLED_ONE_IN.trailing_zeros()
}

/// What was recorded of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedTrace {
    /// Which.
    pub trace: TraceId,
    /// Oldest first, at most [`MAX_TRACE_EVENTS`].
    pub events: Vec<RecordedEvent>,
    /// What the `of` of the events counts: from 0.
    pub names: Vec<RecordedName>,
    /// Events that found no room.
    #[serde(default)]
    pub left_out: u64,
    /// Since when the recorder missed nothing when this was read.
    pub complete_since_mono_ns: u64,
    /// When this was read.
    pub at_mono_ns: u64,
}

/// A job that is worth a look, with what was recorded of its trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exemplar {
    /// Why.
    pub why: Why,
    /// The job; its age counts from `trace.at_mono_ns`.
    pub job: JobRow,
    /// Its trace.
    pub trace: RecordedTrace,
}

/// Why a trace is kept. The first of these counts where there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It did not succeed, or was refused.
    Failed,
    /// The slowest job of its type in a second.
    Slow,
    /// One of the sample: see [`is_sampled`].
    Sampled,
    /// A reason that this reader does not know.
    #[serde(other)]
    Other,
}

/// One line about a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceSummary {
    /// Which.
    pub trace: TraceId,
    /// Why it is kept.
    pub why: Why,
    /// The job for which it is kept.
    pub job: JobId,
    /// That job's type.
    pub job_type: String,
    /// That job's lane.
    pub lane: Option<String>,
    /// How that job ended.
    pub state: JobState,
    /// That job's last attempt waited so long in its queue.
    pub queue_wait_ns: Option<u64>,
    /// That job's last attempt ran so long.
    pub run_ns: Option<u64>,
    /// Jobs that are known of it.
    pub jobs: u64,
    /// Attempts that did not succeed.
    pub unsuccessful: u64,
    /// Polls of 5 ms and more.
    pub long_polls: u64,
    /// When it began, as far as is known.
    pub began_unix_ns: u64,
    /// From then to its last event.
    pub length_ns: u64,
}

/// The traces that an agent keeps of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceList {
    /// Newest first, at most [`MAX_TRACES`].
    pub traces: Vec<TraceSummary>,
    /// Traces that made room for newer ones.
    pub forgotten_total: u64,
}

/// What is known of one trace: what an agent kept and what the service still has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceView {
    /// What was recorded.
    pub recorded: RecordedTrace,
    /// The jobs of it that the list of jobs knows: live ones, and those that are remembered.
    pub jobs: Vec<JobRow>,
    /// What could not be had, and why, for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One in 64, whether ids are random, count up or end in zeros.
    #[test]
    fn one_in_so_many_traces_is_sampled_whatever_its_ids_look_like() {
        for shift in [0, 17, 64, 100] {
            let ids = (1_u128..=64_000).map(|id| TraceId::new(id << shift).expect("not zero"));
            let sampled = ids.filter(|id| is_sampled(*id)).count();
            assert!(
                (800..1_200).contains(&sampled),
                "{sampled} of 64,000 shifted by {shift}"
            );
        }
    }
}
