//! Jobs that are tried again, wait for a time, are given up to a person or lose their heartbeat; under paused time.

use std::{
    convert::Infallible,
    fmt,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_scheduler::{
    Backoff, JobContext, JobError, JobState, Lane, MAX_DELAY, Preset, Retry, RetryBudget,
    Scheduler, WaitKind,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

fn scheduler(limit: usize) -> (Scheduler, Lane) {
    let ax = Scheduler::new();
    let lane = ax.lane("lane").limit(limit).open().expect("new");
    (ax, lane)
}

async fn fail(_: JobContext) -> Result<(), &'static str> {
    Err("no")
}

/// F8, F12, F47: the first run and so many more, after the backoff, during which the slot is free.
#[tokio::test(start_paused = true)]
async fn retries_come_after_the_first_run_and_hold_no_slot() {
    let (ax, lane) = scheduler(1);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (seen, begun) = (Arc::clone(&runs), Instant::now());
    let job = ax.job("flaky", move |cx: JobContext| async move {
        seen.lock().push((cx.attempt(), begun.elapsed().as_secs()));
        Err::<(), _>("no")
    });
    let backoff = Backoff::exponential().jitter(Duration::ZERO);
    let job = job.lane(&lane).retry(backoff.retries(3)).submit();
    let job = job.expect("room");
    sleep(SECOND / 2).await;
    assert_eq!(job.status(), JobState::Waiting);
    let counts = lane.counts();
    assert_eq!((counts.running, counts.pending, counts.waiting), (0, 0, 1));
    let other = ax.job("other", |_| async { Ok::<_, Infallible>(1) });
    let other = other.lane(&lane).submit().expect("room");
    assert_eq!(other.await.expect("the slot is free"), 1);

    let error = job.await.expect_err("every run failed");
    assert_eq!(error.to_string(), "the job failed: no");
    // 1 s, then 2, then 4.
    assert_eq!(*runs.lock(), [(1, 0), (2, 1), (3, 3), (4, 7)]);
    let counts = lane.counts();
    assert_eq!((counts.retried_total, counts.waiting), (3, 0));
    let counters = counts.counters;
    assert_eq!((counters.submitted_total, counters.started_total), (2, 5));
    assert_eq!((counters.failed_total, counters.succeeded_total), (1, 1));
}

/// F44, F45: panics and timeouts are tried again too, each attempt with a token and a timeout of its own.
#[tokio::test(start_paused = true)]
async fn a_panic_and_a_timeout_are_tried_again() {
    let (ax, lane) = scheduler(1);
    let job = ax.job("unsteady", |cx: JobContext| async move {
        assert!(!cx.is_cancelled() && !cx.token().is_cancelled());
        match cx.attempt() {
            1 => panic!("first"),
            2 => pending().await,
            attempt => Ok::<_, Infallible>(attempt),
        }
    });
    let job = job.lane(&lane).timeout(SECOND);
    let job = job.retry(Backoff::fixed(SECOND)).submit().expect("room");
    let begun = Instant::now();
    assert_eq!(job.await.expect("the third run"), 3);
    assert_eq!(begun.elapsed().as_secs(), 3);
    let counters = lane.counts().counters;
    assert_eq!((counters.panicked_total, counters.timed_out_total), (0, 0));
}

/// F17: a cancel ends a job whatever it waits for, and a running one is not tried again.
#[tokio::test(start_paused = true)]
async fn a_cancelled_job_is_not_tried_again() {
    let (ax, lane) = scheduler(1);
    let job = ax.job("fails", fail).lane(&lane);
    let waiting = job.retry(Backoff::fixed(SECOND)).submit().expect("room");
    sleep(SECOND / 2).await;
    waiting.cancel();
    assert_eq!(waiting.status(), JobState::Cancelled);
    assert!(matches!(waiting.await, Err(JobError::Cancelled)));

    let job = ax.job("obeys", |cx: JobContext| async move {
        cx.cancelled().await;
        Err::<(), _>("stopped")
    });
    let running = job.lane(&lane).retry(Backoff::fixed(SECOND)).submit();
    let running = running.expect("room");
    sleep(SECOND).await;
    running.cancel();
    assert!(matches!(running.await, Err(JobError::Cancelled)));
    assert_eq!(lane.counts().waiting, 0);
    assert_eq!(lane.counts().counters.cancelled_total, 2);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_job_waits_for_its_time() {
    let (ax, lane) = scheduler(1);
    let begun = Instant::now();
    let job = || ax.job("late", |_| async { Ok::<_, Infallible>(Instant::now()) });
    let last = job().lane(&lane).delay(60 * SECOND).submit().expect("room");
    let at = job().lane(&lane).run_at(begun + 5 * SECOND).submit();
    let past = job().lane(&lane).run_at(begun).submit().expect("room");
    assert_eq!(lane.counts().waiting, 2);
    assert_eq!(past.status(), JobState::Ready);
    let entry = &ax.page(JobState::Waiting, 0, 10)[0];
    let wait = entry.wait.as_ref().expect("waits");
    assert_eq!((entry.id, wait.kind), (last.id(), WaitKind::Time));
    assert!(wait.left > 59 * SECOND);
    let started = [past, at.expect("room"), last];
    for (job, expected) in started.into_iter().zip([0, 5, 60]) {
        let at = job.await.expect("success") - begun;
        assert_eq!(at.as_secs(), expected);
    }
}

/// Bad input: what absurd times mean is defined.
#[tokio::test(start_paused = true)]
async fn absurd_times_are_bounded() {
    let (ax, lane) = scheduler(1);
    let job = ax.job("job", |_| async { Ok::<_, Infallible>(()) });
    let far = job.lane(&lane).delay(Duration::MAX).submit().expect("room");
    let job = ax.job("fails", fail).lane(&lane);
    let backoff = Backoff::fixed(Duration::MAX).jitter(Duration::MAX);
    let failing = job.retry(backoff.retries(u32::MAX)).submit().expect("room");
    sleep(SECOND).await;
    assert_eq!(lane.counts().waiting, 2);
    for entry in ax.page(JobState::Waiting, 0, 2) {
        assert_eq!(entry.wait.expect("waits").left + SECOND, MAX_DELAY);
    }
    drop((far, failing));
    ax.shutdown().await;
    assert_eq!(lane.counts().waiting, 0);
}

/// F50b, F50: what gave up waits for a person, who retries or drops it.
#[tokio::test(start_paused = true)]
async fn the_manual_list_waits_for_a_person() {
    let ax = Scheduler::new();
    let lane = ax.lane("files").preset(&Preset::LARGE_FILE).open();
    let lane = lane.expect("new");
    let works = Arc::new(AtomicBool::new(false));
    let submit = || {
        let works = Arc::clone(&works);
        let job = ax.job("convert", move |cx: JobContext| async move {
            if works.load(Relaxed) {
                Ok(cx.attempt())
            } else {
                Err("disk full")
            }
        });
        job.lane(&lane).retry(lane.retry()).submit().expect("room")
    };
    let (retried, dropped) = (submit(), submit());
    sleep(SECOND).await;
    let list = ax.manual_list();
    assert_eq!(
        list.iter().map(|job| job.id).collect::<Vec<_>>(),
        [retried.id(), dropped.id()]
    );
    let wait = list[0].wait.as_ref().expect("waits");
    assert_eq!(wait.kind, WaitKind::Person);
    assert_eq!(wait.error.as_deref(), Some("the job failed: disk full"));
    works.store(true, Relaxed);
    assert!(ax.retry(retried.id()) && !ax.retry(retried.id()));
    assert!(ax.drop_job(dropped.id()) && !ax.drop_job(dropped.id()));
    assert_eq!(retried.await.expect("works now"), 1);
    let error = dropped.await.expect_err("was dropped");
    assert_eq!(error.to_string(), "the job failed: disk full");
    assert!(ax.manual_list().is_empty());
    let counters = lane.counts().counters;
    assert_eq!((counters.succeeded_total, counters.cancelled_total), (1, 1));
}

/// Waiting jobs are bounded like queued ones: what finds no room is given up, not forgotten.
#[tokio::test(start_paused = true)]
async fn waiting_jobs_are_bounded() {
    let ax = Scheduler::new();
    let lane = ax.lane("lane").limit(3).capacity(3).open().expect("new");
    let delayed = |_| {
        let job = ax.job("late", |_| async { Ok::<_, Infallible>(()) });
        job.lane(&lane).delay(100 * SECOND).submit()
    };
    let waiting: Vec<_> = (0..3).map(delayed).collect();
    assert!(waiting.iter().all(Result::is_ok));
    assert!(delayed(3).is_err());
    let job = ax
        .job("fails", fail)
        .lane(&lane)
        .retry(Backoff::fixed(SECOND));
    let error = job.submit().expect("room in the queue").await;
    assert!(matches!(error, Err(JobError::Failed(_))));
    assert_eq!(lane.counts().retried_total, 0);
}

/// F55: a promise of signs of life that is broken ends the attempt; one that is kept does not.
#[tokio::test(start_paused = true)]
async fn a_job_without_a_heartbeat_becomes_a_zombie() {
    let (ax, lane) = scheduler(1);
    let begun = Instant::now();
    let zombie = ax.job("hangs", |_| pending::<Result<(), Infallible>>());
    let zombie = zombie
        .lane(&lane)
        .heartbeat(5 * SECOND)
        .submit()
        .expect("room");
    let alive = ax.job("lives", |cx: JobContext| async move {
        for step in 1..=10 {
            sleep(4 * SECOND).await;
            if step % 2 == 0 {
                cx.heartbeat();
            } else {
                cx.progress(step, 10);
            }
        }
        Ok::<_, Infallible>(())
    });
    let alive = alive
        .lane(&lane)
        .heartbeat(5 * SECOND)
        .submit()
        .expect("room");
    let error = zombie.await.expect_err("gave no sign");
    assert_eq!(error.to_string(), "the job gave no sign of life for 5s");
    assert_eq!(begun.elapsed().as_secs(), 5);
    sleep(6 * SECOND).await;
    let page = ax.page(JobState::Running, 0, 10);
    let progress = page[0].progress.expect("has said so");
    assert_eq!(
        (page[0].id, progress.done, progress.of),
        (alive.id(), 1, 10)
    );
    assert!(page[0].last_poll.expect("polled") < 3 * SECOND);
    alive.await.expect("kept its promise");
    let counts = lane.counts();
    assert_eq!(
        (counts.zombies_total, counts.counters.timed_out_total),
        (1, 1)
    );
}

/// The retry storm: 200 jobs fail at once, and again at each retry. Calls that the downstream sees in each second.
async fn storm(backoff: Backoff, budget: Option<RetryBudget>) -> Vec<usize> {
    let mut builder = Scheduler::builder();
    if let Some(budget) = budget {
        builder = builder.retry_budget(budget);
    }
    let ax = builder.build();
    let lane = ax.lane("storm").limit(200).open().expect("new");
    let begun = Instant::now();
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let jobs = (0..200).map(|_| {
        let arrivals = Arc::clone(&arrivals);
        let job = ax.job("call", move |_| async move {
            arrivals.lock().push(begun.elapsed());
            Err::<(), _>("down")
        });
        job.lane(&lane)
            .retry(backoff.retries(2))
            .submit()
            .expect("room")
    });
    for job in jobs.collect::<Vec<_>>() {
        assert!(job.await.is_err());
    }
    let mut curve = vec![0; begun.elapsed().as_millis() as usize / 100 + 1];
    for at in arrivals.lock().iter() {
        curve[at.as_millis() as usize / 100] += 1;
    }
    assert_eq!(curve.iter().sum::<usize>(), 600);
    curve
}

/// F52-F54: without jitter each retry is a wave of 200 calls in 100 ms; with it a fifth of that; with a budget no minute
/// sees more retries than it allows.
#[tokio::test(start_paused = true)]
async fn jitter_and_budget_flatten_the_retry_storm() {
    let fixed = Backoff::fixed(SECOND);
    let waves = storm(fixed, None).await;
    assert_eq!(waves.iter().filter(|calls| **calls == 200).count(), 3);
    let spread = storm(Backoff::exponential(), None).await;
    assert!(spread[1..].iter().all(|calls| *calls < 80), "{spread:?}");
    let within = storm(Backoff::exponential(), Some(RetryBudget::per_minute(100))).await;
    for (from, minute) in within[1..].windows(600).enumerate() {
        let calls: usize = minute.iter().sum();
        assert!(
            calls <= 101,
            "{calls} retries in the minute from {from}00 ms"
        );
    }
}

/// F54: each lane has its own budget, and what it puts off is counted.
#[tokio::test(start_paused = true)]
async fn a_budget_of_one_lane_leaves_others_alone() {
    let ax = Scheduler::new();
    let bounded = ax.lane("bounded").retry_budget(RetryBudget::per_minute(1));
    let lanes = [
        bounded.open().expect("new"),
        ax.lane("free").open().expect("new"),
    ];
    let begun = Instant::now();
    for lane in &lanes {
        let jobs = (0..3).map(|_| {
            let job = ax.job("fails", fail).lane(lane);
            job.retry(Backoff::fixed(SECOND).retries(1))
                .submit()
                .expect("room")
        });
        for job in jobs.collect::<Vec<_>>() {
            assert!(job.await.is_err());
        }
    }
    let [bounded, free] = lanes.map(|lane| lane.counts());
    assert_eq!((bounded.deferred_total, free.deferred_total), (2, 0));
    assert_eq!(begun.elapsed().as_secs(), 1 + 60 + 60 + 1);
}

struct PanicsOnDrop(Arc<AtomicU32>);

impl fmt::Debug for PanicsOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error")
    }
}

impl fmt::Display for PanicsOnDrop {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("cannot even be written")
    }
}

impl std::error::Error for PanicsOnDrop {}

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
        panic!("in a destructor");
    }
}

/// Bad input: errors that panic when they are written or dropped cost nobody else anything.
#[tokio::test(start_paused = true)]
async fn an_error_that_panics_is_contained() {
    let (ax, lane) = scheduler(1);
    let drops = Arc::new(AtomicU32::new(0));
    let told = Arc::clone(&drops);
    let job = ax.job("hostile", move |_| async move {
        Err::<(), _>(PanicsOnDrop(told))
    });
    let retry = Backoff::fixed(SECOND).retries(2).or_manual();
    let job = job.lane(&lane).retry(retry).submit().expect("room");
    let id = job.id();
    drop(job);
    sleep(5 * SECOND).await;
    assert!(ax.drop_job(id));
    assert_eq!(drops.load(Relaxed), 3);
    let job = ax.job("next", |_| async { Ok::<_, Infallible>(1) });
    assert_eq!(
        job.lane(&lane)
            .submit()
            .expect("room")
            .await
            .expect("success"),
        1
    );
}

/// F48-F51: the presets are the figures of the table.
#[test]
fn presets_are_as_documented() {
    let row = |preset: Preset| {
        (
            preset.limit,
            preset.priority,
            preset.timeout.as_secs(),
            preset.retry.retries(),
        )
    };
    assert_eq!(row(Preset::PUSH), (20, 80, 3, 2));
    assert_eq!(row(Preset::DATABASE_SYNC), (40, 60, 10, 3));
    assert_eq!(row(Preset::LARGE_FILE), (5, 30, 60, 0));
    assert_eq!(row(Preset::EXTERNAL_API), (10, 70, 8, 3));
    assert_eq!(Preset::PUSH.retry, Backoff::fixed(SECOND).retries(2));
    assert_eq!(
        Preset::EXTERNAL_API.retry,
        Retry::from(Backoff::exponential())
    );
    assert_eq!(Preset::LARGE_FILE.retry, Retry::NONE.or_manual());
}
