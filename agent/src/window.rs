//! The history of a service, read only: what views are made of, and later alert and diagnosis rules, as pure functions
//! over a [`Window`] and a [`Now`](crate::clock::Now).
//!
//! "The window" is the last minute before the newest sample. It does not move on while a service is silent: what was
//! last known of it stays, and [`ServiceHistory::state`] says that it is old.

mod newest;

use ax_wire::{
    hello::Hello,
    sample::LagPoint,
    view::{LagView, Quantiles, Rates},
};

use crate::history::{
    Change, Counts, Entry, Lane, Recent, Second, ServiceHistory, Tally, TrackedStall, Type,
    WINDOW_NS, per_second, quantile,
};

/// What [`LaneView::recent`](ax_wire::view::LaneView::recent) covers: one second would make a slow lane flicker.
const RECENT_SECONDS: usize = 2;

/// A read-only view of one service's history.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    history: &'a ServiceHistory,
}

/// Working memory for the quantiles of a window: 100 KiB, empty before and after.
#[derive(Debug, Default)]
pub struct Tallies {
    one: Tally,
    /// Those of a lane.
    queue_wait: Tally,
    run: Tally,
}

/// See [`Window::quantiles`].
pub(crate) struct WindowQuantiles<'a> {
    /// By the place of the type.
    pub(crate) types: Vec<TypeQuantiles>,
    /// Queue wait and run time of the types of each lane together; two lanes of one name share theirs.
    pub(crate) lanes: Vec<(&'a str, Quantiles, Quantiles)>,
}

/// The quantiles of one type over the window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TypeQuantiles {
    pub(crate) queue_wait: Quantiles,
    pub(crate) run: Quantiles,
    pub(crate) poll: Quantiles,
}

impl TypeQuantiles {
    /// Leaves what it found in the tallies of the lane.
    fn of(known: &Type, tallies: &mut Tallies) -> Self {
        let Tallies {
            one,
            queue_wait,
            run,
        } = tallies;
        let mut quantiles = |recent: &Recent, lane: Option<&mut Tally>| {
            recent.add_to(one);
            if let Some(lane) = lane {
                lane.add_all(one);
            }
            one.take()
        };
        Self {
            queue_wait: quantiles(&known.queue_wait, Some(queue_wait)),
            run: quantiles(&known.run, Some(run)),
            poll: quantiles(&known.poll, None),
        }
    }
}

impl<'a> Window<'a> {
    pub(crate) fn new(history: &'a ServiceHistory) -> Self {
        Self { history }
    }

    /// What the service said of itself.
    #[must_use]
    pub fn hello(self) -> &'a Hello {
        &self.history.hello
    }

    /// The newest sample against the one before it; `None` until the first has come.
    #[must_use]
    pub fn change(self) -> Option<Change<'a>> {
        self.history.change()
    }

    /// The seconds inside the window, newest first.
    pub fn seconds(self) -> impl Iterator<Item = &'a Second> + Clone {
        let oldest = self.newest_mono_ns().saturating_sub(WINDOW_NS);
        let newest_first = self.history.seconds.iter().rev();
        newest_first.take_while(move |second| second.at_mono_ns > oldest)
    }

    /// The time that the seconds inside the window cover: a minute, less at first, more where the newest second comes
    /// after a gap.
    #[must_use]
    pub fn span_ns(self) -> u64 {
        let intervals = self.seconds().filter_map(|second| second.interval_ns);
        let measured: u64 = intervals.sum();
        if measured > 0 {
            return measured;
        }
        // The first sample has nobody before it to be measured against: its own word stands.
        let first = self.history.latest.as_ref();
        first.map_or(0, |sample| sample.interval_ns)
    }

    /// Event-loop lag over the window, all runtimes together.
    #[must_use]
    pub fn lag(self) -> LagView {
        let points = &self.history.lag;
        let mut lags: Vec<u64> = points.iter().filter_map(LagPoint::lag_ns).collect();
        lags.sort_unstable();
        let largest = |part: fn(&LagPoint) -> Option<u64>| points.iter().filter_map(part).max();
        let stall_max_ns = largest(|point| point.stall_ns).max(self.longest_stall_ns());
        LagView {
            now_ns: self.lag_now_ns(),
            p50_ns: quantile(&lags, 0.5),
            p99_ns: quantile(&lags, 0.99),
            max_ns: lags.last().copied().max(stall_max_ns),
            schedule_max_ns: largest(|point| point.schedule_ns),
            timer_max_ns: largest(|point| point.timer_ns),
            stall_max_ns,
            points: lags.len() as u64,
        }
    }

    /// The largest of the newest points of each runtime.
    pub(crate) fn lag_now_ns(self) -> Option<u64> {
        let latest = self.history.latest.as_ref()?;
        let runtimes = latest.runtimes.iter().map(|runtime| runtime.info.id);
        let newest = runtimes.filter_map(|runtime| {
            let mut newest_first = self.history.lag.iter().rev();
            newest_first
                .find(|point| point.runtime == runtime)?
                .lag_ns()
        });
        newest.max()
    }

    /// The longest stall that reaches into the window.
    fn longest_stall_ns(self) -> Option<u64> {
        let oldest = self.newest_mono_ns().saturating_sub(WINDOW_NS);
        self.stalls()
            .filter(|known| known.is_proper())
            .map(|known| &known.stall)
            .filter(|stall| stall.began_mono_ns.saturating_add(stall.length_ns) > oldest)
            .map(|stall| stall.length_ns)
            .max()
    }

    /// Those going on first, then the ended ones; newest first.
    pub(crate) fn stalls(self) -> impl Iterator<Item = &'a TrackedStall> + use<'a> {
        self.history.stalls.newest_first()
    }

    /// The lanes of the newest sample, with their places.
    pub(crate) fn lanes(self) -> impl Iterator<Item = (usize, &'a Entry<Lane>)> {
        self.present(self.history.lanes.entries())
    }

    /// The types of the newest sample, with their places.
    pub(crate) fn types(self) -> impl Iterator<Item = (usize, &'a Entry<Type>)> {
        self.present(self.history.types.entries())
    }

    fn present<T>(self, entries: &'a [Entry<T>]) -> impl Iterator<Item = (usize, &'a Entry<T>)> {
        let newest = self
            .history
            .seconds
            .back()
            .map_or(0, |second| second.number);
        let places = entries.iter().enumerate();
        places.filter(move |(_, entry)| entry.seen == newest)
    }

    /// The rates of one lane over the window.
    pub(crate) fn lane_rates(self, place: usize, lane: &Entry<Lane>) -> Rates {
        rates(self.seconds(), lane.born, |second| {
            second.lanes.get(place)?.map(|lane| lane.counts)
        })
    }

    /// The rates of one lane over its newest [`RECENT_SECONDS`]: a minute's would make a lane that has just come to a stop
    /// look well.
    pub(crate) fn lane_recent_rates(self, place: usize, lane: &Entry<Lane>) -> Rates {
        let newest = self.seconds().take(RECENT_SECONDS);
        rates(newest, lane.born, |second| {
            second.lanes.get(place)?.map(|lane| lane.counts)
        })
    }

    /// The rates of one type over the window.
    pub(crate) fn type_rates(self, place: usize, r#type: &Entry<Type>) -> Rates {
        rates(self.seconds(), r#type.born, |second| {
            second.types.get(place)?.map(|r#type| r#type.counts)
        })
    }

    /// The quantiles of every type and lane, each histogram unpacked once.
    pub(crate) fn quantiles(self, tallies: &mut Tallies) -> WindowQuantiles<'a> {
        let types = self.history.types.entries();
        let mut found = WindowQuantiles {
            types: vec![TypeQuantiles::default(); types.len()],
            lanes: Vec::new(),
        };
        for (_, lane) in self.lanes() {
            let name = lane.value.latest.name.as_str();
            if found.lanes.iter().any(|(known, ..)| *known == name) {
                continue;
            }
            for (own, entry) in found.types.iter_mut().zip(types) {
                if entry.value.latest.lane.as_deref() == Some(name) {
                    *own = TypeQuantiles::of(&entry.value, tallies);
                }
            }
            let (queue_wait, run) = (tallies.queue_wait.take(), tallies.run.take());
            found.lanes.push((name, queue_wait, run));
        }
        for (own, entry) in found.types.iter_mut().zip(types) {
            let lane = entry.value.latest.lane.as_deref();
            if !found.lanes.iter().any(|(known, ..)| Some(*known) == lane) {
                *own = TypeQuantiles::of(&entry.value, tallies);
            }
        }
        tallies.queue_wait.take();
        tallies.run.take();
        found
    }

    /// Latency and wait of a downstream over the window.
    pub(crate) fn downstream_quantiles(
        self,
        name: &str,
        tallies: &mut Tallies,
    ) -> (Quantiles, Quantiles) {
        self.history.downstreams.quantiles(name, &mut tallies.one)
    }

    pub(crate) fn newest_mono_ns(self) -> u64 {
        let newest = self.history.seconds.back();
        newest.map_or(0, |second| second.at_mono_ns)
    }

    pub(crate) fn history(self) -> &'a ServiceHistory {
        self.history
    }
}

/// Sums over the real time of the seconds that have one. Seconds before the thing was born count as time in which
/// nothing happened to it.
fn rates<'a>(
    seconds: impl Iterator<Item = &'a Second>,
    born: u64,
    of: impl Fn(&Second) -> Option<Counts>,
) -> Rates {
    let mut interval_ns = 0;
    let [mut submitted, mut finished, mut unsuccessful, mut rejected] = [0_u64; 4];
    for second in seconds {
        interval_ns += second.interval_ns.unwrap_or(0);
        let counts = of(second).filter(|_| second.number >= born);
        let counts = counts.unwrap_or_default();
        submitted += u64::from(counts.submitted);
        finished += u64::from(counts.finished);
        unsuccessful += u64::from(counts.unsuccessful);
        rejected += u64::from(counts.rejected);
    }
    let rate = |count| (interval_ns > 0).then(|| per_second(count, interval_ns));
    Rates {
        submitted_per_s: rate(submitted),
        finished_per_s: rate(finished),
        unsuccessful_per_s: rate(unsuccessful),
        rejected_per_s: rate(rejected),
    }
}
