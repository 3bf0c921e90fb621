//! What to set, as numbers.

use ax_wire::session::{DownstreamSecond, LaneSecond, Session, Step};
use serde::Serialize;

use super::{Knee, figures::merged};

/// The share of a capacity that is wise to use: the rest is for bursts, and for who else calls.
const WISE_SHARE: f64 = 0.8;

/// Jobs that must have ended in the step for an advice.
const ENOUGH_JOBS: u64 = 20;

/// What a session advises.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advice {
    /// The step that it is taken from: the knee, or else the last one. `None`: there was none.
    pub step: Option<u32>,
    /// For each lane in which enough jobs ended.
    pub lanes: Vec<LaneAdvice>,
    /// For each downstream that was called.
    pub downstreams: Vec<DownstreamAdvice>,
}

/// For one lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneAdvice {
    /// Its name.
    pub lane: String,
    /// Its limit while the session ran.
    pub limit: u64,
    /// Jobs that ended per second.
    pub per_s: f64,
    /// How long one ran, on average.
    pub run_mean_ns: f64,
    /// 99th percentile of run time.
    pub run_p99_ns: u64,
    /// Slots that this rate takes: rate x mean run time (Little's law), rounded up.
    pub needed: u64,
    /// The limit at which that rate is 80 % of what the lane can do.
    pub with_room: u64,
    /// What the lane can do at its limit, per second: limit / mean run time.
    pub capacity_per_s: f64,
    /// 80 % of that: the rate to stay below.
    pub wise_per_s: f64,
    /// The shortest sensible timeout: 2 x the 99th percentile.
    pub timeout_from_ns: u64,
    /// The longest sensible one: 3 x the 99th percentile.
    pub timeout_to_ns: u64,
}

/// For one downstream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DownstreamAdvice {
    /// Its name.
    pub downstream: String,
    /// Calls per second.
    pub per_s: f64,
    /// Median latency of a call. `None`: none ended.
    pub p50_ns: Option<u64>,
    /// 99th percentile of it.
    pub p99_ns: Option<u64>,
    /// Most calls at once that were seen.
    pub most_in_flight: u64,
    /// The limit for what calls it: 80 % of its pool, or of what it was seen to bear where it shows none.
    pub limit: u64,
    /// The shortest sensible timeout of a call: 2 x the 99th percentile.
    pub timeout_from_ns: Option<u64>,
    /// The longest sensible one: 3 x it.
    pub timeout_to_ns: Option<u64>,
}

/// Takes it from the knee.
#[must_use]
pub fn advice(session: &Session, knee: &Knee) -> Advice {
    let at_knee = session
        .steps
        .iter()
        .find(|step| Some(step.number) == knee.step);
    let Some(step) = at_knee.or(session.steps.last()) else {
        return Advice::default();
    };
    Advice {
        step: Some(step.number),
        lanes: each(
            step,
            |second| &second.lanes,
            |lane| (lane.name.clone(), lane.scheduler),
        )
        .into_iter()
        .filter_map(|lane| of_lane(step, &lane))
        .collect(),
        downstreams: each(
            step,
            |second| &second.downstreams,
            |known| known.name.clone(),
        )
        .into_iter()
        .filter_map(|known| of_downstream(step, &known))
        .collect(),
    }
}

/// The samples of each thing in a step, thing by thing, in the order in which they were first seen.
fn each<T, K: PartialEq>(
    step: &Step,
    of: impl Fn(&ax_wire::session::ServiceSecond) -> &Vec<T>,
    key: impl Fn(&T) -> K,
) -> Vec<Vec<&T>> {
    let mut things: Vec<(K, Vec<&T>)> = Vec::new();
    for second in &step.service {
        for sample in of(second) {
            let own = key(sample);
            match things.iter_mut().find(|(known, _)| *known == own) {
                Some((_, samples)) => samples.push(sample),
                None => things.push((own, vec![sample])),
            }
        }
    }
    things.into_iter().map(|(_, samples)| samples).collect()
}

fn seconds(step: &Step) -> f64 {
    step.service
        .iter()
        .map(|second| second.interval_ns)
        .sum::<u64>() as f64
        / 1e9
}

fn of_lane(step: &Step, samples: &[&LaneSecond]) -> Option<LaneAdvice> {
    let last = samples.last()?;
    let run = merged(samples.iter().filter_map(|sample| sample.run.as_ref()));
    let finished: u64 = samples.iter().map(|sample| sample.finished).sum();
    let seconds = seconds(step);
    if finished < ENOUGH_JOBS || seconds <= 0.0 {
        return None;
    }
    let (run_mean_ns, run_p99_ns) = (run.mean_ns()?, run.quantile_ns(0.99)?);
    let per_s = finished as f64 / seconds;
    let at_once = per_s * run_mean_ns / 1e9;
    let capacity_per_s = last.limit as f64 * 1e9 / run_mean_ns.max(1.0);
    // A mean out of a histogram is up to 1 % too long, which must not cost a slot.
    let up = |slots: f64| (slots * 0.99).ceil().max(1.0) as u64;
    Some(LaneAdvice {
        lane: last.name.clone(),
        limit: last.limit,
        per_s,
        run_mean_ns,
        run_p99_ns,
        needed: up(at_once),
        with_room: up(at_once / WISE_SHARE),
        capacity_per_s,
        wise_per_s: capacity_per_s * WISE_SHARE,
        timeout_from_ns: run_p99_ns.saturating_mul(2),
        timeout_to_ns: run_p99_ns.saturating_mul(3),
    })
}

fn of_downstream(step: &Step, samples: &[&DownstreamSecond]) -> Option<DownstreamAdvice> {
    let last = samples.last()?;
    let calls: u64 = samples.iter().map(|sample| sample.calls).sum();
    let seconds = seconds(step);
    if calls == 0 || seconds <= 0.0 {
        return None;
    }
    let latency = merged(samples.iter().filter_map(|sample| sample.latency.as_ref()));
    let most_in_flight = samples.iter().map(|sample| sample.in_flight).max()?;
    let bears = last.pool_size.unwrap_or(most_in_flight);
    let p99_ns = latency.quantile_ns(0.99);
    Some(DownstreamAdvice {
        downstream: last.name.clone(),
        per_s: calls as f64 / seconds,
        p50_ns: latency.quantile_ns(0.5),
        p99_ns,
        most_in_flight,
        limit: ((bears as f64 * WISE_SHARE).floor() as u64).max(1),
        timeout_from_ns: p99_ns.map(|ns| ns.saturating_mul(2)),
        timeout_to_ns: p99_ns.map(|ns| ns.saturating_mul(3)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::made;

    /// F20, F21: 500/s x 20 ms takes 10 slots, 13 with room; the lane of 20 can do 1,000/s, so stay below 800.
    #[test]
    fn limit_rate_and_timeout_as_numbers() {
        let session = made::session(&[500.0], 1_000.0);
        let knee = Knee {
            step: Some(1),
            ..Knee::default()
        };
        let advice = advice(&session, &knee);
        let lane = &advice.lanes[0];
        assert_eq!((lane.limit, lane.needed, lane.with_room), (20, 10, 13));
        assert!((lane.wise_per_s / 800.0 - 1.0).abs() < 0.02, "{lane:?}");
        assert_eq!(lane.timeout_to_ns, 3 * lane.run_p99_ns);
        assert!(
            (lane.timeout_from_ns as f64 / 40e6 - 1.0).abs() < 0.02,
            "{lane:?}"
        );
    }

    #[test]
    fn few_jobs_are_no_ground_for_advice() {
        let session = made::session(&[1.0], 1_000.0);
        assert!(advice(&session, &Knee::default()).lanes.is_empty());
    }
}
