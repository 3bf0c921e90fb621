//! Jobs hold the slots of a lane and make no progress: no poll, no heartbeat, no end.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, Reach, count, rate, time},
    case::{Case, HELD},
    jobs::{StuckJob, WaitsAt},
    words::{culprit_job, duration, jobs},
};

/// Of a lane's slots, the share that is lost when it is worth a word.
const SHARE: f64 = 0.25;

pub(super) struct SlotLeak;

impl Rule for SlotLeak {
    fn id(&self) -> VerdictId {
        VerdictId::SlotLeak
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let found: Vec<_> = case
            .lanes()
            .filter_map(|lane| {
                let latest = &lane.entry.value.latest;
                let stuck: Vec<_> = case.stuck.of_lane(lane.name()).filter(leaks).collect();
                let oldest = stuck.iter().max_by_key(|stuck| stuck.job.elapsed_ns)?;
                // Of a large lane the sample shows the oldest jobs only.
                let shown = (ax_wire::sample::MAX_OLDEST_JOBS as u64).min(latest.limit);
                let share = stuck.len() as f64 / shown.max(1) as f64;
                if share < SHARE {
                    return None;
                }
                let held = if share >= 1.0 {
                    latest.running
                } else {
                    stuck.len() as u64
                };
                let stopped = lane.per_second(|second| second.counts.finished) == 0.0;
                let severity = if stopped && latest.pending > 0 {
                    Severity::Critical
                } else {
                    Severity::Warning
                };
                Some(
                    finding(lane.name(), *oldest, held, severity, case)
                        .evidence(count("slots of the lane", latest.limit))
                        .evidence(count("jobs that wait for a slot", latest.pending))
                        .evidence(rate(
                            "jobs that end",
                            lane.per_second(|second| second.counts.finished),
                        )),
                )
            })
            .collect();
        if found.is_empty() && case.stuck.unknown > 0 {
            return Answer::needs(format!(
                "a job of the kind of the {} that do not move to end, or {} of their standing still",
                jobs(case.stuck.unknown),
                duration(super::jobs::UNKNOWN_NS)
            ));
        }
        found.into()
    }
}

/// Who waits for something with a name is the business of another rule.
fn leaks(stuck: &StuckJob<'_>) -> bool {
    matches!(stuck.waits_at(), WaitsAt::Unknown | WaitsAt::Label(_))
}

fn finding(
    lane: &str,
    oldest: StuckJob<'_>,
    held: u64,
    severity: Severity,
    case: &Case<'_>,
) -> Finding {
    let job = oldest.job;
    let place = match (&job.waits_for, &job.task.place) {
        (Some(waits), _) => format!(" at `{}`", waits.label),
        (None, Some(place)) => format!(", started {place}"),
        (None, None) => String::new(),
    };
    let sentence = format!(
        "{} of lane `{lane}` do not move and keep their slots: the oldest, `{}`, has run for {} and was last polled {} \
         ago{place}.",
        jobs(held as usize),
        job.task.name,
        duration(job.elapsed_ns),
        duration(job.unpolled_ns.unwrap_or(job.elapsed_ns))
    );
    let began = case
        .latest
        .at_mono_ns
        .saturating_sub(job.unpolled_ns.unwrap_or(job.elapsed_ns));
    Finding::new(VerdictId::SlotLeak, severity, sentence)
        .of(lane)
        .sure(if oldest.usual_ns.is_some() { 0.85 } else { 0.6 })
        .since(began)
        .by(Some(culprit_job(job)))
        .hurts(Reach::Lanes(vec![lane.to_owned()]))
        .evidence(count("slots that are held so", held))
        .evidence(
            time("the oldest has run for", job.elapsed_ns)
                .against(oldest.usual_ns.unwrap_or(0) as f64),
        )
        .evidence(time(
            "since its last poll",
            job.unpolled_ns.unwrap_or(job.elapsed_ns),
        ))
        .next("cancel these jobs; give their type a timeout, so that the slot comes back by itself")
        .next(format!(
            "see what they await (`ax_scheduler::at(\"..\", future)` names it); {HELD} s without a poll is no progress"
        ))
}
