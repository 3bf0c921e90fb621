//! How the service does beside how it did: in the instance before this one, and in the same hour a day before.

use ax_wire::{
    alert::Unit,
    verdict::{Evidence, Verdict, VerdictId},
};

use super::{
    answer::{Against as _, amount, time},
    case::Case,
};
use crate::{history::Typical, marks::Predecessor};

/// Adds the comparisons to the first verdict.
pub(super) fn tell(first: &mut Verdict, before: Option<&Predecessor>, case: &Case<'_>) {
    if let Some(before) = before.filter(|_| first.id != VerdictId::Healthy) {
        first.evidence.extend(with_the_instance(before, case));
        if before.is_other_build(case.hello()) == Some(true) {
            first.next_steps.push(
                "this is another build than the instance before: look at what changed in it"
                    .to_owned(),
            );
        }
    }
    first.evidence.extend(with_the_day(case));
}

fn with_the_instance(before: &Predecessor, case: &Case<'_>) -> Vec<Evidence> {
    let lag = case.window.lag().p99_ns.zip(before.lag_ns);
    let lag = lag.map(|(now, before)| {
        time("event-loop lag, against the instance before", now).against(before as f64)
    });
    let cpus = case.cpus_used().zip(before.cpus_used);
    let cpus = cpus
        .map(|(now, before)| amount("CPUs used, against the instance before", now).against(before));
    lag.into_iter().chain(cpus).collect()
}

/// The newest seconds beside a typical one of the same hour a day before. Nothing where that hour is not known: what is
/// missing of it is no evidence of anything.
fn with_the_day(case: &Case<'_>) -> Vec<Evidence> {
    let history = case.window.history();
    let before = history.day.before(&history.seconds);
    before.map_or_else(Vec::new, |before| {
        figures(Typical::of(&case.newest()), before)
    })
}

/// A figure: what it is, and how it is read.
type Figure = (&'static str, Unit, fn(&Typical) -> Option<f32>);

fn figures(now: Typical, before: Typical) -> Vec<Evidence> {
    let all: [Figure; 7] = [
        ("event-loop lag", Unit::Nanoseconds, |of| of.lag_ns),
        ("jobs finished", Unit::PerSecond, |of| of.jobs_per_s),
        ("requests finished", Unit::PerSecond, |of| of.requests_per_s),
        ("queue wait p99", Unit::Nanoseconds, |of| of.queue_wait_ns),
        ("jobs queued", Unit::Count, |of| of.pending),
        ("CPUs used", Unit::Count, |of| of.cpus_used),
        ("resident memory", Unit::Bytes, |of| of.rss_bytes),
    ];
    let told = all.into_iter().filter_map(|(what, unit, of)| {
        let (now, before) = (f64::from(of(&now)?), f64::from(of(&before)?));
        // A service without jobs has none now, and had none.
        (now != 0.0 || before != 0.0).then(|| Evidence {
            what: format!("{what}, against the same hour a day before"),
            value: now,
            against: Some(before),
            unit,
        })
    });
    told.collect()
}
