//! The figures of a view, from hand-made samples: no socket, no clock, no sleeping.

use ax_agent::{
    CleanSample,
    clock::Now,
    history::ServiceHistory,
    view::{Extras, backfill, view},
    window::Tallies,
};
use ax_wire::{
    InstanceId, RuntimeId,
    event::{Event, Events, ObserverGap, Stall, StallKind},
    sample::{JobCounters, Sample, WorkerState},
    view::{Quantiles, ServiceState, ServiceView},
};
use proptest::prelude::*;

use crate::common::{EPOCH_UNIX_NS, MS, SECOND, done, hello, job_type, lag_point, lane, sample};

fn at(seconds: u64) -> Now {
    Now {
        mono_ns: seconds * SECOND,
        unix_ns: EPOCH_UNIX_NS + seconds * SECOND,
    }
}

fn history() -> ServiceHistory {
    ServiceHistory::new(hello("checkout"), 1_000, at(0))
}

fn feed(history: &mut ServiceHistory, sample: Sample) {
    let now = Now {
        mono_ns: sample.at_mono_ns,
        unix_ns: EPOCH_UNIX_NS.saturating_add(sample.at_mono_ns),
    };
    history
        .sample(CleanSample::from(sample), now)
        .expect("is newer");
}

fn seen(history: &ServiceHistory, seconds: u64) -> ServiceView {
    view(
        history.window(),
        at(seconds),
        Extras::default(),
        &mut Tallies::default(),
    )
}

/// A lane that gets `per_second` jobs of one type, each of `ms` milliseconds.
fn busy(seconds: u64, per_second: u64, ms: u64) -> Sample {
    let runs = vec![ms * MS; per_second as usize];
    let counters = done(seconds * per_second);
    Sample {
        lanes: vec![lane("api", counters)],
        types: vec![job_type("render", "api", counters, &runs)],
        ..sample(seconds)
    }
}

fn assert_close(actual: Option<f64>, expected: f64) {
    let actual = actual.expect("known");
    assert!(
        (actual - expected).abs() < 1e-6,
        "{actual} is not {expected}"
    );
}

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

#[test]
fn lag_keeps_its_parts_apart_and_takes_the_largest_where_one_is_needed() {
    let mut history = history();
    let mut parts = sample(1);
    parts.lag = (1..=100).map(|n| lag_point(n * 10 * MS, n * MS)).collect();
    parts.lag[49].schedule_ns = Some(300 * MS);
    parts.lag[99].stall_ns = Some(120 * MS);
    feed(&mut history, parts);
    let lag = seen(&history, 1).lag;
    assert_eq!(lag.now_ns, Some(120 * MS));
    assert_eq!(lag.p50_ns, Some(51 * MS));
    assert_eq!(lag.p99_ns, Some(120 * MS));
    assert_eq!(lag.max_ns, Some(300 * MS));
    assert_eq!(lag.schedule_max_ns, Some(300 * MS));
    assert_eq!(lag.timer_max_ns, Some(100 * MS));
    assert_eq!(lag.stall_max_ns, Some(120 * MS));
}

fn stall(id: u64, kind: StallKind, began_mono_ns: u64, length_ns: u64) -> Stall {
    Stall {
        id,
        runtime: RuntimeId(1),
        worker: Some(0),
        tid: Some(100),
        kind,
        began_mono_ns,
        length_ns,
        run_queue_ns: None,
        on_cpu_ns: None,
        task: None,
        thread: None,
    }
}

fn tell(history: &mut ServiceHistory, event: Event, seconds: u64) {
    history.events(
        Events {
            events: vec![event],
        },
        at(seconds),
    );
}

#[test]
fn a_stall_grows_until_it_ends() {
    let mut history = history();
    feed(&mut history, sample(1));
    let began = stall(7, StallKind::Stall, SECOND, 50 * MS);
    tell(&mut history, Event::StallBegan(began), 1);
    let mut stalled = sample(3);
    stalled.runtimes[0].workers[0].state = WorkerState::Stalled;
    feed(&mut history, stalled);
    let view = seen(&history, 3);
    assert!(view.stalls[0].ongoing);
    assert_eq!(view.stalls[0].stall.length_ns, 2 * SECOND);
    assert_eq!(view.stalls[0].began_unix_ns, EPOCH_UNIX_NS + SECOND);
    assert_eq!(view.lag.stall_max_ns, Some(2 * SECOND));
    assert_eq!(view.lag.max_ns, Some(2 * SECOND));

    let ended = stall(7, StallKind::Stall, SECOND, 2_300 * MS);
    tell(&mut history, Event::StallEnded(ended), 4);
    let view = seen(&history, 4);
    assert_eq!(view.stalls.len(), 1);
    assert!(!view.stalls[0].ongoing);
    assert_eq!(view.lag.stall_max_ns, Some(2_300 * MS));
}

#[test]
fn a_stall_whose_end_was_lost_ends_with_the_next_sample_or_the_connection() {
    let mut history = history();
    feed(&mut history, sample(1));
    tell(
        &mut history,
        Event::StallBegan(stall(1, StallKind::Stall, SECOND, 50 * MS)),
        1,
    );
    feed(&mut history, sample(2));
    assert!(
        seen(&history, 2).stalls[0].ongoing,
        "the word of its end may be on its way"
    );
    feed(&mut history, sample(3));
    assert!(!seen(&history, 3).stalls[0].ongoing, "its worker moves");
    tell(
        &mut history,
        Event::StallBegan(stall(2, StallKind::Stall, 3 * SECOND, 50 * MS)),
        3,
    );
    assert!(seen(&history, 3).stalls[0].ongoing);
    history.disconnected();
    assert!(!seen(&history, 3).stalls[0].ongoing);
}

#[test]
fn look_alikes_are_shown_and_do_not_count_as_stalls() {
    let mut history = history();
    feed(&mut history, sample(1));
    for (id, kind) in [(1, StallKind::LongBusyWindow), (2, StallKind::Starved)] {
        tell(
            &mut history,
            Event::StallEnded(stall(id, kind, SECOND, 400 * MS)),
            1,
        );
    }
    let gap = ObserverGap {
        due_mono_ns: SECOND,
        late_ns: 90 * MS,
    };
    tell(&mut history, Event::ObserverNotScheduled(gap), 1);
    let view = seen(&history, 1);
    assert_eq!(view.stalls.len(), 2);
    assert_eq!(view.stalls[0].stall.id, 2, "newest first");
    assert_eq!(view.lag.stall_max_ns, None);
    assert_eq!(view.observer_gaps, [gap]);
}

#[test]
fn states_follow_samples_goodbye_and_the_connection() {
    let mut history = history();
    assert_eq!(history.state(at(2)), ServiceState::Live);
    assert_eq!(history.state(at(3)), ServiceState::Silent);
    feed(&mut history, sample(4));
    assert_eq!(history.state(at(6)), ServiceState::Live);
    // Events alone do not make it speak: the sampler may be stuck.
    history.events(Events::default(), at(7));
    assert_eq!(history.state(at(7)), ServiceState::Silent);
    history.disconnected();
    assert_eq!(history.state(at(8)), ServiceState::Lost);
    assert_eq!(history.gone_since_mono_ns(), Some(7 * SECOND));
    history.hello_again(hello("checkout"), at(9));
    assert_eq!(history.state(at(9)), ServiceState::Live);
    history.goodbye(at(10));
    history.disconnected();
    assert_eq!(history.state(at(99)), ServiceState::Ended);
}

#[test]
fn a_stepped_wall_clock_moves_the_points_after_it() {
    let mut history = history();
    feed(&mut history, sample(1));
    let mut stepped = sample(2);
    stepped.clock = Some(ax_wire::hello::ClockAnchor {
        mono_ns: 2 * SECOND,
        unix_ns: 5 * SECOND,
    });
    feed(&mut history, stepped);
    let points = backfill(history.window()).points;
    assert_eq!(points[0].at_unix_ns, EPOCH_UNIX_NS + SECOND);
    assert_eq!(points[1].at_unix_ns, 5 * SECOND);
}

#[test]
fn text_of_a_service_cannot_reach_the_terminal() {
    let mut history = history();
    let mut rude = busy(1, 1, 1);
    rude.types[0].name = "\u{1b}]0;owned\u{7}".into();
    rude.types[0].place = Some("a\nb".into());
    rude.lanes[0].name = "x".repeat(5_000);
    rude.runtimes[0].info.name = Some("\u{9b}2J".into());
    rude.runtimes[0].workers[0]
        .thread
        .as_mut()
        .expect("has one")
        .state = Some('\u{1b}');
    feed(&mut history, rude);
    let view = seen(&history, 1);
    assert_eq!(view.types[0].name, "\u{FFFD}]0;owned\u{FFFD}");
    assert_eq!(view.types[0].place.as_deref(), Some("a\u{FFFD}b"));
    assert!(view.lanes[0].name.chars().count() <= 201);
    assert_eq!(view.runtimes[0].info.name.as_deref(), Some("\u{FFFD}2J"));
    assert_eq!(
        view.runtimes[0].workers[0].thread.expect("kept").state,
        None
    );
}

proptest! {
    #[test]
    fn no_counters_make_a_rate_negative_infinite_or_a_panic(
        steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 1..12)
    ) {
        let mut history = ServiceHistory::new(
            ax_wire::hello::Hello { instance: InstanceId::new_now(), ..hello("wild") },
            0,
            at(0),
        );
            for (at_mono_ns, a, b, c) in steps {
            let counters = JobCounters {
                submitted_total: a,
                succeeded_total: b,
                failed_total: c,
                cancelled_total: a,
                rejected_total: b,
                ..JobCounters::default()
            };
            let mut wild = Sample {
                lanes: vec![lane("api", counters)],
                types: vec![job_type("t", "api", counters, &[a, b, c])],
                lag: vec![lag_point(a, b)],
                ..sample(1)
            };
            wild.at_mono_ns = at_mono_ns;
            wild.interval_ns = c;
            wild.lanes[0].running = a;
            wild.lanes[0].limit = b;
            wild.process.cpu_ns_total = Some(c);
            wild.runtimes[0].workers[0].busy_ns_total = a;
            let began = stall(a, StallKind::Stall, b, c);
            history.events(Events { events: vec![Event::StallBegan(began)] }, at(1));
            // Out of order is one of the wild things, and refused.
            let _ = history.sample(CleanSample::from(wild), at(1));
            let view = view(history.window(), at(2), Extras::default(), &mut Tallies::default());
            for lane in &view.lanes {
                for rate in [lane.rates.submitted_per_s, lane.rates.finished_per_s].into_iter().flatten() {
                    prop_assert!(rate.is_finite() && rate >= 0.0, "{rate}");
                }
                prop_assert!(lane.run.p50_ns <= lane.run.max_ns);
            }
            let used = view.process.cpus_used.unwrap_or(0.0);
            prop_assert!(used.is_finite() && used >= 0.0, "{used}");
            for share in view.point.iter().flat_map(|p| &p.busy_shares).flatten() {
                prop_assert!((0.0..=1.0).contains(share), "{share}");
            }
        }
    }

    #[test]
    fn window_quantiles_are_those_of_all_recordings(
        seconds in prop::collection::vec(prop::collection::vec(1_000..5_000_000_000_u64, 0..20), 1..45)
    ) {
        let mut history = history();
        let mut all = ax_wire::LatencyHistogram::new();
        for (index, runs) in seconds.iter().enumerate() {
            for ns in runs {
                all.record_ns(*ns);
            }
            let second = index as u64 + 1;
            feed(&mut history, Sample {
                types: vec![job_type("t", "api", done(second), runs)],
                ..sample(second)
            });
        }
        let expected = Quantiles {
            count: all.count(),
            p50_ns: all.quantile_ns(0.5),
            p90_ns: all.quantile_ns(0.9),
            p99_ns: all.quantile_ns(0.99),
            max_ns: all.max_ns(),
        };
        prop_assert_eq!(seen(&history, 60).types[0].run, expected);
    }
}

#[test]
fn charts_of_an_earlier_agent_come_before_its_own() {
    let mut history = history();
    let mut earlier = self::history();
    for second in 1..=5 {
        feed(&mut earlier, sample(second));
    }
    history.recall(backfill(earlier.window()).points);
    assert_eq!(backfill(history.window()).points.len(), 5);
    for second in [4, 5, 6] {
        feed(&mut history, sample(second));
    }
    let points = backfill(history.window()).points;
    let seconds = |unix_ns: u64| (unix_ns - EPOCH_UNIX_NS) / SECOND;
    let shown: Vec<_> = points
        .iter()
        .map(|point| seconds(point.at_unix_ns))
        .collect();
    assert_eq!(shown, [1, 2, 3, 4, 5, 6], "its own where both know");
    feed(&mut history, sample(15 * 60 + 3));
    let first = backfill(history.window()).points[0].at_unix_ns;
    assert_eq!(seconds(first), 3, "no older than 15 minutes");
}
