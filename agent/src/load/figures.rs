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
    /// proportion. Where the service has other traffic, in the step that says most of it. `None`: rates were offered.
    pub per_connection_per_s: Option<f64>,
    /// How far off that may be, at three standard errors.
    pub per_connection_error_per_s: f64,
    /// The service's other traffic, which is taken off what it counted. `None`: it was not measured, or need not be.
    pub background: Option<Background>,
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
        let source = if matches!(session.driver, Driver::Http { .. })
            || session.steps.iter().any(|step| step.client.is_some())
        {
            Source::Answers
        } else if let Some(lane) = asked {
            Source::Lane(lane)
        } else if seconds().any(|second| second.requests.is_some()) {
            Source::Requests
        } else {
            Source::Jobs
        };
        let background = match source {
            Source::Answers => None,
            _ => Background::of(&session.background, &source),
        };
        let mut throughput = Self {
            source,
            per_connection_per_s: None,
            per_connection_error_per_s: 0.0,
            background,
        };
        let connections = session.steps.iter().filter_map(|step| match step.load {
            Load::Connections(count) if count > 0 => {
                let achieved = throughput.achieved(step)?;
                Some((count as f64, achieved.per_s, achieved.noise_per_s))
            }
            _ => None,
        });
        let base = if throughput.background.is_some() {
            // Few connections drown in the other traffic, and many may be over the knee: the one that is surely most.
            let surely = |(count, per_s, noise): &(f64, f64, f64)| (per_s - noise) / count;
            connections.max_by(|a, b| surely(a).total_cmp(&surely(b)))
        } else {
            connections.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        if let Some((count, per_s, noise)) = base {
            throughput.per_connection_per_s = Some(per_s / count);
            throughput.per_connection_error_per_s = noise / count;
        }
        throughput
    }

    fn offered_per_s(&self, load: Load) -> Option<f64> {
        match load {
            Load::RatePerS(rate) => Some(rate),
            Load::Connections(count) => Some(self.per_connection_per_s? * count as f64),
            Load::Unknown => None,
        }
    }

    /// What was achieved in a step.
    fn achieved(&self, step: &Step) -> Option<Achieved> {
        if self.source == Source::Answers {
            let client = step.client.as_ref()?;
            let length_ns = step.ended_unix_ns.checked_sub(step.began_unix_ns)?;
            let per_s = per_second(client.achieved_total, length_ns)?;
            // What is under way when counting ends is by chance more or less than when it began.
            let noise = 1.0 + 2.0 * (2.0 * client.mean_in_flight).sqrt();
            return Some(Achieved {
                per_s,
                noise_per_s: noise * 1e9 / length_ns as f64,
            });
        }
        let plateau = self.plateau(step);
        let interval_ns: u64 = plateau.iter().map(|second| second.interval_ns).sum();
        let count = plateau.iter().map(|second| self.source.count(second)).sum();
        let all_per_s = per_second(count, interval_ns)?;
        let one = 1e9 / interval_ns as f64;
        let Some(background) = &self.background else {
            return Some(Achieved {
                per_s: all_per_s,
                noise_per_s: one,
            });
        };
        Some(Achieved {
            per_s: (all_per_s - background.per_s).max(0.0),
            noise_per_s: one + background.noise_per_s(plateau.len()),
        })
    }

    /// The samples in which a wrapped command had its full load on: it takes a moment to start and to end, and answers come
    /// only once the first requests have been answered.
    fn plateau<'a>(&self, step: &'a Step) -> &'a [ServiceSecond] {
        let samples = &step.service[..];
        let latency_ns = self.source.latency(step).quantile_ns(0.5).unwrap_or(0);
        let full_from_ns = step.began_unix_ns.saturating_add(latency_ns);
        let early = |second: &&ServiceSecond| {
            second.at_unix_ns.saturating_sub(second.interval_ns) < full_from_ns
        };
        let early = samples.iter().take_while(early).count();
        let (edge, count) = (usize::from(samples.len() >= 5), samples.len());
        &samples[early.max(edge).min(count / 2)..count - edge]
    }
}

/// What was achieved, per second.
pub(super) struct Achieved {
    pub(super) per_s: f64,
    /// So much may be missing by chance.
    pub(super) noise_per_s: f64,
}

/// The traffic that a service has beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Background {
    /// What ended, per second.
    pub per_s: f64,
    /// The standard deviation of that from one sample to the next.
    pub deviation_per_s: f64,
    /// How many samples it was measured in.
    pub samples: u64,
}

impl Background {
    /// `None`: there is none, or it was not measured.
    fn of(samples: &[ServiceSecond], source: &Source) -> Option<Self> {
        let rates: Vec<f64> = samples
            .iter()
            .filter_map(|second| per_second(source.count(second), second.interval_ns))
            .collect();
        let count = rates.len() as f64;
        let per_s = rates.iter().sum::<f64>() / count.max(1.0);
        if per_s <= 0.0 {
            return None;
        }
        let squares: f64 = rates.iter().map(|rate| (rate - per_s).powi(2)).sum();
        // One sample says nothing of how much it moves: as much as independent requests do.
        let deviation_per_s = match rates.len() {
            0 | 1 => per_s.sqrt(),
            _ => (squares / (count - 1.0)).sqrt(),
        };
        Some(Self {
            per_s,
            deviation_per_s,
            samples: rates.len() as u64,
        })
    }

    /// How far off the difference of a step of so many samples may be: three standard errors.
    fn noise_per_s(&self, samples: usize) -> f64 {
        let of = |samples: f64| 1.0 / samples.max(1.0);
        3.0 * self.deviation_per_s * (of(samples as f64) + of(self.samples as f64)).sqrt()
    }
}

impl Source {
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
    /// What ended well per second, without the service's other traffic.
    pub achieved_per_s: Option<f64>,
    /// So much less than offered may be chance, per second: what was under way at both ends, other traffic, a proportion
    /// that is not known better.
    pub noise_per_s: Option<f64>,
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
        let achieved = throughput.achieved(step);
        let achieved_per_s = achieved.as_ref().map(|achieved| achieved.per_s);
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
            noise_per_s: achieved.map(|achieved| match step.load {
                Load::Connections(count) => {
                    achieved.noise_per_s + throughput.per_connection_error_per_s * count as f64
                }
                Load::RatePerS(_) | Load::Unknown => achieved.noise_per_s,
            }),
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
