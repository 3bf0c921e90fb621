//! Figures of now beside those of the window: what stops must be seen to have stopped.

use ax_wire::{
    LatencyHistogram,
    sample::{DownstreamSample, LimitMove, LimitReason, RouteSample, WorkerState},
};

use crate::{
    common::{EPOCH_UNIX_NS, MS, SECOND},
    window::{assert_close, busy, feed, history, seen},
};

#[test]
fn a_lane_that_stops_has_no_recent_rate_while_the_window_still_has_one() {
    let mut history = history();
    for second in 1..=10 {
        feed(&mut history, busy(second, 20, 5));
    }
    let lane = &seen(&history, 10).lanes[0];
    assert_close(lane.recent.finished_per_s, 20.0);
    for second in 11..=12 {
        let mut stopped = busy(second, 1, 5);
        stopped.lanes[0].counters = busy(10, 20, 5).lanes[0].counters;
        feed(&mut history, stopped);
    }
    let lane = &seen(&history, 12).lanes[0];
    assert_close(lane.recent.finished_per_s, 0.0);
    assert!(lane.rates.finished_per_s > Some(10.0));
}

#[test]
fn a_stuck_worker_is_busy_although_its_counter_stands_still() {
    let mut history = history();
    for second in 1..=3 {
        let mut stuck = busy(second, 1, 5);
        let worker = &mut stuck.runtimes[0].workers[0];
        worker.state = WorkerState::Stalled;
        worker.busy_ns_total = SECOND;
        feed(&mut history, stuck);
    }
    let view = seen(&history, 3);
    assert_eq!(view.runtimes[0].workers[0].busy_share, Some(1.0));
    let point = view.point.expect("samples have come");
    assert_eq!(point.busy_shares[0], Some(1.0));
}

#[test]
fn downstreams_have_rates_and_quantiles_and_routes_pass_through() {
    let mut history = history();
    for second in 1..=5 {
        let mut latency = LatencyHistogram::new();
        (0..10).for_each(|_| latency.record_ns(40 * MS));
        let mut sample = busy(second, 1, 5);
        sample.downstreams = vec![DownstreamSample {
            name: "rates".to_owned(),
            in_flight: 3,
            calls_total: second * 10,
            errors_total: second,
            latency: Some(latency),
            ..DownstreamSample::default()
        }];
        sample.routes = vec![RouteSample {
            name: "GET /rate".to_owned(),
            successes_total: second,
            ..RouteSample::default()
        }];
        sample.lanes[0].limit_moves = vec![LimitMove {
            seq: 1,
            at_mono_ns: SECOND,
            from: 8,
            to: 10,
            reason: LimitReason::Boost,
        }];
        feed(&mut history, sample);
    }
    let view = seen(&history, 5);
    let downstream = &view.downstreams[0];
    assert_eq!(
        (downstream.name.as_str(), downstream.in_flight),
        ("rates", 3)
    );
    assert_close(downstream.calls_per_s, 10.0);
    assert_close(downstream.errors_per_s, 1.0);
    assert_eq!(downstream.latency.count, 50);
    assert!(
        downstream
            .latency
            .p99_ns
            .is_some_and(|ns| (39 * MS..43 * MS).contains(&ns))
    );
    assert_eq!(downstream.wait.count, 0);
    assert_eq!(view.routes[0].successes_total, 5);
    let moved = view.lanes[0].limit_moves[0];
    assert_eq!((moved.from, moved.to), (8, 10));
    assert_eq!(moved.at_unix_ns, EPOCH_UNIX_NS + SECOND);
}
