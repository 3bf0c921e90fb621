//! The figures that a rule can look at: pure functions of a window and the time.

use ax_wire::{alert::Unit, sample::LagPoint};

use super::Rule;
use crate::{
    clock::Now,
    history::{Entry, Lane, LaneSecond, Second, quantile},
    text::duration,
    window::Window,
};

/// Lag points of the last five seconds: enough for a 99th percentile that forgets quickly.
const LAG_SPAN_NS: u64 = 5_000_000_000;

/// A spike is looked for among the points of the last two samples, so that none falls between two looks.
const SPIKE_SPAN_NS: u64 = 2_000_000_000;

const REJECTIONS_SPAN_NS: u64 = 10_000_000_000;

/// Over which backlog growth and retries are counted.
const TREND_SPAN_NS: u64 = 30_000_000_000;

/// Attempts without which a share of retries says nothing.
const FEWEST_ATTEMPTS: u64 = 30;

/// Queued jobs without which growth says nothing: a lane may well queue a few.
const FEWEST_PENDING: u32 = 10;

/// Memory is looked at in five slices of two minutes.
const MEMORY_SLICE_NS: u64 = 120_000_000_000;
const MEMORY_SLICES: usize = 5;

/// A figure of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// 99th percentile of event-loop lag over the last 5 s.
    LagP99,
    /// The newest event-loop lag.
    LagNow,
    /// The largest lag or stall of the last 2 s.
    LagSpike,
    /// By how much each lane's queue has grown over the last 30 s, where ten jobs or more wait.
    BacklogGrowth,
    /// Jobs that each lane refused, over the last 10 s.
    Rejections,
    /// For how long all slots of a lane have been taken, jobs have waited, and none has ended.
    StuckSlots,
    /// The share of attempts of each lane, over the last 30 s, that did not end their job.
    RetryShare,
    /// How long each runtime's blocking pool lets a closure wait.
    BlockingPoolLag,
    /// What resident memory has gained in 10 minutes, where it has risen in each two of them.
    MemoryGrowth,
    /// For how long a connected service has sent no sample.
    Silence,
    /// For how long a service has been gone without a goodbye.
    Lost,
    /// Frames, events and lag points that the probe lost in the last second.
    TelemetryDropped,
}

/// A figure at one instant, and what of the service it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// A lane or runtime; `None` for the service as a whole.
    pub subject: Option<String>,
    /// The figure, in [`Metric::unit`].
    pub value: f64,
}

impl Metric {
    /// What its figures are.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::LagP99
            | Self::LagNow
            | Self::LagSpike
            | Self::StuckSlots
            | Self::BlockingPoolLag
            | Self::Silence
            | Self::Lost => Unit::Nanoseconds,
            Self::BacklogGrowth | Self::Rejections | Self::TelemetryDropped => Unit::PerSecond,
            Self::RetryShare => Unit::Share,
            Self::MemoryGrowth => Unit::Bytes,
        }
    }

    /// Whether it is about the connection, and so known while no samples come.
    pub(super) fn is_of_connection(self) -> bool {
        matches!(self, Self::Silence | Self::Lost)
    }

    /// Its figures now. What cannot be told is left out.
    #[must_use]
    pub fn readings(self, window: Window<'_>, now: Now) -> Vec<Reading> {
        let history = window.history();
        let of_service = |value: Option<f64>| {
            let reading = value.map(|value| Reading {
                subject: None,
                value,
            });
            reading.into_iter().collect()
        };
        let ns = |value: Option<u64>| of_service(value.map(|ns| ns as f64));
        match self {
            Self::LagP99 => ns(lag_p99_ns(window)),
            Self::LagNow => ns(window.lag_now_ns()),
            Self::LagSpike => ns(lag_spike_ns(window)),
            Self::BacklogGrowth => of_lanes(window, backlog_growth),
            Self::Rejections => of_lanes(window, |window, place, _| rejections(window, place)),
            Self::StuckSlots => of_lanes(window, stuck_slots_ns),
            Self::RetryShare => of_lanes(window, retry_share),
            Self::BlockingPoolLag => blocking_pools(window),
            Self::MemoryGrowth => of_service(memory_growth(window)),
            Self::Silence => ns(history.silent_ns(now)),
            Self::Lost => ns(history.lost_ns(now)),
            Self::TelemetryDropped => of_service(telemetry_dropped(window)),
        }
    }

    /// What a reading of it says, for a person.
    #[must_use]
    pub fn sentence(self, window: Window<'_>, subject: Option<&str>, value: f64) -> String {
        let subject = subject.unwrap_or("?");
        let time = || duration(value as u64);
        match self {
            Self::LagP99 => format!("1 of 100 looks at the event loop finds it {} late", time()),
            Self::LagNow => format!("the event loop is {} late", time()),
            Self::LagSpike => match culprit(window) {
                Some(name) => format!("{name} held a worker for {}", time()),
                None => format!("the event loop was {} late", time()),
            },
            Self::BacklogGrowth => {
                format!("the queue of lane {subject} grows by {value:.1} jobs a second")
            }
            Self::Rejections => {
                format!("lane {subject} refuses {value:.1} jobs a second: its queue is full")
            }
            Self::StuckSlots => format!(
                "all slots of lane {subject} are taken, jobs wait, and none has ended for {}",
                time()
            ),
            Self::RetryShare => format!(
                "{:.0} % of the attempts in lane {subject} did not end their job",
                value * 100.0
            ),
            Self::BlockingPoolLag => {
                format!("blocking work of {subject} waits {} for a thread", time())
            }
            Self::MemoryGrowth => format!(
                "resident memory has grown by {:.0} MiB in 10 minutes without a pause",
                value / 1024.0 / 1024.0
            ),
            Self::Silence => format!(
                "the service has sent nothing for {}: frozen, or starved of CPU",
                time()
            ),
            Self::Lost => {
                "the service is gone without a goodbye: killed, crashed, or its connection broke"
                    .to_owned()
            }
            Self::TelemetryDropped => {
                format!("the probe loses {value:.1} records a second: figures have gaps")
            }
        }
    }
}

fn lag_points(window: Window<'_>, span_ns: u64) -> impl Iterator<Item = u64> {
    let oldest = window.newest_mono_ns().saturating_sub(span_ns);
    let newest_first = window.history().lag.iter().rev();
    newest_first
        .take_while(move |point| point.at_mono_ns > oldest)
        .filter_map(LagPoint::lag_ns)
}

fn lag_p99_ns(window: Window<'_>) -> Option<u64> {
    let mut lags: Vec<u64> = lag_points(window, LAG_SPAN_NS).collect();
    lags.sort_unstable();
    quantile(&lags, 0.99)
}

fn lag_spike_ns(window: Window<'_>) -> Option<u64> {
    let ongoing = window.stalls().take_while(|known| known.ongoing);
    let stalls = ongoing.filter(|known| known.is_proper());
    let stalls = stalls.map(|known| known.stall.length_ns);
    lag_points(window, SPIKE_SPAN_NS).chain(stalls).max()
}

/// The task of the longest stall that the last two samples saw.
fn culprit(window: Window<'_>) -> Option<String> {
    let oldest = window.newest_mono_ns().saturating_sub(SPIKE_SPAN_NS);
    let recent = window.stalls().map(|known| &known.stall);
    let recent =
        recent.filter(|stall| stall.began_mono_ns.saturating_add(stall.length_ns) > oldest);
    let named = recent.filter_map(|stall| Some((stall.length_ns, stall.task.as_ref()?)));
    let (_, task) = named.max_by_key(|(length_ns, _)| *length_ns)?;
    Some(task.name.clone())
}

fn of_lanes(
    window: Window<'_>,
    value: impl Fn(Window<'_>, usize, &Entry<Lane>) -> Option<f64>,
) -> Vec<Reading> {
    let lanes = window.lanes().filter_map(|(place, lane)| {
        Some(Reading {
            value: value(window, place, lane)?,
            subject: Some(lane.value.latest.name.clone()),
        })
    });
    lanes.collect()
}

/// The seconds of one lane that lie less than `span_ns` back, newest first.
fn seconds_of(
    window: Window<'_>,
    place: usize,
    born: u64,
    span_ns: u64,
) -> impl Iterator<Item = (&Second, LaneSecond)> {
    let oldest = window.newest_mono_ns().saturating_sub(span_ns);
    let newest_first = window.history().seconds.iter().rev();
    newest_first
        .take_while(move |second| second.at_mono_ns > oldest && second.number >= born)
        .filter_map(move |second| Some((second, (*second.lanes.get(place)?)?)))
}

fn backlog_growth(window: Window<'_>, place: usize, lane: &Entry<Lane>) -> Option<f64> {
    // A second more than the span, so that the oldest one taken is as far back as the span says.
    let mut seconds = seconds_of(window, place, lane.born, TREND_SPAN_NS + 1_000_000_000);
    let (newest, now) = seconds.next()?;
    let (oldest, then) = seconds.last()?;
    let span_ns = newest.at_mono_ns.saturating_sub(oldest.at_mono_ns);
    let grown = f64::from(now.pending) - f64::from(then.pending);
    let told = now.pending >= FEWEST_PENDING && span_ns >= TREND_SPAN_NS * 9 / 10;
    told.then(|| grown * 1e9 / span_ns as f64)
}

fn rejections(window: Window<'_>, place: usize) -> Option<f64> {
    let (mut rejected, mut interval_ns) = (0, 0);
    for (second, lane) in seconds_of(window, place, 0, REJECTIONS_SPAN_NS) {
        rejected += u64::from(lane.counts.rejected);
        interval_ns += second.interval_ns.unwrap_or(0);
    }
    (interval_ns > 0).then(|| rejected as f64 * 1e9 / interval_ns as f64)
}

fn stuck_slots_ns(window: Window<'_>, place: usize, lane: &Entry<Lane>) -> Option<f64> {
    let full_since = lane.value.full_since_mono_ns?;
    if lane.value.latest.pending == 0 {
        return None;
    }
    let mut seconds = seconds_of(window, place, lane.born, u64::MAX);
    let moved = seconds.find(|(_, lane)| lane.counts.finished > 0);
    let moved_at = moved.map_or(0, |(second, _)| second.at_mono_ns);
    let since = full_since.max(moved_at);
    Some(window.newest_mono_ns().saturating_sub(since) as f64)
}

/// An attempt that neither ended its job nor still runs was one that will be repeated.
fn retry_share(window: Window<'_>, place: usize, lane: &Entry<Lane>) -> Option<f64> {
    let (mut started, mut finished) = (0_u64, 0_u64);
    let mut running = None;
    for (_, lane) in seconds_of(window, place, lane.born, TREND_SPAN_NS) {
        started += u64::from(lane.started);
        finished += u64::from(lane.counts.finished);
        running = Some((running.map_or(lane.running, |(now, _)| now), lane.running));
    }
    let (now, then) = running?;
    let more_running = u64::from(now.saturating_sub(then));
    let retried = started
        .saturating_sub(finished)
        .saturating_sub(more_running);
    (started >= FEWEST_ATTEMPTS).then(|| retried as f64 / started as f64)
}

fn blocking_pools(window: Window<'_>) -> Vec<Reading> {
    let Some(change) = window.change() else {
        return Vec::new();
    };
    let runtimes = change.latest().runtimes.iter();
    let readings = runtimes.filter_map(|runtime| {
        let info = &runtime.info;
        let name = info.name.clone();
        Some(Reading {
            value: runtime.blocking.lag_ns? as f64,
            subject: Some(name.unwrap_or_else(|| format!("runtime {}", info.id))),
        })
    });
    readings.collect()
}

/// Zero where memory did not rise in each slice: what was given back was not leaked.
fn memory_growth(window: Window<'_>) -> Option<f64> {
    let newest_mono_ns = window.newest_mono_ns();
    let mut lowest = [None::<u64>; MEMORY_SLICES];
    for second in window.history().seconds.iter().rev() {
        let age_ns = newest_mono_ns.saturating_sub(second.at_mono_ns);
        let Some(slice) = lowest.get_mut((age_ns / MEMORY_SLICE_NS) as usize) else {
            break;
        };
        if let Some(rss) = second.point.rss_bytes {
            *slice = Some(slice.map_or(rss, |lowest| lowest.min(rss)));
        }
    }
    let lowest: Option<Vec<u64>> = lowest.into_iter().rev().collect();
    let lowest = lowest?;
    let rises = lowest.windows(2).all(|pair| pair[0] < pair[1]);
    let gained = lowest.last()?.saturating_sub(*lowest.first()?);
    Some(if rises { gained as f64 } else { 0.0 })
}

fn telemetry_dropped(window: Window<'_>) -> Option<f64> {
    let change = window.change()?;
    let lost = |sample: &ax_wire::sample::Sample| {
        let dropped = &sample.dropped;
        let records = dropped.frames_total.saturating_add(dropped.events_total);
        records.saturating_add(dropped.lag_points_total)
    };
    let added = lost(change.latest()).saturating_sub(lost(change.before()?));
    Some(added as f64 * 1e9 / change.interval_ns()? as f64)
}

impl Rule {
    /// The figure that its metric is held against, for this service.
    #[must_use]
    pub fn threshold(&self, window: Window<'_>) -> f64 {
        match self.threshold {
            super::Threshold::Fixed(figure) => figure,
            super::Threshold::Snapshot => window.hello().snapshot_threshold_ns as f64,
        }
    }
}
