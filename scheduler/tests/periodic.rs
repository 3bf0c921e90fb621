//! Periodic jobs (F77), under paused time.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use ax_scheduler::{JobContext, Lane, Periodic, Scheduler, SubmitError};
use tokio::{
    runtime::Builder,
    time::{Instant, sleep},
};

const PERIOD: Duration = Duration::from_secs(10);

/// When each run began, in seconds since the start.
#[derive(Clone)]
struct Times(Instant, Arc<Mutex<Vec<u64>>>);

impl Times {
    fn new() -> Self {
        Self(Instant::now(), Arc::default())
    }

    fn note(&self) -> usize {
        let mut times = self.1.lock().expect("whole");
        times.push(self.0.elapsed().as_secs());
        times.len()
    }

    fn all(&self) -> Vec<u64> {
        self.1.lock().expect("whole").clone()
    }
}

/// Every ten seconds; the run of number `n` takes `takes(n)` seconds.
fn start(lane: &Lane, times: &Times, takes: fn(usize) -> u64) -> Periodic {
    let times = times.clone();
    let started = lane.periodic("sync", PERIOD, move |_: JobContext| {
        let number = times.note();
        async move {
            sleep(Duration::from_secs(takes(number))).await;
            if number.is_multiple_of(2) {
                Err(io::Error::other("no"))
            } else {
                Ok(())
            }
        }
    });
    started.expect("inside a runtime")
}

#[tokio::test(start_paused = true)]
async fn runs_come_at_whole_periods_however_long_they_take_and_whether_they_fail() {
    let ax = Scheduler::new();
    let lane = ax.lane("sync").open().expect("opens");
    let times = Times::new();
    let periodic = start(&lane, &times, |number| number as u64 % 7);
    sleep(Duration::from_secs(1_005)).await;
    let expected: Vec<u64> = (1..=100).map(|turn| turn * 10).collect();
    assert_eq!(times.all(), expected);
    drop(periodic);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(times.all().len(), 100);
    ax.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_run_costs_the_turns_it_overlaps_and_brings_no_burst() {
    let ax = Scheduler::new();
    let lane = ax.lane("sync").open().expect("opens");
    let times = Times::new();
    let _periodic = start(&lane, &times, |number| if number == 2 { 35 } else { 1 });
    sleep(Duration::from_secs(95)).await;
    // The second, at 20, goes on until 55: the turns at 30, 40 and 50 are left out.
    let begun = times.all();
    assert_eq!(
        begun.iter().filter(|at| **at % 10 == 0).count(),
        begun.len(),
        "{begun:?}"
    );
    assert_eq!(begun, [10, 20, 60, 70, 80, 90]);
    ax.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_lane_costs_turns_and_a_closed_one_ends_the_schedule() {
    let ax = Scheduler::new();
    let lane = ax.lane("sync").limit(1).capacity(1).open().expect("opens");
    let times = Times::new();
    let periodic = start(&lane, &times, |_| 0);
    let fill = |seconds| {
        let job = ax.job("fill", move |_: JobContext| async move {
            sleep(Duration::from_secs(seconds)).await;
            Ok::<_, io::Error>(())
        });
        job.lane(&lane).submit().expect("is taken")
    };
    let running = fill(25);
    sleep(Duration::from_secs(1)).await;
    let queued = fill(0);
    sleep(Duration::from_secs(44)).await;
    assert_eq!(times.all(), [30, 40]);
    assert!(running.await.is_ok() && queued.await.is_ok());
    ax.shutdown().await;
    sleep(PERIOD * 2).await;
    assert_eq!(times.all(), [30, 40]);
    assert!(format!("{periodic:?}").contains("ended: true"));
}

/// The scheduler's runtime keeps the schedule, not the one (or none) from which it was begun.
#[test]
fn a_schedule_lives_in_the_runtime_of_its_scheduler() {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("builds");
    let ax = Scheduler::builder()
        .runtime(runtime.handle().clone())
        .build();
    let lane = ax.lane("sync").open().expect("opens");
    let begin = || {
        lane.periodic("sync", PERIOD, |_: JobContext| async {
            Ok::<_, io::Error>(())
        })
    };
    let outside = begin();
    let elsewhere = Builder::new_current_thread().build().expect("builds");
    let inside_another = elsewhere.block_on(async { begin() });
    drop(elsewhere);
    runtime.block_on(async { sleep(PERIOD * 3 + PERIOD / 2).await });
    assert_eq!(lane.counts().counters.succeeded_total, 6);
    drop((outside, inside_another));
    runtime.block_on(ax.shutdown());
}

#[test]
fn without_a_runtime_it_says_so() {
    let lane = Scheduler::new().lane("sync").open().expect("opens");
    let refused = lane.periodic("sync", PERIOD, |_: JobContext| async {
        Ok::<_, io::Error>(())
    });
    assert_eq!(refused.err(), Some(SubmitError::NoRuntime));
}
