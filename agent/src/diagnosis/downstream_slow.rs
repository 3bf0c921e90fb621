//! The loop is fine, and what is called takes longer than it used to.

use ax_wire::{
    alert::Severity,
    verdict::{Culprit, VerdictId},
};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, Reach, amount, count, rate, time},
    baseline::{Baseline, FEWEST},
    blocking_pool,
    case::{Case, DownstreamCase, mean},
    jobs::WaitsAt,
    words::duration,
};

/// Times what is usual, from which on a downstream is slow.
const TIMES: f64 = 2.0;

/// And so much longer, or nobody feels it.
const LEAST_NS: f64 = 5e6;

/// A call that has not ended for so many times the slowest usual one hangs.
const HANGS_TIMES: f64 = 4.0;

/// And for so long.
const HANGS_NS: u64 = 1_000_000_000;

pub(super) struct DownstreamSlow;

impl Rule for DownstreamSlow {
    fn id(&self) -> VerdictId {
        VerdictId::DownstreamSlow
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let mut found = Vec::new();
        let mut unknown = Vec::new();
        for downstream in case.downstreams() {
            let busy = downstream.sample.in_flight > 0 || downstream.newest().any(|s| s.calls > 0);
            let usual = downstream.usual(|second| Some(second.latency.p50_ns()? as f64));
            match usual {
                Some(usual) => found.extend(check_one(case, downstream, usual)),
                None if busy => unknown.push(downstream.name().to_owned()),
                None => {}
            }
        }
        if found.is_empty() && !unknown.is_empty() {
            return Answer::needs(format!(
                "{FEWEST} s with calls of {} from before the last 5 s",
                super::words::list(&unknown, 3)
            ));
        }
        found.into()
    }
}

/// How much slower than usual its calls are; `None` where they are not.
pub(super) fn slower(downstream: DownstreamCase<'_, '_>, usual: Baseline) -> Option<u64> {
    let now_ns = downstream.latency_ns()?;
    let slow =
        now_ns as f64 >= TIMES * usual.median && usual.is_exceeded_by(now_ns as f64, LEAST_NS);
    slow.then_some(now_ns)
}

fn check_one(
    case: &Case<'_>,
    downstream: DownstreamCase<'_, '_>,
    usual: Baseline,
) -> Option<Finding> {
    let name = downstream.name();
    let slowest = downstream.usual(|second| Some(second.latency.p99_ns()? as f64));
    let hang_ns = slowest.map_or(u64::MAX, |slowest| {
        ((HANGS_TIMES * slowest.median) as u64).max(HANGS_NS)
    });
    let oldest = downstream
        .sample
        .oldest
        .iter()
        .max_by_key(|call| call.age_ns);
    let hangs = oldest.filter(|call| call.age_ns >= hang_ns);
    let now_ns = slower(downstream, usual);
    let waiting = case
        .stuck
        .jobs
        .iter()
        .filter(|stuck| stuck.waits_at() == WaitsAt::Downstream(name))
        .count();
    // One call of many that hangs is a lost packet; when nothing else ends, or several hang, it is the downstream.
    let hanging = downstream
        .sample
        .oldest
        .iter()
        .filter(|call| call.age_ns >= hang_ns)
        .count();
    let few_end = now_ns.is_some() || hanging >= 3 || hanging as u64 >= downstream.sample.in_flight;
    // Calls that run on the blocking pool and cannot begin look as if they did not come back. Whether the pool is full is
    // known a second later.
    let hangs = hangs.filter(|_| few_end && !blocking_pool::is_late(case));
    if now_ns.is_none() && hangs.is_none() {
        return None;
    }
    let sentence = match (now_ns, hangs) {
        (Some(now_ns), _) => format!(
            "Calls to `{name}` take {} where {} is usual.",
            duration(now_ns),
            duration(usual.median as u64)
        ),
        (None, Some(call)) => format!(
            "Calls to `{name}` do not come back: the oldest has been out for {} where {} is usual.",
            duration(call.age_ns),
            duration(usual.median as u64)
        ),
        (None, None) => return None,
    };
    let times = now_ns.map_or(f64::INFINITY, |now| now as f64 / usual.median.max(1.0));
    let severity = if times >= 10.0 {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let errors = mean(downstream.newest().map(|second| f64::from(second.errors)));
    let caller = oldest.map(|call| Culprit {
        task_type: call.caller.clone(),
        job: call.job,
        trace: call.trace,
        ..Culprit::default()
    });
    let injected = downstream.sample.injected_delay_ns;
    let finding = Finding::new(VerdictId::DownstreamSlow, severity, sentence)
        .of(name)
        .sure(if case.loop_is_fine() { 0.9 } else { 0.6 })
        .by(caller)
        .hurts(Reach::Lanes(downstream.lanes()))
        .evidence_if(now_ns.map(|ns| time("median call over 3 s", ns).against(usual.median)))
        .evidence_if(oldest.map(|call| {
            time("oldest call under way", call.age_ns)
                .against(slowest.map_or(usual.median, |slowest| slowest.median))
        }))
        .evidence(count("calls under way", downstream.sample.in_flight))
        .evidence_if(errors.filter(|errors| *errors > 0.0).map(|errors| rate("calls that fail", errors)))
        .evidence_if((waiting > 0).then(|| amount("jobs that wait for it and do not move", waiting as f64)))
        .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns))
        .evidence_if(injected.map(|ns| time("delay added on purpose", ns)))
        .next(format!("look at `{name}` itself: this service only waits for it"))
        .next("give its calls a timeout and its lane a smaller limit or a breaker, so that the rest goes on");
    Some(finding)
}
