//! Who is hurt: routes and job types that take longer than usual, or fail, since a cause began.

use ax_wire::{
    sample::TaskKind,
    verdict::{Hurt, HurtKind},
};

use super::{
    answer::Reach,
    case::{Case, TypeCase},
};

/// Entries of a verdict at most.
const MOST: usize = 8;

/// Times what is usual, from which on somebody is hurt.
const TIMES: f64 = 1.5;

/// And so much longer.
const LEAST_NS: f64 = 2e6;

/// One that fails weighs as much as one that takes so much longer.
const FAILS_NS: f64 = 1e9;

/// Seconds before now that are looked at, at most.
const SECONDS: usize = 60;

/// The routes and job types that suffer, routes first and the worst hit of each first.
pub(crate) fn who(case: &Case<'_>, reach: &Reach, began_mono_ns: u64) -> Vec<Hurt> {
    match reach {
        Reach::Nobody => return Vec::new(),
        Reach::These(seen) => return seen.iter().take(MOST).cloned().collect(),
        Reach::Everyone | Reach::Stopped | Reach::Lanes(_) => {}
    }
    let stopped = *reach == Reach::Stopped;
    let mut hurt: Vec<(f64, Hurt)> = case
        .types()
        .filter_map(|of| {
            let latest = &of.entry.value.latest;
            let kind = match latest.kind {
                TaskKind::Request => HurtKind::Route,
                TaskKind::Job if reaches(reach, latest.lane.as_deref()) => HurtKind::JobType,
                _ => return None,
            };
            one(case, of, kind, began_mono_ns, stopped)
        })
        .collect();
    hurt.sort_by(|(a_weight, a), (b_weight, b)| {
        let is_route = |hurt: &Hurt| hurt.kind == HurtKind::Route;
        is_route(b)
            .cmp(&is_route(a))
            .then(b_weight.total_cmp(a_weight))
    });
    hurt.truncate(MOST);
    hurt.into_iter().map(|(_, hurt)| hurt).collect()
}

fn reaches(reach: &Reach, lane: Option<&str>) -> bool {
    match reach {
        Reach::Everyone | Reach::Stopped => true,
        Reach::Lanes(lanes) => lane.is_some_and(|lane| lanes.iter().any(|of| of == lane)),
        Reach::These(_) | Reach::Nobody => false,
    }
}

/// What became of one type since then, with how much it weighs. `None` where it does as it always did.
fn one(
    case: &Case<'_>,
    of: TypeCase<'_, '_>,
    kind: HurtKind,
    began_mono_ns: u64,
    stopped: bool,
) -> Option<(f64, Hurt)> {
    let latest = &of.entry.value.latest;
    let (mut ended, mut errors, mut run_ns, mut wait_ns) = (0_u64, 0_u64, None, None);
    let since = case
        .seconds()
        .take(SECONDS)
        // A second that was mostly before it is not counted.
        .take_while(|second| {
            let half_ns = second.interval_ns.unwrap_or(0) / 2;
            second.at_mono_ns.saturating_sub(half_ns) > began_mono_ns
        });
    for second in since.filter_map(|second| of.of(second)) {
        ended += u64::from(second.counts.finished);
        errors += u64::from(second.counts.unsuccessful);
        run_ns = run_ns.max(second.run.p99_ns());
        wait_ns = wait_ns.max(second.queue_wait.p99_ns());
    }
    // A job waits before it runs; of a request the wait is a part of its run.
    let p99_ns = match (run_ns, wait_ns) {
        (Some(run), Some(wait)) => Some(run + wait),
        (run, wait) => run.or(wait),
    };
    let usual = of.usual(|second| {
        let run = second.run.p99_ns()? as f64;
        Some(run + second.queue_wait.p99_ns().unwrap_or(0) as f64)
    });
    let usual_ns = usual.map(|usual| usual.median);
    let usual_errors = of.usual(|second| Some(f64::from(second.counts.unsuccessful)));
    let longer = usual_ns.zip(p99_ns).map_or(0.0, |(usual, now)| {
        let more = now as f64 - usual;
        let felt = now as f64 >= TIMES * usual && more >= LEAST_NS;
        if felt { more } else { 0.0 }
    });
    // Those that have begun and do not end have no run time yet.
    let hangs =
        ended == 0 && latest.running + latest.pending > 0 && (usual_ns.is_some() || stopped);
    let fails = errors > 0 && usual_errors.is_none_or(|usual| usual.median < 1.0);
    if longer <= 0.0 && !hangs && !fails {
        return None;
    }
    let affected = ended + latest.running + latest.pending;
    let weight = longer.max(LEAST_NS) * affected as f64 + FAILS_NS * errors as f64;
    Some((
        weight,
        Hurt {
            kind,
            name: latest.name.clone(),
            affected: Some(affected),
            errors: Some(errors),
            usual_p99_ns: usual_ns.map(|ns| ns as u64),
            // Of what fails or hangs, those that end may well be faster: that is no comfort.
            p99_ns: p99_ns.filter(|_| longer > 0.0),
        },
    ))
}
