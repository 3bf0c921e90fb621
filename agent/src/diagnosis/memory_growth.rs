//! Memory grows: a backlog that waits, tasks that pile up, or a leak.

use ax_wire::{
    alert::Severity,
    verdict::{Culprit, VerdictId},
};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, amount, bytes},
    baseline::slope,
    case::Case,
};

/// Seconds that the slope is taken over, and of a slow one.
const SECONDS: usize = 8;
const SLOW_SECONDS: usize = 600;

/// Of a process that has just started nothing is said: it fills its caches.
const WARM_SECONDS: usize = 14;

const MIB: f64 = 1024.0 * 1024.0;

/// Growth a second that empties a machine within hours.
const FAST: f64 = 1.5 * MIB;

/// What it must have gained meanwhile, and what part of what it had.
const GAINED: f64 = 12.0 * MIB;
const GAINED_SHARE: f64 = 0.05;

/// What a slow one must have gained over its ten minutes.
const SLOW_GAINED: f64 = 64.0 * MIB;

/// Steps that may go down.
const STEPS_DOWN: usize = 1;

pub(super) struct MemoryGrowth;

impl Rule for MemoryGrowth {
    fn id(&self) -> VerdictId {
        VerdictId::MemoryGrowth
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(needs) = case.lacks_seconds(WARM_SECONDS) {
            return Answer::needs(needs);
        }
        let fast = grown(case, SECONDS, 1);
        let slow = || grown(case, SLOW_SECONDS, SLOW_SECONDS / SECONDS);
        let fast = fast.filter(|grown| grown.per_second >= FAST && grown.is_much(GAINED));
        match fast.or_else(|| slow().filter(|grown| grown.is_much(SLOW_GAINED))) {
            Some(grown) => finding(case, &grown).into(),
            None => Answer::Fine,
        }
    }
}

/// Growth without a pause.
struct Grown {
    per_second: f64,
    from: f64,
    to: f64,
    span_s: f64,
}

impl Grown {
    fn is_much(&self, gained: f64) -> bool {
        let own = self.to - self.from;
        own >= gained && own >= GAINED_SHARE * self.from
    }
}

/// Over so many seconds, of which each `step`th is looked at; `None` where it has not grown all along.
fn grown(case: &Case<'_>, seconds: usize, step: usize) -> Option<Grown> {
    let newest_ns = case.window.newest_mono_ns();
    let known = case.seconds().take(seconds).step_by(step);
    let points = known.filter_map(|second| {
        let before_s = newest_ns.saturating_sub(second.at_mono_ns) as f64 / 1e9;
        Some((-before_s, second.point.rss_bytes? as f64))
    });
    let mut points: Vec<(f64, f64)> = points.collect();
    points.reverse();
    if points.len() < SECONDS {
        return None;
    }
    let down = points
        .windows(2)
        .filter(|pair| pair[1].1 < pair[0].1)
        .count();
    let still = points
        .windows(2)
        .filter(|pair| pair[1].1 <= pair[0].1)
        .count();
    if down > STEPS_DOWN || still > 2 {
        return None;
    }
    let ((first_s, from), (last_s, to)) = (*points.first()?, *points.last()?);
    Some(Grown {
        per_second: slope(&points)?,
        from,
        to,
        span_s: last_s - first_s,
    })
}

fn finding(case: &Case<'_>, grown: &Grown) -> Finding {
    let span = (grown.span_s.round() as usize).max(1);
    let change = |of: &dyn Fn(&crate::history::Second) -> f64| {
        let mut seconds = case.seconds().take(span + 1);
        let newest = seconds.next().map_or(0.0, of);
        newest - seconds.last().map_or(newest, of)
    };
    let queued = change(&|second| second.point.pending as f64);
    let tasks = change(&|second| second.host.alive_tasks as f64);
    // The figures of the evidence and of the screens are in MB, too.
    let gained_mb = (grown.to - grown.from) / 1e6;
    let piled = piled_up(case, span);
    let (why, advice) = match &piled {
        Some((name, more)) => (
            format!(": {more} more tasks `{name}` are alive than before"),
            "find out why they do not end, and bound how many there are (a lane's limit)",
        ),
        None if queued > 100.0 => (
            format!(": {queued:.0} more jobs are queued than before"),
            "refuse sooner: a smaller capacity, in jobs or in bytes, or shed low priorities",
        ),
        None if tasks > 100.0 => (
            format!(": {tasks:.0} more tasks are alive than before"),
            "find who spawns them and why they do not end (`ax_probe::spawn` gives them names)",
        ),
        None => (
            ", and neither queues nor tasks do: something keeps what it no longer needs".to_owned(),
            "look for a cache, a map or a channel without a bound; a heap profiler names the place",
        ),
    };
    let sentence =
        format!("Memory has grown by {gained_mb:.0} MB in {span} s without a pause{why}.");
    let culprit = piled.map(|(name, _)| Culprit {
        task_type: Some(name),
        ..Culprit::default()
    });
    Finding::new(VerdictId::MemoryGrowth, Severity::Warning, sentence)
        .sure(if grown.span_s > 60.0 { 0.9 } else { 0.75 })
        .by(culprit)
        .since(
            case.window
                .newest_mono_ns()
                .saturating_sub((grown.span_s * 1e9) as u64),
        )
        .evidence(bytes("resident memory", grown.to as u64).against(grown.from))
        .evidence(bytes("grows in a second by", grown.per_second as u64))
        .evidence(amount("more jobs queued", queued))
        .evidence(amount("more tasks alive", tasks))
        .next(advice)
        .next("take a snapshot now (`ax-top capture`): it lists what is queued and what runs")
}

/// The type of which many more run than at the beginning.
fn piled_up(case: &Case<'_>, span: usize) -> Option<(String, u32)> {
    let grown = case.types().filter_map(|of| {
        let mut seconds = case
            .seconds()
            .take(span + 1)
            .filter_map(|second| of.of(second));
        let newest = seconds.next()?.running;
        let oldest = seconds.last()?.running;
        Some((of, newest.saturating_sub(oldest)))
    });
    let (of, more) = grown.max_by_key(|(_, more)| *more)?;
    (more > 100).then(|| (of.entry.value.latest.name.clone(), more))
}
