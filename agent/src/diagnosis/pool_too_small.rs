//! Callers queue for a pool of clients while the downstream itself is fast.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, Reach, count, time},
    case::{Case, DownstreamCase, HELD},
    downstream_slow::slower,
    words::duration,
};

/// A wait below this is no queue.
const LEAST_NS: u64 = 5_000_000;

/// A client is waited for so many times as long as it is used.
const TIMES_LATENCY: f64 = 2.0;

pub(super) struct PoolTooSmall;

impl Rule for PoolTooSmall {
    fn id(&self) -> VerdictId {
        VerdictId::PoolTooSmall
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(needs) = case.lacks_seconds(HELD) {
            return Answer::needs(needs);
        }
        let found = case.downstreams().filter_map(|of| check_one(case, of));
        found.collect::<Vec<_>>().into()
    }
}

fn check_one(case: &Case<'_>, downstream: DownstreamCase<'_, '_>) -> Option<Finding> {
    let name = downstream.name();
    let sample = downstream.sample;
    let pool = sample.pool;
    let shown = pool.and_then(|pool| pool.waiting).unwrap_or(0);
    let waiting = sample.waiting.max(shown);
    let queued = downstream
        .newest()
        .filter(|second| second.waiting > 0)
        .count();
    let free = pool.is_some_and(|pool| pool.idle > 0 && shown == 0 && sample.waiting == 0);
    if waiting == 0 || queued < HELD || free {
        return None;
    }
    let latency_ns = downstream.latency_ns();
    let wait_ns = downstream.wait_ns();
    // Where nobody has got a client, there is no wait to look at; that many wait is enough.
    let waits = wait_ns.map(|ns| ns.max(1));
    let enough = waits.is_none_or(|wait_ns| {
        wait_ns >= LEAST_NS
            && latency_ns.is_none_or(|latency| wait_ns as f64 >= TIMES_LATENCY * latency as f64)
    });
    let usual_wait = downstream.usual(|second| Some(second.wait.p50_ns()? as f64));
    let is_usual = usual_wait
        .zip(waits)
        .is_some_and(|(usual, wait_ns)| (wait_ns as f64) < 3.0 * usual.median);
    let usual = downstream.usual(|second| Some(second.latency.p50_ns()? as f64));
    let slow = usual.is_some_and(|usual| slower(downstream, usual).is_some());
    if !enough || is_usual || slow {
        return None;
    }
    let of_clients = pool.map_or_else(String::new, |pool| {
        format!(" (all {} clients are in use)", pool.in_use + pool.idle)
    });
    let takes = latency_ns.map_or_else(String::new, |ns| {
        format!(", while a call itself takes {}", duration(ns))
    });
    let waited = waits.map_or_else(
        || "and none gets one".to_owned(),
        |ns| format!("for {}", duration(ns)),
    );
    let sentence =
        format!("{waiting} callers wait {waited} for a client of `{name}`{of_clients}{takes}.");
    let finding = Finding::new(VerdictId::PoolTooSmall, Severity::Warning, sentence)
        .of(name)
        .sure(if pool.is_some() && case.loop_is_fine() { 0.9 } else { 0.7 })
        .hurts(Reach::Lanes(downstream.lanes()))
        .evidence(count("callers that wait for a client", waiting))
        .evidence_if(waits.map(|ns| {
            time("median wait for a client", ns)
                .against(usual_wait.map_or(LEAST_NS as f64, |usual| usual.median))
        }))
        .evidence_if(latency_ns.map(|ns| {
            let evidence = time("median call over 3 s", ns);
            match usual {
                Some(usual) => evidence.against(usual.median),
                None => evidence,
            }
        }))
        .evidence_if(pool.map(|pool| count("clients in use", pool.in_use).against((pool.in_use + pool.idle) as f64)))
        .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns))
        .next("give the pool more clients, as many as the downstream takes")
        .next("or set the lane's limit to the number of clients, so that jobs queue where they are seen and ranked");
    Some(finding)
}
