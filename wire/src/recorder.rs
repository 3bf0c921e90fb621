//! What the flight recorder of a service had in memory: the last transitions of its jobs, long polls and stalls.

use serde::{Deserialize, Serialize};

use crate::{
    id::{JobId, TraceId},
    sample::TaskKind,
};

/// Most events of a dump that an incident carries, about 130 bytes each: 1 MiB. The newest stay.
/// An agent has to have read them all before it can say that it writes the snapshot, for which it has 200 ms.
pub const MAX_RECORDED_EVENTS: usize = 8_000;

/// The events that a recorder held, and a receipt of what they cover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecorderDump {
    /// When it was taken, on the service's monotonic clock.
    pub at_mono_ns: u64,
    /// Since when no event of a job that went well is missing.
    pub complete_since_mono_ns: u64,
    /// Since when no failure, retry, refusal, long poll or stall is missing: they have room of their own.
    pub notable_since_mono_ns: u64,
    /// Oldest first.
    pub events: Vec<RecordedEvent>,
    /// What the `of` of the events counts: from 0.
    pub names: Vec<RecordedName>,
    /// Older events that were held too and left out, so that the dump stays small. The two times above count them as
    /// missing.
    pub left_out: u64,
    /// Events since the process started that found no room, because too many threads record at once.
    pub unrecorded_total: u64,
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedEvent {
    /// When.
    pub at_mono_ns: u64,
    /// What.
    pub kind: RecordedKind,
    /// To what type of job or task: an index into [`RecorderDump::names`]. `None` for a stall without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u32>,
    /// To which job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// In which trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceId>,
    /// The time that it ends or begins, as [`RecordedKind`] says; in whole microseconds, 71 minutes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_ns: Option<u64>,
    /// With `submitted` and `ready`: the job inside which it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
}

/// A type of job or task, as a recorded event names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedName {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TaskKind,
    /// Its lane, for a job type.
    pub lane: Option<String>,
}

/// What happened, and what its `length_ns` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecordedKind {
    /// A job was accepted, and waits for something before it may run. No length.
    Submitted,
    /// A job is queued; without a `submitted` before it, it was at once. No length.
    Ready,
    /// A job began; its wait in the queue. A job that ended well in its first poll has none: it began its run before its
    /// end.
    Started,
    /// A job ended well; its run.
    Succeeded,
    /// A job ended with an error; its run.
    Failed,
    /// A job ended by a panic; its run.
    Panicked,
    /// A job ended by its timeout; its run.
    TimedOut,
    /// A job was cancelled; its run, and none for one that had not begun.
    Cancelled,
    /// A job was refused by its lane. No length.
    Rejected,
    /// A job failed and will run again; its backoff.
    Retried,
    /// A poll took 5 ms or more; its length.
    LongPoll,
    /// A worker has stopped moving; for how long when that was seen.
    StallBegan,
    /// A worker moves again; how long it did not.
    StallEnded,
    /// A shorter poll of a job whose trace [is sampled](crate::trace::is_sampled); its length.
    Poll,
    /// A kind that this reader does not know.
    #[serde(other)]
    Other,
}

impl RecordedKind {
    /// Whether it is an attempt that did not succeed, or a job that was refused.
    #[must_use]
    pub fn is_unsuccessful(self) -> bool {
        matches!(
            self,
            Self::Failed
                | Self::Panicked
                | Self::TimedOut
                | Self::Cancelled
                | Self::Rejected
                | Self::Retried
        )
    }

    /// Whether traffic that goes well cannot push it out.
    #[must_use]
    pub fn is_notable(self) -> bool {
        !matches!(
            self,
            Self::Submitted | Self::Ready | Self::Started | Self::Succeeded | Self::Poll
        )
    }
}
