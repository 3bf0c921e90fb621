//! Jobs of low priority are not begun, while those above them are.

use ax_wire::{alert::Severity, sample::QueueBand, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, Reach, count, rate, time},
    case::{Case, HELD, LaneCase},
    words::duration,
};

/// A job that waits for less is not starved. It was there in all of the newest seconds then, so that whatever began in
/// these has overtaken it; in a queue that has just begun to grow, what began before it came has not.
const LEAST_NS: u64 = HELD as u64 * 1_000_000_000;

/// Those above wait for at most this part of it.
const ABOVE: u64 = 4;

pub(super) struct PriorityStarvation;

impl Rule for PriorityStarvation {
    fn id(&self) -> VerdictId {
        VerdictId::PriorityStarvation
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(needs) = case.lacks_seconds(HELD) {
            return Answer::needs(needs);
        }
        let found = case.lanes().filter_map(check_one);
        found.collect::<Vec<_>>().into()
    }
}

fn check_one(lane: LaneCase<'_, '_>) -> Option<Finding> {
    let latest = &lane.entry.value.latest;
    let bands = latest.queue.as_deref()?;
    let lowest: &QueueBand = bands
        .iter()
        .filter(|band| band.pending > 0)
        .min_by_key(|band| band.lowest)?;
    let oldest_ns = lowest.oldest_ns?;
    // What is above is begun so soon that it often is not even queued: those begun at all tell of it then.
    let above = bands
        .iter()
        .filter(|band| band.lowest > lowest.lowest && band.pending > 0);
    let above_ns = above.filter_map(|band| band.oldest_ns).max().unwrap_or(0);
    let ending = lane.per_second(|second| second.counts.finished);
    let full = lane.held(|second| u64::from(second.running) * 10 >= latest.limit * 9);
    let usual = lane.usual(|second| Some(second.queue_wait.p99_ns()? as f64));
    let others_begin = lane.held(|second| {
        let wait_ns = second.queue_wait.p50_ns();
        wait_ns.is_some_and(|wait_ns| wait_ns.saturating_mul(ABOVE) <= oldest_ns)
    });
    let wait_ns = lane
        .newest()
        .filter_map(|second| second.queue_wait.p50_ns())
        .max();
    let starved = oldest_ns >= LEAST_NS
        && above_ns.saturating_mul(ABOVE) <= oldest_ns
        && others_begin
        && ending > 0.0
        && full
        && usual.is_none_or(|usual| oldest_ns as f64 >= 5.0 * usual.median);
    if !starved {
        return None;
    }
    let name = lane.name();
    let sentence = format!(
        "{} jobs of priority {} to {} wait in lane `{name}`, the oldest for {}, while jobs above them begin at once.",
        lowest.pending,
        lowest.lowest,
        lowest.highest,
        duration(oldest_ns)
    );
    let finding = Finding::new(VerdictId::PriorityStarvation, Severity::Warning, sentence)
        .of(name)
        .sure(0.85)
        .hurts(Reach::Lanes(vec![name.to_owned()]))
        .evidence(time("oldest job of low priority waits", oldest_ns).against(LEAST_NS as f64))
        .evidence_if(wait_ns.map(|ns| time("median wait of what begins", ns)))
        .evidence(count("jobs of low priority that wait", lowest.pending))
        .evidence(rate("jobs that end", ending))
        .next("let priorities age, or give low ones a guaranteed turn (`ageing`, `turn_every`)")
        .next("or give the low work a lane of its own");
    Some(finding)
}
