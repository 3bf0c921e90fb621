//! Takes down what only the service can know, at the instant of an incident.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ax_wire::{
    event::{ObserverGap, Stall},
    incident::{Incident, IncidentId, MAX_RUNNING_JOBS, QueueFacts, Reason},
    recorder::MAX_RECORDED_EVENTS,
    sample::{LagPoint, RuntimeSample},
    stack::ThreadStack,
};

use super::Evidence;
use crate::{
    clock::{self, duration_ns, now_ns},
    publisher::{dropped, runtime_samples},
    recorder,
    shared::Shared,
    slot::{self, ByWorker, Slot},
    source, threads,
};

/// Lag points that the watchdog keeps for an incident, at 64 bytes each: 25 s of one runtime, 16 KiB.
pub const RECENT_LAG_POINTS: usize = 256;

/// Gaps in its own schedule that the watchdog keeps.
const RECENT_GAPS: usize = 64;

/// From when on no further scheduler is asked: the evidence is wanted within milliseconds.
const DEADLINE: Duration = Duration::from_millis(50);

/// What the watchdog keeps of the last seconds.
#[derive(Default)]
pub(crate) struct Recent {
    lag: VecDeque<LagPoint>,
    gaps: VecDeque<ObserverGap>,
}

impl Recent {
    pub(crate) fn push_lag(&mut self, point: LagPoint) {
        if self.lag.len() == RECENT_LAG_POINTS {
            self.lag.pop_front();
        }
        self.lag.push_back(point);
    }

    pub(crate) fn push_gap(&mut self, gap: ObserverGap) {
        if self.gaps.len() == RECENT_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
    }
}

/// What the watchdog has in its hands at that tick.
pub(crate) struct Scene<'a> {
    pub(crate) now_ns: u64,
    pub(crate) slots: &'a [Arc<Slot>],
    pub(crate) by_worker: &'a ByWorker<'a>,
    pub(crate) stalls: Vec<Stall>,
    pub(crate) stacks: Vec<ThreadStack>,
    pub(crate) recent: &'a Recent,
}

/// Takes evidence. Some milliseconds: 50 us for each worker whose thread is known, and what the schedulers take.
pub(crate) fn take(shared: &Shared, reason: Reason, scene: Scene<'_>) -> Evidence {
    let Scene {
        now_ns: at_mono_ns,
        slots,
        by_worker,
        stalls,
        stacks,
        recent,
    } = scene;
    let until_ns = now_ns() + duration_ns(DEADLINE);
    // First what changes fastest.
    let runtimes = runtime_samples(by_worker, at_mono_ns);
    let mut facts = source::facts(at_mono_ns, || now_ns() < until_ns);
    let polls = slot::poll_ages(slots, at_mono_ns);
    for running in &mut facts.running {
        running.poll_age_ns = running.task.job.and_then(|job| polls.get(&job).copied());
    }
    let own = [&shared.watchdog_tid, &shared.publisher_tid].map(|tid| tid.load(Relaxed));
    let mut unknown = Vec::new();
    say_unmet(&runtimes, &mut unknown);
    say_unseen(&facts.queues, &mut unknown);
    if facts.not_asked > 0 {
        unknown.push(format!(
            "jobs and queues of {} schedulers: the look at those before took {DEADLINE:?}",
            facts.not_asked
        ));
    }
    let recorder = recorder::dump(MAX_RECORDED_EVENTS);
    let recorder = recorder
        .inspect_err(|error| unknown.push(format!("flight recorder: {error}")))
        .ok();
    let listed = facts.running.len() as u64;
    if listed < facts.running_total.min(MAX_RUNNING_JOBS as u64) {
        unknown.push(format!(
            "{} of {} running jobs: their lane's lock was held, or they ended meanwhile",
            facts.running_total - listed,
            facts.running_total
        ));
    }
    let incident = Incident {
        id: IncidentId::new_now(),
        reason,
        at_mono_ns,
        at_unix_ns: clock::unix_ns(),
        stalls,
        stacks,
        runtimes,
        process: threads::process_sample(&own),
        lanes: source::sample_all(),
        running: facts.running,
        running_total: facts.running_total,
        queues: facts.queues,
        waiting: facts.waiting,
        lag: recent.lag.iter().copied().collect(),
        recorder,
        suppressed_total: shared.incidents.suppressed_total(),
        dropped: dropped(shared),
        unknown,
    };
    Evidence {
        incident,
        gaps: recent.gaps.iter().rev().copied().collect(),
    }
}

fn say_unmet(runtimes: &[RuntimeSample], unknown: &mut Vec<String>) {
    for of in runtimes {
        let unmet = of
            .workers
            .iter()
            .filter(|worker| worker.tid.is_none())
            .count();
        if unmet > 0 {
            unknown.push(format!(
                "threads of {unmet} workers of runtime {}: the probe has not met them yet",
                of.info.id.0
            ));
        }
    }
}

fn say_unseen(queues: &[QueueFacts], unknown: &mut Vec<String>) {
    for queue in queues {
        if queue.by_priority.is_none() {
            unknown.push(format!(
                "queue of lane {} by priority: its lock was held, or it is long and holds cancelled jobs",
                queue.lane
            ));
        }
    }
}
