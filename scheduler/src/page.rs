//! Which jobs run, are queued, wait or have ended, and why: a page at a time, so that a look costs the same however
//! many there are.

use std::{sync::Arc, time::Duration};

use ax_probe::task_type::place_text;
use ax_wire::{JobId, TraceId};

use crate::{
    JobRecord, JobState,
    cell::Job,
    ledger::{Dep, WaitKind, Waiting},
    plan::Progress,
    scheduler::Inner,
    time,
};

/// Most jobs of a page.
pub const MAX_PAGE: usize = 1_000;

/// Dependencies that a page names of a job.
pub const MAX_NAMED_DEPENDENCIES: usize = 16;

/// How long a job waits for others until it is listed as waiting long.
pub const LONG_WAIT: Duration = Duration::from_mins(5);

/// Waiting jobs that are looked at to find those that wait long: about a millisecond.
const LOOKS: usize = 10_000;

/// A job that has not ended, at one instant.
#[derive(Clone, Debug)]
pub struct JobEntry {
    /// The job.
    pub id: JobId,
    /// Its type.
    pub job_type: &'static str,
    /// Its lane.
    pub lane: Box<str>,
    /// Its name, where it has one.
    pub name: Option<Arc<str>>,
    /// Its priority.
    pub priority: u8,
    /// The trace that it belongs to.
    pub trace: TraceId,
    /// Where it was submitted: `file:line`.
    pub place: String,
    /// Where it stands.
    pub state: JobState,
    /// For how long.
    pub age: Duration,
    /// Runs begun.
    pub attempt: u32,
    /// Of a running job: how long ago its last poll ended; `None` before the first has.
    pub last_poll: Option<Duration>,
    /// How far it says that it is, where it has said anything.
    pub progress: Option<Progress>,
    /// Whether it has been asked to end.
    pub cancelling: bool,
    /// Of a waiting job: for what.
    pub wait: Option<WaitReason>,
}

/// What a job waits for.
#[derive(Clone, Debug)]
pub struct WaitReason {
    /// The kind of it.
    pub kind: WaitKind,
    /// The time until it is ready, where it waits for a time.
    pub left: Duration,
    /// The jobs that it waits for, at most [`MAX_NAMED_DEPENDENCIES`].
    pub jobs: Vec<JobId>,
    /// The names that it waits for and no job has, at most [`MAX_NAMED_DEPENDENCIES`].
    pub names: Vec<Arc<str>>,
    /// How its last attempt ended.
    pub error: Option<Arc<str>>,
}

impl WaitReason {
    pub(crate) fn new(waiting: &Waiting, now_ns: u64) -> Self {
        let mut reason = Self {
            kind: waiting.kind,
            left: time::between(now_ns, waiting.until_ns),
            jobs: Vec::new(),
            names: Vec::new(),
            error: waiting.reason.clone(),
        };
        for dep in waiting.unmet.iter().take(MAX_NAMED_DEPENDENCIES) {
            match dep {
                Dep::Job(id) => reason.jobs.push(*id),
                Dep::Name(name) => reason.names.push(Arc::clone(name)),
            }
        }
        reason.jobs.sort_unstable();
        reason.names.sort_unstable();
        reason
    }
}

impl JobEntry {
    fn new(job: &dyn Job, state: JobState, since_ns: u64, now_ns: u64) -> Self {
        let header = job.header();
        let plan = header.plan();
        Self {
            id: header.id,
            job_type: header.task.name(),
            lane: header.lane.name.clone(),
            name: plan.and_then(|plan| plan.name.clone()),
            priority: header.priority,
            trace: header.trace(),
            place: place_text(header.place),
            state,
            age: time::between(since_ns, now_ns),
            attempt: header.attempt(),
            last_poll: header
                .last_poll_ns()
                .map(|at_ns| time::between(at_ns, now_ns)),
            progress: job.progress(),
            cancelling: header.is_cancelling(),
            wait: None,
        }
    }
}

impl Inner {
    /// Some of the jobs in this state, from the `offset`th on.
    pub(crate) fn page(&self, state: JobState, offset: usize, limit: usize) -> Vec<JobEntry> {
        let limit = limit.min(MAX_PAGE);
        let now_ns = time::now_ns();
        match state {
            JobState::Waiting => {
                let ledger = self.hub.ledger.lock();
                let waiting = ledger.waiting.values().skip(offset).take(limit);
                waiting
                    .map(|waiting| waiting_entry(waiting, now_ns))
                    .collect()
            }
            JobState::Running | JobState::Ready => {
                let mut jobs = Vec::new();
                let mut offset = offset;
                for lane in self.lanes() {
                    lane.copy_jobs(state, &mut offset, limit, &mut jobs);
                }
                jobs.iter()
                    .map(|job| live_entry(&**job, state, now_ns))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Some of the records, the newest of each lane first.
    pub(crate) fn records(&self, state: JobState, offset: usize, limit: usize) -> Vec<JobRecord> {
        let mut found = Vec::new();
        let mut offset = offset;
        let now_ns = time::now_ns();
        for lane in self.lanes() {
            let mut records = lane.records.lock();
            records.forget_old(now_ns, self.hub.remember);
            for record in records.newest().filter(|record| record.state == state) {
                if found.len() >= limit.min(MAX_PAGE) {
                    return found;
                }
                if offset > 0 {
                    offset -= 1;
                } else {
                    found.push(record.clone());
                }
            }
        }
        found
    }

    /// Those of the oldest waiting jobs that have waited long for others.
    pub(crate) fn long_waiting(&self) -> Vec<JobEntry> {
        let now_ns = time::now_ns();
        let ledger = self.hub.ledger.lock();
        let oldest = ledger.waiting.values().take(LOOKS).filter(|waiting| {
            let long = time::between(waiting.since_ns, now_ns) >= LONG_WAIT;
            long && waiting.kind == WaitKind::Dependencies
        });
        let oldest = oldest.take(MAX_PAGE);
        oldest
            .map(|waiting| waiting_entry(waiting, now_ns))
            .collect()
    }

    /// The manual list.
    pub(crate) fn manual(&self) -> Vec<JobEntry> {
        let now_ns = time::now_ns();
        let ledger = self.hub.ledger.lock();
        let manual = ledger.manual.iter().filter_map(|id| ledger.waiting.get(id));
        let manual = manual.take(MAX_PAGE);
        manual
            .map(|waiting| waiting_entry(waiting, now_ns))
            .collect()
    }

    /// A job that has not ended.
    pub(crate) fn find(&self, id: JobId) -> Option<Arc<dyn Job>> {
        let waiting = self
            .hub
            .ledger
            .lock()
            .waiting
            .get(&id)
            .map(|waiting| Arc::clone(&waiting.job));
        if waiting.is_some() {
            return waiting;
        }
        let lanes = self.lanes();
        let running = lanes.iter().find_map(|lane| lane.find_running(id));
        running.or_else(|| lanes.iter().find_map(|lane| lane.find_queued(id)))
    }
}

fn live_entry(job: &dyn Job, state: JobState, now_ns: u64) -> JobEntry {
    let header = job.header();
    let since_ns = if state == JobState::Running {
        header.started_ns()
    } else {
        header.ready_ns()
    };
    JobEntry::new(job, state, since_ns, now_ns)
}

fn waiting_entry(waiting: &Waiting, now_ns: u64) -> JobEntry {
    let mut entry = JobEntry::new(&*waiting.job, JobState::Waiting, waiting.since_ns, now_ns);
    entry.last_poll = None;
    entry.wait = Some(WaitReason::new(waiting, now_ns));
    entry
}
