//! F3: whichever way jobs come into a lane, they are its jobs and keep to its limit.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use ax_scheduler::{
    Backoff, BlockingLane, FullPolicy, JobContext, Lane, Scheduler, Spill, SpilledJob,
};
use futures_util::{StreamExt as _, future::join_all, stream};
use tokio::time::sleep;

const LIMIT: usize = 2;
const JOBS: usize = 6;
const NAP: Duration = Duration::from_millis(5);

/// How many run now, and how many ran at most.
#[derive(Clone, Default)]
struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

struct Inside(Gauge);

impl Gauge {
    fn enter(&self) -> Inside {
        let running = self.0.0.fetch_add(1, SeqCst) + 1;
        self.0.1.fetch_max(running, SeqCst);
        Inside(self.clone())
    }

    async fn nap(self) -> Result<(), Infallible> {
        let _inside = self.enter();
        sleep(NAP).await;
        Ok(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, SeqCst);
    }
}

/// Keeps what it is given.
#[derive(Default)]
struct Store(Mutex<Vec<SpilledJob>>);

impl Spill for Store {
    fn spill(&self, job: SpilledJob) -> Result<(), SpilledJob> {
        self.0.lock().expect("whole").push(job);
        Ok(())
    }
}

fn open(ax: &Scheduler, name: &str) -> Lane {
    let lane = ax.lane(name).limit(LIMIT).capacity(100);
    lane.open().expect("new")
}

/// All of the gauge's jobs went through the lane, and at most its limit at once.
fn check(lane: &Lane, gauge: &Gauge, runs: usize) {
    assert_eq!(gauge.0.1.load(SeqCst), LIMIT, "{}", lane.name());
    let counts = lane.counts();
    assert_eq!(counts.counters.started_total, runs as u64, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn every_submit_keeps_to_the_limit() {
    let ax = Scheduler::new();
    let gauge = Gauge::default();
    let lane = open(&ax, "submits");
    let job = || {
        let gauge = gauge.clone();
        ax.job("nap", move |_| gauge.nap()).lane(&lane)
    };
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        jobs.push(job().submit().expect("room"));
        jobs.push(job().submit_wait().await.expect("room"));
        let place = lane.ready().await.expect("open");
        jobs.push(job().place(place).submit().expect("has its place"));
        jobs.push(job().delay(NAP).submit().expect("room"));
        let after = job().after([&jobs[0]]).submit();
        jobs.push(after.expect("room"));
        let once = job().submit_once(&number.to_string());
        drop(once.expect("room"));
    }
    for outcome in join_all(jobs).await {
        outcome.expect("success");
    }
    sleep(Duration::from_secs(1)).await;
    check(&lane, &gauge, JOBS * 6);
}

#[tokio::test(start_paused = true)]
async fn every_helper_keeps_to_the_limit() {
    let ax = Scheduler::new();
    let (lane, gauge) = (open(&ax, "batch"), Gauge::default());
    let of_batch = gauge.clone();
    lane.batch("nap", JOBS, 0..JOBS, move |_, _| of_batch.clone().nap())
        .await;
    check(&lane, &gauge, JOBS);

    let (lane, gauge) = (open(&ax, "stream"), Gauge::default());
    let jobs = lane.submit_stream(stream::iter(0..JOBS), |_, place| {
        let gauge = gauge.clone();
        let job = ax.job("nap", move |_| gauge.nap());
        job.place(place).submit()
    });
    let jobs: Vec<_> = jobs.map(|job| job.expect("room")).collect().await;
    join_all(jobs).await;
    check(&lane, &gauge, JOBS);

    let (lane, gauge) = (open(&ax, "handler"), Gauge::default());
    let of_handler = gauge.clone();
    let handler = move |_: JobContext, (): ()| of_handler.clone().nap();
    ax.register("nap", handler).expect("new");
    let jobs = (0..JOBS).map(|_| {
        let job = ax.job_from("nap", &()).expect("registered");
        job.lane(&lane).submit().expect("room")
    });
    join_all(jobs.collect::<Vec<_>>()).await;
    check(&lane, &gauge, JOBS);

    let (lane, gauge) = (open(&ax, "periodic"), Gauge::default());
    let periodic = (0..JOBS).map(|_| {
        let gauge = gauge.clone();
        lane.periodic("nap", NAP * 20, move |_| gauge.clone().nap())
            .expect("has a runtime")
    });
    let periodic: Vec<_> = periodic.collect();
    sleep(NAP * 39).await;
    drop(periodic);
    check(&lane, &gauge, JOBS);
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_keeps_to_the_limit() {
    let ax = Scheduler::new();
    let (lane, gauge) = (open(&ax, "retries"), Gauge::default());
    let jobs = (0..JOBS).map(|_| {
        let gauge = gauge.clone();
        let job = ax.job("fails", move |_| async move {
            let _ = gauge.nap().await;
            Err::<(), _>("no")
        });
        let job = job.retry(Backoff::fixed(NAP).retries(1)).lane(&lane);
        job.submit().expect("room")
    });
    join_all(jobs.collect::<Vec<_>>()).await;
    check(&lane, &gauge, JOBS * 2);

    let (store, gauge) = (Arc::new(Store::default()), Gauge::default());
    let lane = ax.lane("spill").limit(LIMIT).capacity(1);
    let lane = lane.when_full(FullPolicy::Spill(Arc::<Store>::clone(&store)));
    let lane = lane.open().expect("new");
    let jobs = (0..JOBS).map(|_| {
        let gauge = gauge.clone();
        let job = ax.job("nap", move |_| gauge.nap());
        job.lane(&lane).submit().expect("spilled")
    });
    let jobs: Vec<_> = jobs.collect();
    let spilled = std::mem::take(&mut *store.0.lock().expect("whole"));
    assert_eq!(spilled.len(), JOBS - 1);
    for job in spilled {
        let place = lane.ready().await.expect("open");
        job.submit_to(place).expect("fits");
    }
    join_all(jobs).await;
    check(&lane, &gauge, JOBS);
}

/// Threads of the blocking pool. They sleep for real, for a few milliseconds.
#[tokio::test]
async fn blocking_jobs_keep_to_the_limit() {
    let ax = Scheduler::new();
    let (lane, gauge) = (open(&ax, "blocking"), Gauge::default());
    let blocking = BlockingLane::new(&lane);
    let jobs = (0..JOBS).map(|_| {
        let gauge = gauge.clone();
        let closure = move |_| {
            let _inside = gauge.enter();
            // Until another has been there too, so that the limit is reached on a slow machine as well.
            while gauge.0.1.load(SeqCst) < LIMIT {
                thread::yield_now();
            }
            Ok::<_, Infallible>(())
        };
        blocking.submit("nap", closure).expect("room")
    });
    join_all(jobs.collect::<Vec<_>>()).await;
    check(&lane, &gauge, JOBS);
}
