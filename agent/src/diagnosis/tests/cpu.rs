//! Who has the CPU, and who has not.

use super::*;

#[test]
fn a_quota_that_is_spent() {
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::CpuThrottled), Answer::Fine, "no quota");
    scene.goes_on(3, |picture| picture.quota = Some((0.5, 0)));
    assert_eq!(scene.answer(V::CpuThrottled), Answer::Fine, "not spent");
    scene.goes_on(3, |picture| {
        (picture.quota, picture.run_queue) = (Some((0.5, 8)), 0.6);
    });
    let finding = found(scene.answer(V::CpuThrottled));
    assert!(
        finding.sentence.contains("allows 0.50 CPUs"),
        "{}",
        finding.sentence
    );
    assert!(finding.sentence.contains("80 %"), "{}", finding.sentence);
    assert_eq!(
        scene.answer(V::CpuStarvation),
        Answer::Fine,
        "the quota took it, not a neighbour"
    );
}

#[test]
fn one_sample_says_nothing_of_a_quota() {
    let mut scene = Scene::new();
    scene.goes_on(1, |picture| picture.quota = Some((0.5, 8)));
    assert!(needs(scene.answer(V::CpuThrottled)).contains("two samples"));
}

#[test]
fn workers_without_a_cpu() {
    let starved = |picture: &mut Picture| {
        (picture.on_cpu, picture.run_queue, picture.pressure) = (0.3, 0.5, 0.8);
        picture.lag_ms = 60;
    };
    let mut scene = Scene::healthy();
    scene.goes_on(2, starved);
    assert_eq!(
        scene.answer(V::CpuStarvation),
        Answer::Fine,
        "not for long enough"
    );
    scene.goes_on(1, starved);
    let finding = found(scene.answer(V::CpuStarvation));
    assert!(finding.sentence.contains("62 %"), "{}", finding.sentence);
    assert_eq!(scene.answer(V::CpuThrottled), Answer::Fine);
    assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
    // A full machine on which everything still is in time.
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| {
        starved(picture);
        picture.lag_ms = 2;
    });
    assert_eq!(scene.answer(V::CpuStarvation), Answer::Fine);
}

/// F81: CPU high with lag normal.
#[test]
fn threads_that_are_no_workers() {
    let mut scene = Scene::healthy();
    for second in 1..=3_u64 {
        scene.goes_on(1, |picture| {
            picture.outside = 1.6;
            picture.threads = vec![
                ThreadGroupSample {
                    name: "rayon".to_owned(),
                    kind: ThreadGroupKind::Other,
                    threads: 2,
                    cpu_ns_total: second * 1_600 * MS,
                },
                ThreadGroupSample {
                    name: "tokio-rt-worker".to_owned(),
                    kind: ThreadGroupKind::Worker,
                    threads: 2,
                    cpu_ns_total: 100 * S,
                },
            ];
        });
    }
    let finding = found(scene.answer(V::CpuOutsideRuntime));
    assert_eq!(
        finding.sentence,
        "1.6 of 2.0 CPUs are used by threads named `rayon`, outside the event loop."
    );
    assert_eq!(scene.answer(V::BusyPoll), Answer::Fine);
    // A service that always computes there is left alone, unless hardly any CPU is left.
    let always = |cpus: f64| {
        let mut scene = Scene::new();
        scene.goes_on(40, |picture| picture.outside = cpus);
        scene.answer(V::CpuOutsideRuntime)
    };
    assert_eq!(always(0.9), Answer::Fine);
    found(always(1.7));
    // The same CPU in the workers is no such thing.
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| picture.on_cpu = 0.9);
    assert_eq!(scene.answer(V::CpuOutsideRuntime), Answer::Fine);
}

#[test]
fn a_task_that_wakes_itself() {
    let spins = |polls: u64, ending: u64| {
        move |picture: &mut Picture| {
            picture.on_cpu = 0.6;
            picture.types[1].polls = polls;
            picture.types[1].ending = ending;
        }
    };
    let mut scene = Scene::healthy();
    scene.goes_on(3, spins(200_000, 0));
    let finding = found(scene.answer(V::BusyPoll));
    assert_eq!(finding.subject.as_deref(), Some("ticker"));
    assert!(
        finding.sentence.contains("is polled"),
        "{}",
        finding.sentence
    );
    // As many polls that end as many tasks are work.
    let mut scene = Scene::healthy();
    scene.goes_on(3, spins(200_000, 50_000));
    assert_eq!(scene.answer(V::BusyPoll), Answer::Fine);
}

/// On a host that is always full, what is new is the cause.
#[test]
fn starvation_that_is_usual_is_no_news() {
    let crowded = |picture: &mut Picture| {
        (picture.on_cpu, picture.run_queue, picture.pressure) = (0.2, 0.5, 0.9);
        picture.lag_ms = 20;
    };
    let mut scene = Scene::new();
    scene.goes_on(10, crowded);
    let finding = found(scene.answer(V::CpuStarvation));
    assert_eq!(finding.severity, Severity::Warning, "nothing is usual yet");
    scene.goes_on(20, crowded);
    let finding = found(scene.answer(V::CpuStarvation));
    assert_eq!(finding.severity, Severity::Info);
    scene.goes_on(3, |picture| {
        crowded(picture);
        picture.downstream().latency_ms = 120;
    });
    assert_eq!(scene.ids(), [V::DownstreamSlow, V::CpuStarvation]);
}
