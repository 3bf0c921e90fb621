//! What a scheduler is doing, as data.

use std::time::Duration;

use ax_probe::task_type::place_text;
use ax_wire::{JobId, TraceId, incident::WaitsFor, sample::LaneSample};

use crate::{cell::Header, time};

/// A scheduler at one instant (each lane at its own, some microseconds apart).
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The lanes, in the order in which they were opened.
    pub lanes: Vec<LaneSnapshot>,
}

/// A lane at one instant.
#[derive(Clone, Debug)]
pub struct LaneSnapshot {
    /// Settings and counts, exact and consistent among each other.
    pub counts: LaneSample,
    /// The running jobs.
    pub running: Vec<RunningJob>,
}

/// A job that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// The job.
    pub id: JobId,
    /// Its type.
    pub job_type: &'static str,
    /// Its priority.
    pub priority: u8,
    /// The trace that it belongs to.
    pub trace: TraceId,
    /// Where it was submitted: `file:line`.
    pub place: String,
    /// How long it was queued.
    pub queue_wait: Duration,
    /// For how long it has run.
    pub elapsed: Duration,
    /// Whether it has been asked to end.
    pub cancelling: bool,
    /// What it waits for: see [`at`](crate::at). `None`: nothing with a label.
    pub waits_for: Option<WaitsFor>,
}

impl RunningJob {
    pub(crate) fn new(header: &Header, now_ns: u64) -> Self {
        Self {
            id: header.id,
            job_type: header.task.name(),
            priority: header.priority,
            trace: header.trace(),
            place: place_text(header.place),
            queue_wait: time::between(header.ready_ns(), header.started_ns()),
            elapsed: time::between(header.started_ns(), now_ns),
            cancelling: header.is_cancelling(),
            waits_for: header.waits_for(now_ns),
        }
    }
}
