//! What happened in a service at one instant.

use serde::{Deserialize, Serialize};

use crate::{
    id::RuntimeId,
    sample::{TaskRef, ThreadSample},
    stack::ThreadStack,
    trace::Exemplar,
};

/// A batch of events, in the order of their time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Events {
    /// Oldest first.
    pub events: Vec<Event>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A worker stopped moving, and still does not move.
    StallBegan(Stall),
    /// A worker moves again. Carries the same `id` as its beginning, and the final length.
    StallEnded(Stall),
    /// The probe's own watchdog got no CPU, so nothing can be said of the workers in that time: the process was
    /// throttled, stopped or suspended.
    ObserverNotScheduled(ObserverGap),
    /// The stack of a worker that does not move: at most two a stall, when it is found and at ten times the threshold.
    Stack(Box<ThreadStack>),
    /// A job that is worth a look: one that did not succeed, was slow, or is of the sample.
    Exemplar(Box<Exemplar>),
    /// An event that this reader does not know.
    #[serde(other)]
    Unknown,
}

/// A worker that did not move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stall {
    /// Counts up from 1 in this process.
    pub id: u64,
    /// Of which runtime.
    pub runtime: RuntimeId,
    /// Which worker; `None` for a future watched outside the workers.
    pub worker: Option<u32>,
    /// Its kernel thread id, where known.
    pub tid: Option<u32>,
    /// What can be said of it.
    pub kind: StallKind,
    /// When it began.
    pub began_mono_ns: u64,
    /// Its length: so far, or in the end.
    pub length_ns: u64,
    /// The share of it that the thread waited for a CPU, which is not the poll's doing.
    pub run_queue_ns: Option<u64>,
    /// The share of it that the thread was on a CPU.
    pub on_cpu_ns: Option<u64>,
    /// The job or wrapped task whose poll did not return. `None`: a plain task, named only by its stack.
    pub task: Option<TaskRef>,
    /// What the kernel said of the thread when the stall was found.
    pub thread: Option<ThreadSample>,
}

/// What can be said of a worker that does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StallKind {
    /// One poll does not return: its name is known, or the thread sleeps in the kernel.
    Stall,
    /// No name, and the thread computes: one long poll, or up to 61 short ones that tokio has not yet published.
    LongBusyWindow,
    /// The thread is runnable and gets no CPU.
    Starved,
    /// A kind that this reader does not know.
    #[serde(other)]
    Other,
}

impl StallKind {
    /// The words for a screen.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::LongBusyWindow => "long busy window (1-61 polls)",
            Self::Starved => "starved of CPU",
            Self::Other => "unknown kind",
        }
    }
}

/// A gap in the watchdog's own schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObserverGap {
    /// When the tick was due.
    pub due_mono_ns: u64,
    /// How late it came.
    pub late_ns: u64,
}
