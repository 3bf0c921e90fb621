//! What a service calls.

use super::*;

/// F75: low lag with much that waits is a slow downstream, with the opposite advice.
#[test]
fn calls_that_take_longer_than_they_used_to() {
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
    scene.goes_on(3, |picture| {
        picture.downstream().latency_ms = 120;
        picture.lane("db").run_ms = 121;
        picture.lane("db").full(200, 900);
    });
    let finding = found(scene.answer(V::DownstreamSlow));
    assert_eq!(
        finding.sentence,
        "Calls to `sqlite` take 120 ms where 3.0 ms is usual."
    );
    assert!(finding.next_steps[0].contains("only waits for it"));
    assert_eq!(scene.ids()[0], V::DownstreamSlow);
    let verdict = &scene.diagnosis().verdicts[0];
    let explained = verdict.explains.iter().find(|of| of.id == V::LaneSaturated);
    assert_eq!(
        explained.expect("explains the lane").because,
        "lane db looks saturated because its jobs wait for `sqlite`"
    );
}

#[test]
fn calls_that_do_not_come_back() {
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| {
        let sqlite = picture.downstream();
        (sqlite.calls, sqlite.in_flight) = (0, 4);
        sqlite.oldest_ms = vec![3_000, 2_900, 2_800, 2_500];
    });
    let finding = found(scene.answer(V::DownstreamSlow));
    assert!(
        finding.sentence.contains("do not come back"),
        "{}",
        finding.sentence
    );
    // One of many that hangs is a lost packet.
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| {
        picture.downstream().in_flight = 4;
        picture.downstream().oldest_ms = vec![3_000, 2, 2, 1];
    });
    assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
}

/// Calls whose closures get no thread look the same for the second in which the pool may as well have hiccuped.
#[test]
fn calls_that_may_only_wait_for_a_blocking_thread() {
    let hang = |picture: &mut Picture| {
        let sqlite = picture.downstream();
        (sqlite.calls, sqlite.in_flight) = (0, 4);
        sqlite.oldest_ms = vec![1_900, 1_800, 1_700, 1_500];
    };
    let mut scene = Scene::healthy();
    scene.goes_on(1, |picture| {
        hang(picture);
        picture.blocking_lag_ms = 400;
    });
    assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
    scene.goes_on(1, hang);
    assert!(
        found(scene.answer(V::DownstreamSlow))
            .sentence
            .contains("do not come back"),
        "the pool had a hiccup"
    );
    let mut scene = Scene::healthy();
    scene.goes_on(2, |picture| {
        hang(picture);
        picture.blocking_lag_ms = 900;
    });
    assert_eq!(scene.ids()[0], V::BlockingPoolExhausted);
}

#[test]
fn what_is_usual_has_to_be_known_first() {
    let mut scene = Scene::new();
    scene.goes_on(6, |picture| picture.downstream().latency_ms = 120);
    let needs = needs(scene.answer(V::DownstreamSlow));
    assert!(needs.starts_with("8 s with calls of sqlite"), "{needs}");
}

/// After a quarter of an hour the history holds nothing else, and yet it is not the new usual.
#[test]
fn a_downstream_that_stays_slow_is_not_forgiven() {
    let mut scene = Scene::healthy();
    scene.goes_on(1_100, |picture| picture.downstream().latency_ms = 120);
    assert_eq!(scene.ids(), [V::DownstreamSlow]);
    let since = scene.diagnosis().verdicts[0].since_unix_ns;
    assert!(scene.now().unix_ns - since > 1_000 * S, "since when stays");
    scene.goes_on(12, |_| ());
    assert_eq!(scene.ids(), [V::Healthy]);
}
