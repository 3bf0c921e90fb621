//! What rules look at: a window and the time, with what several rules need worked out once.

use ax_wire::{
    hello::Hello,
    sample::{DownstreamSample, LagPoint, Sample},
};

use super::{
    baseline::{Baseline, FEWEST, median},
    jobs::StuckJobs,
    stalls::SeenStall,
};
use crate::{
    clock::Now,
    history::{
        DownstreamSecond, Entry, HostSecond, Lane, LaneSecond, Second, Type, TypeSecond, quantile,
    },
    window::Window,
};

/// Seconds that a condition must have held to be believed: two may be chance, and five would be late.
pub(crate) const HELD: usize = 3;

/// Before this, what is usual is looked for: the newest seconds may be those of the fault.
const USUAL_BEFORE_NS: u64 = 5_000_000_000;

/// Seconds that are looked at for what is usual; of more, each so many'th.
const USUAL_SECONDS: usize = 120;

/// The first seconds of a process are never usual: caches are cold, pools empty.
const COLD_SECONDS: u64 = 3;

/// The seconds before something went wrong, kept while it is so: after a quarter of an hour the history has no others.
#[derive(Debug)]
pub(crate) struct Before {
    /// Newest first.
    seconds: Vec<Second>,
}

#[cfg(test)]
impl Before {
    pub(crate) fn len(&self) -> usize {
        self.seconds.len()
    }
}

/// See the module.
pub(crate) struct Case<'a> {
    pub(crate) window: Window<'a>,
    pub(crate) now: Now,
    pub(crate) latest: &'a Sample,
    /// The stalls of the last seconds.
    pub(crate) stalls: Vec<SeenStall<'a>>,
    /// The running jobs that do not move.
    pub(crate) stuck: StuckJobs<'a>,
    pub(crate) lag: RecentLag,
    /// The newest [`HELD`] seconds that have an interval, newest first; fewer where there are no more.
    newest: Vec<&'a Second>,
    /// Seconds in which nothing was wrong, newest first.
    usual: Vec<&'a Second>,
}

/// Event-loop lag over the newest [`HELD`] seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RecentLag {
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
}

impl<'a> Case<'a> {
    /// `None` until the first sample has come. `before`: what was usual before something went wrong, while it is so.
    pub(crate) fn new(window: Window<'a>, now: Now, before: Option<&'a Before>) -> Option<Self> {
        let latest = window.change()?.latest();
        let newest_mono_ns = window.newest_mono_ns();
        let history = window.history();
        let measured = history.seconds.iter().rev();
        let newest = measured
            .filter(|second| second.interval_ns.is_some())
            .take(HELD);
        let until = newest_mono_ns.saturating_sub(USUAL_BEFORE_NS);
        let calm = |second: &&Second| {
            second.at_mono_ns < until
                && second.number > COLD_SECONDS
                && second.interval_ns.is_some()
        };
        let usual = if let Some(before) = before {
            before.seconds.iter().collect()
        } else {
            let calm_count = history.seconds.iter().filter(calm).count();
            let step = calm_count.div_ceil(USUAL_SECONDS).max(1);
            history
                .seconds
                .iter()
                .rev()
                .filter(calm)
                .step_by(step)
                .collect()
        };
        let mut case = Self {
            window,
            now,
            latest,
            stalls: SeenStall::all(window),
            stuck: StuckJobs::default(),
            lag: recent_lag(window),
            newest: newest.collect(),
            usual,
        };
        case.stuck = StuckJobs::of(&case);
        Some(case)
    }

    /// What is usual now, for later looks; `None` where too little is known of it.
    pub(crate) fn keep_usual(&self) -> Option<Before> {
        (self.usual.len() >= FEWEST).then(|| Before {
            seconds: self.usual.iter().copied().cloned().collect(),
        })
    }

    pub(crate) fn hello(&self) -> &'a Hello {
        self.window.hello()
    }

    /// The length of a poll from which on it is a stall.
    pub(crate) fn stall_ns(&self) -> u64 {
        self.hello().stall_threshold_ns
    }

    /// The length of a stall, or of lag, that is worth a snapshot.
    pub(crate) fn severe_ns(&self) -> u64 {
        self.hello().snapshot_threshold_ns
    }

    /// CPUs that the process may use: those of the machine or of its quota.
    pub(crate) fn cpus(&self) -> f64 {
        let cpus = f64::from(self.hello().cpus.max(1));
        let quota = self.latest.process.cgroup_cpu.map(|cgroup| cgroup.cpus());
        quota.map_or(cpus, |quota| quota.min(cpus))
    }

    /// Whether the event loop keeps its time: what is slow then is slow elsewhere.
    pub(crate) fn loop_is_fine(&self) -> bool {
        self.lag.p99_ns < self.stall_ns()
    }

    /// The newest seconds, newest first: [`HELD`] of them, or fewer.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &'a Second> + Clone {
        self.newest.iter().copied()
    }

    /// What is missing for a condition to have held, for a person; `None` where nothing is.
    pub(crate) fn lacks_seconds(&self, needed: usize) -> Option<String> {
        let known = self.seconds().count();
        (known < needed).then(|| format!("{needed} s of figures, and has {known}"))
    }

    /// All seconds that have an interval, newest first.
    pub(crate) fn seconds(&self) -> impl Iterator<Item = &'a Second> + Clone + use<'a> {
        let newest_first = self.window.history().seconds.iter().rev();
        newest_first.filter(|second| second.interval_ns.is_some())
    }

    /// Whether it holds in each of the newest [`HELD`] seconds, and there are so many.
    pub(crate) fn held(&self, holds: impl Fn(&Second) -> bool) -> bool {
        self.newest.len() >= HELD && self.newest.iter().all(|second| holds(second))
    }

    /// The mean of a figure of the process over the newest seconds that know it.
    pub(crate) fn mean(&self, of: impl Fn(&HostSecond) -> Option<f32>) -> Option<f64> {
        mean(
            self.newest()
                .filter_map(|second| Some(f64::from(of(&second.host)?))),
        )
    }

    /// CPUs that the process used over the newest seconds.
    pub(crate) fn cpus_used(&self) -> Option<f64> {
        mean(self.newest().filter_map(|second| second.point.cpus_used))
    }

    /// What is usual of a figure.
    pub(crate) fn usual(&self, of: impl Fn(&Second) -> Option<f64>) -> Option<Baseline> {
        Baseline::of(self.usual.iter().filter_map(|second| of(second)).collect())
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = LaneCase<'a, '_>> {
        self.window.lanes().map(|(place, entry)| LaneCase {
            case: self,
            place,
            entry,
        })
    }

    pub(crate) fn lane(&self, name: &str) -> Option<LaneCase<'a, '_>> {
        self.lanes().find(|lane| lane.name() == name)
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = TypeCase<'a, '_>> {
        self.window.types().map(|(place, entry)| TypeCase {
            case: self,
            place,
            entry,
        })
    }

    pub(crate) fn downstreams(&self) -> impl Iterator<Item = DownstreamCase<'a, '_>> {
        let known = &self.window.history().downstreams;
        self.latest.downstreams.iter().filter_map(|sample| {
            let (place, born) = known.place_of(&sample.name)?;
            Some(DownstreamCase {
                case: self,
                sample,
                place,
                born,
            })
        })
    }
}

fn recent_lag(window: Window<'_>) -> RecentLag {
    let oldest = window
        .newest_mono_ns()
        .saturating_sub(HELD as u64 * 1_000_000_000);
    let newest_first = window.history().lag.iter().rev();
    let points = newest_first.take_while(|point| point.at_mono_ns > oldest);
    let mut lags: Vec<u64> = points.filter_map(LagPoint::lag_ns).collect();
    lags.sort_unstable();
    RecentLag {
        p99_ns: quantile(&lags, 0.99).unwrap_or(0),
        max_ns: lags.last().copied().unwrap_or(0),
    }
}

pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn middle(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<f64> = values.map(|value| value as f64).collect();
    median(&mut values).map(|value| value as u64)
}

/// One lane of a case.
#[derive(Clone, Copy)]
pub(crate) struct LaneCase<'a, 'c> {
    case: &'c Case<'a>,
    place: usize,
    pub(crate) entry: &'a Entry<Lane>,
}

impl<'a> LaneCase<'a, '_> {
    pub(crate) fn name(&self) -> &'a str {
        &self.entry.value.latest.name
    }

    pub(crate) fn of(&self, second: &Second) -> Option<LaneSecond> {
        (second.number >= self.entry.born)
            .then(|| second.lanes.get(self.place).copied().flatten())
            .flatten()
    }

    /// Its part of the newest [`HELD`] seconds.
    pub(crate) fn newest(&self) -> impl Iterator<Item = LaneSecond> {
        self.case.newest.iter().filter_map(|second| self.of(second))
    }

    /// Whether it holds in each of the newest [`HELD`] seconds.
    pub(crate) fn held(&self, holds: impl Fn(&LaneSecond) -> bool) -> bool {
        self.newest().count() >= HELD && self.newest().all(|second| holds(&second))
    }

    /// A count of the newest seconds, a second.
    pub(crate) fn per_second(&self, count: impl Fn(&LaneSecond) -> u32) -> f64 {
        let (mut counted, mut interval_ns) = (0_u64, 0_u64);
        for second in &self.case.newest {
            interval_ns += second.interval_ns.unwrap_or(0);
            counted += self.of(second).map_or(0, |lane| u64::from(count(&lane)));
        }
        if interval_ns == 0 {
            return 0.0;
        }
        counted as f64 * 1e9 / interval_ns as f64
    }

    /// The mean run time of the attempts that ended in the newest seconds, in seconds.
    pub(crate) fn mean_run_s(&self) -> Option<f64> {
        let ended = |lane: &LaneSecond| lane.counts.finished + lane.retried;
        let (run_s, count) = self.newest().fold((0.0, 0), |(run_s, count), lane| {
            (run_s + f64::from(lane.run_s), count + ended(&lane))
        });
        (count > 0 && run_s > 0.0).then(|| run_s / f64::from(count))
    }

    /// What is usual of a figure of it.
    pub(crate) fn usual(&self, of: impl Fn(&LaneSecond) -> Option<f64>) -> Option<Baseline> {
        self.case.usual(|second| of(&self.of(second)?))
    }

    /// Since when all of its slots have been taken.
    pub(crate) fn full_since_mono_ns(&self) -> Option<u64> {
        self.entry.value.full_since_mono_ns
    }
}

/// One job type, task or route of a case.
#[derive(Clone, Copy)]
pub(crate) struct TypeCase<'a, 'c> {
    case: &'c Case<'a>,
    place: usize,
    pub(crate) entry: &'a Entry<Type>,
}

impl TypeCase<'_, '_> {
    pub(crate) fn of(&self, second: &Second) -> Option<TypeSecond> {
        (second.number >= self.entry.born)
            .then(|| second.types.get(self.place).copied().flatten())
            .flatten()
    }

    pub(crate) fn newest(&self) -> impl Iterator<Item = TypeSecond> {
        self.case.newest.iter().filter_map(|second| self.of(second))
    }

    pub(crate) fn usual(&self, of: impl Fn(&TypeSecond) -> Option<f64>) -> Option<Baseline> {
        self.case.usual(|second| of(&self.of(second)?))
    }
}

/// One downstream of a case.
#[derive(Clone, Copy)]
pub(crate) struct DownstreamCase<'a, 'c> {
    case: &'c Case<'a>,
    pub(crate) sample: &'a DownstreamSample,
    place: usize,
    born: u64,
}

impl<'a> DownstreamCase<'a, '_> {
    pub(crate) fn name(&self) -> &'a str {
        &self.sample.name
    }

    pub(crate) fn of(&self, second: &Second) -> Option<DownstreamSecond> {
        (second.number >= self.born)
            .then(|| second.downstreams.get(self.place).copied().flatten())
            .flatten()
    }

    pub(crate) fn newest(&self) -> impl Iterator<Item = DownstreamSecond> {
        self.case.newest.iter().filter_map(|second| self.of(second))
    }

    /// The median call of the newest seconds in which calls ended.
    pub(crate) fn latency_ns(&self) -> Option<u64> {
        middle(self.newest().filter_map(|second| second.latency.p50_ns()))
    }

    /// The median wait for a client over the newest seconds in which somebody got one.
    pub(crate) fn wait_ns(&self) -> Option<u64> {
        middle(self.newest().filter_map(|second| second.wait.p50_ns()))
    }

    pub(crate) fn usual(&self, of: impl Fn(&DownstreamSecond) -> Option<f64>) -> Option<Baseline> {
        self.case.usual(|second| of(&self.of(second)?))
    }

    /// The lanes whose jobs call it.
    pub(crate) fn lanes(&self) -> Vec<String> {
        let mut lanes: Vec<String> = self
            .sample
            .callers
            .iter()
            .filter_map(|caller| caller.lane.clone())
            .collect();
        lanes.sort();
        lanes.dedup();
        lanes
    }
}
