//! Rates, shares and quantiles.

use ax_agent::view::backfill;
use ax_wire::sample::Sample;

use super::{assert_close, busy, feed, history, seen};
use crate::common::{EPOCH_UNIX_NS, MS, SECOND, done, job_type, lag_point, lane, sample};

#[test]
fn nothing_is_known_before_the_first_sample() {
    let view = seen(&history(), 1);
    assert_eq!(view.window_ns, 0);
    assert_eq!(view.lag.p99_ns, None);
    assert_eq!(view.process.cpus_used, None);
    assert_eq!(view.point, None);
    assert!(view.lanes.is_empty() && view.types.is_empty() && view.runtimes.is_empty());
}

#[test]
fn one_sample_has_levels_and_no_rates() {
    let mut history = history();
    feed(&mut history, busy(1_000, 10, 5));
    let view = seen(&history, 1_000);
    assert_eq!(view.window_ns, SECOND);
    assert_eq!(view.lanes[0].rates.finished_per_s, None);
    assert_eq!(view.process.cpus_used, None);
    assert_eq!(view.process.rss_bytes, Some(1 << 20));
    assert_eq!(view.runtimes[0].workers[0].busy_share, None);
    assert_eq!(view.types[0].run.count, 10);
    assert_eq!(view.lag.points, 10);
    let point = view.point.expect("a point");
    assert_eq!(point.finished_per_s, None);
    assert_eq!(point.at_unix_ns, EPOCH_UNIX_NS + 1_000 * SECOND);
}

#[test]
fn rates_shares_and_quantiles_are_over_the_window() {
    let mut history = history();
    for second in 1..=10 {
        feed(&mut history, busy(second, 20, 5));
    }
    let view = seen(&history, 10);
    assert_eq!(view.window_ns, 9 * SECOND);
    let lane = &view.lanes[0];
    assert_close(lane.rates.submitted_per_s, 20.0);
    assert_close(lane.rates.finished_per_s, 20.0);
    assert_close(lane.rates.unsuccessful_per_s, 2.0);
    assert_close(lane.rates.rejected_per_s, 0.0);
    assert_eq!(lane.run.count, 200);
    assert_eq!(lane.run.p50_ns, Some(5 * MS));
    assert_eq!(lane.queue_wait, view.types[0].queue_wait);
    assert_eq!(view.types[0].rates, lane.rates);
    assert_close(view.process.cpus_used, 0.5);
    let worker = &view.runtimes[0].workers[1];
    assert_close(worker.busy_share, 0.25);
    assert_close(worker.on_cpu_share, 0.2);
    assert_close(worker.run_queue_share, 0.02);
    let point = view.point.expect("a point");
    assert_close(point.finished_per_s, 20.0);
    assert_eq!((point.running, point.pending), (2, 1));
}

#[test]
fn what_is_older_than_a_minute_leaves_the_figures_and_stays_in_the_charts() {
    let mut history = history();
    for second in 1..=60 {
        feed(&mut history, busy(second, 1, 900));
    }
    for second in 61..=121 {
        let slow_so_far = 60;
        let counters = done(slow_so_far + (second - 60) * 10);
        let quick = Sample {
            lanes: vec![lane("api", counters)],
            types: vec![job_type("render", "api", counters, &[MS; 10])],
            ..sample(second)
        };
        feed(&mut history, quick);
    }
    let view = seen(&history, 121);
    assert_eq!(view.window_ns, 60 * SECOND);
    assert_close(view.lanes[0].rates.finished_per_s, 10.0);
    assert_eq!(view.types[0].run.max_ns, Some(MS), "the slow ones are gone");
    let trend_ms = view.types[0]
        .run_p99_trend_ns
        .iter()
        .map(|ns| ns.map(|ns| ns / MS));
    let trend_ms: Vec<_> = trend_ms.flatten().collect();
    assert_eq!(
        trend_ms,
        [901, 901, 901, 1, 1],
        "each slow half minute, then each quick one"
    );
    let points = backfill(history.window()).points;
    assert_eq!(points.len(), 121);
    assert_close(points[30].finished_per_s, 1.0);
}

#[test]
fn fifteen_minutes_are_kept_and_no_more() {
    let mut history = history();
    for second in 1..=2_000 {
        feed(&mut history, busy(second, 1, 1));
    }
    let points = backfill(history.window()).points;
    assert_eq!(points.len(), 901);
    assert_eq!(points[0].at_unix_ns, EPOCH_UNIX_NS + 1_100 * SECOND);
}

#[test]
fn a_service_that_samples_too_often_is_kept_in_bounded_memory() {
    let mut history = history();
    for step in 1..=20_000 {
        let mut often = sample(1);
        often.at_mono_ns = SECOND + step * MS;
        often.lag = vec![lag_point(often.at_mono_ns, MS); 10];
        feed(&mut history, often);
    }
    assert_eq!(history.seconds().count(), 1_024);
    assert_eq!(seen(&history, 30).lag.points, 8_192);
}

#[test]
fn rates_are_over_the_real_interval_when_frames_are_lost() {
    let mut history = history();
    for second in [1, 2, 12] {
        feed(&mut history, busy(second, 30, 5));
    }
    let view = seen(&history, 12);
    assert_close(view.lanes[0].rates.finished_per_s, 30.0);
    assert_close(view.point.expect("a point").finished_per_s, 30.0);
    assert_close(view.process.cpus_used, 0.5);
    assert_eq!(view.window_ns, 11 * SECOND);
}

#[test]
fn a_lane_that_comes_later_begins_at_zero() {
    let mut history = history();
    for second in 1..=4 {
        feed(&mut history, sample(second));
    }
    let counters = done(50);
    feed(
        &mut history,
        Sample {
            lanes: vec![lane("late", counters)],
            types: vec![job_type("first", "late", counters, &[MS])],
            ..sample(5)
        },
    );
    let view = seen(&history, 5);
    assert_close(view.lanes[0].rates.submitted_per_s, 50.0 / 4.0);
}
