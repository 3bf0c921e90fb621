//! One job at a time through its life, under paused time: how it ends, what its handle says, what is counted.

use std::{
    convert::Infallible,
    future::{Future, pending},
    hint::black_box,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use ax_scheduler::{JobError, JobState, Lane, LaneError, LaneSample, Scheduler, SubmitError};
use tokio::{
    sync::oneshot,
    time::{Instant, advance, sleep},
};

/// Lets every task that can run do so; virtual time moves by a millisecond.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

fn scheduler(limit: usize) -> (Scheduler, Lane) {
    let ax = Scheduler::new();
    let lane = ax.lane("lane").limit(limit).open().expect("new");
    (ax, lane)
}

async fn never() -> Result<(), Infallible> {
    pending().await
}

/// Counts its drops, and panics on the first when told to.
struct Guard {
    drops: Arc<AtomicU32>,
    panics: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Relaxed);
        assert!(!self.panics, "in a destructor");
    }
}

/// Ready at once; what it holds is dropped only with it.
struct ReadyWith {
    _held: Guard,
}

impl Future for ReadyWith {
    type Output = Result<u32, Infallible>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(1))
    }
}

/// Submitted, running, pending and the five ends.
fn counts(lane: &Lane) -> [u64; 8] {
    let LaneSample {
        running,
        pending,
        counters,
        ..
    } = lane.counts();
    [
        counters.submitted_total,
        running,
        pending,
        counters.succeeded_total,
        counters.failed_total,
        counters.panicked_total,
        counters.timed_out_total,
        counters.cancelled_total,
    ]
}

/// F2, F4: each end has its reason, its state, its count, and leaves the slot free.
#[tokio::test(start_paused = true)]
async fn every_end_is_told_and_counted() {
    let (ax, lane) = scheduler(1);
    let ok = ax.job("ok", |_| async { Ok::<_, Infallible>(7) });
    let mut ok = ok.lane(&lane).submit().expect("room");
    assert_eq!(ok.status(), JobState::Ready);
    assert_eq!((&mut ok).await.expect("success"), 7);
    assert_eq!(ok.status(), JobState::Success);
    assert_eq!(counts(&lane), [1, 0, 0, 1, 0, 0, 0, 0]);

    let failed = ax.job("err", |_| async { Err::<(), _>(io::Error::other("disk")) });
    let mut failed = failed.lane(&lane).submit().expect("room");
    let error = (&mut failed).await.expect_err("failed");
    assert_eq!(error.to_string(), "the job failed: disk");
    assert_eq!(failed.status(), JobState::Failed);
    assert_eq!(counts(&lane), [2, 0, 0, 1, 1, 0, 0, 0]);

    let panicked = ax.job("panic", |_| async {
        assert!(black_box(false), "no {}", 5);
        Ok::<_, Infallible>(())
    });
    let mut panicked = panicked.lane(&lane).submit().expect("room");
    let error = (&mut panicked).await.expect_err("panicked");
    assert_eq!(error.to_string(), "the job panicked: no 5");
    assert_eq!(panicked.status(), JobState::Failed);
    assert_eq!(counts(&lane), [3, 0, 0, 1, 1, 1, 0, 0]);

    let slow = ax.job("slow", |_| never()).lane(&lane);
    let mut slow = slow.timeout(Duration::from_secs(5)).submit().expect("room");
    let begun = Instant::now();
    let error = (&mut slow).await.expect_err("timed out");
    assert_eq!(error.to_string(), "the job timed out after 5s");
    assert!(begun.elapsed() < Duration::from_millis(5_002));
    assert_eq!(slow.status(), JobState::Failed);
    assert_eq!(counts(&lane), [4, 0, 0, 1, 1, 1, 1, 0]);
}

/// F2: a panic in the closure, in a destructor at the end, in one at a timeout; the lane lives on.
#[tokio::test(start_paused = true)]
async fn panics_outside_the_future_are_kept_too() {
    let (ax, lane) = scheduler(1);
    let drops = Arc::new(AtomicU32::new(0));
    let guard = || Guard {
        drops: Arc::clone(&drops),
        panics: true,
    };

    let closure = ax.job("closure", |_| {
        assert!(black_box(false), "in a closure");
        never()
    });
    let error = closure.lane(&lane).submit().expect("room").await;
    assert!(matches!(error, Err(JobError::Panicked(m)) if &*m == "in a closure"));

    let held = guard();
    let at_end = ax.job("end", move |_| ReadyWith { _held: held });
    let error = at_end.lane(&lane).submit().expect("room").await;
    assert!(matches!(error, Err(JobError::Panicked(m)) if &*m == "in a destructor"));

    let held = guard();
    let at_timeout = ax.job("timeout", move |_| async move {
        let _held = held;
        never().await
    });
    let at_timeout = at_timeout.lane(&lane).timeout(Duration::from_secs(1));
    let error = at_timeout.submit().expect("room").await;
    assert!(matches!(error, Err(JobError::Panicked(m)) if &*m == "in a destructor"));

    // A result that nobody wants, dropped by the runner after the end.
    let held = guard();
    let unwanted = ax.job(
        "unwanted",
        move |_| async move { Ok::<_, Infallible>(held) },
    );
    drop(unwanted.lane(&lane).submit().expect("room"));
    settle().await;

    assert_eq!(drops.load(Relaxed), 3);
    assert_eq!(counts(&lane), [4, 0, 0, 1, 0, 3, 0, 0]);
    let alive = ax.job("alive", |_| async { Ok::<_, Infallible>(2) });
    assert_eq!(
        alive.lane(&lane).submit().expect("room").await.expect("ok"),
        2
    );
}

/// F17: a queued job ends at once, drops its closure, leaves the count, and never runs.
#[tokio::test(start_paused = true)]
async fn cancelling_a_queued_job_ends_it_at_once() {
    let (ax, lane) = scheduler(1);
    let blocker = ax.job("blocker", |_| never()).lane(&lane).submit();
    let blocker = blocker.expect("room");
    settle().await;
    let drops = Arc::new(AtomicU32::new(0));
    let held = Guard {
        drops: Arc::clone(&drops),
        panics: false,
    };
    let queued = ax.job("queued", move |_| async move {
        drop(held);
        Ok::<_, Infallible>(())
    });
    let mut queued = queued.lane(&lane).submit().expect("room");
    assert_eq!(counts(&lane)[1..3], [1, 1]);
    queued.cancel();
    queued.cancel();
    assert_eq!(queued.status(), JobState::Cancelled);
    assert_eq!(drops.load(Relaxed), 1);
    assert_eq!(counts(&lane), [2, 1, 0, 0, 0, 0, 0, 1]);
    assert!(matches!((&mut queued).await, Err(JobError::Cancelled)));

    blocker.cancel();
    assert!(matches!(blocker.await, Err(JobError::Cancelled)));
    assert_eq!(counts(&lane), [2, 0, 0, 0, 0, 0, 0, 2]);
}

/// F17: a running job gets its token at once, and loses its future after the grace.
#[tokio::test(start_paused = true)]
async fn cancelling_a_running_job_is_polite_first() {
    let ax = Scheduler::new();
    let lane = ax.lane("lane").cancel_grace(Duration::from_secs(3)).open();
    let lane = lane.expect("new");
    let polite = ax.job("polite", |cx| async move {
        assert!(!cx.is_cancelled());
        cx.cancelled().await;
        Ok::<_, Infallible>(cx.is_cancelled())
    });
    let polite = polite.lane(&lane).submit().expect("room");
    let failing = ax.job("failing", |cx| async move {
        cx.cancelled().await;
        Err::<(), _>("cancelled by the token")
    });
    let failing = failing.lane(&lane).submit().expect("room");
    let drops = Arc::new(AtomicU32::new(0));
    let held = Guard {
        drops: Arc::clone(&drops),
        panics: false,
    };
    let deaf = ax.job("deaf", move |_| async move {
        let _held = held;
        never().await
    });
    let deaf = deaf.lane(&lane).submit().expect("room");
    settle().await;
    for _ in 0..2 {
        polite.cancel();
        failing.cancel();
        deaf.cancel();
    }
    let asked = Instant::now();
    assert!(polite.await.expect("its own result counts"));
    assert!(matches!(failing.await, Err(JobError::Cancelled)));
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert_eq!(drops.load(Relaxed), 0);
    assert!(matches!(deaf.await, Err(JobError::Cancelled)));
    assert_eq!(drops.load(Relaxed), 1);
    assert!(asked.elapsed() >= Duration::from_secs(3));
    assert!(asked.elapsed() < Duration::from_millis(3_002));
}

/// F44: the token fires at a timeout, and a job that never lets the timer have the budget is ended all the same.
#[tokio::test(start_paused = true)]
async fn a_timeout_fires_the_token_and_cannot_be_starved() {
    let (ax, lane) = scheduler(2);
    let (send, receive) = oneshot::channel();
    let job = ax.job("token", |cx| {
        let token = cx.token();
        async move {
            let _ = send.send(token);
            never().await
        }
    });
    let job = job.lane(&lane).timeout(Duration::from_secs(1)).submit();
    let token = receive.await.expect("it started");
    assert!(!token.is_cancelled());
    let ended = job.expect("room").await;
    assert!(matches!(ended, Err(JobError::TimedOut { .. })));
    assert!(token.is_cancelled());

    let greedy = ax.job("greedy", |_| async {
        loop {
            // Uses up the budget of each poll, and is ready to go on at once.
            tokio::task::consume_budget().await;
        }
        #[expect(unreachable_code, reason = "gives the future its type")]
        Ok::<(), Infallible>(())
    });
    let greedy = greedy.lane(&lane).timeout(Duration::from_secs(1)).submit();
    settle_by_yields().await;
    advance(Duration::from_secs(1)).await;
    let ended = greedy.expect("room").await;
    assert!(matches!(ended, Err(JobError::TimedOut { .. })));
}

/// Where a task is always ready, paused time does not move by itself.
async fn settle_by_yields() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Dropping a handle detaches the job, and the result is dropped when it ends.
#[tokio::test(start_paused = true)]
async fn a_dropped_handle_detaches() {
    let (ax, lane) = scheduler(1);
    let drops = Arc::new(AtomicU32::new(0));
    let held = Guard {
        drops: Arc::clone(&drops),
        panics: false,
    };
    let job = ax.job("detached", move |_| async move {
        sleep(Duration::from_secs(1)).await;
        Ok::<_, Infallible>(held)
    });
    drop(job.lane(&lane).submit().expect("room"));
    settle().await;
    assert_eq!((drops.load(Relaxed), counts(&lane)[1]), (0, 1));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(drops.load(Relaxed), 1);
    assert_eq!(counts(&lane), [1, 0, 0, 1, 0, 0, 0, 0]);
}

/// F23, F25, F27: `limit` run, `capacity` queue, the next is refused at once and counted.
#[tokio::test(start_paused = true)]
async fn a_full_lane_refuses() {
    let ax = Scheduler::new();
    let lane = ax.lane("ocr").limit(5).capacity(100).open().expect("new");
    let submit = || {
        let job = ax.job("scan", |_| never()).lane(&lane);
        job.timeout(Duration::from_secs(3)).submit()
    };
    let running: Vec<_> = (0..5).map(|_| submit().expect("room")).collect();
    settle().await;
    let queued: Vec<_> = (0..100).map(|_| submit().expect("room")).collect();
    let refused = submit().expect_err("full");
    assert_eq!(
        refused,
        SubmitError::Full {
            lane: "ocr".into(),
            pending: 100,
            capacity: 100
        }
    );
    assert_eq!(counts(&lane)[..3], [105, 5, 100]);
    assert_eq!(lane.counts().counters.rejected_total, 1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(lane.counts().head_age_ns, Some(2_000_000_000));
    for job in running.into_iter().chain(queued) {
        assert!(matches!(job.await, Err(JobError::TimedOut { .. })));
    }
    assert_eq!(counts(&lane), [105, 0, 0, 0, 0, 0, 105, 0]);
}

/// F29: by priority, first in first out among equals.
#[tokio::test(start_paused = true)]
async fn the_highest_priority_goes_first() {
    let ax = Scheduler::new();
    let lane = ax.lane("lane").limit(1).priority(60).open().expect("new");
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut handles = Vec::new();
    for (number, priority) in [10, 90, 50, 90, 100, 1].into_iter().enumerate() {
        let order = Arc::clone(&order);
        let job = ax.job("ordered", move |_| async move {
            order.lock().push(number);
            Ok::<_, Infallible>(())
        });
        handles.push(job.lane(&lane).priority(priority).submit().expect("room"));
    }
    let order_of_default = Arc::clone(&order);
    let job = ax.job("ordered", move |_| async move {
        order_of_default.lock().push(6);
        Ok::<_, Infallible>(())
    });
    handles.push(job.lane(&lane).submit().expect("room"));
    for handle in handles {
        handle.await.expect("success");
    }
    assert_eq!(*order.lock(), [4, 1, 3, 6, 2, 0, 5]);
}

/// F72: a job that is submitted inside a job inherits its trace, another does not; ids go up.
#[tokio::test(start_paused = true)]
async fn traces_are_inherited() {
    let (ax, lane) = scheduler(2);
    let (inner_ax, inner_lane) = (ax.clone(), lane.clone());
    let outer = ax.job("outer", move |cx| async move {
        tokio::task::yield_now().await;
        let inner = inner_ax.job("inner", |cx| async move { Ok::<_, Infallible>(cx.trace()) });
        let inner = inner.lane(&inner_lane).submit()?;
        assert!(inner.id() > cx.id());
        assert_eq!(cx.attempt(), 1);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((cx.trace(), inner.await?))
    });
    let outer = outer.lane(&lane).submit().expect("room");
    let trace = outer.trace();
    assert_eq!(outer.await.expect("success"), (trace, trace));
    let other = ax.job("other", |_| async { Ok::<_, Infallible>(()) });
    assert_ne!(other.submit().expect("room").trace(), trace);
}

/// F4: the snapshot names what runs, for how long and from where.
#[tokio::test(start_paused = true)]
async fn the_snapshot_names_the_running_jobs() {
    let (ax, lane) = scheduler(1);
    let first = ax.job("first", |_| async {
        sleep(Duration::from_secs(2)).await;
        Ok::<_, Infallible>(())
    });
    let first = first.lane(&lane).submit().expect("room");
    settle().await;
    let second = ax.job("second", |_| never()).lane(&lane).priority(80);
    let (second, submitted_at) = (second.submit().expect("room"), line!());
    let trace = second.trace();
    first.await.expect("success");
    sleep(Duration::from_secs(3)).await;
    let snapshot = ax.snapshot();
    let [lane] = &snapshot.lanes[..] else {
        panic!("{snapshot:?}");
    };
    let [running] = &lane.running[..] else {
        panic!("{snapshot:?}");
    };
    assert_eq!((running.id, running.trace), (second.id(), trace));
    assert_eq!((running.job_type, running.priority), ("second", 80));
    assert!(
        running
            .place
            .ends_with(&format!("lifecycle.rs:{submitted_at}"))
    );
    // The timer's granularity is a millisecond.
    assert!(running.queue_wait.abs_diff(Duration::from_secs(2)) <= Duration::from_millis(2));
    assert!(running.elapsed.abs_diff(Duration::from_secs(3)) <= Duration::from_millis(2));
    assert_eq!((lane.counts.running, lane.counts.pending), (1, 0));
}

/// Shutdown: refuses, cancels the queue, waits for the running, cancels those that outstay the grace.
#[tokio::test(start_paused = true)]
async fn shutdown_ends_every_job() {
    let ax = Scheduler::builder()
        .shutdown_grace(Duration::from_secs(10))
        .build();
    let lane = ax.lane("lane").limit(2).open().expect("new");
    let quick = ax.job("quick", |_| async {
        sleep(Duration::from_secs(5)).await;
        Ok::<_, Infallible>(())
    });
    let quick = quick.lane(&lane).submit().expect("room");
    let deaf = ax.job("deaf", |_| never()).lane(&lane).submit();
    let deaf = deaf.expect("room");
    settle().await;
    let queued = ax.job("queued", |_| never()).lane(&lane).submit();
    let queued = queued.expect("room");
    let begun = Instant::now();
    ax.shutdown().await;
    assert_eq!(begun.elapsed().as_secs(), 11);
    quick.await.expect("ended within the grace");
    assert!(matches!(deaf.await, Err(JobError::Cancelled)));
    assert!(matches!(queued.await, Err(JobError::Cancelled)));
    assert_eq!(counts(&lane), [3, 0, 0, 1, 0, 0, 0, 2]);

    let refused = ax.job("late", |_| never()).lane(&lane).submit();
    assert!(matches!(refused, Err(SubmitError::Closed { .. })));
    let refused = ax.job("late", |_| never()).submit();
    assert!(matches!(refused, Err(SubmitError::Closed { .. })));
    assert!(matches!(
        ax.lane("late").open(),
        Err(LaneError::Closed { .. })
    ));
    ax.shutdown().await;
}

/// Handles gone: what is queued still runs, then the runners end.
#[tokio::test(start_paused = true)]
async fn a_dropped_scheduler_drains() {
    let (ax, lane) = scheduler(2);
    let submit = |number: u32| {
        let job = ax.job("job", move |_| async move {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(number)
        });
        job.lane(&lane).submit().expect("room")
    };
    let jobs: Vec<_> = (0..5).map(submit).collect();
    settle().await;
    drop((ax, lane));
    for (number, job) in (0..).zip(jobs) {
        assert_eq!(job.await.expect("success"), number);
    }
    settle().await;
    let tasks = tokio::runtime::Handle::current().metrics();
    assert_eq!(tasks.num_alive_tasks(), 0);
}

fn assert_send<T: Future + Send + Sync + 'static>(_: &T) {}

#[tokio::test(start_paused = true)]
async fn handles_travel_between_threads() {
    let (ax, _lane) = scheduler(1);
    let handle = ax.job("job", |_| async {
        Ok::<_, Infallible>(std::cell::Cell::new(1))
    });
    let handle = handle.submit().expect("room");
    assert_send(&handle);
    assert_eq!(handle.await.expect("success").get(), 1);
}
