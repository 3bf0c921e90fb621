//! F99: how a service stands against the same hour a day before, by handed-in time.

use ax_wire::verdict::Evidence;

use super::*;

const HOUR: u64 = 3_600;

/// Minutes pass, with a sample each 20 seconds; `change` is told in which hour since the start it is.
fn minutes(scene: &mut Scene, minutes: u64, change: impl Fn(u64, &mut Picture)) {
    for _ in 0..minutes * 3 {
        scene.second += 19;
        let hour = scene.second / HOUR;
        scene.goes_on(1, |picture| change(hour, picture));
    }
}

/// What is said of the day before.
fn told(scene: &Scene) -> Vec<&Evidence> {
    let evidence = scene.diagnosis().verdicts[0].evidence.iter();
    evidence
        .filter(|of| of.what.contains("the same hour a day before"))
        .collect()
}

/// `(now, a day before)` of a figure.
fn pair(scene: &Scene, what: &str) -> (f64, f64) {
    let all = told(scene);
    let found = all.iter().find(|of| of.what.starts_with(what));
    let found = found.unwrap_or_else(|| panic!("nothing of {what} in {all:?}"));
    (found.value, found.against.expect("is compared"))
}

#[test]
fn a_verdict_is_compared_with_the_same_hour_a_day_before() {
    let mut scene = Scene::new();
    // From 2:00 to 3:00 it has three times as much to do as in the other hours, and is later.
    minutes(&mut scene, 26 * 60 + 29, |hour, picture| {
        if hour == 2 {
            picture.lag_ms = 20;
            let lane = picture.lane("db");
            (lane.arriving, lane.ending) = (150, 150);
            picture.types[0].ending = 150;
            picture.lane("api").full(7, 40);
        }
    });
    scene.goes_on(20, |_| ());
    scene.stall(412, |_| ());
    scene.goes_on(3, |picture| picture.lag_ms = 90);
    assert_eq!(scene.ids()[0], V::BlockingCall);
    let near = |what: &str, (value, before): (f64, f64)| {
        let (v, b) = pair(&scene, what);
        assert!((v - value).abs() <= value * 0.02, "{what}: {v}");
        assert!((b - before).abs() <= before * 0.02, "{what} before: {b}");
    };
    near("event-loop lag", (90.0 * MS as f64, 20.0 * MS as f64));
    // Two lanes end 50 jobs in each sample, and a sample came each 20 seconds.
    near("jobs finished", (100.0, 10.0));
    near("requests finished", (50.0, 7.5));
    near("queue wait p99", (0.0, 40.0 * MS as f64));
    near("jobs queued", (0.0, 7.0));
}

/// What is missing for a comparison is no evidence of a verdict.
#[test]
fn of_a_day_before_the_agent_came_nothing_is_said() {
    let mut scene = Scene::healthy();
    assert_eq!(told(&scene), Vec::<&Evidence>::new(), "not yet a minute");
    minutes(&mut scene, 180, |_, _| ());
    assert_eq!(told(&scene), Vec::<&Evidence>::new(), "three hours");
    // Watched before that hour, but not in it.
    let mut scene = Scene::new();
    minutes(&mut scene, 25, |_, _| ());
    scene.second += 24 * HOUR;
    minutes(&mut scene, 30, |_, _| ());
    assert_eq!(told(&scene), Vec::<&Evidence>::new(), "another hour");
}

#[test]
fn a_healthy_service_is_compared_too() {
    let mut scene = Scene::new();
    minutes(&mut scene, 25 * 60, |_, _| ());
    assert_eq!(scene.ids(), [V::Healthy]);
    let (now, before) = pair(&scene, "event-loop lag");
    assert_eq!((now as u64 / MS, before as u64 / MS), (1, 1));
}
