//! The process as a whole.

use super::*;

/// F81: memory up.
#[test]
fn memory_that_grows_without_a_pause() {
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::MemoryGrowth), Answer::Fine);
    for second in 1..=10_u64 {
        scene.goes_on(1, |picture| picture.rss = (100 + 5 * second) * MIB);
    }
    let finding = found(scene.answer(V::MemoryGrowth));
    assert!(
        finding.sentence.contains("37 MB in 7 s"),
        "{}",
        finding.sentence
    );
    assert!(
        finding.sentence.contains("neither queues nor tasks"),
        "{}",
        finding.sentence
    );
}

#[test]
fn memory_that_grows_with_a_queue_or_with_tasks_says_so() {
    let grown = |more: fn(&mut Picture, u64)| {
        let mut scene = Scene::healthy();
        for second in 1..=10_u64 {
            scene.goes_on(1, |picture| {
                picture.rss = (100 + 5 * second) * MIB;
                more(picture, second);
            });
        }
        found(scene.answer(V::MemoryGrowth)).sentence
    };
    let queue = grown(|picture, second| picture.lane("db").pending = 100 * second);
    assert!(queue.contains("700 more jobs are queued"), "{queue}");
    let tasks = grown(|picture, second| picture.alive_tasks = 100 * second);
    assert!(tasks.contains("700 more tasks are alive"), "{tasks}");
    let named = grown(|picture, second| picture.types[1].running = 100 * second);
    assert!(named.contains("700 more tasks `ticker`"), "{named}");
}

#[test]
fn a_cache_that_fills_and_a_start_are_no_leak() {
    let mut scene = Scene::healthy();
    for second in 1..=10_u64 {
        scene.goes_on(1, |picture| picture.rss = (100 + 5 * second.min(4)) * MIB);
    }
    assert_eq!(scene.answer(V::MemoryGrowth), Answer::Fine);
    let mut scene = Scene::new();
    for second in 1..=10_u64 {
        scene.goes_on(1, |picture| picture.rss = (10 + 9 * second) * MIB);
    }
    assert_eq!(
        needs(scene.answer(V::MemoryGrowth)),
        "14 s of figures, and has 9"
    );
}

/// A leak of a quarter of a MiB a second is told by the last ten minutes.
#[test]
fn a_slow_leak_takes_ten_minutes() {
    let mut scene = Scene::healthy();
    for second in 1..=700_u64 {
        scene.goes_on(1, |picture| picture.rss = 100 * MIB + second * MIB / 4);
    }
    let finding = found(scene.answer(V::MemoryGrowth));
    assert!(finding.sentence.contains("MB in 5"), "{}", finding.sentence);
}

#[test]
fn file_descriptors_that_run_out() {
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::FdExhausted), Answer::Fine);
    scene.goes_on(1, |picture| picture.open_files = 960);
    let finding = found(scene.answer(V::FdExhausted));
    assert_eq!(finding.severity, Severity::Warning);
    scene.goes_on(1, |picture| picture.open_files = 1_023);
    let finding = found(scene.answer(V::FdExhausted));
    assert_eq!(finding.severity, Severity::Critical);
    assert!(
        finding
            .sentence
            .starts_with("1023 of 1024 file descriptors")
    );
}

#[test]
fn a_process_that_is_stopped_or_silent() {
    let outside = |state, cpus_used| Some(Outside { state, cpus_used });
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::ProcessFrozen), Answer::Fine);
    scene.history.seen_from_outside(outside('T', None));
    scene.silence(2);
    let finding = found(scene.answer(V::ProcessFrozen));
    assert!(
        finding.sentence.contains("stopped (state T)"),
        "{}",
        finding.sentence
    );
    assert_eq!(scene.ids(), [V::ProcessFrozen]);
    let step = &finding.next_steps[0];
    assert!(step.contains("`kill -CONT 42`"), "{step}");
    // It goes on: nothing else is blamed for the gap, and after a while all is well.
    scene.history.seen_from_outside(None);
    scene.goes_on(10, |_| ());
    assert_eq!(scene.ids(), [V::Healthy]);

    let mut scene = Scene::healthy();
    scene.history.seen_from_outside(outside('S', Some(0.0)));
    scene.silence(2);
    assert_eq!(
        scene.answer(V::ProcessFrozen),
        Answer::Fine,
        "late, and no more"
    );
    scene.silence(2);
    let finding = found(scene.answer(V::ProcessFrozen));
    assert_eq!(scene.answer(V::CpuStarvation), Answer::Fine);
    assert!(
        finding.sentence.contains("uses no CPU"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_process_that_could_run_and_does_not_is_not_frozen() {
    let mut scene = Scene::healthy();
    scene.history.seen_from_outside(Some(Outside {
        state: 'R',
        cpus_used: Some(0.0),
    }));
    scene.silence(4);
    assert_eq!(scene.answer(V::ProcessFrozen), Answer::Fine);
    assert_eq!(scene.ids(), [V::CpuStarvation]);
}

#[test]
fn a_process_that_runs_and_says_nothing_gets_no_cpu() {
    let mut scene = Scene::healthy();
    scene.history.seen_from_outside(Some(Outside {
        state: 'S',
        cpus_used: Some(0.06),
    }));
    scene.silence(4);
    assert_eq!(scene.answer(V::ProcessFrozen), Answer::Fine);
    let finding = found(scene.answer(V::CpuStarvation));
    assert!(
        finding.sentence.contains("it gets hardly any CPU"),
        "{}",
        finding.sentence
    );
    assert_eq!(scene.ids(), [V::CpuStarvation]);
}
