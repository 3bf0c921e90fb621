//! How each figure is had from a window.

use ax_wire::{
    event::Stall,
    sample::{DownstreamSample, LagPoint},
};

use super::Reading;
use crate::{
    history::{Entry, Lane, LaneSecond, Second, quantile},
    load::Slope,
    window::{Tallies, Window},
};

/// Lag points of the last five seconds: enough for a 99th percentile that forgets quickly.
const LAG_SPAN_NS: u64 = 5_000_000_000;

/// A spike is looked for among the points of the last two samples, so that none falls between two looks.
const SPIKE_SPAN_NS: u64 = 2_000_000_000;

/// Over which rejections and ends are counted.
const TEN_SECONDS_NS: u64 = 10_000_000_000;

/// Over which backlog growth and retries are counted.
const TREND_SPAN_NS: u64 = 30_000_000_000;

/// Attempts without which a share of retries says nothing.
const FEWEST_ATTEMPTS: u64 = 30;

/// Ends without which a share of failures says nothing.
const FEWEST_ENDS: u64 = 10;

/// Queued jobs without which growth says nothing: a lane may well queue a few.
const FEWEST_PENDING: u32 = 10;

/// Memory is looked at in five slices of two minutes.
const MEMORY_SLICE_NS: u64 = 120_000_000_000;
const MEMORY_SLICES: usize = 5;

fn lag_points(window: Window<'_>, span_ns: u64) -> impl Iterator<Item = u64> {
    let oldest = window.newest_mono_ns().saturating_sub(span_ns);
    let newest_first = window.history().lag.iter().rev();
    newest_first
        .take_while(move |point| point.at_mono_ns > oldest)
        .filter_map(LagPoint::lag_ns)
}

pub(super) fn lag_p99_ns(window: Window<'_>) -> Option<u64> {
    let mut lags: Vec<u64> = lag_points(window, LAG_SPAN_NS).collect();
    lags.sort_unstable();
    quantile(&lags, 0.99)
}

/// The largest lag, or the longest stall where that is longer.
pub(super) fn lag_spike_ns(window: Window<'_>) -> Option<u64> {
    let stalls = recent_stalls(window).map(|stall| stall.length_ns);
    lag_points(window, SPIKE_SPAN_NS).chain(stalls).max()
}

/// The longest stall of a task with a name that the last two samples saw: the task, and how long it held its worker.
pub(super) fn culprit(window: Window<'_>) -> Option<(&str, u64)> {
    let named = recent_stalls(window)
        .filter_map(|stall| Some((&*stall.task.as_ref()?.name, stall.length_ns)));
    named.max_by_key(|(_, length_ns)| *length_ns)
}

/// The stalls proper that reach into the last two samples, whether or not they go on.
fn recent_stalls(window: Window<'_>) -> impl Iterator<Item = &Stall> {
    let oldest = window.newest_mono_ns().saturating_sub(SPIKE_SPAN_NS);
    let proper = window.stalls().filter(|known| known.is_proper());
    let reaches =
        move |stall: &&Stall| stall.began_mono_ns.saturating_add(stall.length_ns) > oldest;
    proper.map(|known| &known.stall).filter(reaches)
}

pub(super) fn of_lanes(
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

/// The slope of a queue; 0 where it rises by no more than it moves up and down anyway, as that of a busy lane does.
pub(super) fn backlog_growth(window: Window<'_>, place: usize, lane: &Entry<Lane>) -> Option<f64> {
    // A second more than the span, so that the oldest one taken is as far back as the span says.
    let seconds = seconds_of(window, place, lane.born, TREND_SPAN_NS + 1_000_000_000);
    let newest_ns = window.newest_mono_ns();
    let (mut points, mut submitted, mut pending) = (Vec::new(), 0, None);
    for (second, lane) in seconds {
        let ago_s = newest_ns.saturating_sub(second.at_mono_ns) as f64 / 1e9;
        points.push((-ago_s, f64::from(lane.pending)));
        submitted += u64::from(lane.counts.submitted);
        pending.get_or_insert(lane.pending);
    }
    let slope = Slope::of(&points)?;
    let told = pending? >= FEWEST_PENDING && slope.span_s * 1e9 >= TREND_SPAN_NS as f64 * 0.9;
    let per_s = if slope.grows(submitted as f64 / slope.span_s) {
        slope.per_s
    } else {
        slope.per_s.min(0.0)
    };
    told.then_some(per_s)
}

pub(super) fn rejections(window: Window<'_>, place: usize) -> Option<f64> {
    let (mut rejected, mut interval_ns) = (0, 0);
    for (second, lane) in seconds_of(window, place, 0, TEN_SECONDS_NS) {
        rejected += u64::from(lane.counts.rejected);
        interval_ns += second.interval_ns.unwrap_or(0);
    }
    (interval_ns > 0).then(|| rejected as f64 * 1e9 / interval_ns as f64)
}

pub(super) fn stuck_slots_ns(window: Window<'_>, place: usize, lane: &Entry<Lane>) -> Option<f64> {
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
pub(super) fn retry_share(window: Window<'_>, place: usize, lane: &Entry<Lane>) -> Option<f64> {
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

pub(super) fn blocking_pools(window: Window<'_>) -> Vec<Reading> {
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
pub(super) fn memory_growth(window: Window<'_>) -> Option<f64> {
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

pub(super) fn telemetry_dropped(window: Window<'_>) -> Option<f64> {
    let change = window.change()?;
    let lost = |sample: &ax_wire::sample::Sample| {
        let dropped = &sample.dropped;
        let records = dropped.frames_total.saturating_add(dropped.events_total);
        records.saturating_add(dropped.lag_points_total)
    };
    let added = lost(change.latest()).saturating_sub(lost(change.before()?));
    Some(added as f64 * 1e9 / change.interval_ns()? as f64)
}

/// CPU used, as a share of what the process may use.
pub(super) fn cpu_share(window: Window<'_>) -> Option<f64> {
    let cpus = f64::from(window.hello().cpus.max(1));
    Some(window.change()?.cpus_used()? / cpus)
}

pub(super) fn rss_bytes(window: Window<'_>) -> Option<u64> {
    window.change()?.latest().process.rss_bytes
}

pub(super) fn open_files_share(window: Window<'_>) -> Option<f64> {
    let process = window.change()?.latest().process;
    let limit = process.open_files_limit.filter(|limit| *limit > 0)?;
    Some(process.open_files? as f64 / limit as f64)
}

pub(super) fn tasks(window: Window<'_>) -> Option<u64> {
    let latest = window.change()?.latest();
    Some(
        latest
            .runtimes
            .iter()
            .map(|runtime| runtime.alive_tasks)
            .sum(),
    )
}

/// Jobs that ended in each lane, a second, over the last ten.
pub(super) fn throughput(window: Window<'_>, place: usize, lane: &Entry<Lane>) -> Option<f64> {
    let (mut finished, mut interval_ns) = (0, 0);
    for (second, lane) in seconds_of(window, place, lane.born, TEN_SECONDS_NS) {
        finished += u64::from(lane.counts.finished);
        interval_ns += second.interval_ns.unwrap_or(0);
    }
    (interval_ns > 0).then(|| finished as f64 * 1e9 / interval_ns as f64)
}

/// The share of each type's ends of the last half minute that were no success.
pub(super) fn failure_shares(window: Window<'_>) -> Vec<Reading> {
    let oldest = window.newest_mono_ns().saturating_sub(TREND_SPAN_NS);
    let share = |place: usize, born: u64| {
        let newest_first = window.history().seconds.iter().rev();
        let seconds =
            newest_first.take_while(|second| second.at_mono_ns > oldest && second.number >= born);
        let (mut finished, mut unsuccessful) = (0_u64, 0_u64);
        for counts in seconds.filter_map(|second| Some(second.types.get(place)?.as_ref()?.counts)) {
            finished += u64::from(counts.finished);
            unsuccessful += u64::from(counts.unsuccessful);
        }
        (finished >= FEWEST_ENDS).then(|| unsuccessful as f64 / finished as f64)
    };
    let readings = window.types().filter_map(|(place, entry)| {
        Some(Reading {
            value: share(place, entry.born)?,
            subject: Some(entry.value.latest.name.clone()),
        })
    });
    readings.collect()
}

/// The 99th percentiles over the window: of the run time of each type, and of the queue wait of each lane. Some 10 us a
/// type.
pub(in crate::alert) fn p99s(window: Window<'_>) -> (Vec<Reading>, Vec<Reading>) {
    let mut tallies = Tallies::default();
    let quantiles = window.quantiles(&mut tallies);
    let run = window.types().filter_map(|(place, entry)| {
        Some(Reading {
            value: quantiles.types.get(place)?.run.p99_ns? as f64,
            subject: Some(entry.value.latest.name.clone()),
        })
    });
    let run = run.collect();
    let queue_wait = quantiles.lanes.into_iter().filter_map(|(name, wait, _)| {
        Some(Reading {
            value: wait.p99_ns? as f64,
            subject: Some(name.to_owned()),
        })
    });
    (run, queue_wait.collect())
}

/// A figure of each downstream.
pub(super) fn of_downstreams(
    window: Window<'_>,
    mut value: impl FnMut(&DownstreamSample) -> Option<f64>,
) -> Vec<Reading> {
    let Some(change) = window.change() else {
        return Vec::new();
    };
    let downstreams = change.latest().downstreams.iter();
    let readings = downstreams.filter_map(|downstream| {
        Some(Reading {
            value: value(downstream)?,
            subject: Some(downstream.name.clone()),
        })
    });
    readings.collect()
}
