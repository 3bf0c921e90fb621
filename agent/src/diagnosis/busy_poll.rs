//! A task wakes itself again and again: many polls, no progress.

use ax_wire::{alert::Severity, sample::TaskRef, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, amount, rate},
    case::{Case, HELD, TypeCase, mean},
    words::culprit_of,
};

/// Polls a second from which on a task can keep a worker busy by doing nothing.
const MANY: f64 = 5_000.0;

/// Polls for each task that ends from which on they are no progress.
const POLLS_PER_END: f64 = 200.0;

/// CPUs that the workers use for it.
const LEAST_CPUS: f64 = 0.3;

pub(super) struct BusyPoll;

impl Rule for BusyPoll {
    fn id(&self) -> VerdictId {
        VerdictId::BusyPoll
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(needs) = case.lacks_seconds(HELD) {
            return Answer::needs(needs);
        }
        let Some(cpus) = case.mean(|host| host.worker_cpus) else {
            return Answer::needs(
                "the CPU time of the workers' threads, which the probe could not read: it has not met them yet, or has no file \
                 descriptor left",
            );
        };
        if cpus < LEAST_CPUS {
            return Answer::Fine;
        }
        let found = case.types().filter_map(|of| check_type(case, of, cpus));
        found.collect::<Vec<_>>().into()
    }
}

fn check_type(case: &Case<'_>, of: TypeCase<'_, '_>, cpus: f64) -> Option<Finding> {
    let seconds: Vec<_> = of.newest().collect();
    let polls = mean(seconds.iter().map(|second| second.poll.count() as f64))?;
    let ended = mean(
        seconds
            .iter()
            .map(|second| f64::from(second.counts.finished)),
    )?;
    let each = seconds.len() >= HELD
        && seconds
            .iter()
            .all(|second| second.poll.count() as f64 >= MANY / 2.0);
    if polls < MANY || polls < POLLS_PER_END * ended || !each {
        return None;
    }
    let usual = of.usual(|second| Some(second.poll.count() as f64));
    if usual.is_some_and(|usual| polls < 4.0 * usual.median) {
        return None;
    }
    let latest = &of.entry.value.latest;
    let sentence = format!(
        "`{}` is polled {polls:.0} times a second and gets nowhere: it wakes itself.",
        latest.name
    );
    let task = TaskRef {
        name: latest.name.clone(),
        kind: latest.kind,
        job: None,
        lane: latest.lane.clone(),
        place: latest.place.clone(),
        trace: None,
    };
    let poll = seconds
        .iter()
        .filter_map(|second| second.poll.p50_ns())
        .max();
    let finding = Finding::new(VerdictId::BusyPoll, Severity::Warning, sentence)
        .of(latest.name.clone())
        .sure(0.9)
        .by(Some(culprit_of(&task)))
        .evidence(rate("polls", polls).against(usual.map_or(MANY, |usual| usual.median)))
        .evidence(rate("of them that ended a task", ended))
        .evidence(amount("CPUs used by the workers", cpus).against(case.cpus()))
        .evidence_if(poll.map(|ns| super::answer::time("one poll", ns)))
        .next("return `Pending` only after something else will wake the task; never wake it yourself at once")
        .next("in a loop over `try_recv`, `try_lock` or `yield_now`, await the event in place of asking for it");
    Some(finding)
}
