//! The blocking pool, and pools of clients.

use super::*;

/// F81: the pool is busy.
#[test]
fn a_blocking_pool_without_a_free_thread() {
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::BlockingPoolExhausted), Answer::Fine);
    scene.goes_on(3, |picture| {
        (picture.blocking_running, picture.blocking_lag_ms) = (64, 900);
        picture.types.push(TypePicture {
            running: 60,
            ..TypePicture::of("resize", TaskKind::Blocking, 5, 1_000)
        });
    });
    let finding = found(scene.answer(V::BlockingPoolExhausted));
    assert!(
        finding.sentence.contains("waits 900 ms"),
        "{}",
        finding.sentence
    );
    assert!(finding.sentence.contains("most by `resize`"));
    assert_eq!(
        scene.ids()[0],
        V::BlockingPoolExhausted,
        "that many run is what follows"
    );
    // One slow answer is a hiccup.
    let mut scene = Scene::healthy();
    scene.goes_on(1, |picture| picture.blocking_lag_ms = 900);
    assert_eq!(scene.answer(V::BlockingPoolExhausted), Answer::Fine);
}

#[test]
fn many_closures_that_all_have_a_thread() {
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| picture.blocking_running = 40);
    let finding = found(scene.answer(V::BlockingPoolBusy));
    assert!(finding.sentence.starts_with("40 closures run"));
    assert_eq!(scene.answer(V::BlockingPoolExhausted), Answer::Fine);
    // A service that always does so is no news.
    let mut scene = Scene::new();
    scene.goes_on(40, |picture| picture.blocking_running = 40);
    assert_eq!(scene.answer(V::BlockingPoolBusy), Answer::Fine);
}

#[test]
fn callers_that_queue_for_a_client() {
    let queue = |picture: &mut Picture| {
        let sqlite = picture.downstream();
        (sqlite.in_flight, sqlite.waiting, sqlite.wait_ms) = (4, 30, 80);
    };
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::PoolTooSmall), Answer::Fine);
    scene.goes_on(3, queue);
    let finding = found(scene.answer(V::PoolTooSmall));
    assert_eq!(
        finding.sentence,
        "30 callers wait for 80 ms for a client of `sqlite` (all 4 clients are in use), while a call itself takes 3.0 ms."
    );
    assert_eq!(scene.answer(V::DownstreamSlow), Answer::Fine);
    // The same queue because each call is slow is another cause.
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| {
        queue(picture);
        picture.downstream().latency_ms = 60;
    });
    assert_eq!(scene.answer(V::PoolTooSmall), Answer::Fine);
    found(scene.answer(V::DownstreamSlow));
}
