//! The pool behind `spawn_blocking`: much work is on it, or work waits for a thread of it.

use ax_wire::{
    alert::Severity,
    sample::TaskKind,
    verdict::{Culprit, VerdictId},
};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, count, time},
    case::{Case, HELD},
    words::duration,
};

/// A no-op that waits so long for a thread found all of them taken, and work before it.
const EXHAUSTED_NS: u64 = 100_000_000;

/// Closures at once, for each CPU, that are more than a pool of connections and files keeps busy.
const MANY_PER_CPU: f64 = 8.0;

/// Fewer than these are never many.
const LEAST: f64 = 16.0;

/// Whether the latest no-op waited too long for a thread, be it a hiccup or not.
pub(super) fn is_late(case: &Case<'_>) -> bool {
    let newest = case.newest().next();
    newest.is_some_and(|second| second.host.blocking_lag_ns.unwrap_or(0) >= EXHAUSTED_NS)
}

pub(super) struct BlockingPoolExhausted;

pub(super) struct BlockingPoolBusy;

impl Rule for BlockingPoolExhausted {
    fn id(&self) -> VerdictId {
        VerdictId::BlockingPoolExhausted
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let Some(lag_ns) = case
            .newest()
            .next()
            .and_then(|second| second.host.blocking_lag_ns)
        else {
            return Answer::needs(
                "the wait for a thread of the blocking pool, which is timed once a second",
            );
        };
        // The timing is a second old at most: two in a row are no hiccup.
        let lags = case
            .newest()
            .map(|second| second.host.blocking_lag_ns.unwrap_or(0));
        let late = lags.filter(|lag| *lag >= EXHAUSTED_NS).count();
        if lag_ns < EXHAUSTED_NS || late < 2 {
            return Answer::Fine;
        }
        let running = running(case);
        let sentence = format!(
            "Work for the blocking pool waits {} for a thread: all are taken{}.",
            duration(lag_ns),
            most_of_it(case).map_or_else(String::new, |name| format!(", most by `{name}`"))
        );
        let queued: u64 = case
            .latest
            .runtimes
            .iter()
            .filter_map(|runtime| runtime.blocking.queue_depth)
            .sum();
        Finding::new(
            VerdictId::BlockingPoolExhausted,
            Severity::Critical,
            sentence,
        )
        .sure(0.9)
        .by(culprit(case))
        .evidence(time("a closure waits for a thread", lag_ns).against(EXHAUSTED_NS as f64))
        .evidence(count("closures with a name that run", running))
        .evidence_if((queued > 0).then(|| count("closures that wait", queued)))
        .next("bound what runs there: a blocking lane with a limit below `max_blocking_threads`")
        .next("raise `max_blocking_threads` where the closures sleep rather than compute")
        .into()
    }
}

impl Rule for BlockingPoolBusy {
    fn id(&self) -> VerdictId {
        VerdictId::BlockingPoolBusy
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(needs) = case.lacks_seconds(HELD) {
            return Answer::needs(needs);
        }
        let many = (MANY_PER_CPU * case.cpus()).max(LEAST);
        let each = case.held(|second| f64::from(second.host.blocking_running) >= many);
        let usual = case.usual(|second| Some(f64::from(second.host.blocking_running)));
        let running = running(case);
        let is_usual = usual.is_some_and(|usual| (running as f64) < 2.0 * usual.median);
        if !each || is_usual {
            return Answer::Fine;
        }
        // The newest one, as the verdict of an exhausted pool tells it.
        let newest = case.newest().next();
        let lag_ns = newest.and_then(|second| second.host.blocking_lag_ns);
        let sentence = format!(
            "{running} closures run on the blocking pool at once{}: each is a thread.",
            most_of_it(case).map_or_else(String::new, |name| format!(", most of them `{name}`"))
        );
        Finding::new(VerdictId::BlockingPoolBusy, Severity::Warning, sentence)
            .sure(0.85)
            .by(culprit(case))
            .evidence(count("closures that run", running).against(many))
            .evidence_if(
                lag_ns.map(|ns| {
                    time("a closure waits for a thread", ns).against(EXHAUSTED_NS as f64)
                }),
            )
            .evidence_if(
                case.latest
                    .process
                    .threads
                    .map(|threads| count("threads", threads)),
            )
            .next("run them on a blocking lane, whose limit says how many run at once")
            .next("use the asynchronous form of what they do, where there is one")
            .into()
    }
}

fn running(case: &Case<'_>) -> u64 {
    case.newest()
        .next()
        .map_or(0, |second| u64::from(second.host.blocking_running))
}

fn most_of_it(case: &Case<'_>) -> Option<String> {
    culprit(case)?.task_type
}

/// The blocking task that most closures are of.
fn culprit(case: &Case<'_>) -> Option<Culprit> {
    let types = case.types().map(|of| &of.entry.value.latest);
    let blocking = types.filter(|of| of.kind == TaskKind::Blocking && of.running > 0);
    let most = blocking.max_by_key(|of| of.running)?;
    Some(Culprit {
        task_type: Some(most.name.clone()),
        place: most.place.clone(),
        ..Culprit::default()
    })
}
