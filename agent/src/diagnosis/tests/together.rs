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
