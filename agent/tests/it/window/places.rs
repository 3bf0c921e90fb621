//! Lanes, types and counters that come, go and change places.

use ax_agent::CleanSample;
use ax_wire::sample::Sample;

use super::{assert_close, at, busy, feed, history, seen};
use crate::common::{SECOND, done, job_type, lane, sample};

#[test]
fn what_is_no_longer_reported_is_no_longer_shown_and_places_are_not_mixed_up() {
    let mut history = history();
    let two = |second: u64, first: &str, other: &str| Sample {
        lanes: vec![
            lane(first, done(second * 10)),
            lane(other, done(second * 1_000)),
        ],
        ..sample(second)
    };
    for second in 1..=5 {
        feed(&mut history, two(second, "a", "b"));
    }
    for second in 6..=9 {
        feed(
            &mut history,
            Sample {
                lanes: vec![lane("b", done(second * 1_000))],
                ..sample(second)
            },
        );
    }
    let view = seen(&history, 9);
    assert_eq!(view.lanes.len(), 1);
    assert_eq!(view.lanes[0].name, "b");
    assert_close(view.lanes[0].rates.submitted_per_s, 1_000.0);
}

#[test]
fn what_finds_no_room_is_counted_as_folded() {
    let mut history = history();
    let crowd = |second| Sample {
        types: (0..200)
            .map(|n| job_type(&format!("t{n}"), "api", done(1), &[]))
            .collect(),
        lanes: (0..70).map(|n| lane(&format!("l{n}"), done(1))).collect(),
        ..sample(second)
    };
    let folded = history.sample(CleanSample::from(crowd(1)), at(1));
    assert_eq!(folded, Ok((200 - 129) + (70 - 64)));
    let mut twins = sample(2);
    twins.types = vec![job_type("t0", "api", done(1), &[]); 3];
    assert_eq!(history.sample(CleanSample::from(twins), at(2)), Ok(2));
    let newcomers = Sample {
        types: vec![job_type("new", "api", done(1), &[])],
        ..sample(4)
    };
    assert_eq!(
        history.sample(CleanSample::from(newcomers), at(4)),
        Ok(0),
        "an old place is free"
    );
    assert_eq!(seen(&history, 4).types.len(), 1);
}

#[test]
fn counters_that_go_backwards_have_added_nothing() {
    let mut history = history();
    feed(&mut history, busy(10, 100, 5));
    let mut backwards = busy(1, 100, 5);
    backwards.at_mono_ns = 11 * SECOND;
    feed(&mut history, backwards);
    let view = seen(&history, 11);
    assert_close(view.lanes[0].rates.finished_per_s, 0.0);
    assert_eq!(view.process.cpus_used, None, "unknown, and not negative");
    assert_eq!(view.runtimes[0].workers[0].busy_share, None);
}

#[test]
fn a_sample_out_of_order_changes_nothing() {
    let mut history = history();
    feed(&mut history, busy(5, 1, 1));
    let before = seen(&history, 6);
    for stale in [5, 4] {
        let refused = history.sample(CleanSample::from(busy(stale, 99, 9)), at(6));
        assert!(refused.is_err());
    }
    assert_eq!(seen(&history, 6), before);
}

#[test]
fn a_lane_is_full_as_long_as_every_sample_finds_it_so() {
    let mut history = history();
    let with_running = |second, running| {
        let mut sample = busy(second, 1, 1);
        sample.lanes[0].running = running;
        sample
    };
    for (second, running, full_ns) in [
        (1, 9, None),
        (2, 10, Some(0)),
        (3, 10, Some(SECOND)),
        (6, 12, Some(4 * SECOND)),
        (7, 3, None),
        (8, 10, Some(0)),
    ] {
        feed(&mut history, with_running(second, running));
        assert_eq!(
            seen(&history, second).lanes[0].full_ns,
            full_ns,
            "at {second} s"
        );
    }
}
