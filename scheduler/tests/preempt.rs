//! Preemption (F36): who is stopped for whom, and what becomes of the stopped one. Under paused time, so that times are
//! exact.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use ax_scheduler::{
    Ageing, Backoff, JobContext, JobError, JobEventKind, JobHandle, JobState, Lane, LaneError,
    Scheduler,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

const S: Duration = Duration::from_secs(1);

/// Names of the runs in the order in which they began, each with its attempt.
type Began = Arc<Mutex<Vec<(&'static str, u32)>>>;

struct World {
    ax: Scheduler,
    lane: Lane,
    began: Began,
    running: Arc<AtomicUsize>,
    limit: usize,
}

/// Counts a run while it lives.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl World {
    /// A lane that leaves a stopped job so much grace.
    fn new(limit: usize, grace: Duration, preempt: bool) -> Self {
        let ax = Scheduler::new();
        let lane = ax.lane("lane").limit(limit).preempt(preempt);
        Self {
            lane: lane.cancel_grace(grace).open().expect("opens"),
            ax,
            began: Began::default(),
            running: Arc::default(),
            limit,
        }
    }

    /// A job that runs for so long, and returns when it has run.
    fn submit(&self, name: &'static str, priority: u8, runs: Duration) -> JobHandle<Instant> {
        let (began, running, limit) = (self.began.clone(), self.running.clone(), self.limit);
        let job = self.ax.job(name, move |cx: JobContext| async move {
            let before = running.fetch_add(1, SeqCst);
            let _slot = Slot(running);
            assert!(before < limit, "{before} run already");
            began.lock().push((name, cx.attempt()));
            sleep(runs).await;
            Ok::<_, Infallible>(Instant::now())
        });
        let job = job.lane(&self.lane).priority(priority);
        // Only what is called so allows it.
        let handle = if name.starts_with("low") {
            job.preemptible().submit()
        } else {
            job.submit()
        };
        handle.expect("has room")
    }

    fn began(&self) -> Vec<(&'static str, u32)> {
        self.began.lock().clone()
    }

    fn preempted(&self) -> u64 {
        self.lane.counts().preempted_total
    }
}

/// Lets the lane begin what it can.
async fn settle() {
    sleep(Duration::from_millis(2)).await;
}

#[tokio::test(start_paused = true)]
async fn the_lowest_that_allows_it_is_stopped_and_begins_anew_uncharged() {
    let world = World::new(3, Duration::ZERO, true);
    let firm = world.submit("firm", 1, 10 * S);
    let low_20 = world.submit("low 20", 20, 10 * S);
    let low_10 = world.submit("low 10", 10, 10 * S);
    settle().await;
    let next = world.submit("low 10, queued", 10, S);
    let high = world.submit("high", 90, S);
    let asked = Instant::now();
    let ended = high.await.expect("succeeds");
    assert_eq!(ended - asked, S, "it began at once");
    for job in [firm, low_20, low_10, next] {
        job.await.expect("succeeds");
    }
    let expected = [
        ("low 20", 1),
        ("low 10", 1),
        ("firm", 1),
        ("high", 1),
        // Before the one of its priority that was queued while it ran.
        ("low 10", 1),
        ("low 10, queued", 1),
    ];
    assert_eq!(world.began(), expected);
    let counts = world.lane.counts();
    assert_eq!(counts.preempted_total, 1);
    let counters = counts.counters;
    assert_eq!((counters.succeeded_total, counters.started_total), (5, 6));
    assert_eq!(
        (counts.pending, counts.running, counters.cancelled_total),
        (0, 0, 0)
    );
    world.ax.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_stopped_for_an_equal_nor_without_either_opt_in() {
    for (preempt, runs, comes) in [
        (true, ("low", 50), 50),
        (true, ("firm", 10), 90),
        (false, ("low", 10), 90),
    ] {
        let world = World::new(1, Duration::ZERO, preempt);
        let first = world.submit(runs.0, runs.1, S);
        settle().await;
        let second = world.submit("second", comes, S);
        let (first, second) = (first.await.expect("runs"), second.await.expect("runs"));
        assert_eq!((second - first, world.preempted()), (S, 0), "{runs:?}");
        world.ax.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_are_stopped_as_are_queued_above() {
    let world = World::new(3, Duration::ZERO, true);
    let mut lows = Vec::new();
    for name in ["low 1", "low 2", "low 3"] {
        lows.push(world.submit(name, 10, 10 * S));
        settle().await;
    }
    let highs = [1, 2].map(|_| world.submit("high", 90, S));
    settle().await;
    assert_eq!(world.preempted(), 2);
    // The two that began last.
    assert_eq!(lows[0].status(), JobState::Running);
    assert_eq!([lows[1].status(), lows[2].status()], [JobState::Ready; 2]);
    for job in lows.into_iter().chain(highs) {
        job.await.expect("succeeds");
    }
    world.ax.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_job_has_its_grace_and_may_end_well_within() {
    // One that needs two seconds more, against a grace of one and of three.
    for (grace, preempted) in [(S, 1), (3 * S, 0)] {
        let world = World::new(1, grace, true);
        let low = world.submit("low", 10, 2 * S);
        settle().await;
        let began = Instant::now();
        let high = world.submit("high", 90, S);
        let ended = high.await.expect("succeeds");
        let waited = grace.min(2 * S);
        let off = (ended - began).abs_diff(waited + S);
        assert!(off < Duration::from_millis(10), "{grace:?}: {off:?}");
        low.await.expect("succeeds");
        assert_eq!(world.preempted(), preempted);
        world.ax.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn its_token_tells_a_job_and_an_error_then_is_no_failed_attempt() {
    use JobEventKind::{Preempted, Ready, Retried, Started, Submitted, Succeeded};

    let world = World::new(1, S, true);
    let (told, mut seen) = (Arc::<Mutex<Vec<_>>>::default(), world.ax.subscribe());
    let attempts = told.clone();
    let job = world.ax.job("low", move |cx: JobContext| async move {
        attempts.lock().push(cx.attempt());
        if attempts.lock().len() == 3 {
            return Ok(());
        }
        let first = attempts.lock().len() == 1;
        if first {
            cx.cancelled().await;
        }
        Err(io::Error::other("put away"))
    });
    // One retry: spent on the failure, and not on the stop before it.
    let job = job.preemptible().retry(Backoff::fixed(S).retries(1));
    let low = job.lane(&world.lane).priority(1).submit().expect("room");
    settle().await;
    world.submit("high", 90, S).await.expect("succeeds");
    low.await.expect("succeeds");
    assert_eq!(*told.lock(), [1, 1, 2]);
    let counts = world.lane.counts();
    assert_eq!((counts.preempted_total, counts.retried_total), (1, 1));
    let mut kinds = Vec::new();
    while kinds.last() != Some(&JobEventKind::Succeeded) {
        let event = seen.next().await.expect("the scheduler is there");
        if event.job_type == "low" {
            kinds.push(event.kind);
        }
    }
    let expected = [
        Submitted, Started, Preempted, Started, Retried, Ready, Started, Succeeded,
    ];
    assert_eq!(kinds, expected);
    world.ax.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_person_and_the_shutdown_outdo_preemption() {
    let world = World::new(1, S, true);
    let low = world.submit("low", 10, 10 * S);
    settle().await;
    let high = world.submit("high", 90, S);
    settle().await;
    low.cancel();
    assert!(matches!(low.await, Err(JobError::Cancelled)));
    high.await.expect("succeeds");

    let low = world.submit("low", 10, 100 * S);
    settle().await;
    let high = world.submit("high", 90, S);
    world.ax.shutdown().await;
    for job in [low, high] {
        assert!(matches!(job.await, Err(JobError::Cancelled)));
    }
    let counts = world.lane.counts();
    assert_eq!(
        (counts.preempted_total, counts.pending, counts.running),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn preemption_goes_by_priority_alone() {
    let ax = Scheduler::new();
    let aged = ax.lane("aged").preempt(true).ageing(Ageing::step(S)).open();
    assert!(matches!(aged, Err(LaneError::PreemptsTheAged { .. })));
    let turns = ax.lane("turns").preempt(true).turn_every(3).open();
    assert!(matches!(turns, Err(LaneError::PreemptsTheAged { .. })));
}
