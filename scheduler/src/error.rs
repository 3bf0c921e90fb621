//! What can go wrong: opening a lane, submitting a job, running it.

use std::{error::Error, sync::Arc, time::Duration};

use ax_wire::JobId;

use crate::{
    guard,
    lane::{MAX_CAPACITY, MAX_LIMIT},
    limit::MAX_BOOST_PERCENT,
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
    /// Its lane was full, and it made room for a job of a higher priority.
    #[error("the job was shed: its lane was full, and a job of a higher priority came")]
    Shed,
    /// Its lane was full, and the store that it was spilled to gave it up.
    #[error("the job was spilled from its full lane, and the spill gave it up")]
    SpillLost,
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
    /// As many jobs, or bytes, are queued as the lane holds, as many wait, or others wait in line for its room.
    #[error(
        "lane `{lane}` is full: {pending} jobs are queued, its capacity is {capacity}; try later, wait with `submit_wait`, or open it with a larger capacity"
    )]
    Full {
        /// The lane.
        lane: Box<str>,
        /// Jobs that are queued.
        pending: usize,
        /// The most jobs that it queues.
        capacity: usize,
    },
    /// The job alone is larger than all that the lane may queue: it would never fit.
    #[error(
        "lane `{lane}`: a job of {bytes} bytes is larger than its capacity of {capacity_bytes} bytes"
    )]
    TooLarge {
        /// The lane.
        lane: Box<str>,
        /// The job's size.
        bytes: usize,
        /// The most bytes that the lane queues.
        capacity_bytes: usize,
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
    /// An adaptive limit whose bounds or target make no sense.
    #[error(
        "lane `{lane}`: an adaptive limit from {floor} to {ceiling} with a target of {target:?} cannot work: 1 <= floor <= ceiling <= {MAX_LIMIT}, and a target above zero"
    )]
    InvalidAdaptive {
        /// The lane.
        lane: Box<str>,
        /// The lowest limit.
        floor: usize,
        /// The highest limit.
        ceiling: usize,
        /// The latency aimed at.
        target: Duration,
    },
    /// A limit outside the bounds of the adaptive one.
    #[error(
        "lane `{lane}`: a limit of {given} is outside the bounds of its adaptive limit, {floor} to {ceiling}"
    )]
    OutsideBounds {
        /// The lane.
        lane: Box<str>,
        /// What was given.
        given: usize,
        /// The lowest limit.
        floor: usize,
        /// The highest limit.
        ceiling: usize,
    },
    /// A boost of nothing, of too much, for no time, or too small to be one job.
    #[error(
        "lane `{lane}`: a boost of {percent} % for {lasting:?} is none: 1 to {MAX_BOOST_PERCENT} %, for some time, and at least one job more than the limit of {limit}"
    )]
    InvalidBoost {
        /// The lane.
        lane: Box<str>,
        /// The share that was given.
        percent: u8,
        /// The time that was given.
        lasting: Duration,
        /// The limit without it.
        limit: usize,
    },
    /// A queue of no bytes.
    #[error("lane `{lane}`: a capacity of zero bytes would refuse every job")]
    ZeroBytes {
        /// The lane.
        lane: Box<str>,
    },
    /// Not a share.
    #[error("lane `{lane}`: a high-water mark of {given} % is out of range: 1 to 100 %")]
    InvalidHighWater {
        /// The lane.
        lane: Box<str>,
        /// What was given.
        given: u8,
    },
    /// Ageing that never rises, or beyond the priorities.
    #[error(
        "lane `{lane}`: ageing needs at least one level, a time above zero, and a ceiling from 1 to 100"
    )]
    InvalidAgeing {
        /// The lane.
        lane: Box<str>,
    },
    /// Turns so frequent that nothing is left for the higher priority.
    #[error("lane `{lane}`: a turn is one start of at least 2")]
    InvalidTurn {
        /// The lane.
        lane: Box<str>,
    },
    /// Preemption beside ageing or turns: what age or a turn lets begin would be stopped at once.
    #[error(
        "lane `{lane}`: preemption goes by priority alone: leave out ageing and turns, or preemption"
    )]
    PreemptsTheAged {
        /// The lane.
        lane: Box<str>,
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
