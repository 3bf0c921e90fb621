//! What was full, and what was so first.

use ax_wire::session::{DownstreamSecond, LaneSecond, Load, ServiceSecond, Session};
use serde::Serialize;

/// A lane whose slots are all taken for this long has no room left; shorter ones are bursts.
const FULL_NS: u64 = 1_000_000_000;

/// Something that filled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filled {
    /// What it is.
    pub what: Filler,
    /// Its name.
    pub name: String,
    /// Its limit: jobs at once, or clients of the pool. `None`: unknown.
    pub limit: Option<u64>,
    /// When it was seen to be full.
    pub at_unix_ns: u64,
    /// The step in which that was.
    pub step: u32,
    /// The load of that step.
    pub load: Load,
}

/// What can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Filler {
    /// All slots of a lane are taken and jobs wait.
    Lane,
    /// All clients of a downstream are taken and callers wait.
    Downstream,
}

/// What filled while a session ran, in the order in which it did. Something counts from the first of two samples in a row
/// in which it is full, or from the only one of a step with no more than two.
#[must_use]
pub fn filled(session: &Session) -> Vec<Filled> {
    let mut found: Vec<Filled> = Vec::new();
    for step in &session.steps {
        for (at, second) in step.service.iter().enumerate() {
            let next = step.service.get(at + 1);
            let short = step.service.len() <= 2;
            for (what, name, limit, queued) in full(second) {
                let again = next.is_some_and(|next| {
                    full(next).any(|(also, other, ..)| also == what && other == name)
                });
                let known = found
                    .iter()
                    .any(|known| known.what == what && known.name == name);
                if known || !(again || short) {
                    continue;
                }
                // Of two that fill in the same second, the one with the longer queue comes first.
                let place = found
                    .iter()
                    .position(|known| {
                        known.at_unix_ns == second.at_unix_ns && known_queue(second, known) < queued
                    })
                    .unwrap_or(found.len());
                found.insert(
                    place,
                    Filled {
                        what,
                        name: name.to_owned(),
                        limit,
                        at_unix_ns: second.at_unix_ns,
                        step: step.number,
                        load: step.load,
                    },
                );
            }
        }
    }
    found
}

/// What, its name, its limit, and how many wait for it.
type Full<'a> = (Filler, &'a str, Option<u64>, u64);

fn full(second: &ServiceSecond) -> impl Iterator<Item = Full<'_>> {
    let lanes = second.lanes.iter().filter(|lane| lane_is_full(lane));
    let lanes = lanes.map(|lane| {
        (
            Filler::Lane,
            lane.name.as_str(),
            Some(lane.limit),
            lane.pending,
        )
    });
    let downstreams = second.downstreams.iter().filter(|known| is_full(known));
    let downstreams = downstreams.map(|known| {
        let name = known.name.as_str();
        (Filler::Downstream, name, known.pool_size, known.waiting)
    });
    lanes.chain(downstreams)
}

fn known_queue(second: &ServiceSecond, known: &Filled) -> u64 {
    full(second)
        .find(|(what, name, ..)| *what == known.what && *name == known.name)
        .map_or(0, |(.., queued)| queued)
}

fn lane_is_full(lane: &LaneSecond) -> bool {
    // At a sample's instant a slot may be between two jobs.
    let nearly_all_taken = lane.running * 10 >= lane.limit * 9;
    let all_taken = lane.running >= lane.limit;
    let for_long = lane.full_ns.is_some_and(|ns| ns >= FULL_NS);
    lane.limit > 0 && (nearly_all_taken && lane.pending > 0 || all_taken && for_long)
}

fn is_full(downstream: &DownstreamSecond) -> bool {
    let all_taken = downstream
        .pool_size
        .is_some_and(|size| size > 0 && downstream.in_flight >= size);
    downstream.waiting > 0 || all_taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::made;

    /// F83: what fills first is seen.
    #[test]
    fn the_first_is_named_with_its_step_and_a_burst_is_not() {
        let mut session = made::session(&[500.0, 1_100.0], 1_000.0);
        let second = &mut session.steps[0].service[4];
        let mut burst = second.lanes[0].clone();
        burst.name = "burst".to_owned();
        (burst.running, burst.limit, burst.pending) = (5, 5, 1);
        second.lanes.push(burst.clone());
        burst.name = "db".to_owned();
        for second in &mut session.steps[1].service[6..] {
            second.lanes.push(burst.clone());
        }
        let found = filled(&session);
        let names: Vec<_> = found
            .iter()
            .map(|known| (known.name.as_str(), known.step))
            .collect();
        assert_eq!(names, [("work", 2), ("db", 2)]);
        assert_eq!(found[0].limit, Some(20));
    }

    /// A sample may come between the end of a job and the start of the next, in each second anew.
    #[test]
    fn a_lane_with_a_slot_between_two_jobs_is_full() {
        let mut session = made::session(&[1_100.0], 1_000.0);
        for (at, second) in session.steps[0].service.iter_mut().enumerate() {
            let lane = &mut second.lanes[0];
            (lane.running, lane.pending) = (20 - at as u64 % 3, 50);
            lane.full_ns = None;
        }
        assert_eq!(filled(&session)[0].name, "work");
        for second in &mut session.steps[0].service {
            second.lanes[0].running = 17;
        }
        assert_eq!(filled(&session), [], "three are free");
    }

    #[test]
    fn a_pool_that_is_waited_for_is_full() {
        let mut session = made::session(&[500.0], 1_000.0);
        for second in &mut session.steps[0].service[3..] {
            second.downstreams.push(DownstreamSecond {
                name: "db".to_owned(),
                in_flight: 4,
                waiting: 2,
                pool_size: Some(4),
                ..DownstreamSecond::default()
            });
        }
        let found = filled(&session);
        assert_eq!(
            (found[0].what, found[0].name.as_str()),
            (Filler::Downstream, "db")
        );
        assert_eq!(found[0].at_unix_ns, session.steps[0].service[3].at_unix_ns);
    }
}
