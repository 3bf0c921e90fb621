//! Blocking lanes (F74). Closures block real threads, so these tests wait for each other by channels, not by time.

use std::{
    io,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use ax_probe::slot;
use ax_scheduler::{BlockingLane, JobError, JobState, Scheduler};
use tokio::time::sleep;

/// Blocks closures until told to go on.
#[derive(Clone)]
struct Gate(Arc<Mutex<Receiver<()>>>);

impl Gate {
    fn new() -> (Sender<()>, Self) {
        let (open, gate) = channel();
        (open, Self(Arc::new(Mutex::new(gate))))
    }

    fn pass(&self) {
        self.0.lock().expect("whole").recv().expect("is opened");
    }
}

fn lane(ax: &Scheduler, limit: usize) -> BlockingLane {
    let lane = ax
        .lane("cpu")
        .limit(limit)
        .timeout(Duration::from_mins(1))
        .open();
    BlockingLane::new(&lane.expect("opens"))
}

#[tokio::test]
async fn closures_are_jobs_with_results_errors_and_panics() {
    let ax = Scheduler::new();
    let cpu = lane(&ax, 2);
    let sum = cpu.submit("sum", |cx| {
        Ok::<_, io::Error>((
            cx.id(),
            slot::current_job(),
            cx.trace(),
            slot::current_trace(),
        ))
    });
    let fails = cpu.submit("fails", |_| Err::<(), _>(io::Error::other("no")));
    let panics = cpu.submit("panics", |_| -> Result<(), io::Error> { panic!("torn") });
    let (id, job_of_thread, trace, trace_of_thread) =
        sum.expect("is taken").await.expect("succeeds");
    assert_eq!((job_of_thread, trace_of_thread), (Some(id), Some(trace)));
    let failed = fails.expect("is taken").await;
    assert_eq!(failed.expect_err("fails").to_string(), "the job failed: no");
    match panics.expect("is taken").await {
        Err(JobError::Panicked(message)) => assert_eq!(&*message, "torn"),
        other => panic!("{other:?}"),
    }
    let counts = cpu.lane().counts().counters;
    assert_eq!(
        (
            counts.succeeded_total,
            counts.failed_total,
            counts.panicked_total
        ),
        (1, 1, 1)
    );
    ax.shutdown().await;
}

#[tokio::test]
async fn the_limit_holds_for_threads_and_no_worker_is_held_up() {
    let ax = Scheduler::new();
    let cpu = lane(&ax, 2);
    let (open, gate) = Gate::new();
    let handles: Vec<_> = (0..5)
        .map(|index| {
            let gate = gate.clone();
            let submitted = cpu.submit("wait", move |_| {
                gate.pass();
                Ok::<_, io::Error>(index)
            });
            submitted.expect("is taken")
        })
        .collect();
    // The one thread of this runtime goes on.
    sleep(Duration::from_millis(20)).await;
    let counts = cpu.lane().counts();
    assert_eq!((counts.running, counts.pending), (2, 3));
    (0..5).for_each(|_| open.send(()).expect("is awaited"));
    for (index, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.await.expect("succeeds"), index);
    }
    ax.shutdown().await;
}

#[tokio::test]
async fn a_closure_that_outlives_its_job_keeps_its_thread_from_the_next_one() {
    let ax = Scheduler::new();
    let lane = ax
        .lane("cpu")
        .limit(1)
        .cancel_grace(Duration::ZERO)
        .open()
        .expect("opens");
    let cpu = BlockingLane::new(&lane);
    let (open, gate) = Gate::new();
    let (tell, told) = channel();
    let stuck = cpu.submit("stuck", move |cx| {
        tell.send(()).expect("is awaited");
        gate.pass();
        Ok::<_, io::Error>(cx.is_cancelled())
    });
    let stuck = stuck.expect("is taken");
    tokio::task::yield_now().await;
    tokio::task::spawn_blocking(move || told.recv())
        .await
        .expect("runs")
        .expect("begins");
    stuck.cancel();
    assert!(matches!(stuck.await, Err(JobError::Cancelled)));

    let next = cpu
        .submit("next", |_| Ok::<_, io::Error>(7))
        .expect("is taken");
    let (second, cancelled) = (cpu.submit("never", |_| Ok::<_, io::Error>(())), "cancelled");
    let second = second.expect("is taken");
    sleep(Duration::from_millis(20)).await;
    // It has the lane's place, and waits for the thread.
    assert_eq!(
        (next.status(), second.status()),
        (JobState::Running, JobState::Ready)
    );
    second.cancel();
    assert!(
        second
            .await
            .expect_err(cancelled)
            .to_string()
            .contains(cancelled)
    );
    open.send(()).expect("is awaited");
    assert_eq!(next.await.expect("succeeds"), 7);
    ax.shutdown().await;
}
