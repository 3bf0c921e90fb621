//! The figures of one step.

use ax_wire::{
    LatencyHistogram,
    session::{Driver, LaneSecond, Load, ServiceSecond, Session, Step, StepKind},
};
use serde::Serialize;

use super::Slope;
use crate::history::quantile;

/// Where the throughput of a session was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Answers that the own generator got.
    Answers,
    /// Requests that the service counted.
    Requests,
    /// Jobs of one lane that the service counted.
    Lane(String),
    /// Jobs of all lanes that the service counted.
    Jobs,
}

/// How throughput and latency of a session are read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// From what.
    pub source: Source,
    /// Requests per second of one connection, in the step with the fewest: what more connections would bring in
    /// proportion. `None`: rates were offered.
    pub per_connection_per_s: Option<f64>,
}

impl Throughput {
    /// The way that fits the session.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let asked = match &session.driver {
            Driver::Command { lane, .. } => lane.clone(),
            Driver::Http { .. } | Driver::Other(_) => None,
        };
        let seconds = || session.steps.iter().flat_map(|step| &step.service);
        let source = if session.steps.iter().any(|step| step.client.is_some()) {
            Source::Answers
        } else if let Some(lane) = asked {
            Source::Lane(lane)
        } else if seconds().any(|second| second.requests.is_some()) {
            Source::Requests
        } else {
            Source::Jobs
        };
        let fewest = session.steps.iter().filter_map(|step| match step.load {
            Load::Connections(count) => Some((count, step)),
            Load::RatePerS(_) | Load::Unknown => None,
        });
        let fewest = fewest.min_by_key(|(count, _)| *count);
        let per_connection_per_s = fewest.and_then(|(count, step)| {
            let achieved = source.achieved_per_s(step)?;
            (count > 0).then(|| achieved / count as f64)
        });
        Self {
            source,
            per_connection_per_s,
        }
    }

    fn offered_per_s(&self, load: Load) -> Option<f64> {
        match load {
            Load::RatePerS(rate) => Some(rate),
            Load::Connections(count) => Some(self.per_connection_per_s? * count as f64),
            Load::Unknown => None,
        }
    }
}

impl Source {
    /// What was achieved in a step.
    fn achieved_per_s(&self, step: &Step) -> Option<f64> {
        if *self == Self::Answers {
            let client = step.client.as_ref()?;
            let length_ns = step.ended_unix_ns.checked_sub(step.began_unix_ns)?;
            return per_second(client.achieved_total, length_ns);
        }
        let interval_ns = step.service.iter().map(|second| second.interval_ns).sum();
        let count = step.service.iter().map(|second| self.count(second)).sum();
        per_second(count, interval_ns)
    }

    /// What ended well in a sample.
    pub(super) fn count(&self, second: &ServiceSecond) -> u64 {
        let jobs = |lane: &LaneSecond| lane.finished.saturating_sub(lane.unsuccessful);
        match self {
            Self::Answers | Self::Requests => {
                second.requests.as_ref().map_or(0, LatencyHistogram::count)
            }
            Self::Lane(name) => second
                .lanes
                .iter()
                .filter(|lane| lane.name == *name)
                .map(jobs)
                .sum(),
            Self::Jobs => second.lanes.iter().map(jobs).sum(),
        }
    }

    fn latency(&self, step: &Step) -> LatencyHistogram {
        let requests = || {
            merged(
                step.service
                    .iter()
                    .filter_map(|second| second.requests.as_ref()),
            )
        };
        let of_lanes = |wanted: &dyn Fn(&LaneSecond) -> bool| {
            let lanes = step.service.iter().flat_map(|second| &second.lanes);
            merged(
                lanes
                    .filter(|lane| wanted(lane))
                    .filter_map(|lane| lane.run.as_ref()),
            )
        };
        match self {
            Self::Answers => step
                .client
                .as_ref()
                .map_or_else(LatencyHistogram::new, |client| client.latency.clone()),
            Self::Requests => requests(),
            Self::Lane(name) => of_lanes(&|lane| lane.name == *name),
            Self::Jobs => of_lanes(&|_| true),
        }
    }
}

/// The figures of one step. What is not known is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepFigures {
    /// Its number.
    pub number: u32,
    /// Why it was made.
    pub kind: StepKind,
    /// The load that was asked for.
    pub load: Load,
    /// The load that came, per second; for connections, what they would bring in proportion to the fewest.
    pub offered_per_s: Option<f64>,
    /// What ended well per second.
    pub achieved_per_s: Option<f64>,
    /// Median latency: of answers from their intended send time; of requests and jobs as the service measured it, which is
    /// run time alone for jobs.
    pub p50_ns: Option<u64>,
    /// 95th percentile of it.
    pub p95_ns: Option<u64>,
    /// 99th percentile of it.
    pub p99_ns: Option<u64>,
    /// Largest.
    pub max_ns: Option<u64>,
    /// Share of what was sent that failed.
    pub error_share: Option<f64>,
    /// Share of the schedule that was not sent, since too many were under way.
    pub dropped_share: Option<f64>,
    /// Median event-loop lag.
    pub lag_p50_ns: Option<u64>,
    /// 99th percentile of event-loop lag.
    pub lag_p99_ns: Option<u64>,
    /// Largest event-loop lag.
    pub lag_max_ns: Option<u64>,
    /// How the jobs queued in all lanes grew.
    pub pending_slope: Option<Slope>,
    /// How the requests under way grew, as the generator saw it.
    pub in_flight_slope: Option<Slope>,
    /// How many requests were under way on average.
    pub concurrency: Option<f64>,
    /// CPU that the service used for one request.
    pub cpu_ns_per_request: Option<f64>,
    /// 99th percentile of how late the generator sent.
    pub send_error_p99_ns: Option<u64>,
    /// Share of the time in which the generator could run and got no CPU.
    pub starved_share: Option<f64>,
    /// Samples of the service in it.
    pub samples: u64,
}

impl StepFigures {
    /// Those of a step.
    pub(super) fn of(step: &Step, throughput: &Throughput) -> Self {
        let source = &throughput.source;
        let client = step.client.as_ref();
        let achieved_per_s = source.achieved_per_s(step);
        let latency = source.latency(step);
        let mut lags: Vec<u64> = step
            .service
            .iter()
            .flat_map(|second| second.lag_ns.iter().copied())
            .collect();
        lags.sort_unstable();
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let by_law = achieved_per_s.zip(latency.mean_ns());
        Self {
            number: step.number,
            kind: step.kind,
            load: step.load,
            offered_per_s: throughput.offered_per_s(step.load),
            achieved_per_s,
            p50_ns: latency.quantile_ns(0.5),
            p95_ns: latency.quantile_ns(0.95),
            p99_ns: latency.quantile_ns(0.99),
            max_ns: latency.max_ns(),
            error_share: client.map_or_else(
                || unsuccessful_share(step),
                |client| share(client.errors.total(), client.sent_total),
            ),
            dropped_share: client
                .and_then(|client| share(client.dropped_total, client.scheduled_total)),
            lag_p50_ns: quantile(&lags, 0.5),
            lag_p99_ns: quantile(&lags, 0.99),
            lag_max_ns: lags.last().copied(),
            pending_slope: pending_slope(step),
            in_flight_slope: in_flight_slope(step),
            concurrency: match (client, step.load) {
                (Some(client), _) => Some(client.mean_in_flight),
                (None, Load::Connections(count)) => Some(count as f64),
                (None, _) => by_law.map(|(per_s, mean_ns)| per_s * mean_ns / 1e9),
            },
            cpu_ns_per_request: cpu_ns_per_request(step, source, achieved_per_s),
            send_error_p99_ns: client.and_then(|client| client.send_error.quantile_ns(0.99)),
            starved_share: client.and_then(|client| client.starved_share),
            samples: step.service.len() as u64,
        }
    }
}

/// The sum of histograms.
pub(super) fn merged<'a>(parts: impl Iterator<Item = &'a LatencyHistogram>) -> LatencyHistogram {
    let mut sum = LatencyHistogram::new();
    parts.for_each(|part| sum.merge(part));
    sum
}

fn per_second(count: u64, length_ns: u64) -> Option<f64> {
    (length_ns > 0).then(|| count as f64 * 1e9 / length_ns as f64)
}

fn unsuccessful_share(step: &Step) -> Option<f64> {
    let lanes = || step.service.iter().flat_map(|second| &second.lanes);
    let finished: u64 = lanes().map(|lane| lane.finished).sum();
    let failed: u64 = lanes().map(|lane| lane.unsuccessful).sum();
    (finished > 0).then(|| failed as f64 / finished as f64)
}

fn cpu_ns_per_request(step: &Step, source: &Source, achieved_per_s: Option<f64>) -> Option<f64> {
    let known = step.service.iter().filter_map(|second| {
        let length_ns = second.interval_ns as f64;
        Some((
            second.cpus_used? * length_ns,
            length_ns,
            source.count(second),
        ))
    });
    let (cpu_ns, length_ns, counted) = known.fold((0.0, 0.0, 0), |sum, part| {
        (sum.0 + part.0, sum.1 + part.1, sum.2 + part.2)
    });
    let requests = match source {
        Source::Answers => achieved_per_s? * length_ns / 1e9,
        _ => counted as f64,
    };
    (requests >= 1.0).then(|| cpu_ns / requests)
}

fn pending_slope(step: &Step) -> Option<Slope> {
    let first = step.service.first()?.at_unix_ns;
    let points: Vec<_> = step
        .service
        .iter()
        .map(|second| {
            let pending: u64 = second.lanes.iter().map(|lane| lane.pending).sum();
            let at = second.at_unix_ns.saturating_sub(first);
            (at as f64 / 1e9, pending as f64)
        })
        .collect();
    Slope::of(&points)
}

fn in_flight_slope(step: &Step) -> Option<Slope> {
    let slices = &step.client.as_ref()?.slices;
    let first = slices.first()?.at_unix_ns;
    let points: Vec<_> = slices
        .iter()
        .map(|slice| {
            let at = slice.at_unix_ns.saturating_sub(first) + slice.length_ns;
            (at as f64 / 1e9, slice.in_flight as f64)
        })
        .collect();
    Slope::of(&points)
}
