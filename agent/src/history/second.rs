//! One second of a service, as it is kept for 15 minutes.

use ax_wire::{
    hello::ClockAnchor,
    sample::{JobCounters, LagPoint},
    view::Point,
};

use super::{Brief, Bucket, Change, HostSecond, narrow, quantile};

/// One sample in the form that is kept.
#[derive(Clone, Debug)]
pub struct Second {
    /// Counts up by one from 1.
    pub number: u64,
    /// When the sample was taken, by the service's monotonic clock.
    pub at_mono_ns: u64,
    /// The real time since the sample before it: a second, or more where frames were lost. `None` for the first one,
    /// whose counts say nothing of a rate.
    pub interval_ns: Option<u64>,
    /// The charts.
    pub point: Point,
    /// The process on its host.
    pub host: HostSecond,
    /// Requests that ended a second; `None` where none are told, or no rate is known.
    pub(crate) requests_per_s: Option<f32>,
    /// Each lane, by its place.
    pub(crate) lanes: Vec<Option<LaneSecond>>,
    /// Each type, by its place: 56 bytes each.
    pub(crate) types: Vec<Option<TypeSecond>>,
    /// Each downstream, by its place.
    pub(crate) downstreams: Vec<Option<DownstreamSecond>>,
}

impl Second {
    /// A second whose lanes and types are still to come.
    pub(super) fn begin(
        number: u64,
        change: Change<'_>,
        lag: &[LagPoint],
        clock: ClockAnchor,
    ) -> Self {
        let latest = change.latest();
        let mut lags: Vec<u64> = lag.iter().filter_map(LagPoint::lag_ns).collect();
        lags.sort_unstable();
        Self {
            number,
            at_mono_ns: latest.at_mono_ns,
            interval_ns: change.interval_ns(),
            point: Point {
                at_unix_ns: clock.to_unix_ns(latest.at_mono_ns),
                lag_p50_ns: quantile(&lags, 0.5),
                lag_max_ns: lags.last().copied(),
                cpus_used: change.cpus_used(),
                rss_bytes: latest.process.rss_bytes,
                busy_shares: change.busy_shares(),
                running: 0,
                pending: 0,
                finished_per_s: None,
            },
            host: HostSecond::of(change),
            requests_per_s: None,
            lanes: Vec::new(),
            types: Vec::new(),
            downstreams: Vec::new(),
        }
    }

    /// What it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let lanes = self.lanes.len() * size_of::<Option<LaneSecond>>();
        let types = self.types.len() * size_of::<Option<TypeSecond>>();
        let shares = self.point.busy_shares.len() * size_of::<Option<f64>>();
        let downstreams = self.downstreams.len() * size_of::<Option<DownstreamSecond>>();
        size_of::<Self>() + lanes + types + downstreams + shares
    }

    /// Gives back the room that growing has left over.
    pub(super) fn shrink(&mut self) {
        self.lanes.shrink_to_fit();
        self.types.shrink_to_fit();
        self.downstreams.shrink_to_fit();
    }

    /// See [`counts`].
    pub(super) fn counts(&self, before: &JobCounters, after: &JobCounters) -> Counts {
        counts(self.interval_ns, before, after)
    }
}

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted.
    pub submitted: u32,
    /// Ended, in whichever way.
    pub finished: u32,
    /// Ended without success.
    pub unsuccessful: u32,
    /// Refused.
    pub rejected: u32,
}

/// One second of one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LaneSecond {
    /// Running when the sample was taken.
    pub running: u32,
    /// Queued when the sample was taken.
    pub pending: u32,
    /// What happened.
    pub counts: Counts,
    /// Attempts begun.
    pub started: u32,
    /// Attempts that failed and were followed by a wait for another.
    pub retried: u32,
    /// How long the attempts that ended had run, together, in seconds.
    pub run_s: f32,
    /// Queue wait of its types together.
    pub queue_wait: Brief,
    /// Run time of its types together.
    pub run: Brief,
}

/// One second of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeSecond {
    /// Running when the sample was taken.
    pub running: u32,
    /// Queued when the sample was taken.
    pub pending: u32,
    /// What happened.
    pub counts: Counts,
    /// Ready to started.
    pub queue_wait: Brief,
    /// Started to finished.
    pub run: Brief,
    /// One poll.
    pub poll: Brief,
}

/// One second of one downstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DownstreamSecond {
    /// Calls under way when the sample was taken.
    pub in_flight: u32,
    /// Callers that waited for a client when the sample was taken.
    pub waiting: u32,
    /// Calls begun.
    pub calls: u32,
    /// Calls that ended with an error.
    pub errors: u32,
    /// Age of the oldest call under way.
    pub oldest: Bucket,
    /// From the beginning of a call to its end.
    pub latency: Brief,
    /// How long callers waited for a client.
    pub wait: Brief,
}

/// What was added to the counters in an interval; nothing where there is no interval to add in. A counter that went
/// backwards, which no probe sends, has added nothing.
fn counts(interval_ns: Option<u64>, before: &JobCounters, after: &JobCounters) -> Counts {
    if interval_ns.is_none() {
        return Counts::default();
    }
    let added = |total: fn(&JobCounters) -> u64| narrow(total(after).saturating_sub(total(before)));
    Counts {
        submitted: added(|counters| counters.submitted_total),
        finished: added(JobCounters::finished_total),
        unsuccessful: added(JobCounters::unsuccessful_total),
        rejected: added(|counters| counters.rejected_total),
    }
}

/// Sets the value of a place, with nothing in the places before it that have none yet.
pub(super) fn put<T: Copy>(places: &mut Vec<Option<T>>, place: usize, value: T) {
    if places.len() <= place {
        places.resize(place + 1, None);
    }
    places[place] = Some(value);
}
