//! Several causes at once: which is first, what follows from it, who is hurt, since when.

use super::*;

/// The pair that people confuse: a pool of database clients that looks exhausted, while the truth is that the process
/// is stopped by its CPU quota.
#[test]
fn a_throttled_process_makes_its_database_pool_look_exhausted() {
    let pool = |picture: &mut Picture| {
        let sqlite = picture.downstream();
        (sqlite.in_flight, sqlite.waiting, sqlite.wait_ms) = (4, 30, 300);
        picture.lane("db").full(200, 900);
    };
    let mut alone = Scene::healthy();
    alone.goes_on(4, pool);
    assert_eq!(alone.ids()[0], V::PoolTooSmall);

    let mut throttled = Scene::healthy();
    throttled.goes_on(4, |picture| {
        pool(picture);
        (picture.quota, picture.lag_ms) = (Some((0.3, 9)), 80);
    });
    let first = &throttled.diagnosis().verdicts[0];
    assert_eq!(first.id, V::CpuThrottled);
    let pool = first.explains.iter().find(|of| of.id == V::PoolTooSmall);
    assert_eq!(
        pool.expect("explains the pool").because,
        "the pool of sqlite looks too small because the process was stopped by its CPU quota"
    );
    assert!(
        throttled.ids().contains(&V::PoolTooSmall),
        "it stands below"
    );
}

#[test]
fn a_lane_looks_saturated_because_the_loop_was_stalled() {
    let mut scene = Scene::healthy();
    for _ in 0..4 {
        scene.stall(400, |_| ());
        scene.goes_on(1, |picture| {
            picture.lag_ms = 300;
            picture.lane("db").full(300, 1_000);
        });
    }
    let first = &scene.diagnosis().verdicts[0];
    assert_eq!(first.id, V::BlockingCall);
    let lane = first.explains.iter().find(|of| of.id == V::LaneSaturated);
    assert_eq!(
        lane.expect("explains the lane").because,
        "lane db looks saturated because the loop was stalled"
    );
}

/// What one cause explains by way of another stands with the first.
#[test]
fn explanations_lead_to_the_root() {
    let mut scene = Scene::healthy();
    scene.goes_on(4, |picture| {
        picture.outside = 1.9;
        (picture.run_queue, picture.lag_ms) = (0.5, 80);
        picture.lane("db").full(300, 1_000);
    });
    let first = &scene.diagnosis().verdicts[0];
    assert_eq!(first.id, V::CpuOutsideRuntime, "{:?}", scene.ids());
    let explained: Vec<_> = first.explains.iter().map(|of| of.id).collect();
    assert!(explained.contains(&V::CpuStarvation), "{explained:?}");
    assert!(explained.contains(&V::LaneSaturated), "{explained:?}");
}

/// F98: hurts GET /orders: so many requests, p99 6 -> 430 ms.
#[test]
fn who_is_hurt_is_told_beside_the_verdict() {
    let mut scene = Scene::healthy();
    for _ in 0..3 {
        scene.stall(412, |_| ());
        scene.goes_on(1, |picture| {
            let orders = &mut picture.types[0];
            (orders.ending, orders.run_ms, orders.failing) = (12, 430, 2);
        });
    }
    let verdict = &scene.diagnosis().verdicts[0];
    assert_eq!(verdict.id, V::BlockingCall);
    let hurt = &verdict.who_is_hurt[0];
    assert_eq!(
        (hurt.kind, hurt.name.as_str()),
        (HurtKind::Route, "GET /orders")
    );
    assert_eq!(
        hurt.affected,
        Some(37),
        "three times twelve, and one under way"
    );
    assert_eq!(hurt.errors, Some(6));
    let ms = |ns: Option<u64>| ns.expect("known") as f64 / 1e6;
    assert!((5.9..6.3).contains(&ms(hurt.usual_p99_ns)), "{hurt:?}");
    assert!((430.0..435.0).contains(&ms(hurt.p99_ns)), "{hurt:?}");
    assert!(verdict.who_is_hurt.iter().all(|hurt| hurt.name != "ticker"));
}

#[test]
fn a_verdict_is_held_against_flicker_and_its_beginning_stays() {
    let mut scene = Scene::healthy();
    scene.stall(412, |_| ());
    scene.goes_on(1, |_| ());
    let since = scene.diagnosis().verdicts[0].since_unix_ns;
    for second in 0..7 {
        scene.goes_on(1, |_| ());
        assert_eq!(scene.ids(), [V::BlockingCall], "{second}");
        assert_eq!(scene.diagnosis().verdicts[0].since_unix_ns, since);
    }
    scene.goes_on(4, |_| ());
    assert_eq!(scene.ids(), [V::Healthy]);
}

#[test]
fn of_a_service_that_is_gone_the_last_word_stays() {
    let mut scene = Scene::healthy();
    scene.stall(412, |_| ());
    scene.goes_on(1, |_| ());
    scene.history.disconnected();
    scene.silence(60);
    assert_eq!(scene.ids(), [V::BlockingCall]);
}

/// A day in which something is wrong in every second half hour, by handed-in time: a sample each twenty seconds, and each
/// second under `AX_FULL=1`.
#[test]
fn a_day_takes_no_more_memory_than_its_second_hour() {
    let step = if std::env::var_os("AX_FULL").is_some() {
        1
    } else {
        20
    };
    let mut scene = Scene::new();
    let mut first = None;
    for hour in 0..24 {
        let mut most = [0; 3];
        for tick in 0..3_600 / step {
            scene.second += step - 1;
            let wrong = tick * step >= 1_800;
            scene.goes_on(1, |picture| {
                if wrong && tick % 60 < 40 {
                    picture.downstream().latency_ms = 120;
                    picture.lane("db").full(300, 1_000);
                    picture.lane("api").retried = 60;
                }
            });
            let [open, marks, before] = scene.casebook.kept();
            assert!(marks <= crate::marks::MAX_MARKS);
            let now = [scene.history.approximate_bytes(), open, before];
            most = std::array::from_fn(|at| most[at].max(now[at]));
        }
        // The first hour fills what is bounded.
        match &first {
            None if hour == 1 => first = Some(most),
            Some(first) => {
                let grown = (0..3).find(|at| most[*at] > first[*at] + first[*at] / 20 + 1);
                assert_eq!(grown, None, "hour {hour}: {most:?} after {first:?}");
            }
            None => {}
        }
    }
    let [bytes, open, before] = first.expect("more than two hours");
    println!("{bytes} bytes of history, {open} findings, {before} seconds of before");
    assert!(open > 1 && before > 10);
}

/// F99: how the instance before did stands beside the verdict, and whether it was another build.
#[test]
fn a_verdict_is_compared_with_the_instance_before() {
    let mut before = Scene::healthy();
    before.history.hello.build_id = Some("aaaa".to_owned());
    let mut scene = Scene::new();
    scene.history.hello.build_id = Some("bbbb".to_owned());
    scene
        .casebook
        .succeed(crate::marks::Predecessor::of(&before.history));
    scene.goes_on(20, |_| ());
    scene.stall(412, |_| ());
    scene.goes_on(3, |picture| picture.lag_ms = 90);
    let verdict = &scene.diagnosis().verdicts[0];
    let lag = verdict
        .evidence
        .iter()
        .find(|of| of.what.contains("against the instance before"));
    let lag = lag.expect("is compared");
    assert_eq!(lag.against.map(|ns| ns as u64 / MS), Some(1));
    assert!((lag.value as u64 / MS) >= 89, "{lag:?}");
    let last = verdict.next_steps.last().expect("something to do");
    assert!(last.contains("another build"), "{last}");
}

/// Lag that is over does not stand beside the word "healthy" as if it went on.
#[test]
fn a_healthy_service_tells_its_lag_of_now_and_what_was() {
    let mut scene = Scene::healthy();
    scene.goes_on(1, |picture| picture.lag_ms = 1_900);
    scene.goes_on(20, |_| {});
    let diagnosis = scene.diagnosis();
    let healthy = &diagnosis.verdicts[0];
    assert_eq!(healthy.id, V::Healthy);
    assert!(
        healthy
            .sentence
            .starts_with("lag p99 1.0 ms (within the minute 1.9 s)"),
        "{}",
        healthy.sentence
    );
    scene.goes_on(60, |_| {});
    let sentence = &scene.diagnosis().verdicts[0].sentence;
    assert!(!sentence.contains("within"), "{sentence}");
}
