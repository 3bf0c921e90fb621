//! Retries are most of the load.

use ax_wire::{
    alert::Severity,
    verdict::{Culprit, VerdictId},
};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, Reach, count, rate, share},
    case::{Case, HELD, LaneCase},
    words::percent,
};

/// Of the attempts, the share that is followed by another from which on it is a storm.
const STORM: f64 = 0.4;

/// Attempts a second without which a share says nothing.
const LEAST: f64 = 3.0;

pub(super) struct RetryStorm;

impl Rule for RetryStorm {
    fn id(&self) -> VerdictId {
        VerdictId::RetryStorm
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(needs) = case.lacks_seconds(HELD) {
            return Answer::needs(needs);
        }
        let found = case.lanes().filter_map(|lane| check_one(case, lane));
        found.collect::<Vec<_>>().into()
    }
}

/// The type of the lane of which most attempts fail: of each that is repeated a run ends, and no job does.
fn culprit(case: &Case<'_>, lane: &str) -> Option<Culprit> {
    let types = case.types();
    let of_lane = types.filter(|of| of.entry.value.latest.lane.as_deref() == Some(lane));
    let most = of_lane.max_by_key(|of| {
        let failed = of.newest().map(|second| {
            let ended = u64::from(second.counts.finished);
            second.run.count().saturating_sub(ended) + u64::from(second.counts.unsuccessful)
        });
        failed.sum::<u64>()
    })?;
    let latest = &most.entry.value.latest;
    Some(Culprit {
        task_type: Some(latest.name.clone()),
        place: latest.place.clone(),
        ..Culprit::default()
    })
}

fn check_one(case: &Case<'_>, lane: LaneCase<'_, '_>) -> Option<Finding> {
    let attempts = lane.per_second(|second| second.started);
    let retried = lane.per_second(|second| second.retried);
    let part = retried / attempts.max(1e-9);
    let each = lane.held(|second| second.retried > 0);
    if attempts < LEAST || part < STORM || !each {
        return None;
    }
    let latest = &lane.entry.value.latest;
    let ending = lane.per_second(|second| second.counts.finished);
    let failing = lane.per_second(|second| second.counts.unsuccessful);
    let usual = lane.usual(|second| {
        (second.started > 0).then(|| f64::from(second.retried) / f64::from(second.started))
    });
    let name = lane.name();
    let sentence = format!(
        "{} of the attempts in lane `{name}` fail and are tried again: {retried:.0} retries a second beside {ending:.0} \
         jobs that end.",
        percent(part.min(1.0))
    );
    let finding = Finding::new(VerdictId::RetryStorm, Severity::Warning, sentence)
        .of(name)
        .sure(0.9)
        .by(culprit(case, name))
        .hurts(Reach::Lanes(vec![name.to_owned()]))
        .evidence(share("attempts that are repeated", part.min(1.0)).against(usual.map_or(STORM, |u| u.median)))
        .evidence(rate("attempts", attempts))
        .evidence(rate("jobs that end", ending))
        .evidence_if((failing > 0.0).then(|| rate("of them without success", failing)))
        .evidence(count("jobs that wait for a retry or for other jobs", latest.waiting))
        .next("find out what fails: the lane's errors in the traces and the log")
        .next("give the lane a retry budget and a longer backoff with jitter; do not retry what cannot succeed");
    Some(finding)
}
