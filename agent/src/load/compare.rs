//! Whether a second session differs from a first beyond noise.
//!
//! Each figure is a ratio of the second to the first over the loads that both had, with an interval by bootstrap: the
//! slices of each step are drawn again with replacement, and where there are three or more common loads, so are the
//! loads, since a machine that was busy during one step is noise too. The draws are seeded: the same two files always
//! give the same answer.
//!
//! A change counts when the interval of 95 % leaves out "no change" and the change itself is worth a word. Two runs of
//! one build on one machine differ by some per cent all the time, which no interval from inside a run can know.

use ax_wire::session::{Load, Session, Step};
use serde::Serialize;

use self::parts::Parts;
use super::{Throughput, judge};

mod parts;

const DRAWS: usize = 1_000;

/// Fewer slices or samples of a step than this say nothing of how much it moves.
const LEAST_PARTS: usize = 3;

/// Loads are the same within this share.
const SAME_LOAD: f64 = 0.01;

/// Fewer common loads than this, and what moved one step as a whole is not told from what moved the service.
const FEW_LOADS: usize = 3;

/// A generator that waited longer for a CPU than this share of a step has moved what it measured.
const STARVED_SHARE: f64 = 0.05;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The most that was achieved per second.
    Capacity,
    /// Median latency.
    LatencyP50,
    /// 99th percentile of latency.
    LatencyP99,
    /// CPU that the service used for a request.
    CpuPerRequest,
    /// Mean run time of the jobs of all lanes.
    JobRun,
    /// 99th percentile of event-loop lag.
    LagP99,
}

impl Metric {
    const ALL: [Self; 6] = [
        Self::Capacity,
        Self::LatencyP50,
        Self::LatencyP99,
        Self::CpuPerRequest,
        Self::JobRun,
        Self::LagP99,
    ];

    /// The least change that is worth a word: tails and lag move far from one run of a build to the next.
    fn worth(self) -> f64 {
        match self {
            Self::Capacity | Self::LatencyP50 | Self::JobRun => 0.05,
            // What shares the machine and its caches moves it by several per cent.
            Self::CpuPerRequest => 0.10,
            Self::LatencyP99 => 0.50,
            Self::LagP99 => 1.0,
        }
    }

    fn more_is_better(self) -> bool {
        self == Self::Capacity
    }
}

/// What became of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Nothing beyond noise.
    Same,
    /// For the better.
    Better,
    /// For the worse.
    Worse,
}

/// One figure of both sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Which.
    pub metric: Metric,
    /// Its ratio, second to first.
    pub ratio: f64,
    /// The lower end of the interval of 95 %.
    pub low: f64,
    /// The upper end of it.
    pub high: f64,
    /// The least change that is worth a word.
    pub worth: f64,
    /// What to make of it.
    pub direction: Direction,
}

/// What changed between two sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The knees, per second.
    pub knee_per_s: (Option<f64>, Option<f64>),
    /// How many loads both had, and bore.
    pub common_loads: usize,
    /// Each figure that both have.
    pub changes: Vec<Change>,
    /// What makes the comparison less sure, for a person.
    pub doubts: Vec<String>,
}

impl Comparison {
    /// Whether anything became worse.
    #[must_use]
    pub fn is_regression(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| change.direction == Direction::Worse)
    }

    /// Whether anything changed at all.
    #[must_use]
    pub fn is_change(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| change.direction != Direction::Same)
    }
}

/// Compares two sessions. Costs some 100 ms.
#[must_use]
pub fn compare(first: &Session, second: &Session, seed: u64) -> Comparison {
    let (sides, mut doubts) = ([Side::of(first), Side::of(second)], doubts(first, second));
    let mut common = Vec::new();
    for (step, good) in &sides[0].steps {
        let mut others = sides[1].steps.iter();
        let other = others.find(|(other, _)| same(step.load, other.load));
        if let Some((other, also_good)) = other
            && *good
            && *also_good
            && !common
                .iter()
                .any(|(known, _): &(&Step, &Step)| same(known.load, step.load))
        {
            common.push((*step, *other));
        }
    }
    if common.is_empty() {
        doubts.push("no load was borne in both: give both sessions the same --steps".to_owned());
    }
    if (1..FEW_LOADS).contains(&common.len()) {
        doubts.push(format!(
            "only {} load(s) were borne in both: a busy moment of the machine looks like a change; make three or more steps below the knee",
            common.len()
        ));
    }
    let mut draw = Draw(seed);
    let changes = Metric::ALL.into_iter().filter_map(|metric| {
        let pairs = if metric == Metric::Capacity {
            sides[0].fullest.zip(sides[1].fullest).into_iter().collect()
        } else {
            common.clone()
        };
        change(metric, &pairs, &sides, &mut draw)
    });
    let changes = changes.collect();
    Comparison {
        knee_per_s: (sides[0].knee_per_s, sides[1].knee_per_s),
        common_loads: common.len(),
        changes,
        doubts,
    }
}

/// One session, ready to be compared.
struct Side<'a> {
    /// Each step, and whether it was good.
    steps: Vec<(&'a Step, bool)>,
    /// The step in which most was achieved, where the service was at its end: a step that it bore shows the load, not the
    /// service.
    fullest: Option<&'a Step>,
    knee_per_s: Option<f64>,
    throughput: Throughput,
}

impl<'a> Side<'a> {
    fn of(session: &'a Session) -> Self {
        let throughput = Throughput::of(session);
        let judged = judge(session, &throughput);
        let most = judged
            .iter()
            .zip(&session.steps)
            .filter(|(judged, _)| judged.is_overloaded())
            .filter_map(|(judged, step)| Some((judged.figures.achieved_per_s?, step)))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        Self {
            fullest: most.map(|(_, step)| step),
            knee_per_s: super::knee(&judged).per_s,
            steps: session
                .steps
                .iter()
                .zip(judged.iter().map(super::Judged::is_good))
                .collect(),
            throughput,
        }
    }
}

fn same(a: Load, b: Load) -> bool {
    match (a, b) {
        (Load::RatePerS(a), Load::RatePerS(b)) => (a - b).abs() <= SAME_LOAD * a.max(b),
        (a, b) => a == b,
    }
}

fn doubts(first: &Session, second: &Session) -> Vec<String> {
    let mut doubts = Vec::new();
    if first.driver != second.driver {
        doubts.push("the load was not made in the same way".to_owned());
    }
    if first.plan.injections != second.plan.injections {
        doubts.push("the delays put on downstreams differ".to_owned());
    }
    let cpus = |session: &Session| session.service.as_ref().map(|hello| hello.cpus);
    if cpus(first) != cpus(second) {
        doubts.push("the service had another number of CPUs".to_owned());
    }
    if first.plan.step_ns < 5_000_000_000 || second.plan.step_ns < 5_000_000_000 {
        doubts.push("steps of less than 5 s are short for a comparison".to_owned());
    }
    let starved = |session: &Session| {
        let mut clients = session.steps.iter().filter_map(|step| step.client.as_ref());
        clients.any(|client| client.starved_share > Some(STARVED_SHARE))
    };
    if starved(first) || starved(second) {
        doubts.push(
            "a generator waited for a CPU for more than 5 % of a step: latency is partly that wait"
                .to_owned(),
        );
    }
    doubts
}

fn change(
    metric: Metric,
    pairs: &[(&Step, &Step)],
    sides: &[Side<'_>; 2],
    draw: &mut Draw,
) -> Option<Change> {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(a, b)| {
            let parts = |step, side: &Side<'_>| Parts::of(metric, step, &side.throughput);
            (parts(a, &sides[0]), parts(b, &sides[1]))
        })
        .filter(|(a, b)| {
            let whole = |parts: &Parts| parts.value(0..parts.len()).is_some();
            whole(a) && whole(b) && a.len().min(b.len()) >= LEAST_PARTS
        })
        .collect();
    if pairs.is_empty() {
        return None;
    }
    // The geometric mean over the loads.
    let together = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    let logs: Option<Vec<f64>> = pairs
        .iter()
        .map(|(a, b)| Some((b.value(0..b.len())? / a.value(0..a.len())?).ln()))
        .collect();
    let ratio = together(&logs?);
    let mut drawn = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut logs = Vec::with_capacity(pairs.len());
        for at in 0..pairs.len() {
            let at = if pairs.len() >= FEW_LOADS {
                draw.below(pairs.len())
            } else {
                at
            };
            let (a, b) = &pairs[at];
            let mut again = |parts: &Parts| {
                let chosen: Vec<_> = (0..parts.len()).map(|_| draw.below(parts.len())).collect();
                parts.value(chosen.into_iter())
            };
            if let (Some(a), Some(b)) = (again(a), again(b)) {
                logs.push((b / a).ln());
            }
        }
        if !logs.is_empty() {
            drawn.push(together(&logs));
        }
    }
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = drawn.len().saturating_sub(1);
        drawn.get((share * last as f64).round() as usize).copied()
    };
    let (low, high) = (at(0.025)?, at(0.975)?);
    let worth = metric.worth();
    let more = low > 1.0 && ratio >= 1.0 + worth;
    let less = high < 1.0 && ratio <= 1.0 / (1.0 + worth);
    let direction = match (more, less) {
        (false, false) => Direction::Same,
        (more, _) if more == metric.more_is_better() => Direction::Better,
        _ => Direction::Worse,
    };
    Some(Change {
        metric,
        ratio,
        low,
        high,
        worth,
        direction,
    })
}

/// Random numbers that are the same each time (the generator of Steele, Lea and Flood, 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::LatencyHistogram;

    use super::*;
    use crate::load::made;

    /// A session of the same plan whose every slice and sample is off by some noise and by `factor`.
    fn noisy(factor: f64, noise: f64, seed: u64) -> Session {
        let mut session = made::session(&[200.0, 400.0, 600.0, 800.0, 1_200.0], 1_000.0);
        let mut draw = Draw(seed);
        let mut by = |length: f64| {
            let random = (draw.next() % 2_001) as f64 / 1_000.0 - 1.0;
            length * factor * (1.0 + noise * random)
        };
        let longer = |histogram: &mut Option<LatencyHistogram>, by: &mut dyn FnMut(f64) -> f64| {
            if let Some(known) = histogram {
                let mut new = LatencyHistogram::new();
                for (us, count) in known.buckets_us() {
                    let ns = by(us as f64 * 1_000.0) as u64;
                    new.record_many_ns(ns, count);
                    new.raise_max_ns(ns);
                }
                *known = new;
            }
        };
        for step in &mut session.steps {
            for slice in step.client.iter_mut().flat_map(|client| &mut client.slices) {
                longer(&mut slice.latency, &mut by);
            }
            for second in &mut step.service {
                second.cpus_used = second.cpus_used.map(&mut by);
                for lane in &mut second.lanes {
                    longer(&mut lane.run, &mut by);
                }
            }
        }
        session
    }

    /// F94: noise is no change, a tenth more work is one, and both answers are the same each time.
    #[test]
    fn noise_is_no_change_and_a_tenth_more_is_one() {
        for seed in 0..10 {
            let first = noisy(1.0, 0.08, seed);
            let same = compare(&first, &noisy(1.0, 0.08, seed + 100), 1);
            assert!(!same.is_change(), "{same:#?}");
            assert_eq!((same.common_loads, same.changes.len()), (4, 6));
            let slower = compare(&first, &noisy(1.1, 0.08, seed + 200), 1);
            assert!(slower.is_regression(), "{slower:#?}");
            let faster = compare(&noisy(1.1, 0.08, seed), &first, 1);
            assert!(!faster.is_regression() && faster.is_change());
        }
        let (first, second) = (noisy(1.0, 0.08, 1), noisy(1.05, 0.08, 2));
        assert_eq!(compare(&first, &second, 7), compare(&first, &second, 7));
    }

    #[test]
    fn a_lower_capacity_is_worse_and_other_plans_are_doubted() {
        let first = made::session(&[500.0, 1_500.0], 1_000.0);
        let mut second = made::session(&[510.0, 1_400.0], 800.0);
        second.plan.step_ns = 1_000_000_000;
        let comparison = compare(&first, &second, 1);
        let capacity = &comparison.changes[0];
        assert_eq!(
            (capacity.metric, capacity.direction),
            (Metric::Capacity, Direction::Worse)
        );
        assert!((capacity.ratio - 0.8).abs() < 0.01);
        assert_eq!((comparison.common_loads, comparison.doubts.len()), (0, 2));
    }

    #[test]
    fn nothing_to_compare_is_no_change() {
        let empty = made::session(&[], 1.0);
        assert!(!compare(&empty, &empty, 1).is_change());
    }

    /// What ended a step for failures alone says nothing of how much the service can do.
    #[test]
    fn capacity_is_compared_only_where_the_service_was_at_its_end() {
        let first = made::session(&[500.0, 1_500.0], 1_000.0);
        let mut second = made::session(&[50.0, 100.0], 1_000.0);
        second.plan.limits.lag_p99_ns = Some(1);
        let comparison = compare(&first, &second, 1);
        assert!(comparison.changes.is_empty(), "{comparison:#?}");
        let one = compare(&first, &first, 1);
        assert!(
            one.doubts.iter().any(|doubt| doubt.contains("only 1")),
            "{one:#?}"
        );
    }
}
