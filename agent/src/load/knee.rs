//! The knee: where the service stops being healthy, and the next step to try to find it more exactly.

use ax_wire::session::{Load, Plan};
use serde::Serialize;

use super::{Judged, judge::MOST_NOISE_SHARE};

/// Most steps that a search adds: each halves the gap, and ten make a thousandth of it.
const MAX_SEARCH_STEPS: usize = 10;

/// Where the service stops being healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Knee {
    /// The number of the last step that was good. `None`: no step was good.
    pub step: Option<u32>,
    /// What was achieved in it, per second: the knee.
    pub per_s: Option<f64>,
    /// The number of the first bad step above it. `None`: the knee was not reached, and lies above the last step.
    pub bad_step: Option<u32>,
    /// What was offered in that one, per second: the knee lies below.
    pub below_per_s: Option<f64>,
    /// The most that was achieved in any step, per second.
    pub most_per_s: Option<f64>,
}

/// Finds it: the last good step below the first bad one, by load. Where a load was tried more than once, it is bad only if
/// most of its tries were.
#[must_use]
pub fn knee(steps: &[Judged]) -> Knee {
    let (good, bad) = bounds(steps);
    let achieved = steps.iter().filter_map(|step| step.figures.achieved_per_s);
    Knee {
        step: good.map(|step| step.figures.number),
        per_s: good.and_then(|step| step.figures.achieved_per_s),
        bad_step: bad.map(|step| step.figures.number),
        below_per_s: bad.and_then(|step| step.figures.offered_per_s),
        most_per_s: achieved.reduce(f64::max),
    }
}

/// The load of the step to make next: first what is planned, then a step again that told nothing certain, then halfway
/// between the last good and the first bad one until they are as near as the plan wants. `None`: it is done.
#[must_use]
pub fn next_load(plan: &Plan, steps: &[Judged]) -> Option<(Load, Next)> {
    let last = steps.last();
    if let Some(last) = last.filter(|last| !last.is_good() && !last.is_bad() && may_tell(last)) {
        let tries = tries(steps, last.figures.load);
        if tries < 2 {
            return Some((last.figures.load, Next::Repeat));
        }
    }
    let mut loads = plan.loads.iter();
    let planned = loads.find(|load| tries(steps, **load) == 0);
    // What lies above the first bad step is worse; a second one shows the shape of the curve, and more only cost time.
    // Who wants no search wants the plan as it is.
    if let Some(load) = planned
        && (plan.precision.is_none() || bad_count(steps) < 2)
    {
        return Some((*load, Next::Planned));
    }
    let precision = plan.precision?;
    let searched = steps
        .iter()
        .filter(|step| step.figures.kind == ax_wire::session::StepKind::Search)
        .count();
    if searched >= MAX_SEARCH_STEPS {
        return None;
    }
    let (good, bad) = bounds(steps);
    let bad = bad?.figures.load;
    let between = match (good.map(|step| step.figures.load), bad) {
        (Some(Load::RatePerS(good)), Load::RatePerS(bad)) => rate_between(good, bad, precision)?,
        (None, Load::RatePerS(bad)) => Load::RatePerS(bad / 2.0),
        (good, Load::Connections(bad)) => {
            let good = match good {
                Some(Load::Connections(good)) => good,
                _ => 0,
            };
            let gap = bad.checked_sub(good).filter(|gap| *gap > 1)?;
            if good > 0 && (gap as f64) <= precision * bad as f64 {
                return None;
            }
            Load::Connections(good + gap / 2)
        }
        _ => return None,
    };
    Some((between, Next::Search))
}

/// Whether the same load again may tell more: not where the service's other traffic hides it.
fn may_tell(step: &Judged) -> bool {
    let figures = &step.figures;
    let hidden = figures
        .noise_per_s
        .zip(figures.offered_per_s.or(figures.achieved_per_s))
        .is_some_and(|(noise, per_s)| noise > MOST_NOISE_SHARE * per_s);
    !hidden
}

/// Why a step is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is planned.
    Planned,
    /// The last one told nothing certain.
    Repeat,
    /// To come nearer to the knee.
    Search,
}

fn rate_between(good: f64, bad: f64, precision: f64) -> Option<Load> {
    if bad - good <= precision * bad {
        return None;
    }
    // Where the two are far apart, halfway in proportion: the knee may lie anywhere between 100 and 10,000.
    let middle = if bad > 2.0 * good {
        (good * bad).sqrt()
    } else {
        good.midpoint(bad)
    };
    // Whole rates are easier to talk about, where there is room for them.
    let whole = middle.round();
    let rate = if whole > good && whole < bad {
        whole
    } else {
        middle
    };
    Some(Load::RatePerS(rate))
}

fn tries(steps: &[Judged], load: Load) -> usize {
    let same = steps.iter().filter(|step| step.figures.load == load);
    same.count()
}

fn bad_count(steps: &[Judged]) -> usize {
    steps.iter().filter(|step| step.is_bad()).count()
}

/// The last good step below the first bad load, and that bad step.
fn bounds(steps: &[Judged]) -> (Option<&Judged>, Option<&Judged>) {
    let size = |step: &Judged| match step.figures.load {
        Load::RatePerS(rate) => rate,
        Load::Connections(count) => count as f64,
        Load::Unknown => step.figures.achieved_per_s.unwrap_or(0.0),
    };
    let mostly_bad = |step: &Judged| {
        let same = || {
            steps
                .iter()
                .filter(|other| other.figures.load == step.figures.load)
        };
        let bad = same().filter(|other| other.is_bad()).count();
        let good = same().filter(|other| other.is_good()).count();
        bad > good
    };
    let bad = steps
        .iter()
        .filter(|step| step.is_bad() && mostly_bad(step))
        .min_by(|a, b| size(a).total_cmp(&size(b)));
    let good = steps
        .iter()
        .filter(|step| step.is_good() && bad.is_none_or(|bad| size(step) < size(bad)))
        .max_by(|a, b| size(a).total_cmp(&size(b)));
    (good, bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Throughput, judge, made};

    fn searched(capacity: f64, planned: &[f64]) -> (f64, usize) {
        let mut session = made::session(planned, capacity);
        session.steps.clear();
        loop {
            let steps = judge(&session, &Throughput::of(&session));
            let Some((Load::RatePerS(rate), next)) = next_load(&session.plan, &steps) else {
                let knee = knee(&steps);
                return (knee.per_s.expect("a good step"), steps.len());
            };
            let number = session.steps.len() as u32 + 1;
            let mut step = made::step(number, rate, capacity);
            if next == Next::Search {
                step.kind = ax_wire::session::StepKind::Search;
            }
            session.steps.push(step);
            assert!(session.steps.len() < 30, "it does not end");
        }
    }

    /// F22: the knee of a measured sweep, wherever it lies.
    #[test]
    fn the_search_ends_within_its_precision_of_the_capacity() {
        for capacity in [130.0, 480.0, 707.0, 950.0, 1_001.0, 1_320.0, 1_490.0] {
            let (knee, steps) = searched(capacity, &[100.0, 800.0, 1_500.0]);
            let off = (knee - capacity).abs() / capacity;
            assert!(off < 0.035, "{knee} for {capacity} after {steps} steps");
            assert!(steps <= 10, "{steps} steps for {capacity}");
        }
    }

    #[test]
    fn a_knee_below_the_first_step_is_searched_downwards() {
        let (knee, _) = searched(60.0, &[400.0, 800.0]);
        assert!((knee - 60.0).abs() / 60.0 < 0.05, "{knee}");
    }

    #[test]
    fn a_knee_that_was_not_reached_is_said_to_lie_above() {
        let session = made::session(&[100.0, 200.0], 1_000.0);
        let steps = judge(&session, &Throughput::of(&session));
        let knee = knee(&steps);
        assert_eq!((knee.step, knee.bad_step), (Some(2), None));
        assert_eq!(next_load(&session.plan, &steps), None);
    }

    #[test]
    fn a_step_that_told_nothing_is_made_once_more_and_no_oftener() {
        let mut session = made::session(&[500.0], 1_000.0);
        let unsure = |session: &mut ax_wire::session::Session| {
            let client = session
                .steps
                .last_mut()
                .and_then(|step| step.client.as_mut());
            client.expect("has one").sent_total /= 2;
        };
        unsure(&mut session);
        let steps = judge(&session, &Throughput::of(&session));
        let next = next_load(&session.plan, &steps);
        assert_eq!(next, Some((Load::RatePerS(500.0), Next::Repeat)));
        session.steps.push(made::step(2, 500.0, 1_000.0));
        unsure(&mut session);
        let steps = judge(&session, &Throughput::of(&session));
        assert_eq!(next_load(&session.plan, &steps), None);
    }

    /// `--no-search`: the plan as it is, also far above the knee.
    #[test]
    fn without_a_search_every_planned_step_is_made_and_no_other() {
        let planned = [500.0, 1_500.0, 2_000.0, 2_500.0];
        let mut session = made::session(&planned, 1_000.0);
        session.plan.precision = None;
        let all = std::mem::take(&mut session.steps);
        for (step, rate) in all.into_iter().zip(planned) {
            let steps = judge(&session, &Throughput::of(&session));
            let next = next_load(&session.plan, &steps);
            assert_eq!(next, Some((Load::RatePerS(rate), Next::Planned)));
            session.steps.push(step);
        }
        let steps = judge(&session, &Throughput::of(&session));
        assert_eq!(next_load(&session.plan, &steps), None);
    }

    /// One bad second on a busy machine is not the knee.
    #[test]
    fn good_again_outweighs_bad_once() {
        let mut session = made::session(&[500.0, 800.0, 800.0, 800.0], 1_000.0);
        session.steps[1] = made::step(2, 800.0, 700.0);
        let steps = judge(&session, &Throughput::of(&session));
        assert!(steps[1].is_bad() && steps[2].is_good());
        assert_eq!(knee(&steps).step, Some(4));
    }
}
