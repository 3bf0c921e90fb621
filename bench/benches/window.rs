//! `F76`: a hundred calls of 20 ms through a window of twenty, against five single calls that are measured in the same
//! run, in turns. What the window adds is its own work; what a call takes beyond 20 ms is the timer's.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use ax_bench::{
    Budget::{AtMost, None as Told},
    Table, median,
};
use ax_scheduler::{JobContext, Lane, Scheduler, window};
use tokio::{
    runtime::{Builder, Runtime},
    time::sleep,
};

const CALL: Duration = Duration::from_millis(20);
const CALLS: u32 = 100;
const WINDOW: usize = 20;
const ROUNDS: usize = 21;

fn main() -> ExitCode {
    let mut table = Table::new("window");
    let virtual_ms = virtual_time().as_secs_f64() * 1e3;
    table.row("window, paused time, ms", virtual_ms, AtMost(100.0));

    let runtime = runtime(false);
    let (ax, lane) = runtime.block_on(async { open() });
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(runtime.block_on(async {
            let single = timed(one_by_one(5)).await;
            let windowed = timed(windowed()).await;
            let jobs = timed(batch(&lane)).await;
            [single, windowed, jobs].map(|took| took.as_secs_f64() * 1e3)
        }));
    }
    runtime.block_on(ax.shutdown());
    let column = |of: fn(&[f64; 3]) -> f64| median(rounds.iter().map(of).collect());
    table.row("five single calls, ms", column(|round| round[0]), Told);
    table.row("window, ms", column(|round| round[1]), Told);
    table.row(
        "window / five calls",
        column(|round| round[1] / round[0]),
        AtMost(1.05),
    );
    table.row("batch of jobs, ms", column(|round| round[2]), Told);
    table.row(
        "batch of jobs / five calls",
        column(|round| round[2] / round[0]),
        AtMost(1.05),
    );
    table.finish()
}

fn runtime(paused: bool) -> Runtime {
    let mut builder = Builder::new_current_thread();
    let built = builder.enable_all().start_paused(paused).build();
    built.expect("a runtime without threads of its own")
}

fn open() -> (Scheduler, Lane) {
    let ax = Scheduler::new();
    let lane = ax.lane("window").limit(WINDOW).open();
    let lane = lane.expect("a name and a limit in range");
    (ax, lane)
}

async fn timed<F: Future<Output = ()>>(work: F) -> Duration {
    let began = Instant::now();
    work.await;
    began.elapsed()
}

async fn one_by_one(calls: u32) {
    for _ in 0..calls {
        sleep(CALL).await;
    }
}

async fn windowed() {
    window(WINDOW, 0..CALLS, |_| sleep(CALL)).await;
}

/// The same calls as jobs of a lane with this limit.
async fn batch(lane: &Lane) {
    let body = |_: JobContext, _: u32| async {
        sleep(CALL).await;
        Ok::<_, std::convert::Infallible>(())
    };
    lane.batch("call", WINDOW, 0..CALLS, body).await;
}

/// What the window takes where nothing else takes time.
fn virtual_time() -> Duration {
    runtime(true).block_on(async {
        let began = tokio::time::Instant::now();
        windowed().await;
        began.elapsed()
    })
}
