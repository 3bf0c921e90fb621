//! Every worker of a runtime is inside a poll, off the CPU, and none moves.

use ax_wire::{
    alert::Severity,
    sample::{RuntimeSample, WorkerState},
    verdict::VerdictId,
};

use super::{
    Rule,
    answer::{Answer, Finding, Reach, count, time},
    case::Case,
    stalls::{Manner, SeenStall},
    words::{culprit_of, duration, named},
};

/// A lock that is held for so long by somebody who could let go would be held by somebody who works.
const LEAST_NS: u64 = 1_500_000_000;

/// Threads outside the workers that use so much of a CPU may hold what the workers wait for.
const OTHERS_WORK: f64 = 0.05;

pub(super) struct RuntimeDeadlock;

/// A runtime that does not move, with the stall of each of its workers.
pub(super) struct Deadlocked<'a, 'c> {
    runtime: &'a RuntimeSample,
    stalls: Vec<&'c SeenStall<'a>>,
    /// Of the worker that has moved last.
    youngest_ns: u64,
}

/// The runtime whose workers all wait for each other.
pub(super) fn deadlocked<'a, 'c>(case: &'c Case<'a>) -> Option<Deadlocked<'a, 'c>> {
    let working = case
        .latest
        .runtimes
        .iter()
        .any(|r| r.blocking.watched_running > 0)
        || case
            .mean(|host| host.outside_cpus)
            .is_some_and(|cpus| cpus > OTHERS_WORK);
    if working {
        return None;
    }
    case.latest.runtimes.iter().find_map(|runtime| {
        let all_stalled = !runtime.workers.is_empty()
            && runtime
                .workers
                .iter()
                .all(|worker| worker.state == WorkerState::Stalled);
        let stalls: Vec<_> = case
            .stalls
            .iter()
            .filter(|seen| seen.ongoing && seen.stall.runtime == runtime.info.id)
            .collect();
        let of_worker = |index| {
            let mut own = stalls
                .iter()
                .filter(|seen| seen.stall.worker == Some(index));
            own.any(|seen| matches!(seen.manner, Manner::Lock | Manner::Sleeps(None)))
        };
        let all_wait = runtime.workers.iter().all(|worker| of_worker(worker.index));
        let youngest_ns = stalls.iter().map(|seen| seen.stall.length_ns).min()?;
        (all_stalled && all_wait && youngest_ns >= LEAST_NS).then_some(Deadlocked {
            runtime,
            stalls,
            youngest_ns,
        })
    })
}

impl Rule for RuntimeDeadlock {
    fn id(&self) -> VerdictId {
        VerdictId::RuntimeDeadlock
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let Some(found) = deadlocked(case) else {
            return Answer::Fine;
        };
        let mut names: Vec<_> = found
            .stalls
            .iter()
            .map(|seen| named(seen.stall.task.as_ref()))
            .collect();
        names.sort();
        names.dedup();
        let workers = found.runtime.workers.len();
        let who = match workers {
            1 => "The only worker waits".to_owned(),
            2 => "Both workers wait".to_owned(),
            many => format!("All {many} workers wait"),
        };
        let sentence = format!(
            "{who} for a lock that nobody lets go, for {} now: in {}.",
            duration(found.youngest_ns),
            super::words::list(&names, 3)
        );
        let first = found
            .stalls
            .iter()
            .min_by_key(|seen| seen.stall.began_mono_ns);
        let culprit = first.and_then(|seen| {
            let mut culprit = culprit_of(seen.stall.task.as_ref()?);
            culprit.frame = seen.frame.map(str::to_owned);
            Some(culprit)
        });
        let began = found
            .stalls
            .iter()
            .map(|seen| seen.stall.began_mono_ns)
            .max();
        Finding::new(VerdictId::RuntimeDeadlock, Severity::Page, sentence)
            .sure(0.9)
            .since(began)
            .by(culprit)
            .hurts(Reach::Stopped)
            .evidence(count("workers that do not move", workers as u64))
            .evidence(time("for at least", found.youngest_ns))
            .next("take a snapshot for the stacks of all workers (`ax-top capture`), then restart the service")
            .next("look for two locks taken in opposite orders, a lock taken twice, or `block_on` inside a task")
            .into()
    }
}
