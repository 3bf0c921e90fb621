//! What must cost the same however many jobs there are. Each bound is a class: a cost that grew with the number would be
//! beyond it a hundredfold.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use ax_scheduler::{JobHandle, Lane, Scheduler};
use tokio::task::yield_now;

const MANY: usize = 100_000;
const FEW: usize = 1_000;
const JOBS: usize = 500;
const TRIES: usize = 5;

fn submit(ax: &Scheduler, lane: &Lane, after: &str) -> JobHandle<()> {
    let job = ax.job("job", |_| async { Ok::<_, Infallible>(()) });
    let job = job.lane(lane);
    let job = if after.is_empty() {
        job
    } else {
        job.after([after])
    };
    job.submit().expect("room")
}

/// The time that each of the jobs that ended meanwhile took, in the quickest of some tries: no busy machine makes it
/// shorter.
async fn cost<F: Future<Output = ()>>(lane: &Lane, mut run: impl FnMut() -> F) -> Duration {
    let ended = || lane.counts().counters.succeeded_total;
    let mut least = Duration::MAX;
    for _ in 0..TRIES {
        let (began, before) = (Instant::now(), ended());
        run().await;
        let jobs = (ended() - before) as u32;
        least = least.min(began.elapsed() / jobs);
    }
    least
}

/// F11: with a hundred times as many that wait for something else, a job with a dependent ends as quickly.
#[tokio::test]
async fn the_end_of_a_job_does_not_look_at_those_that_wait() {
    let mut costs = [Duration::ZERO; 2];
    for (waiting, spent) in [FEW, MANY].into_iter().zip(&mut costs) {
        let ax = Scheduler::new();
        let lane = ax.lane("lane").capacity(MANY + 2 * JOBS).open();
        let lane = lane.expect("new");
        for _ in 0..waiting {
            drop(submit(&ax, &lane, "never"));
        }
        *spent = cost(&lane, async || {
            for _ in 0..JOBS {
                let job = ax.job("first", |_| async { Ok::<_, Infallible>(()) });
                let first = job.lane(&lane).named("first").submit().expect("room");
                let second = submit(&ax, &lane, "first");
                first.await.expect("success");
                second.await.expect("success");
            }
        })
        .await;
        assert_eq!(lane.counts().waiting, waiting as u64);
    }
    let [few, many] = costs;
    assert!(
        many < few * 10,
        "{few:?} a job with {FEW}, {many:?} with {MANY}"
    );
}

/// F30: with a hundred times as many queued, of all priorities, the next one is picked as quickly.
#[tokio::test]
async fn the_next_job_is_picked_whatever_the_backlog() {
    let mut costs = [Duration::ZERO; 2];
    for (queued, spent) in [FEW, MANY].into_iter().zip(&mut costs) {
        let ax = Scheduler::new();
        let lane = ax.lane("lane").limit(1).capacity(MANY + JOBS).open();
        let lane = lane.expect("new");
        lane.pause();
        let submit = |number: usize| {
            let job = ax.job("job", |_| async { Ok::<_, Infallible>(()) });
            let priority = 1 + (number % 100) as u8;
            drop(job.lane(&lane).priority(priority).submit().expect("room"));
        };
        (0..queued).for_each(submit);
        *spent = cost(&lane, async || {
            // At least as many come as are waited for, and the backlog stays.
            lane.pause();
            (0..JOBS).for_each(submit);
            let until = lane.counts().counters.succeeded_total + JOBS as u64;
            lane.resume();
            while lane.counts().counters.succeeded_total < until {
                yield_now().await;
            }
        })
        .await;
    }
    let [few, many] = costs;
    assert!(
        many < few * 10,
        "{few:?} a job with {FEW}, {many:?} with {MANY}"
    );
}
