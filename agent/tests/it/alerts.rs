//! Alerts from hand-made samples: no socket, no clock, no sleeping.

use ax_agent::{CleanSample, alert::Quiet, clock::Now, history::ServiceHistory};
use ax_wire::alert::{Alert, AlertState, Severity};

use crate::{
    common::{EPOCH_UNIX_NS, MS, SECOND, hello, sample},
    judged::{Change, Judged, healthy, late, named, now, with_lane},
};

#[test]
fn a_healthy_service_has_no_alert() {
    let mut judged = Judged::new();
    assert_eq!(judged.seconds(900, healthy), []);
    assert_eq!(judged.book.alerts(), []);
}

#[test]
fn lag_is_pending_then_fires_then_resolves_with_its_peak_and_its_times() {
    let mut judged = Judged::new();
    judged.seconds(20, healthy);
    assert_eq!(judged.seconds(10, late(80)), [], "not for long enough");
    let pending = judged.book.alerts();
    assert_eq!((pending.len(), pending[0].state), (1, AlertState::Pending));
    let fired = judged.seconds(5, late(120));
    assert_eq!(fired.len(), 1, "{fired:?}");
    let fired = &fired[0];
    assert_eq!(
        (fired.rule.as_str(), fired.severity),
        ("lag-high", Severity::Warning)
    );
    assert_eq!(fired.began_unix_ns, EPOCH_UNIX_NS + 21 * SECOND);
    assert_eq!(fired.fired_unix_ns, Some(EPOCH_UNIX_NS + 31 * SECOND));
    let resolved = judged.seconds(30, healthy);
    assert_eq!(resolved.len(), 1, "{resolved:?}");
    assert_eq!(resolved[0].state, AlertState::Resolved);
    assert_eq!(
        (resolved[0].peak, resolved[0].began_unix_ns),
        (120e6, fired.began_unix_ns)
    );
    assert!(resolved[0].resolved_unix_ns > resolved[0].fired_unix_ns);
    assert_eq!(judged.book.alerts(), resolved);
}

#[test]
fn a_single_late_moment_is_a_stall_alert_and_no_lag_alert() {
    let mut judged = Judged::new();
    judged.seconds(20, healthy);
    let changed = judged.second(late(400));
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].rule, "stall");
    assert!(
        changed[0].sentence.contains("400 ms"),
        "{}",
        changed[0].sentence
    );
    let later = judged.seconds(30, healthy);
    assert_eq!(later.len(), 1, "{later:?}");
    assert_eq!(
        (later[0].rule.as_str(), later[0].state),
        ("stall", AlertState::Resolved)
    );
}

#[test]
fn a_figure_that_swings_around_its_threshold_is_one_alert() {
    let mut judged = Judged::new();
    let mut changed = judged.seconds(20, late(80));
    for round in 0..60 {
        changed.extend(judged.seconds(3, late(if round % 2 == 0 { 45 } else { 60 })));
    }
    assert_eq!(changed.len(), 1, "{changed:?}");
}

#[test]
fn worse_lag_has_worse_alerts_which_are_listed_first() {
    let mut judged = Judged::new();
    judged.seconds(40, late(6_000));
    let alerts = judged.book.alerts();
    let rules: Vec<_> = alerts
        .iter()
        .map(|alert| (alert.rule.as_str(), alert.state))
        .collect();
    let firing = AlertState::Firing;
    assert_eq!(
        rules,
        [
            ("lag-page", firing),
            ("lag-critical", firing),
            ("lag-high", firing),
            ("stall", firing)
        ]
    );
}

/// A lane near its limit has a queue that comes and goes.
#[test]
fn a_queue_that_only_moves_up_and_down_does_not_grow() {
    let mut judged = Judged::new();
    let heights = [12, 30, 55, 18, 41, 10, 36, 62, 25, 48];
    let moving = with_lane(move |second, lane| {
        // Slowly more, as chance has it: a job in two seconds.
        lane.pending = heights[second as usize % heights.len()] + second / 2;
        lane.counters.submitted_total = second * 240;
    });
    let changed = judged.seconds(120, moving);
    assert!(named(&changed, "backlog-growing").is_empty(), "{changed:?}");
}

#[test]
fn what_a_lane_suffers_is_said_with_its_name() {
    let growing = with_lane(|second, lane| lane.pending = second * 10);
    let rejecting = with_lane(|second, lane| lane.counters.rejected_total = second * 3);
    let stuck = with_lane(|_, lane| {
        lane.running = lane.limit;
        lane.pending = 5;
    });
    let retrying = with_lane(|second, lane| {
        lane.counters.started_total = second * 40;
        lane.counters.submitted_total = second * 10;
        lane.counters.failed_total = second * 10;
    });
    let cases: [(&str, u64, Change); 4] = [
        ("backlog-growing", 70, Box::new(growing)),
        ("rejections", 5, Box::new(rejecting)),
        ("slot-leak", 70, Box::new(stuck)),
        ("retry-storm", 70, Box::new(retrying)),
    ];
    for (rule, seconds, change) in cases {
        let mut judged = Judged::new();
        let changed = judged.seconds(seconds, change);
        assert_eq!(named(&changed, rule).len(), 1, "{rule}: {changed:?}");
        assert_eq!(changed.len(), 1, "{rule} alone: {changed:?}");
        assert_eq!(changed[0].subject.as_deref(), Some("work"));
        assert!(
            changed[0].sentence.contains("work"),
            "{}",
            changed[0].sentence
        );
        let resolved = judged.seconds(60, healthy);
        assert_eq!(
            named(&resolved, rule).len(),
            1,
            "{rule} ends with its lane: {resolved:?}"
        );
    }
}

#[test]
fn a_busy_lane_that_makes_progress_is_fine() {
    let mut judged = Judged::new();
    let busy = with_lane(|second, lane| {
        lane.running = lane.limit;
        lane.pending = 8 + second % 5;
        lane.counters.started_total = second * 50;
        lane.counters.submitted_total = second * 50;
        lane.counters.succeeded_total = second * 50;
    });
    assert_eq!(judged.seconds(300, busy), []);
}

#[test]
fn memory_that_only_grows_is_said_and_a_cache_that_fills_is_not() {
    let mut leaking = Judged::new();
    let changed = leaking.seconds(800, |second, sample| {
        sample.process.rss_bytes = Some((second + 100) << 20);
    });
    assert_eq!(named(&changed, "memory-growing").len(), 1, "{changed:?}");
    let mut filling = Judged::new();
    let changed = filling.seconds(800, |second, sample| {
        sample.process.rss_bytes = Some((second.min(300) + 100) << 20);
    });
    assert_eq!(changed, []);
}

#[test]
fn a_full_blocking_pool_and_lost_telemetry_are_said() {
    let mut judged = Judged::new();
    let changed = judged.seconds(10, |second, sample| {
        sample.runtimes[0].blocking.lag_ns = Some(700 * MS);
        sample.dropped.events_total = second * 5;
    });
    let mut rules: Vec<_> = changed.iter().map(|alert| alert.rule.as_str()).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["blocking-pool-full", "telemetry-dropped"]);
}

#[test]
fn silence_is_said_after_three_seconds_and_freezes_what_was_known() {
    let mut judged = Judged::new();
    judged.seconds(20, late(80));
    let silent: Vec<Alert> = (0..3).flat_map(|_| judged.silence()).collect();
    assert_eq!(silent, []);
    let silent: Vec<Alert> = (0..30).flat_map(|_| judged.silence()).collect();
    assert_eq!(
        silent.len(),
        1,
        "the lag alert neither ends nor repeats: {silent:?}"
    );
    assert_eq!(silent[0].rule, "service-silent");
    judged
        .history
        .hello_again(hello("checkout"), now(judged.second));
    let back = judged.second(late(80));
    assert_eq!(back.len(), 1, "{back:?}");
    assert_eq!(
        (back[0].rule.as_str(), back[0].state),
        ("service-silent", AlertState::Resolved)
    );
}

#[test]
fn a_lost_service_is_said_and_its_next_instance_goes_on_with_its_alerts() {
    let mut judged = Judged::new();
    judged.seconds(20, late(80));
    let began = judged.book.alerts()[0].began_unix_ns;
    judged.history.disconnected();
    let lost: Vec<Alert> = (0..2).flat_map(|_| judged.silence()).collect();
    assert_eq!(named(&lost, "service-lost").len(), 1, "{lost:?}");

    let mut next = Judged {
        history: ServiceHistory::new(hello("checkout"), 1_000, now(judged.second)),
        book: judged.book.hand_over(&judged.rules),
        second: judged.second,
        ..Judged::new()
    };
    assert_eq!(
        next.seconds(20, late(80)),
        [],
        "nothing of it ends or begins"
    );
    let left = judged.book.alerts();
    assert_eq!(
        left.len(),
        1,
        "the loss is true of the first one alone: {left:?}"
    );
    assert_eq!(left[0].rule, "service-lost");
    let lag = next.book.alerts().remove(0);
    assert_eq!((lag.rule.as_str(), lag.began_unix_ns), ("lag-high", began));
}

#[test]
fn alerts_of_a_service_that_does_not_come_back_end_after_a_minute() {
    let mut judged = Judged::new();
    judged.seconds(20, late(80));
    judged.history.goodbye(now(20));
    let changed: Vec<Alert> = (0..59).flat_map(|_| judged.silence()).collect();
    assert_eq!(changed, []);
    let changed: Vec<Alert> = (0..5).flat_map(|_| judged.silence()).collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].state, AlertState::Resolved);
}

#[test]
fn nothing_is_judged_while_quiet_but_a_death() {
    for quiet in [Quiet::JustStarted, Quiet::Debugged] {
        let mut judged = Judged::new();
        let mut change = late(6_000);
        let mut sample = sample(1);
        change(1, &mut sample);
        judged
            .history
            .sample(CleanSample::from(sample), now(1))
            .expect("is newer");
        assert_eq!(judged.judge(now(1), quiet), []);
        assert_eq!(judged.judge(now(60), quiet), [], "not even silence");
        judged.history.disconnected();
        let lost = judged.judge(now(61), quiet);
        assert_eq!(named(&lost, "service-lost").len(), 1, "{quiet:?}: {lost:?}");
    }
}

#[test]
fn a_wall_clock_that_is_stepped_back_changes_no_span() {
    let mut judged = Judged::new();
    judged.seconds(20, healthy);
    let stepped = |second: u64| Now {
        mono_ns: second * SECOND,
        unix_ns: EPOCH_UNIX_NS - 3_600 * SECOND,
    };
    let mut changed = Vec::new();
    for second in 21..80 {
        let mut change = late(if second < 40 { 80 } else { 1 });
        let mut sample = sample(second);
        change(second, &mut sample);
        // The step comes while the alert is pending.
        let now = if second < 25 {
            now(second)
        } else {
            stepped(second)
        };
        judged
            .history
            .sample(CleanSample::from(sample), now)
            .expect("is newer");
        changed.extend(judged.judge(now, Quiet::No));
    }
    assert_eq!(changed.len(), 2, "{changed:?}");
    let resolved = &changed[1];
    let (began, fired) = (
        resolved.began_unix_ns,
        resolved.fired_unix_ns.expect("fired"),
    );
    assert_eq!(fired - began, 10 * SECOND);
    let lasted = resolved.resolved_unix_ns.expect("resolved") - began;
    assert!((25 * SECOND..40 * SECOND).contains(&lasted), "{lasted}");
}

#[test]
fn what_is_kept_of_alerts_is_bounded() {
    let mut judged = Judged::new();
    for _ in 0..200 {
        judged.seconds(2, late(400));
        judged.seconds(15, healthy);
    }
    let alerts = judged.book.alerts();
    assert_eq!(alerts.len(), 100);
    assert!(
        alerts
            .windows(2)
            .all(|pair| pair[0].began_unix_ns > pair[1].began_unix_ns),
        "newest first"
    );
}
