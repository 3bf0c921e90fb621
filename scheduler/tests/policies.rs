//! What a lane does with too much work, under paused time: full queues, waiting for room, shedding, spilling and
//! order.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Future, pending},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use ax_scheduler::{
    Ageing, FullPolicy, JobError, JobEventKind, JobHandle, JobState, Lane, Scheduler, Spill,
    SpilledJob, SubmitError,
};
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

const MS: Duration = Duration::from_millis(1);

/// Lets every task that can run do so; virtual time moves by a millisecond.
async fn settle() {
    sleep(MS).await;
}

async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(pin!(&mut *future).poll(cx).is_pending())).await
}

fn hang(ax: &Scheduler, lane: &Lane, priority: u8) -> Result<JobHandle<()>, SubmitError> {
    let job = ax.job("hang", |_| pending::<Result<(), Infallible>>());
    job.lane(lane).priority(priority).submit()
}

fn nap(ax: &Scheduler, lane: &Lane, lasting: Duration) -> JobHandle<()> {
    let job = ax.job("nap", move |_| async move {
        sleep(lasting).await;
        Ok::<_, Infallible>(())
    });
    job.lane(lane).submit().expect("room")
}

/// A lane with one job that runs until it is told to end, so that what comes next is queued.
async fn blocked(ax: &Scheduler, lane: &Lane) -> oneshot::Sender<()> {
    let (end, ends) = oneshot::channel::<()>();
    let job = ax.job("block", |_| async move {
        ends.await.ok();
        Ok::<_, Infallible>(())
    });
    job.lane(lane).submit().expect("room");
    settle().await;
    end
}

/// F10, F27: who comes with a higher priority gets the room of the lowest, newest first; nobody else does.
#[tokio::test(start_paused = true)]
async fn the_lowest_is_shed_for_a_higher_priority() {
    let ax = Scheduler::new();
    let lane = ax.lane("shed").limit(1).capacity(3);
    let lane = lane.when_full(FullPolicy::ShedLowest).open().expect("new");
    let _running = hang(&ax, &lane, 1).expect("room");
    settle().await;
    let old = hang(&ax, &lane, 20).expect("room");
    let new = hang(&ax, &lane, 20).expect("room");
    let _middle = hang(&ax, &lane, 30).expect("room");
    let refused = hang(&ax, &lane, 20).expect_err("nothing is lower");
    assert!(
        matches!(refused, SubmitError::Full { pending: 3, .. }),
        "{refused}"
    );

    let _high = hang(&ax, &lane, 90).expect("takes the place of the newest of the lowest");
    assert_eq!(new.status(), JobState::Cancelled);
    assert!(matches!(new.await, Err(JobError::Shed)));
    assert_eq!(old.status(), JobState::Ready);
    let counts = lane.counts();
    assert_eq!((counts.pending, counts.overload.shed_total), (3, 1));
    assert_eq!(
        (
            counts.counters.cancelled_total,
            counts.counters.rejected_total
        ),
        (1, 1)
    );
    assert_eq!(counts.counters.submitted_total, 5);
}

/// F25: a bound in bytes; a large job sheds as many as it needs, or none where they would not do.
#[tokio::test(start_paused = true)]
async fn bytes_are_bounded_too() {
    let ax = Scheduler::new();
    let lane = ax.lane("bytes").limit(1).capacity_bytes(100_000);
    let lane = lane.when_full(FullPolicy::ShedLowest).open().expect("new");
    let _end = blocked(&ax, &lane).await;
    let submit = |kib: u32, priority| {
        let job = ax.job("bytes", |_| pending::<Result<(), Infallible>>());
        let job = job
            .lane(&lane)
            .payload_bytes(kib * 1_000)
            .priority(priority);
        job.submit()
    };
    let queued: Vec<_> = (0..4).map(|_| submit(22, 10).expect("room")).collect();
    assert!(matches!(submit(22, 10), Err(SubmitError::Full { .. })));
    assert!(matches!(submit(101, 99), Err(SubmitError::TooLarge { .. })));
    let keeps = submit(20, 60).expect("takes the place of one");
    let refused = submit(99, 50).expect_err("the lower ones would not make room enough");
    assert!(
        matches!(refused, SubmitError::Full { pending: 4, .. }),
        "{refused}"
    );
    let states: Vec<_> = queued.iter().map(JobHandle::status).collect();
    let (ready, cancelled) = (JobState::Ready, JobState::Cancelled);
    assert_eq!(states, [ready, ready, ready, cancelled]);
    let _large = submit(45, 50).expect("takes the place of two");
    let states: Vec<_> = queued.iter().map(JobHandle::status).collect();
    assert_eq!(states, [ready, cancelled, cancelled, cancelled]);
    assert_eq!(keeps.status(), ready);
    let overload = lane.counts().overload;
    assert_eq!(overload.shed_total, 3);
    let bytes = overload.queued_bytes.expect("not locked");
    assert!((87_000..90_000).contains(&bytes), "{bytes}");
}

/// F27, F41: those who wait are served in their order, before those who do not; who goes away is passed over.
#[tokio::test(start_paused = true)]
async fn submitters_wait_in_line_and_may_leave_it() {
    let ax = Scheduler::new();
    let lane = ax.lane("line").limit(1).capacity(1);
    let lane = lane.when_full(FullPolicy::Wait).open().expect("new");
    let end = blocked(&ax, &lane).await;
    let first = nap(&ax, &lane, 10 * MS);
    let order = Arc::new(Mutex::new(Vec::new()));
    let submit = |number: u32| {
        let order = Arc::clone(&order);
        let job = ax.job("line", move |_| async move {
            order.lock().push(number);
            Ok::<_, Infallible>(())
        });
        // What comes later is more urgent: the line does not care.
        Box::pin(job.lane(&lane).priority(number as u8).submit_wait())
    };
    let mut waiting: VecDeque<_> = (1..=4).map(submit).collect();
    for submit in &mut waiting {
        assert!(is_pending(submit).await);
    }
    let refused = hang(&ax, &lane, 99).expect_err("full");
    assert!(refused.to_string().contains("submit_wait"), "{refused}");
    assert_eq!(lane.counts().overload.submitters_waiting, Some(4));
    drop(waiting.remove(1));
    assert_eq!(lane.counts().overload.submitters_waiting, Some(3));
    end.send(()).expect("it runs");
    settle().await;
    // The room of `first`, which runs, is promised to the first in line: nobody else gets it.
    assert!(hang(&ax, &lane, 99).is_err());
    // That one goes away too: the promise is the next one's.
    drop(waiting.pop_front());
    let mut handles = Vec::new();
    for submit in waiting {
        handles.push(submit.await.expect("open"));
    }
    first.await.expect("success");
    for handle in handles {
        handle.await.expect("success");
    }
    assert_eq!(*order.lock(), [3, 4]);
    let counts = lane.counts();
    assert_eq!(
        (counts.pending, counts.overload.submitters_waiting),
        (0, Some(0))
    );
}

/// F41: a place is kept for who waited for it, and given back with its guard; a closed lane wakes those in line.
#[tokio::test(start_paused = true)]
async fn a_place_is_kept_until_used_or_dropped() {
    let ax = Scheduler::new();
    let lane = ax.lane("place").limit(1).capacity(1).open().expect("new");
    let _end = blocked(&ax, &lane).await;
    let place = lane.ready().await.expect("room");
    assert!(hang(&ax, &lane, 99).is_err());
    drop(place);
    let place = lane.ready().await.expect("room again");
    let job = ax.job("placed", |_| pending::<Result<(), Infallible>>());
    let placed = job.place(place).submit().expect("its place");
    assert_eq!(lane.counts().pending, 1);
    let mut waits = Box::pin(lane.ready());
    assert!(is_pending(&mut waits).await);
    // A queued job that is cancelled leaves its room at once.
    placed.cancel();
    let place = waits.await.expect("room");
    let mut waits = Box::pin(lane.ready());
    assert!(is_pending(&mut waits).await);
    let (other_ax, other_lane) = (ax.clone(), lane.clone());
    let shutdown = tokio::spawn(async move { other_ax.shutdown().await });
    assert!(matches!(waits.await, Err(SubmitError::Closed { .. })));
    let job = ax.job("late", |_| pending::<Result<(), Infallible>>());
    assert!(matches!(
        job.place(place).submit(),
        Err(SubmitError::Closed { .. })
    ));
    assert!(matches!(
        other_lane.ready().await,
        Err(SubmitError::Closed { .. })
    ));
    shutdown.await.expect("no panic");
}

/// F41: a source is asked for an item only when the lane has room for its job; a closed lane ends the stream.
#[tokio::test(start_paused = true)]
async fn a_stream_pulls_no_faster_than_the_lane() {
    let ax = Scheduler::new();
    let lane = ax.lane("stream").limit(2).capacity(3).open().expect("new");
    let pulled = Arc::new(Mutex::new(0_u32));
    let counter = Arc::clone(&pulled);
    let source = stream::iter(1..).inspect(move |_| *counter.lock() += 1);
    let jobs = lane.submit_stream(source, |number: u32, place| {
        let job = ax.job("item", move |_| async move {
            sleep(10 * MS).await;
            Ok::<_, Infallible>(number)
        });
        job.place(place).submit()
    });
    let mut jobs = Box::pin(jobs);
    let mut handles = Vec::new();
    // Asks for more at any time: it gets what fits.
    let deadline = Instant::now() + 95 * MS;
    while let Ok(job) = timeout_at(deadline, jobs.next()).await {
        handles.push(job.expect("goes on").expect("open"));
        let (running, pending) = (lane.counts().running, lane.counts().pending);
        assert!(running <= 2 && pending <= 3, "{running} {pending}");
    }
    // Nine times two have ended, five are in the lane.
    assert_eq!((*pulled.lock(), handles.len()), (23, 23));
    for (index, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.await.expect("success") as usize, index + 1);
    }
    ax.shutdown().await;
    let last = jobs.next().await.expect("the reason");
    assert!(matches!(last, Err(SubmitError::Closed { .. })));
    assert!(jobs.next().await.is_none());
}

/// Keeps up to `room` jobs.
struct Shelf {
    room: usize,
    jobs: Mutex<VecDeque<SpilledJob>>,
}

impl Spill for Shelf {
    fn spill(&self, job: SpilledJob) -> Result<(), SpilledJob> {
        let mut jobs = self.jobs.lock();
        assert_ne!(job.job_type(), "bad", "told to");
        if jobs.len() == self.room {
            return Err(job);
        }
        jobs.push_back(job);
        Ok(())
    }
}

/// F27: what is spilled comes back, is cancelled, or is given up; each is told and counted once.
#[tokio::test(start_paused = true)]
async fn spilled_jobs_come_back_or_end() {
    let shelf = Arc::new(Shelf {
        room: 4,
        jobs: Mutex::default(),
    });
    let ax = Scheduler::new();
    let lane = ax.lane("spill").limit(1).capacity(1);
    let policy = FullPolicy::Spill(Arc::<Shelf>::clone(&shelf));
    let lane = lane.when_full(policy).open().expect("new");
    let end = blocked(&ax, &lane).await;
    let queued = nap(&ax, &lane, MS);
    let returns = nap(&ax, &lane, MS);
    let cancelled = nap(&ax, &lane, MS);
    let forgotten = nap(&ax, &lane, MS);
    let closed = nap(&ax, &lane, MS);
    assert_eq!(returns.status(), JobState::Waiting);
    assert!(matches!(
        hang(&ax, &lane, 50),
        Err(SubmitError::Full { .. })
    ));
    let bad = ax.job("bad", |_| async { Ok::<_, Infallible>(()) });
    let bad = bad
        .lane(&lane)
        .submit()
        .expect("counted before it is handed over");
    assert!(matches!(bad.await, Err(JobError::SpillLost)));
    let overload = lane.counts().overload;
    assert_eq!((overload.spilled_total, overload.spilled), (5, 4));

    let take = || shelf.jobs.lock().pop_front().expect("spilled");
    let job = take().submit().expect_err("still full");
    cancelled.cancel();
    assert!(matches!(cancelled.await, Err(JobError::Cancelled)));
    take().submit().expect("it has ended: nothing to queue");
    drop(take());
    assert!(matches!(forgotten.await, Err(JobError::SpillLost)));
    end.send(()).expect("it runs");
    queued.await.expect("success");
    // Its place is kept against those who come meanwhile.
    let end = blocked(&ax, &lane).await;
    let place = lane.ready().await.expect("room");
    let job = job.submit().expect_err("the only place is promised");
    job.submit_to(place).expect("its place");
    assert_eq!(lane.counts().pending, 1);
    end.send(()).expect("it runs");
    returns.await.expect("success");
    ax.shutdown().await;
    take().submit().expect("it ends instead");
    assert!(matches!(closed.await, Err(JobError::Cancelled)));
    let counts = lane.counts();
    assert_eq!(counts.overload.spilled, 0);
    let counters = counts.counters;
    assert_eq!(counters.submitted_total, counters.finished_total());
    assert_eq!(counters.rejected_total, 1);
}

/// F28: said once on the way up, and again only after the queue has been well below.
#[tokio::test(start_paused = true)]
async fn high_water_is_said_before_full() {
    let ax = Scheduler::new();
    let lane = ax.lane("water").limit(1).capacity(10).open().expect("new");
    let _end = blocked(&ax, &lane).await;
    let mut events = ax.subscribe();
    let mut queued = VecDeque::new();
    let mut said = Vec::new();
    for _ in 0..10 {
        queued.push_back(hang(&ax, &lane, 50).expect("room"));
        said.push(lane.counts().overload.high_water_total);
    }
    assert_eq!(said, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
    let eighth = queued[7].id();
    let mut drain_to = |left: usize| {
        while queued.len() > left {
            queued.pop_front().expect("queued").cancel();
        }
        while queued.len() < 8 {
            queued.push_back(hang(&ax, &lane, 50).expect("room"));
        }
        lane.counts().overload.high_water_total
    };
    assert_eq!(drain_to(6), 1);
    assert_eq!(drain_to(5), 2);

    // A listener is told each time, once, and which job set it off.
    let mut heard = Vec::new();
    while let Ok(Some(event)) = timeout_at(Instant::now() + MS, events.next()).await {
        if event.kind == JobEventKind::HighWater {
            heard.push(event);
        }
    }
    assert_eq!(heard.len(), 2);
    let first = &heard[0];
    assert_eq!((first.job, &*first.lane), (eighth, "water"));
    assert_eq!((first.from, first.to), (JobState::Ready, JobState::Ready));
    let reason = first.reason.as_deref();
    assert_eq!(reason, Some("the lane's queue fills up: 8 of 10 jobs"));
}

/// F31 to F33: age and turns decide when a runner picks.
#[tokio::test(start_paused = true)]
async fn age_and_turns_let_low_priorities_go() {
    let ax = Scheduler::new();
    let lane = ax.lane("aged").limit(1);
    let lane = lane
        .ageing(Ageing::step(Duration::from_secs(10)))
        .open()
        .expect("new");
    let order = Arc::new(Mutex::new(Vec::new()));
    let submit = |lane: &Lane, name: &'static str, priority| {
        let order = Arc::clone(&order);
        let job = ax.job("order", move |_| async move {
            order.lock().push(name);
            Ok::<_, Infallible>(())
        });
        job.lane(lane).priority(priority).submit().expect("room")
    };
    let end = blocked(&ax, &lane).await;
    submit(&lane, "old low", 48);
    sleep(Duration::from_secs(29)).await;
    submit(&lane, "new", 50);
    submit(&lane, "urgent", 90);
    sleep(Duration::from_secs(2)).await;
    end.send(()).expect("it runs");
    settle().await;
    assert_eq!(*order.lock(), ["urgent", "old low", "new"]);

    let lane = ax.lane("turns").limit(1).turn_every(3).open().expect("new");
    let end = blocked(&ax, &lane).await;
    order.lock().clear();
    for _ in 0..4 {
        submit(&lane, "high", 90);
    }
    submit(&lane, "low", 1);
    end.send(()).expect("it runs");
    settle().await;
    assert_eq!(*order.lock(), ["high", "high", "low", "high", "high"]);
}
