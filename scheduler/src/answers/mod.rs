//! What a viewer asks of a scheduler, answered by a thread of the probe while the service works: pages of jobs, and who
//! waits for whom.
//!
//! No lock is waited for longer than [`LOCK_DEADLINE`], and none is held for more than some hundred microseconds: a look
//! at many jobs is taken in slices, between which the service goes on. What could not be looked at is said.

mod graph;
mod jobs;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use ax_probe::{
    clock::duration_ns,
    task_type::{End, place_text},
};
use ax_wire::{
    JobId,
    job::{Facts, JobRow, JobState, JobWait, NumberField, Progress, TextField, WaitKind},
};

use crate::{
    JobRecord,
    cell::Job,
    ledger::{self, Waiting},
    page::WaitReason,
};

/// How long a lock is asked for. Its holders keep it for microseconds.
pub(crate) const LOCK_DEADLINE: Duration = Duration::from_millis(1);

/// A job as a query sees it, from which a row is made if it is to be shown.
pub(crate) struct Candidate {
    pub(crate) job: Arc<dyn Job>,
    pub(crate) state: JobState,
    now_ns: u64,
    wait: Option<JobWait>,
    /// Of a waiting job: since when, and how its last attempt ended.
    since_ns: u64,
    error: Option<Arc<str>>,
}

impl Candidate {
    /// One that runs or is queued.
    pub(crate) fn live(job: &Arc<dyn Job>, state: JobState, now_ns: u64) -> Self {
        let header = job.header();
        Self {
            job: Arc::clone(job),
            state,
            now_ns,
            wait: None,
            since_ns: if state == JobState::Running {
                header.started_ns()
            } else {
                header.ready_ns()
            },
            error: None,
        }
    }

    fn waiting(waiting: &Waiting, now_ns: u64) -> Self {
        let reason = WaitReason::new(waiting, now_ns);
        let names = reason.names.iter().map(ToString::to_string);
        Self {
            job: Arc::clone(&waiting.job),
            state: JobState::Waiting,
            now_ns,
            wait: Some(JobWait {
                kind: wait_kind(waiting.kind),
                left_ns: (waiting.until_ns > 0).then_some(waiting.until_ns.saturating_sub(now_ns)),
                names: names.collect(),
                jobs: reason.jobs,
            }),
            since_ns: waiting.since_ns,
            error: waiting.reason.clone(),
        }
    }

    fn row(&self) -> JobRow {
        let header = self.job.header();
        let plan = header.plan();
        let running = self.state == JobState::Running;
        let last_poll = header.last_poll_ns().filter(|_| running);
        JobRow {
            id: header.id,
            job_type: header.task.name().to_owned(),
            lane: Some(header.lane.name.to_string()),
            name: plan
                .and_then(|plan| plan.name.as_deref())
                .map(str::to_owned),
            priority: Some(header.priority),
            trace: Some(header.trace()),
            parent: header.parent(),
            place: Some(place_text(header.place)),
            state: self.state,
            age_ns: self.now_ns.saturating_sub(self.since_ns),
            attempt: header.attempt(),
            queue_wait_ns: self.number(NumberField::Wait),
            run_ns: self.number(NumberField::Run),
            poll_age_ns: None,
            last_poll_ns: last_poll.map(|at_ns| self.now_ns.saturating_sub(at_ns)),
            waits_for: header.waits_for(self.now_ns).filter(|_| running),
            wait: self.wait.clone(),
            error: self.error.as_deref().map(str::to_owned),
            progress: self.job.progress().map(|progress| Progress {
                done: progress.done,
                of: progress.of,
            }),
            cancelling: header.is_cancelling(),
        }
    }
}

impl Facts for Candidate {
    fn id(&self) -> JobId {
        self.job.header().id
    }

    fn job_type(&self) -> &str {
        self.job.header().task.name()
    }

    fn lane(&self) -> Option<&str> {
        Some(&self.job.header().lane.name)
    }

    fn state(&self) -> JobState {
        self.state
    }

    fn number(&self, field: NumberField) -> Option<u64> {
        let header = self.job.header();
        let age_ns = self.now_ns.saturating_sub(self.since_ns);
        match (field, self.state) {
            (NumberField::Id, _) => Some(header.id.0),
            (NumberField::Age, _) => Some(age_ns),
            (NumberField::Wait, JobState::Ready) | (NumberField::Run, JobState::Running) => {
                Some(age_ns)
            }
            (NumberField::Wait, JobState::Running) => {
                Some(header.started_ns().saturating_sub(header.ready_ns()))
            }
            (NumberField::Wait | NumberField::Run | NumberField::Other, _) => None,
            (NumberField::Priority, _) => Some(header.priority.into()),
            (NumberField::Attempt, _) => Some(header.attempt().into()),
        }
    }

    fn text(&self, field: TextField, look: &mut dyn FnMut(&str) -> bool) -> bool {
        let header = self.job.header();
        match field {
            TextField::Type => look(header.task.name()),
            TextField::Lane => look(&header.lane.name),
            TextField::Name => {
                let name = header.plan().and_then(|plan| plan.name.as_deref());
                name.is_some_and(look)
            }
            TextField::Place => look(&place_text(header.place)),
            TextField::Awaits => {
                let waits = header.waits_for(self.now_ns);
                waits.is_some_and(|waits| look(&waits.label))
            }
            TextField::Error => self.error.as_deref().is_some_and(look),
            TextField::Trace => look(&header.trace().to_string()),
            TextField::Other => false,
        }
    }
}

/// A job that has ended, as a list shows it.
fn ended_row(record: &JobRecord, now_ns: u64) -> JobRow {
    let ran = record.attempts > 0;
    JobRow {
        id: record.id,
        job_type: record.job_type.to_owned(),
        lane: Some(record.lane.to_string()),
        name: record.name.as_deref().map(str::to_owned),
        priority: Some(record.priority),
        trace: Some(record.trace),
        place: Some(record.place.clone()),
        state: ended_state(record.end),
        age_ns: now_ns.saturating_sub(record.ended_ns),
        attempt: record.attempts,
        queue_wait_ns: Some(duration_ns(record.queue_wait)),
        run_ns: ran.then_some(duration_ns(record.run)),
        error: record.error.as_deref().map(str::to_owned),
        ..JobRow::default()
    }
}

fn ended_state(end: End) -> JobState {
    match end {
        End::Succeeded => JobState::Succeeded,
        End::Failed => JobState::Failed,
        End::Panicked => JobState::Panicked,
        End::TimedOut => JobState::TimedOut,
        End::Cancelled => JobState::Cancelled,
    }
}

fn wait_kind(kind: ledger::WaitKind) -> WaitKind {
    match kind {
        ledger::WaitKind::Dependencies => WaitKind::Dependencies,
        ledger::WaitKind::Time => WaitKind::Time,
        ledger::WaitKind::Retry => WaitKind::Retry,
        ledger::WaitKind::Budget => WaitKind::Budget,
        ledger::WaitKind::Person => WaitKind::Person,
    }
}
