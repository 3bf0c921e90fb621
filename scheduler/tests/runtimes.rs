//! The scheduler and the runtime around it: none, another one, one that ends first.

use std::{convert::Infallible, future::pending, sync::mpsc, time::Duration};

use ax_scheduler::{JobError, JobHandle, JobState, Lane, Scheduler, SubmitError};
use tokio::runtime::{Builder, Runtime};

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.build().expect("a runtime")
}

fn current_thread() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// A job that says when it has begun, and does not end.
fn endless(ax: &Scheduler, lane: &Lane, begun: &mpsc::Sender<()>) -> JobHandle<()> {
    let begun = begun.clone();
    let job = ax.job("endless", move |_| async move {
        let _ = begun.send(());
        pending::<Result<(), Infallible>>().await
    });
    job.lane(lane).submit().expect("room")
}

#[test]
fn without_a_runtime_jobs_are_refused() {
    let ax = Scheduler::new();
    let refused = ax
        .job("job", |_| async { Ok::<_, Infallible>(()) })
        .submit();
    assert_eq!(refused.expect_err("no runtime"), SubmitError::NoRuntime);
}

#[test]
fn a_thread_outside_the_runtime_submits_through_a_handle() {
    let runtime = multi_thread();
    let ax = Scheduler::builder()
        .runtime(runtime.handle().clone())
        .build();
    let job = ax.job("job", |_| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, Infallible>(3)
    });
    let job = job.submit().expect("room");
    // Its result may be awaited anywhere, here on another runtime.
    assert_eq!(current_thread().block_on(job).expect("success"), 3);
}

/// F23: jobs that a runtime takes with it, running and queued, all end, and free their slots.
#[test]
fn a_runtime_that_ends_first_ends_its_jobs() {
    for runtime in [multi_thread(), current_thread()] {
        let ax = Scheduler::builder()
            .runtime(runtime.handle().clone())
            .build();
        let lane = ax.lane("lane").limit(2).open().expect("new");
        let (begun, has_begun) = mpsc::channel();
        let jobs: Vec<_> = (0..5).map(|_| endless(&ax, &lane, &begun)).collect();
        runtime.block_on(async {
            while lane.counts().running < 2 {
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..2 {
            let waited = has_begun.recv_timeout(Duration::from_secs(10));
            waited.expect("two have begun");
        }
        drop(runtime);
        let other = current_thread();
        for job in jobs {
            assert_eq!(job.status(), JobState::Cancelled);
            assert!(matches!(other.block_on(job), Err(JobError::RuntimeGone)));
        }
        let counts = lane.counts();
        assert_eq!((counts.running, counts.pending), (0, 0));
        assert_eq!(counts.counters.cancelled_total, 5);
        let refused = ax.job("late", |_| async { Ok::<_, Infallible>(()) });
        let refused = refused.lane(&lane).submit().expect_err("gone");
        assert!(matches!(refused, SubmitError::RuntimeGone { .. }));

        // A lane that had no runner yet learns of it from its first job.
        let job = ax.job("late", |_| async { Ok::<_, Infallible>(()) });
        let job = job.submit().expect("nobody knows yet");
        assert!(matches!(other.block_on(job), Err(JobError::RuntimeGone)));
        other.block_on(ax.shutdown());
    }
}

/// A timeout needs a timer: without one the job says so, and the lane lives on.
#[test]
fn a_runtime_without_time_is_named_as_the_reason() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let ax = Scheduler::builder()
        .runtime(runtime.handle().clone())
        .build();
    let job = ax.job("job", |_| pending::<Result<(), Infallible>>());
    let job = job.timeout(Duration::from_secs(1)).submit().expect("room");
    let error = runtime.block_on(job).expect_err("no timer");
    assert!(error.to_string().contains("enable_time"), "{error}");
    let job = ax.job("job", |_| async { Ok::<_, Infallible>(1) });
    let job = job.timeout(Duration::from_secs(1)).submit().expect("room");
    assert_eq!(runtime.block_on(job).expect("ended at its first poll"), 1);
}

/// So does a job that is to wait for a time, and those that wait for other jobs only go on.
#[test]
fn a_delay_without_time_is_named_as_the_reason() {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let ax = Scheduler::builder()
        .runtime(runtime.handle().clone())
        .build();
    let job = || ax.job("job", |_| async { Ok::<_, Infallible>(()) });
    let dependent = job().after(["first"]).submit().expect("room");
    for _ in 0..2 {
        let delayed = job().delay(Duration::from_secs(1)).submit().expect("room");
        let error = runtime.block_on(delayed).expect_err("no timer");
        assert!(error.to_string().contains("enable_time"), "{error}");
    }
    let first = job().named("first").submit().expect("room");
    runtime.block_on(first).expect("success");
    runtime.block_on(dependent).expect("success");
}

#[test]
fn two_schedulers_of_one_process_have_lanes_of_their_own() {
    let runtime = current_thread();
    let [one, two] = [(); 2].map(|()| {
        Scheduler::builder()
            .runtime(runtime.handle().clone())
            .build()
    });
    let lane = one.lane("same").limit(1).open().expect("new");
    let other = two.lane("same").limit(2).open().expect("new");
    assert_ne!(lane.counts().scheduler, other.counts().scheduler);
    let job = two.job("job", |_| async { Ok::<_, Infallible>(()) });
    let job = job.lane(&other).submit().expect("room");
    runtime.block_on(job).expect("success");
    assert_eq!(lane.counts().counters.submitted_total, 0);
}
