//! The figures of a step, in parts that the bootstrap draws again.

use ax_wire::{
    LatencyHistogram,
    session::{ServiceSecond, Step},
};

use super::Metric;
use crate::load::{Source, Throughput, figures::merged};

/// A figure of a step, made of parts that can be drawn again.
pub(super) enum Parts {
    /// A sum over a sum.
    Ratio(Vec<(f64, f64)>),
    /// A quantile of durations: their sorted values, and how many of each every part has.
    Quantile(f64, Vec<u64>, Vec<Vec<(usize, u32)>>),
}

impl Parts {
    pub(super) fn of(metric: Metric, step: &Step, throughput: &Throughput) -> Self {
        let finished = |second: &ServiceSecond| finished(second, &throughput.source);
        match metric {
            Metric::Capacity => Self::Ratio(achieved(step, throughput)),
            Metric::LatencyP50 => Self::quantile(0.5, &latencies(step)),
            Metric::LatencyP99 => Self::quantile(0.99, &latencies(step)),
            Metric::CpuPerRequest => Self::Ratio(
                step.service
                    .iter()
                    .filter_map(|second| {
                        let requests = finished(second);
                        Some((second.cpus_used? * second.interval_ns as f64, requests))
                    })
                    .collect(),
            ),
            Metric::JobRun => Self::Ratio(
                step.service
                    .iter()
                    .map(|second| {
                        let run = merged(second.lanes.iter().filter_map(|lane| lane.run.as_ref()));
                        let count = run.count() as f64;
                        (run.mean_ns().unwrap_or(0.0) * count, count)
                    })
                    .collect(),
            ),
            Metric::LagP99 => Self::quantile(
                0.99,
                &step
                    .service
                    .iter()
                    .map(|second| second.lag_ns.iter().map(|ns| (*ns, 1)).collect())
                    .collect::<Vec<_>>(),
            ),
        }
    }

    fn quantile(quantile: f64, parts: &[Vec<(u64, u32)>]) -> Self {
        let mut values: Vec<u64> = parts.iter().flatten().map(|(value, _)| *value).collect();
        values.sort_unstable();
        values.dedup();
        let place = |value: u64| values.binary_search(&value).unwrap_or_default();
        let parts = parts
            .iter()
            .map(|part| {
                part.iter()
                    .map(|(value, count)| (place(*value), *count))
                    .collect()
            })
            .collect();
        Self::Quantile(quantile, values, parts)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ratio(parts) => parts.len(),
            Self::Quantile(_, _, parts) => parts.len(),
        }
    }

    /// The figure of these parts together.
    pub(super) fn value(&self, chosen: impl Iterator<Item = usize>) -> Option<f64> {
        match self {
            Self::Ratio(parts) => {
                let (over, under) = chosen.fold((0.0, 0.0), |sum, at| {
                    (sum.0 + parts[at].0, sum.1 + parts[at].1)
                });
                (over > 0.0 && under > 0.0).then(|| over / under)
            }
            Self::Quantile(quantile, values, parts) => {
                let mut counts = vec![0_u64; values.len()];
                for at in chosen {
                    for (place, count) in &parts[at] {
                        counts[*place] += u64::from(*count);
                    }
                }
                let total: u64 = counts.iter().sum();
                let rank = ((total as f64 * quantile).ceil() as u64).max(1);
                let mut below = 0;
                let place = counts.iter().position(|count| {
                    below += count;
                    below >= rank
                })?;
                (values[place] > 0).then(|| values[place] as f64)
            }
        }
    }
}

/// Answers and seconds of each slice; where there is no generator of ours, what the service counted in each sample
/// without its other traffic.
fn achieved(step: &Step, throughput: &Throughput) -> Vec<(f64, f64)> {
    if let Some(client) = &step.client {
        let slices = client.slices.iter();
        return slices
            .map(|slice| (slice.achieved as f64, slice.length_ns as f64 / 1e9))
            .collect();
    }
    let other_per_s = throughput
        .background
        .map_or(0.0, |background| background.per_s);
    step.service
        .iter()
        .map(|second| {
            let seconds = second.interval_ns as f64 / 1e9;
            let own = finished(second, &throughput.source) - other_per_s * seconds;
            (own.max(0.0), seconds)
        })
        .collect()
}

fn finished(second: &ServiceSecond, source: &Source) -> f64 {
    if !matches!(source, Source::Answers) {
        return source.count(second) as f64;
    }
    let jobs = || second.lanes.iter().map(|lane| lane.finished).sum();
    let requests = second.requests.as_ref().map(LatencyHistogram::count);
    requests.unwrap_or_else(jobs) as f64
}

fn latencies(step: &Step) -> Vec<Vec<(u64, u32)>> {
    let buckets = |latency: Option<&LatencyHistogram>| {
        latency.map_or_else(Vec::new, |latency| latency.buckets_us().collect())
    };
    match &step.client {
        Some(client) => client
            .slices
            .iter()
            .map(|slice| buckets(slice.latency.as_ref()))
            .collect(),
        None => step
            .service
            .iter()
            .map(|second| buckets(second.requests.as_ref()))
            .collect(),
    }
}
