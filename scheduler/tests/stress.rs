//! Real threads against each other: the limit holds at every instant, every handle resolves, every count adds up.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use ax_scheduler::{JobError, Scheduler};
use tokio::runtime::Builder;

const LIMIT: usize = 3;
const SUBMITTERS: u64 = 4;

/// Jobs of each submitter: some seconds with `AX_FULL=1`, a moment without.
fn jobs_each() -> u64 {
    if std::env::var_os("AX_FULL").is_some() {
        300_000
    } else {
        5_000
    }
}

/// A slot of the lane, as the jobs themselves count it.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(taken: &Arc<AtomicUsize>) -> Self {
        let before = taken.fetch_add(1, SeqCst);
        assert!(before < LIMIT, "{before} jobs ran beside this one");
        Self(Arc::clone(taken))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[derive(Default)]
struct Ends {
    succeeded: u64,
    failed: u64,
    cancelled: u64,
}

/// F2, F23, F24: submits, ends and cancels (queued, running, just ending) race on four submitting threads and two
/// workers.
#[test]
fn cancels_race_ends_and_the_limit_holds() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let ax = Scheduler::builder()
        .runtime(runtime.handle().clone())
        .build();
    let lane = ax.lane("stress").limit(LIMIT).cancel_grace(Duration::ZERO);
    let lane = lane.capacity(1_000_000).open().expect("new");
    let taken = Arc::new(AtomicUsize::new(0));

    let submitter = |seed: u64| {
        let mut ends = Ends::default();
        let mut window = Vec::new();
        for number in 0..jobs_each() {
            let taken = Arc::clone(&taken);
            let kind = (number * 7 + seed) % 11;
            let job = ax.job("stress", move |_| async move {
                let _slot = Slot::take(&taken);
                for _ in 0..kind % 4 {
                    tokio::task::yield_now().await;
                }
                if kind == 10 {
                    Err("told to")
                } else {
                    Ok(number)
                }
            });
            let priority = 1 + (number % 100) as u8;
            let job = job.lane(&lane).priority(priority).submit().expect("room");
            if kind.is_multiple_of(3) {
                job.cancel();
            }
            window.push((number, job));
            if window.len() == 32 {
                // The older half meets its cancel at any stage of its life.
                for (number, job) in window.drain(..16) {
                    if number % 2 == 0 {
                        job.cancel();
                    }
                    ends.add(number, runtime.block_on(job));
                }
            }
        }
        for (number, job) in window {
            ends.add(number, runtime.block_on(job));
        }
        ends
    };
    let ends: Vec<Ends> = thread::scope(|scope| {
        let submitter = &submitter;
        let threads = (0..SUBMITTERS).map(|seed| scope.spawn(move || submitter(seed)));
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|ends| ends.expect("no panic")).collect()
    });

    let counts = lane.counts();
    let sum = |end: fn(&Ends) -> u64| ends.iter().map(end).sum::<u64>();
    assert_eq!((counts.running, counts.pending), (0, 0));
    assert_eq!(counts.counters.submitted_total, SUBMITTERS * jobs_each());
    assert_eq!(counts.counters.succeeded_total, sum(|ends| ends.succeeded));
    assert_eq!(counts.counters.failed_total, sum(|ends| ends.failed));
    assert_eq!(counts.counters.cancelled_total, sum(|ends| ends.cancelled));
    assert_eq!(counts.counters.finished_total(), SUBMITTERS * jobs_each());
    // Each race was really run: none of the ends is missing.
    assert!(sum(|ends| ends.succeeded) > 0 && sum(|ends| ends.cancelled) > 0);
    assert_eq!(taken.load(SeqCst), 0);
}

impl Ends {
    fn add(&mut self, number: u64, outcome: Result<u64, JobError>) {
        match outcome {
            Ok(returned) => {
                assert_eq!(returned, number);
                self.succeeded += 1;
            }
            Err(JobError::Failed(_)) => self.failed += 1,
            Err(JobError::Cancelled) => self.cancelled += 1,
            Err(other) => panic!("{other}"),
        }
    }
}

/// Handles dropped at any moment, and jobs that submit jobs: nothing is lost, and the runners find all of it.
#[test]
fn detached_jobs_all_run() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let ran = Arc::new(AtomicUsize::new(0));
    let rounds = jobs_each() as usize;
    runtime.block_on(async {
        let ax = Scheduler::new();
        let lane = ax.lane("detached").limit(LIMIT).capacity(rounds * 2);
        let lane = lane.open().expect("new");
        for _ in 0..rounds {
            let (ran, inner_ax, inner_lane) = (Arc::clone(&ran), ax.clone(), lane.clone());
            let outer = ax.job("outer", move |_| async move {
                let inner = inner_ax.job("inner", move |_| async move {
                    ran.fetch_add(1, SeqCst);
                    Ok::<_, Infallible>(())
                });
                inner.lane(&inner_lane).submit().map(drop)
            });
            drop(outer.lane(&lane).submit().expect("room"));
        }
        while lane.counts().counters.finished_total() < 2 * rounds as u64 {
            tokio::task::yield_now().await;
        }
        assert_eq!(lane.counts().counters.succeeded_total, 2 * rounds as u64);
    });
    assert_eq!(ran.load(SeqCst), rounds);
}
