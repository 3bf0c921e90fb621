//! The loop is idle, and jobs wait for ever for an asynchronous lock or permit: for each other, or for a holder that
//! nobody polls any more (a futurelock).

use std::collections::BTreeMap;

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, Reach, count, time},
    case::Case,
    jobs::{StuckJob, WaitsAt},
    words::{culprit_job, duration, jobs, list},
};

pub(super) struct AsyncDeadlock;

impl Rule for AsyncDeadlock {
    fn id(&self) -> VerdictId {
        VerdictId::AsyncDeadlock
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let mut at: BTreeMap<String, Vec<StuckJob<'_>>> = BTreeMap::new();
        for stuck in &case.stuck.jobs {
            let label = match stuck.waits_at() {
                WaitsAt::Label(label) => label.to_owned(),
                // Jobs that wait for jobs of a lane whose slots are all held by jobs which wait for it.
                WaitsAt::Lane(lane) if waits_for_itself(case, lane) => format!("lane {lane}"),
                _ => continue,
            };
            at.entry(label).or_default().push(*stuck);
        }
        let waiting: Vec<StuckJob<'_>> = at.values().flatten().copied().collect();
        let Some(first) = waiting.iter().max_by_key(|stuck| stuck.unmoved_ns()) else {
            if case.stuck.unknown > 0 {
                return Answer::needs(format!(
                    "a job of the kind of the {} that wait to end, or {} of their waiting",
                    jobs(case.stuck.unknown),
                    duration(super::jobs::UNKNOWN_NS)
                ));
            }
            return Answer::Fine;
        };
        // One job alone may wait for something slow; a lane that waits for itself does not need a second one.
        let of_lane = at.keys().any(|label| label.starts_with("lane "));
        if waiting.len() < 2 && !of_lane {
            return Answer::Fine;
        }
        let labels: Vec<String> = at.keys().map(|label| format!("`{label}`")).collect();
        let mut lanes: Vec<String> = waiting
            .iter()
            .filter_map(|stuck| stuck.lane().map(str::to_owned))
            .collect();
        lanes.sort();
        lanes.dedup();
        // Of a lane with more running jobs a sample lists the oldest.
        let more = lanes.iter().any(|name| {
            let latest = case.lane(name).map(|lane| &lane.entry.value.latest);
            latest.is_some_and(|lane| lane.running > ax_wire::sample::MAX_OLDEST_JOBS as u64)
        });
        let sentence = format!(
            "{}{} wait for {} for ever: nobody who holds {} is polled, for {} now.",
            if more { "At least " } else { "" },
            jobs(waiting.len()),
            list(&labels, 3),
            if labels.len() == 1 { "it" } else { "them" },
            duration(first.unmoved_ns())
        );
        let began = case.latest.at_mono_ns.saturating_sub(first.unmoved_ns());
        Finding::new(VerdictId::AsyncDeadlock, Severity::Critical, sentence)
            .sure(if waiting.len() > 2 { 0.9 } else { 0.8 })
            .since(began)
            .by(Some(culprit_job(first.job)))
            .hurts(Reach::Lanes(lanes))
            .evidence(count("jobs that wait and are not polled", waiting.len() as u64))
            .evidence(time("the longest waits for", first.unmoved_ns()).against(first.usual_ns.unwrap_or(0) as f64))
            .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns))
            .next("cancel the job that has waited longest (`ax-top` lanes); a restart frees all")
            .next("look for a lock held across a `select!` that stops polling its holder, or two locks in opposite orders")
            .into()
    }
}

/// Whether all slots of a lane are held by jobs that wait for a job of the same lane.
fn waits_for_itself(case: &Case<'_>, name: &str) -> bool {
    let Some(lane) = case.lane(name) else {
        return false;
    };
    let latest = &lane.entry.value.latest;
    let own = case
        .stuck
        .of_lane(name)
        .filter(|stuck| stuck.waits_at() == WaitsAt::Lane(name))
        .count() as u64;
    // Of a large lane the sample shows the oldest jobs only.
    let shown = (ax_wire::sample::MAX_OLDEST_JOBS as u64).min(latest.limit);
    own > 0 && own >= shown && latest.running >= latest.limit
}
