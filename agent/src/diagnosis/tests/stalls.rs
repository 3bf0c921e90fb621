//! Polls that hold a worker, and what each of them was.

use super::*;

#[test]
fn a_poll_that_computes() {
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
    scene.stall(412, computes);
    let finding = found(scene.answer(V::CpuBoundPoll));
    assert_eq!(
        finding.sentence,
        "A poll of `render_pdf` computed for 412 ms on worker 0 without letting go."
    );
    let culprit = finding.culprit.expect("is named");
    assert_eq!(culprit.place.as_deref(), Some("src/pdf.rs:88"));
    assert_eq!(scene.answer(V::BlockingCall), Answer::Fine);
    assert_eq!(scene.answer(V::LockContention), Answer::Fine);
}

#[test]
fn a_poll_that_sleeps_in_the_kernel() {
    let mut scene = Scene::healthy();
    assert_eq!(scene.answer(V::BlockingCall), Answer::Fine);
    scene.stall(412, |stall| {
        stall.thread.as_mut().expect("is told").waits_in = Some(KernelWait::Child);
    });
    let finding = found(scene.answer(V::BlockingCall));
    assert_eq!(
        finding.sentence,
        "A poll of `render_pdf` slept 412 ms in the kernel (wait4) on worker 0."
    );
    assert!(finding.next_steps[0].contains("tokio::process"));
    assert_eq!(finding.severity, Severity::Critical);
    assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
    assert_eq!(scene.answer(V::LockContention), Answer::Fine);
}

#[test]
fn a_poll_that_waits_for_a_lock() {
    let mut scene = Scene::healthy();
    scene.stall(412, waits_for_lock);
    let finding = found(scene.answer(V::LockContention));
    assert!(
        finding.sentence.contains("waited 412 ms for a lock"),
        "{finding:?}"
    );
    assert_eq!(scene.answer(V::BlockingCall), Answer::Fine);
    assert_eq!(
        scene.answer(V::RuntimeDeadlock),
        Answer::Fine,
        "the other worker moves"
    );
}

#[test]
fn one_short_stall_is_no_cause_and_three_are() {
    let mut scene = Scene::healthy();
    scene.stall(60, computes);
    scene.stall(60, computes);
    assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
    scene.stall(60, computes);
    let finding = found(scene.answer(V::CpuBoundPoll));
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn a_stall_without_a_cpu_blames_no_poll() {
    let mut scene = Scene::healthy();
    scene.stall(412, |stall| {
        stall.run_queue_ns = Some(390 * MS);
        stall.on_cpu_ns = Some(20 * MS);
    });
    for id in [V::CpuBoundPoll, V::BlockingCall, V::LockContention] {
        assert_eq!(scene.answer(id), Answer::Fine, "{id}");
    }
}

/// A thread that wants to run whenever it is looked at does not sleep, though the account says that it hardly ran: that of
/// a guest does not know of the CPU that its host took away.
#[test]
fn a_stall_whose_account_does_not_add_up_blames_no_poll() {
    let mut scene = Scene::healthy();
    scene.stall(412, |stall| {
        stall.run_queue_ns = Some(100 * MS);
        stall.on_cpu_ns = Some(60 * MS);
        let thread = stall.thread.as_mut().expect("is told");
        (thread.state, thread.waits_in) = (Some('R'), None);
    });
    for id in [V::CpuBoundPoll, V::BlockingCall, V::LockContention] {
        assert_eq!(scene.answer(id), Answer::Fine, "{id}");
    }
}

/// It may be 61 short polls that tokio has not yet published.
#[test]
fn a_long_busy_window_counts_only_where_the_loop_is_late() {
    let window = |stall: &mut ax_wire::event::Stall| {
        computes(stall);
        stall.kind = StallKind::LongBusyWindow;
        stall.task = None;
    };
    let mut scene = Scene::healthy();
    scene.stall(412, window);
    assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
    scene.goes_on(3, |picture| picture.lag_ms = 200);
    scene.stall(412, window);
    let finding = found(scene.answer(V::CpuBoundPoll));
    assert!(finding.confidence < 0.8 && finding.culprit.is_none());
}

/// F75: lag without one long poll is overload of the loop.
#[test]
fn workers_that_never_rest_are_overloaded() {
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| {
        (picture.busy, picture.on_cpu, picture.lag_ms) = (1.0, 0.95, 180);
        picture.lane("db").ending = 4_000;
    });
    let finding = found(scene.answer(V::CpuBoundPoll));
    assert!(
        finding.sentence.contains("100 % busy"),
        "{}",
        finding.sentence
    );
    assert!(finding.sentence.contains("most of it in polls of `db`"));
    assert!(finding.next_steps[0].contains("take on less"));
    // Busy and in time is healthy.
    let mut scene = Scene::healthy();
    scene.goes_on(3, |picture| (picture.busy, picture.on_cpu) = (1.0, 0.95));
    assert_eq!(scene.answer(V::CpuBoundPoll), Answer::Fine);
}

#[test]
fn workers_that_all_wait_for_a_lock_are_a_deadlock_unless_somebody_works() {
    let stuck = |scene: &mut Scene, outside: f64| {
        for _ in 0..3 {
            scene.goes_on(1, |picture| {
                (picture.stalled, picture.on_cpu, picture.outside) = (true, 0.0, outside);
                picture.blocking_running = 0;
                picture.lag_ms = 2_000;
            });
        }
        for worker in [0, 1] {
            scene.stall_goes_on(2_500, |stall| {
                waits_for_lock(stall);
                stall.worker = Some(worker);
            });
        }
    };
    let mut scene = Scene::healthy();
    stuck(&mut scene, 0.0);
    let finding = found(scene.answer(V::RuntimeDeadlock));
    assert!(finding.sentence.starts_with("Both workers wait for a lock"));
    assert_eq!(finding.severity, Severity::Page);
    assert_eq!(scene.answer(V::LockContention), Answer::Fine);
    // A service that hangs from its start has no usual times.
    let mut young = Scene::new();
    let hang = |picture: &mut Picture| {
        (picture.stalled, picture.on_cpu, picture.outside) = (true, 0.0, 0.0);
        (picture.blocking_running, picture.types[0].ending) = (0, 0);
    };
    young.goes_on(3, hang);
    for worker in [0, 1] {
        young.stall_goes_on(2_500, |stall| {
            waits_for_lock(stall);
            (stall.worker, stall.task) = (Some(worker), None);
        });
    }
    // Where it is a task without a name it is said how to find it.
    young.goes_on(1, |picture| {
        hang(picture);
        picture.outside = 0.9;
    });
    let contention = found(young.answer(V::LockContention));
    assert!(contention.next_steps[0].contains("`.stacks(true)`"));
    young.goes_on(3, hang);
    let first = &young.diagnosis().verdicts[0];
    assert_eq!(first.id, V::RuntimeDeadlock);
    assert!(
        first
            .who_is_hurt
            .iter()
            .any(|hurt| hurt.name == "GET /orders")
    );
    // A thread outside the workers that computes may hold the lock, and will let it go.
    let mut scene = Scene::healthy();
    stuck(&mut scene, 0.9);
    assert_eq!(scene.answer(V::RuntimeDeadlock), Answer::Fine);
    found(scene.answer(V::LockContention));
}
