//! What is remembered of jobs that have ended, in each lane: bounded by time and count.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use ax_probe::{
    clock::duration_ns,
    task_type::{End, place_text},
};
use ax_wire::{JobId, TraceId};

use crate::{JobState, cell::Header, hub::Remember, plan::DependencyFailure, time};

/// A job that has ended, as it is remembered.
///
/// Kept of each job that did not succeed (but for those that were cancelled for their own sake), and of each that has a
/// name or a key, ran a registered handler or asked for it with [`JobBuilder::keep`](crate::JobBuilder::keep).
#[derive(Clone, Debug)]
pub struct JobRecord {
    /// The job.
    pub id: JobId,
    /// Its type.
    pub job_type: &'static str,
    /// Its lane.
    pub lane: Arc<str>,
    /// Its name, where it has one.
    pub name: Option<Arc<str>>,
    /// Its priority.
    pub priority: u8,
    /// The trace that it belonged to.
    pub trace: TraceId,
    /// Where it was submitted: `file:line`.
    pub place: String,
    /// How it ended.
    pub state: JobState,
    /// Why, where it did not succeed.
    pub error: Option<Arc<str>>,
    /// What a registered handler returned.
    pub output: Option<Arc<serde_json::Value>>,
    /// Runs begun.
    pub attempts: u32,
    /// How long its last attempt was queued.
    pub queue_wait: Duration,
    /// How long its last attempt ran; zero for a job that never ran.
    pub run: Duration,
    /// When it ended, on the wall clock.
    pub ended: SystemTime,
    /// The same on the monotonic clock.
    pub(crate) ended_ns: u64,
    /// How exactly.
    pub(crate) end: End,
    /// The jobs on the way from the one that failed, where that was another.
    pub(crate) failure: Option<Arc<DependencyFailure>>,
}

/// How a job ended, for its record.
pub(crate) struct Outcome {
    pub(crate) end: End,
    /// Why, where it did not succeed.
    pub(crate) error: Option<Arc<str>>,
    pub(crate) failure: Option<Arc<DependencyFailure>>,
}

impl Outcome {
    pub(crate) fn new(end: End, error: Option<Arc<str>>) -> Self {
        Self {
            end,
            error,
            failure: None,
        }
    }
}

impl JobRecord {
    pub(crate) fn new(header: &Header, outcome: Outcome, now_ns: u64) -> Self {
        let ran = header.attempt() > 0;
        let started_ns = if ran { header.started_ns() } else { now_ns };
        let plan = header.plan();
        Self {
            id: header.id,
            job_type: header.task.name(),
            lane: Arc::from(&*header.lane.name),
            name: plan.and_then(|plan| plan.name.clone()),
            priority: header.priority,
            trace: header.trace(),
            place: place_text(header.place),
            state: header.state.get(),
            error: outcome.error,
            output: plan.and_then(|plan| plan.output.lock().clone()),
            attempts: header.attempt(),
            queue_wait: time::between(header.ready_ns(), started_ns),
            run: time::between(started_ns, now_ns),
            ended: SystemTime::now(),
            ended_ns: now_ns,
            end: outcome.end,
            failure: outcome.failure,
        }
    }
}

/// The records of a lane.
#[derive(Default)]
pub(crate) struct Records {
    by_id: HashMap<JobId, JobRecord>,
    /// By the time of the end.
    order: VecDeque<(u64, JobId)>,
}

impl Records {
    pub(crate) fn add(&mut self, record: JobRecord, now_ns: u64, remember: Remember) {
        if remember.count == 0 {
            return;
        }
        self.order.push_back((now_ns, record.id));
        self.by_id.insert(record.id, record);
        self.forget_old(now_ns, remember);
    }

    pub(crate) fn forget_old(&mut self, now_ns: u64, remember: Remember) {
        let old_ns = now_ns.saturating_sub(duration_ns(remember.time));
        while let Some((ended_ns, id)) = self.order.front()
            && (*ended_ns < old_ns || self.order.len() > remember.count)
        {
            self.by_id.remove(id);
            self.order.pop_front();
        }
    }

    pub(crate) fn find(&self, id: JobId) -> Option<JobRecord> {
        self.by_id.get(&id).cloned()
    }

    /// So many of them, the newest first, those left out that come before the `offset`th.
    pub(crate) fn slice(&self, offset: usize, count: usize) -> Vec<JobRecord> {
        let ids = self.order.iter().rev().skip(offset).take(count);
        ids.filter_map(|(_, id)| self.by_id.get(id).cloned())
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &JobRecord> {
        let ids = self.order.iter().rev();
        ids.filter_map(|(_, id)| self.by_id.get(id))
    }
}
