//! F15, F28: what a job costs, in time and memory, whatever the backlog.

use std::{convert::Infallible, process::ExitCode};

use ax_bench::{Budget, Table, median, resident_bytes};
use ax_scheduler::{Lane, Scheduler, SubmitError};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

const LIMIT: usize = 10;
const ROUNDS: usize = 9;

/// Bytes of the closure that the jobs carry: one counter.
const CLOSURE: f64 = 8.0;

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("builds")
}

fn lane(runtime: &Runtime, capacity: usize) -> (Scheduler, Lane) {
    let ax = Scheduler::builder().runtime(runtime.handle().clone());
    let ax = ax.build();
    let lane = ax.lane("scale").limit(LIMIT).capacity(capacity).open();
    (ax, lane.expect("opens"))
}

/// Nobody waits for these: their handles are dropped.
fn submit(ax: &Scheduler, lane: &Lane, number: u64) -> Result<(), SubmitError> {
    let job = ax.job("scale", move |_| async move {
        std::hint::black_box(number);
        Ok::<_, Infallible>(())
    });
    let priority = 1 + (number % 100) as u8;
    job.lane(lane).priority(priority).submit().map(drop)
}

/// CPU time of this thread: what others do on the machine is not ours.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds of CPU for each of `pending` jobs, submitted while none runs, then run to the end. All of it is on this
/// thread.
fn cost(pending: u64) -> f64 {
    let runtime = runtime();
    let (ax, lane) = lane(&runtime, pending as usize);
    let began = cpu_ns();
    for number in 0..pending {
        submit(&ax, &lane, number).expect("room");
    }
    runtime.block_on(async {
        while lane.counts().counters.finished_total() < pending {
            tokio::task::yield_now().await;
        }
    });
    (cpu_ns() - began) / pending as f64
}

/// In memory that nothing has used before.
fn memory(table: &mut Table) {
    let runtime = runtime();
    let cap = 6_000_000;
    let (ax, lane) = lane(&runtime, cap);
    let before = resident_bytes();
    let mut at_million = 0.0;
    for number in 0..cap as u64 {
        submit(&ax, &lane, number).expect("room");
        if number == 999_999 {
            at_million = resident_bytes() - before;
        }
    }
    let at_cap = resident_bytes();
    let each = (at_cap - before) / cap as f64 - CLOSURE;
    table.row(
        "bytes a pending job at 1000000, without its closure",
        at_million / 1e6 - CLOSURE,
        Budget::AtMost(200.0),
    );
    table.row(
        "bytes a pending job at 6000000, without its closure",
        each,
        Budget::AtMost(200.0),
    );
    table.row(
        "GB of the process with 6000000 pending",
        at_cap / 1e9,
        Budget::AtMost(1.5),
    );
    let refused = (0..1_000).filter(|number| {
        let refused = submit(&ax, &lane, *number);
        matches!(refused, Err(SubmitError::Full { .. }))
    });
    table.row(
        "refused of 1000 past the cap",
        refused.count() as f64,
        Budget::AtLeast(1_000.0),
    );
    runtime.block_on(async {
        while lane.counts().counters.finished_total() < cap as u64 {
            tokio::task::yield_now().await;
        }
    });
    let counts = lane.counts();
    let lost = cap as u64 - counts.counters.succeeded_total;
    table.row("lost of 6000000", lost as f64, Budget::AtMost(0.0));
    table.row(
        "high-water events on the way",
        counts.overload.high_water_total as f64,
        Budget::AtLeast(1.0),
    );
}

fn time(table: &mut Table) {
    let cases = [10_000, 100_000, 1_000_000];
    let mut costs = [const { Vec::new() }; 3];
    // All sizes in turn, so that a busy machine is busy for all of them.
    for _ in 0..ROUNDS {
        for (case, costs) in cases.iter().zip(&mut costs) {
            // The small ones more often, for as many jobs.
            let times = (100_000 / case).max(1);
            let measured = (0..times).map(|_| cost(*case)).collect();
            costs.push(median(measured));
        }
    }
    let costs = costs.map(median);
    for (case, cost) in cases.iter().zip(costs) {
        table.row(
            &format!("CPU ns a job at {case} pending"),
            cost,
            Budget::None,
        );
    }
    table.row(
        "cost at 1000000 over cost at 10000",
        costs[2] / costs[0],
        Budget::AtMost(1.5),
    );
}

fn main() -> ExitCode {
    let mut table = Table::new("scale");
    memory(&mut table);
    time(&mut table);
    table.finish()
}
