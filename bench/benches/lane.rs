//! A full job, submit to result, against the same by hand: *bare* (a task behind a semaphore) and *observed* (that with
//! timeout, token, histograms and trace id). The submitter is a task of the runtime; a ratio above 1 says that the lane is
//! faster. All sides take turns in one process, and each ratio is the median over the rounds.
//!
//! What is on two workers is elapsed time, which a machine that has other work to do falsifies, and not evenly: each wake
//! of a thread then costs a turn of the kernel's scheduler. Run it with real-time priority (`chrt -f 5`) there, or count
//! instructions: `count SIDE BURST JOBS WORKERS` as arguments runs one side alone (`lane`, `bare`, `observed`), and the
//! difference of two runs of different length, divided by that of their jobs, is what one job takes. `results/README.md`
//! has what came of it.

use std::{
    convert::Infallible,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use ax_bench::{Budget, Table, median};
use ax_scheduler::{Lane, Scheduler};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

const LIMIT: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(5);
const JOBS: usize = 30_000;
const ROUNDS: usize = 15;

#[derive(Clone, Copy)]
enum Side {
    Lane,
    Bare,
    Observed,
}

impl Side {
    fn named(name: &str) -> Option<Self> {
        match name {
            "lane" => Some(Self::Lane),
            "bare" => Some(Self::Bare),
            "observed" => Some(Self::Observed),
            _ => None,
        }
    }
}

struct Sides {
    ax: Scheduler,
    lane: Lane,
    slots: Arc<Semaphore>,
    shutdown: CancellationToken,
    waits: Arc<Mutex<Histogram<u32>>>,
    runs: Arc<Mutex<Histogram<u32>>>,
}

/// Ready at its first poll.
fn body(number: u64) -> impl Future<Output = Result<u64, Infallible>> + Send {
    std::future::ready(Ok(std::hint::black_box(number) + 1))
}

impl Sides {
    fn new(runtime: &Runtime) -> Self {
        let ax = Scheduler::builder().runtime(runtime.handle().clone());
        let ax = ax.build();
        let lane = ax.lane("bench").limit(LIMIT).timeout(TIMEOUT);
        let lane = lane.capacity(100_000).open().expect("opens");
        let histogram = || {
            let new = Histogram::new_with_bounds(1, 86_400_000_000, 2);
            Arc::new(Mutex::new(new.expect("in range")))
        };
        Self {
            ax,
            lane,
            slots: Arc::new(Semaphore::new(LIMIT)),
            shutdown: CancellationToken::new(),
            waits: histogram(),
            runs: histogram(),
        }
    }

    async fn bare(&self, number: u64) -> JoinHandle<u64> {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        tokio::spawn(async move {
            let Ok(value) = body(number).await;
            drop(slot);
            value
        })
    }

    async fn observed(&self, number: u64) -> JoinHandle<Option<u64>> {
        let trace = fastrand::u128(1..);
        let token = self.shutdown.child_token();
        let ready = Instant::now();
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let (waits, runs) = (Arc::clone(&self.waits), Arc::clone(&self.runs));
        tokio::spawn(async move {
            let started = Instant::now();
            let wait = started.duration_since(ready).as_micros() as u64;
            waits.lock().record(wait.max(1)).ok();
            std::hint::black_box(trace);
            let value = tokio::select! {
                value = tokio::time::timeout(TIMEOUT, body(number)) => value.ok(),
                () = token.cancelled() => None,
            };
            let run = started.elapsed().as_micros() as u64;
            runs.lock().record(run.max(1)).ok();
            drop(slot);
            value.map(|Ok(value)| value)
        })
    }

    /// Submits and awaits `jobs` jobs, so many at a time.
    async fn run(&self, side: Side, burst: usize, jobs: usize) {
        for _ in 0..jobs / burst {
            let numbers = 0..burst as u64;
            match side {
                Side::Lane => {
                    let submit = |number| {
                        let job = self.ax.job("bench", move |_| body(number));
                        job.lane(&self.lane).submit().expect("room")
                    };
                    let jobs: Vec<_> = numbers.map(submit).collect();
                    for job in jobs {
                        job.await.expect("success");
                    }
                }
                Side::Bare => {
                    let mut jobs = Vec::with_capacity(burst);
                    for number in numbers {
                        jobs.push(self.bare(number).await);
                    }
                    for job in jobs {
                        job.await.expect("no panic");
                    }
                }
                Side::Observed => {
                    let mut jobs = Vec::with_capacity(burst);
                    for number in numbers {
                        jobs.push(self.observed(number).await);
                    }
                    for job in jobs {
                        job.await.expect("no panic").expect("in time");
                    }
                }
            }
        }
    }
}

/// CPU time of this thread: what others do on the machine is not ours.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// For each job: CPU time where all happens on this thread, elapsed time where it does not.
fn nanos(runtime: &Runtime, sides: &Arc<Sides>, side: Side, burst: usize) -> f64 {
    let sides = Arc::clone(sides);
    if runtime.metrics().num_workers() == 1 {
        let began = cpu_ns();
        runtime
            .block_on(async move {
                tokio::spawn(async move { sides.run(side, burst, JOBS).await }).await
            })
            .expect("no panic");
        return (cpu_ns() - began) / JOBS as f64;
    }
    let task = runtime.spawn(async move {
        let began = Instant::now();
        sides.run(side, burst, JOBS).await;
        began.elapsed().as_nanos() as f64 / JOBS as f64
    });
    runtime.block_on(task).expect("no panic")
}

fn runtime(workers: usize) -> Runtime {
    let mut builder = if workers == 1 {
        Builder::new_current_thread()
    } else {
        Builder::new_multi_thread()
    };
    builder.worker_threads(workers).enable_time();
    builder.build().expect("builds")
}

/// Runs one side alone, for a tool that counts what it does. `None` where the arguments are no such request.
fn count(args: &[String]) -> Option<()> {
    let [word, side, burst, jobs, workers, ..] = args else {
        return None;
    };
    let side = Side::named(side).filter(|_| word == "count")?;
    let [burst, jobs, workers] = [burst, jobs, workers].map(|number| number.parse().ok());
    let (burst, jobs) = (burst?, jobs?);
    let runtime = runtime(workers?);
    let sides = Sides::new(&runtime);
    let task = runtime.spawn(async move { sides.run(side, burst, jobs).await });
    runtime.block_on(task).expect("no panic");
    Some(())
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if count(&args).is_some() {
        return ExitCode::SUCCESS;
    }
    let mut table = Table::new("lane");
    for (threads, workers) in [("2 workers", 2), ("1 thread", 1)] {
        let runtime = runtime(workers);
        let sides = Arc::new(Sides::new(&runtime));
        for burst in [3_000, 100, 1] {
            let mut times = [const { Vec::new() }; 3];
            let mut ratios = [const { Vec::new() }; 2];
            for round in 0..=ROUNDS {
                let order = [Side::Lane, Side::Bare, Side::Observed];
                let mut took = [0.0; 3];
                for turn in 0..3 {
                    // Who goes first changes, so that none always meets a cold or a warm machine.
                    let side = (turn + round) % 3;
                    took[side] = nanos(&runtime, &sides, order[side], burst);
                }
                // The first round warms up.
                if round > 0 {
                    (0..3).for_each(|side| times[side].push(took[side]));
                    ratios[0].push(took[1] / took[0]);
                    ratios[1].push(took[2] / took[0]);
                }
            }
            let case = if burst == 1 {
                format!("{threads}, one at a time")
            } else {
                format!("{threads}, bursts of {burst}")
            };
            for (name, times) in ["lane", "bare", "observed"].iter().zip(times) {
                table.row(&format!("{case}: {name}, ns"), median(times), Budget::None);
            }
            let [bare, observed] = ratios.map(median);
            let (over_bare, over_observed) = if burst == 1 { (1.0, 2.0) } else { (1.5, 3.0) };
            table.row(
                &format!("{case}: over bare"),
                bare,
                Budget::AtLeast(over_bare),
            );
            table.row(
                &format!("{case}: over observed"),
                observed,
                Budget::AtLeast(over_observed),
            );
        }
    }
    table.finish()
}
