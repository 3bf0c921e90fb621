//! What can go wrong: opening a lane, submitting a job, running it.

use std::{error::Error, time::Duration};

use crate::lane::{MAX_CAPACITY, MAX_LIMIT};

/// Why a job has no result.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Its future returned this error.
    #[error("the job failed: {0}")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// Its closure, its future or a destructor of theirs panicked with this message.
    #[error("the job panicked: {0}")]
    Panicked(Box<str>),
    /// It ran longer than its timeout; its future was dropped.
    #[error("the job timed out after {after:?}")]
    TimedOut {
        /// The timeout.
        after: Duration,
    },
    /// It was cancelled, by its handle or because the scheduler was shut down.
    #[error("the job was cancelled")]
    Cancelled,
    /// The runtime that ran its lane was shut down first.
    #[error("the runtime of the job's lane was shut down before the job ended")]
    RuntimeGone,
}

/// Why a job was not accepted. It has not run, and will not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many jobs are queued as the lane holds.
    #[error(
        "lane `{lane}` is full: {capacity} jobs are queued; try later, or open it with a larger capacity"
    )]
    Full {
        /// The lane.
        lane: Box<str>,
        /// The most jobs that it queues.
        capacity: usize,
    },
    /// The scheduler was shut down.
    #[error("lane `{lane}` is closed: its scheduler was shut down")]
    Closed {
        /// The lane.
        lane: Box<str>,
    },
    /// The scheduler was made outside a runtime and was given none.
    #[error(
        "the scheduler has no runtime: make it inside one, or use `Scheduler::builder().runtime(handle)`"
    )]
    NoRuntime,
    /// The runtime of the scheduler was shut down.
    #[error("lane `{lane}` cannot run jobs any more: its runtime was shut down")]
    RuntimeGone {
        /// The lane.
        lane: Box<str>,
    },
    /// The lane was opened by another scheduler.
    #[error("lane `{lane}` belongs to another scheduler: submit the job there")]
    ForeignLane {
        /// The lane.
        lane: Box<str>,
    },
    /// Not a priority.
    #[error("priority {given} is out of range: priorities go from 1 (last) to 100 (first)")]
    InvalidPriority {
        /// What was given.
        given: u8,
    },
    /// A timeout of zero would end the job before it can begin.
    #[error("a timeout of zero would end every job at once: leave it out for no timeout")]
    ZeroTimeout,
}

/// Why a lane was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// The name is empty.
    #[error("a lane needs a name")]
    EmptyName,
    /// No job could run, or more than is sensible.
    #[error(
        "lane `{lane}`: a limit of {given} is out of range: 1 to {MAX_LIMIT} jobs may run at once"
    )]
    InvalidLimit {
        /// The lane.
        lane: Box<str>,
        /// What was given.
        given: usize,
    },
    /// No job could be queued, or more than fit in memory.
    #[error(
        "lane `{lane}`: a capacity of {given} is out of range: 1 to {MAX_CAPACITY} jobs may queue"
    )]
    InvalidCapacity {
        /// The lane.
        lane: Box<str>,
        /// What was given.
        given: usize,
    },
    /// Not a priority.
    #[error(
        "lane `{lane}`: priority {given} is out of range: priorities go from 1 (last) to 100 (first)"
    )]
    InvalidPriority {
        /// The lane.
        lane: Box<str>,
        /// What was given.
        given: u8,
    },
    /// A timeout of zero would end every job before it can begin.
    #[error(
        "lane `{lane}`: a timeout of zero would end every job at once: leave it out for no timeout"
    )]
    ZeroTimeout {
        /// The lane.
        lane: Box<str>,
    },
    /// The scheduler has a lane of this name with other settings.
    #[error(
        "lane `{lane}` is open with other settings: {open}; asked for: {asked}. Use another name, or the same settings"
    )]
    DifferentSettings {
        /// The lane.
        lane: Box<str>,
        /// The settings that it has.
        open: Box<str>,
        /// The settings that were asked for.
        asked: Box<str>,
    },
    /// The scheduler was shut down.
    #[error("lane `{lane}` cannot be opened: its scheduler was shut down")]
    Closed {
        /// The lane.
        lane: Box<str>,
    },
}
