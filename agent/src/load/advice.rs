//! What to set, as numbers.

use ax_wire::session::{DownstreamSecond, LaneSecond, Session, Step};
use serde::Serialize;

use super::{Knee, figures::merged};

/// The share of a capacity that is wise to use: the rest is for bursts, and for who else calls.
const WISE_SHARE: f64 = 0.8;

/// A shorter timeout than this is broken by a pause of the machine.
const LEAST_TIMEOUT_NS: u64 = 10_000_000;

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
    /// The shortest sensible timeout: 2 x the 99th percentile, and never under 10 ms.
    pub timeout_from_ns: u64,
    /// The longest sensible one: 3 x the 99th percentile, and at least as long as the shortest.
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
    /// Mean latency of a call. `None`: none ended.
    pub mean_ns: Option<f64>,
    /// Most calls at once that a sample saw.
    pub most_in_flight: u64,
    /// Its clients or connections, where the service shows its pool.
    pub pool: Option<u64>,
    /// Calls at once that this rate takes: rate x mean latency, rounded up.
    pub needed: u64,
    /// So many at once that this rate is 80 % of them.
    pub with_room: u64,
    /// The limit for what calls it: 80 % of its pool; where it shows none, what this rate takes with room.
    pub limit: u64,
    /// The rate to stay below: what so many at once can do. `None`: it shows no pool, or no call ended.
    pub wise_per_s: Option<f64>,
    /// The shortest sensible timeout of a call: 2 x the 99th percentile, and never under 10 ms.
    pub timeout_from_ns: Option<u64>,
    /// The longest sensible one: 3 x it, and at least as long as the shortest.
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
        timeout_from_ns: timeout(run_p99_ns, 2),
        timeout_to_ns: timeout(run_p99_ns, 3),
    })
}

/// So many at once, as a whole number. A mean out of a histogram is up to 1 % too long, which must not cost one.
fn up(at_once: f64) -> u64 {
    (at_once * 0.99).ceil().max(1.0) as u64
}

fn timeout(p99_ns: u64, times: u64) -> u64 {
    p99_ns.saturating_mul(times).max(LEAST_TIMEOUT_NS)
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
    let (p99_ns, mean_ns) = (latency.quantile_ns(0.99), latency.mean_ns());
    let per_s = calls as f64 / seconds;
    // Samples see a call now and then: how many there are on average follows from how often and how long. Where none
    // ended, what was seen is all that is known.
    let at_once = mean_ns.map_or(most_in_flight as f64, |mean_ns| per_s * mean_ns / 1e9);
    let with_room = up(at_once / WISE_SHARE);
    let pool = last.pool_size.filter(|size| *size > 0);
    let limit = pool.map_or(with_room, |size| {
        ((size as f64 * WISE_SHARE).floor() as u64).max(1)
    });
    Some(DownstreamAdvice {
        downstream: last.name.clone(),
        per_s,
        p50_ns: latency.quantile_ns(0.5),
        p99_ns,
        mean_ns,
        most_in_flight,
        pool,
        needed: up(at_once),
        with_room,
        limit,
        wise_per_s: pool
            .and(mean_ns)
            .map(|mean_ns| limit as f64 * 1e9 / mean_ns.max(1.0)),
        timeout_from_ns: p99_ns.map(|ns| timeout(ns, 2)),
        timeout_to_ns: p99_ns.map(|ns| timeout(ns, 3)),
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

    /// A lane whose jobs are calls of a downstream, and that downstream: what is said of one must suit the other.
    #[test]
    fn a_lane_and_what_it_calls_are_advised_alike() {
        let mut session = made::session(&[500.0], 1_000.0);
        for second in &mut session.steps[0].service {
            let run = second.lanes[0].run.clone();
            let named = |name: &str, pool_size| DownstreamSecond {
                name: name.to_owned(),
                calls: second.lanes[0].finished,
                latency: run.clone(),
                pool_size,
                ..DownstreamSecond::default()
            };
            second.downstreams = vec![named("open", None), named("pool", Some(4))];
        }
        let advice = advice(&session, &Knee::default());
        let (lane, [open, pool]) = (&advice.lanes[0], &advice.downstreams[..]) else {
            panic!("{advice:?}");
        };
        assert_eq!(
            (open.needed, open.with_room, open.limit),
            (lane.needed, lane.with_room, lane.with_room)
        );
        assert_eq!((open.most_in_flight, open.wise_per_s), (0, None));
        // 80 % of a pool of 4 is 3 at once, which can do 150 calls of 20 ms a second.
        assert_eq!((pool.needed, pool.limit, pool.pool), (10, 3, Some(4)));
        let wise = pool.wise_per_s.expect("is known");
        assert!((wise / 150.0 - 1.0).abs() < 0.02, "{wise}");
    }

    /// Calls of a tenth of a millisecond: never 0 at once, and no timeout that a pause of the machine breaks.
    #[test]
    fn short_calls_are_rounded_sanely() {
        let mut session = made::session(&[500.0], 1_000.0);
        for second in &mut session.steps[0].service {
            let mut latency = ax_wire::LatencyHistogram::new();
            latency.record_many_ns(100_000, 500);
            second.downstreams = vec![DownstreamSecond {
                name: "sqlite".to_owned(),
                calls: 500,
                latency: Some(latency),
                ..DownstreamSecond::default()
            }];
        }
        let known = &advice(&session, &Knee::default()).downstreams[0];
        assert_eq!((known.needed, known.with_room, known.limit), (1, 1, 1));
        let ms = 1_000_000;
        assert_eq!(
            (known.timeout_from_ns, known.timeout_to_ns),
            (Some(10 * ms), Some(10 * ms))
        );
    }
}
