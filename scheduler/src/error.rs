//! What can go wrong: opening a lane, submitting a job, running it.

use std::{error::Error, sync::Arc, time::Duration};

use ax_wire::JobId;

use crate::{
    guard,
    lane::{MAX_CAPACITY, MAX_LIMIT},
    plan::DependencyFailure,
};

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
    /// It had promised a heartbeat and gave none; its future was dropped.
    #[error("the job gave no sign of life for {silent:?}")]
    Zombie {
        /// The time within which it had promised one.
        silent: Duration,
    },
    /// What it depends on did not succeed.
    #[error("the job was cancelled: {0}")]
    Dependency(Arc<DependencyFailure>),
    /// It was cancelled, by its handle or because the scheduler was shut down.
    #[error("the job was cancelled")]
    Cancelled,
    /// The runtime that ran its lane was shut down first.
    #[error("the runtime of the job's lane was shut down before the job ended")]
    RuntimeGone,
}

impl JobError {
    /// In words. The user's error writes itself, and may panic.
    pub(crate) fn text(&self) -> Arc<str> {
        let written = guard::catch(|| self.to_string());
        written.map_or_else(Arc::from, Arc::from)
    }
}

/// Why a job was not accepted. It has not run, and will not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many jobs are queued, or wait, as the lane holds.
    #[error(
        "lane `{lane}` is full: {capacity} jobs are queued or wait; try later, or open it with a larger capacity"
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
    /// A heartbeat of zero would end the job at once.
    #[error("a heartbeat within no time cannot be given: leave it out for no heartbeat")]
    ZeroHeartbeat,
    /// A job of this name has not ended.
    #[error(
        "a job named `{name}` is there already: job {job} has not ended; names are for one job at a time"
    )]
    DuplicateName {
        /// The name.
        name: Box<str>,
        /// The job that has it.
        job: JobId,
    },
    /// It would wait, by way of others, for itself.
    #[error("the job would wait for itself: {}", path.join(" -> "))]
    Cycle {
        /// The names of the jobs, each waiting for the next; the first is also the last.
        path: Vec<Box<str>>,
    },
    /// It depends on a job of another scheduler.
    #[error(
        "job {job}, on which it depends, belongs to another scheduler: await its handle instead"
    )]
    ForeignDependency {
        /// The other scheduler's job.
        job: JobId,
    },
    /// No lane of this name is open.
    #[error("no lane `{lane}` is open in this scheduler: open it first, with `Scheduler::lane`")]
    UnknownLane {
        /// The name.
        lane: Box<str>,
    },
    /// No handler of this name is registered.
    #[error("no handler `{name}` is registered: register it first, with `Scheduler::register`")]
    UnknownHandler {
        /// The name.
        name: Box<str>,
    },
    /// The payload cannot be written as JSON.
    #[error("the payload of `{name}` cannot be written as JSON: {reason}")]
    Payload {
        /// The handler.
        name: Box<str>,
        /// What serde says.
        reason: Box<str>,
    },
}

/// A handler of this name is registered already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a handler `{name}` is registered already: one name has one handler")]
pub struct DuplicateHandler {
    /// The name.
    pub name: Box<str>,
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
    /// Not a share of a timeout.
    #[error("lane `{lane}`: a slow share of {given} % is out of range: 0 (never) to 100")]
    InvalidSlowShare {
        /// The lane.
        lane: Box<str>,
        /// What was given.
        given: u8,
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
