//! What a lane shows of its queue and of its waiting jobs, under paused time: the figures behind a screen of one lane.

use std::{convert::Infallible, future::pending, io, time::Duration};

use ax_scheduler::{Backoff, FullPolicy, JobHandle, Lane, Retry, RetryBudget, Scheduler, priority};
use ax_wire::sample::{QueueBand, WaitingFor};
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);
const S: u64 = 1_000_000_000;

fn hang(ax: &Scheduler, lane: &Lane, priority: u8) -> JobHandle<()> {
    let job = ax.job("hang", |_| pending::<Result<(), Infallible>>());
    let job = job.lane(lane).priority(priority).submit();
    job.expect("room")
}

fn bands(lane: &Lane) -> Vec<QueueBand> {
    lane.counts().queue.expect("told")
}

fn counts(lane: &Lane) -> Vec<(u8, u64)> {
    let of = bands(lane).into_iter();
    of.map(|band| (band.highest, band.pending)).collect()
}

/// F29: how many are queued in each band of priorities, and how old the oldest of each is.
#[tokio::test(start_paused = true)]
async fn a_queue_is_told_by_band() {
    let ax = Scheduler::new();
    let lane = ax.lane("bands").limit(1).open().expect("new");
    assert_eq!(bands(&lane), []);
    let running = hang(&ax, &lane, 100);
    sleep(MS).await;
    assert_eq!(bands(&lane), [], "it runs");

    let oldest = hang(&ax, &lane, 40);
    sleep(Duration::from_secs(10)).await;
    let mut jobs: Vec<_> = [1, 29, 30, 79, 80, 94, 95, 100]
        .map(|priority| hang(&ax, &lane, priority))
        .into();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(counts(&lane), [(100, 2), (94, 2), (79, 3), (29, 2)]);
    let ages = |lane: &Lane| -> Vec<u64> {
        let ages = bands(lane).into_iter();
        ages.map(|band| band.oldest_ns.expect("not held") / S)
            .collect()
    };
    assert_eq!(ages(&lane), [5, 5, 15, 5]);
    for (told, band) in bands(&lane).iter().zip(priority::BANDS) {
        assert_eq!(told.lowest..=told.highest, band);
    }

    // Cancelled ones stay in the queue for a while; the oldest is one that lives.
    oldest.cancel();
    assert_eq!(counts(&lane), [(100, 2), (94, 2), (79, 2), (29, 2)]);
    assert_eq!(ages(&lane), [5, 5, 5, 5]);
    jobs.drain(..2).for_each(|job| job.cancel());
    assert_eq!(counts(&lane), [(100, 2), (94, 2), (79, 2)]);
    // Started ones leave their band.
    running.cancel();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(counts(&lane), [(100, 1), (94, 2), (79, 2)]);
}

/// F27: a job that is shed leaves its band.
#[tokio::test(start_paused = true)]
async fn a_shed_job_leaves_its_band() {
    let ax = Scheduler::new();
    let lane = ax.lane("shed").limit(1).capacity(2);
    let lane = lane.when_full(FullPolicy::ShedLowest);
    let lane = lane.open().expect("new");
    let _running = hang(&ax, &lane, 50);
    sleep(MS).await;
    let _jobs = [10, 20, 90].map(|priority| hang(&ax, &lane, priority));
    assert_eq!(counts(&lane), [(94, 1), (29, 1)]);
}

/// A preempted job is back in its band, and runs for the first time still.
#[tokio::test(start_paused = true)]
async fn a_preempted_job_is_queued_again_and_no_retry() {
    let ax = Scheduler::new();
    let lane = ax.lane("preempted").limit(1).preempt(true);
    let lane = lane.cancel_grace(Duration::ZERO).open().expect("new");
    let low = ax.job("low", |_| pending::<Result<(), Infallible>>());
    let low = low.lane(&lane).preemptible().submit().expect("room");
    sleep(MS).await;
    let high = hang(&ax, &lane, 90);
    sleep(MS).await;
    let told = lane.counts();
    assert_eq!(counts(&lane), [(79, 1)]);
    assert_eq!((told.preempted_total, told.retrying), (1, Some(0)));
    high.cancel();
    sleep(MS).await;
    let told = lane.counts();
    assert_eq!(
        (counts(&lane), told.running, told.retrying),
        (vec![], 1, Some(0))
    );
    drop(low);
}

/// F47, F59: what waits is told by what it waits for, and what runs again as such, until all is over.
#[tokio::test(start_paused = true)]
async fn waiting_jobs_are_told_by_what_they_wait_for() {
    let ax = Scheduler::new();
    let lane = ax.lane("waits").limit(10);
    let lane = lane
        .retry_budget(RetryBudget::per_minute(1))
        .open()
        .expect("new");
    let told = |lane: &Lane| lane.counts().waiting_for.expect("told");
    assert_eq!(told(&lane), WaitingFor::default());

    let base = hang(&ax, &lane, 50);
    let ready = || Ok::<_, Infallible>(());
    let after = ax.job("after", move |_| async move { ready() });
    let after = after.lane(&lane).after([&base]).submit().expect("room");
    let later = ax.job("later", move |_| async move { ready() });
    let later = later.lane(&lane).delay(Duration::from_mins(1)).submit();
    let later = later.expect("room");
    let backoff = Backoff::fixed(Duration::from_secs(1)).jitter(Duration::ZERO);
    let failing = |retry: Retry| {
        let job = ax.job("fails", |_| async {
            sleep(Duration::from_millis(100)).await;
            Err::<(), _>(io::Error::other("no"))
        });
        job.lane(&lane).retry(retry).submit().expect("room")
    };
    let failed = [failing(backoff.retries(5)), failing(backoff.retries(5))];
    let manual = failing(Retry::NONE.or_manual());
    sleep(Duration::from_millis(150)).await;
    let expected = WaitingFor {
        time: 1,
        dependencies: 1,
        retry: 2,
        budget: 0,
        person: 1,
    };
    assert_eq!(told(&lane), expected);
    assert_eq!(lane.counts().waiting, 5);
    assert_eq!(lane.counts().retrying, Some(0));

    // The budget lets one of the two run again and puts the other off.
    sleep(Duration::from_secs(1)).await;
    let expected = WaitingFor {
        retry: 0,
        budget: 1,
        ..expected
    };
    assert_eq!((told(&lane), lane.counts().retrying), (expected, Some(1)));
    assert_eq!(lane.counts().waiting, 4);

    base.cancel();
    for job in failed {
        job.cancel();
    }
    later.cancel();
    ax.drop_job(manual.id());
    sleep(Duration::from_secs(2)).await;
    assert!(after.await.is_err(), "what it waited for was cancelled");
    let counts = lane.counts();
    assert_eq!(told(&lane), WaitingFor::default());
    assert_eq!(
        (counts.waiting, counts.running, counts.retrying),
        (0, 0, Some(0))
    );
}
