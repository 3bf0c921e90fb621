//! F52-F54: the retry storm. A downstream is down for a while, and 200 jobs fail at it at once; each is tried again up to
//! five times. The curve is the number of calls that the downstream sees in each second, without jitter, with it, and with
//! a retry budget of 100 a minute besides. Under paused time: every figure is exact and the same in each run.

use std::{process::ExitCode, sync::Arc, time::Duration};

use ax_bench::{Budget, Table};
use ax_scheduler::{Backoff, RetryBudget, Scheduler};
use parking_lot::Mutex;
use tokio::{runtime::Builder, time::Instant};

const JOBS: usize = 200;
const RETRIES: u32 = 5;
const BUDGET: u32 = 100;

/// Nothing gets through until then.
const DOWN: Duration = Duration::from_secs(10);

/// Seconds of the curve that are told one by one.
const TOLD: usize = 20;

/// Calls, by the millisecond in which they came.
fn storm(backoff: Backoff, budget: Option<RetryBudget>) -> Vec<u64> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    let runtime = runtime.expect("builds");
    runtime.block_on(async {
        let mut builder = Scheduler::builder();
        if let Some(budget) = budget {
            builder = builder.retry_budget(budget);
        }
        let ax = builder.build();
        let lane = ax.lane("storm").limit(JOBS).open().expect("opens");
        let began = Instant::now();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let submit = |_| {
            let calls = Arc::clone(&calls);
            let job = ax.job("call", move |_| async move {
                let at = began.elapsed();
                calls.lock().push(at.as_millis() as u64);
                if at < DOWN { Err("down") } else { Ok(()) }
            });
            let job = job.lane(&lane).retry(backoff.retries(RETRIES)).submit();
            job.expect("room")
        };
        for job in (0..JOBS).map(submit).collect::<Vec<_>>() {
            // Some give up before the downstream is back.
            let _ = job.await;
        }
        let mut calls = calls.lock().clone();
        calls.sort_unstable();
        calls
    })
}

/// The most calls in any span of so many milliseconds, of those after the first, which come at once in any case.
fn peak(calls: &[u64], span_ms: u64) -> usize {
    let retries = &calls[JOBS..];
    let within = |(at, from): (usize, &u64)| {
        let until = from + span_ms;
        retries[at..].partition_point(|call| *call < until)
    };
    retries.iter().enumerate().map(within).max().unwrap_or(0)
}

fn main() -> ExitCode {
    let mut table = Table::new("storm");
    let budget = RetryBudget::per_minute(BUDGET);
    let fixed = Backoff::fixed(Duration::from_secs(2)).jitter(Duration::ZERO);
    let doubling = Backoff::exponential().jitter(Duration::ZERO);
    let cases = [
        ("fixed, no jitter", fixed, None, [None, None]),
        ("doubling, no jitter", doubling, None, [None, None]),
        (
            "doubling, jitter",
            Backoff::exponential(),
            None,
            [Some(80), None],
        ),
        (
            "doubling, jitter, budget",
            Backoff::exponential(),
            Some(budget),
            // One more where a minute begins just after a call.
            [Some(80), Some(BUDGET + 1)],
        ),
    ];
    for (name, backoff, budget, [most_at_once, most_in_a_minute]) in cases {
        let calls = storm(backoff, budget);
        let most =
            |most: Option<u32>| most.map_or(Budget::None, |most| Budget::AtMost(most.into()));
        let mut tell = |what: &str, value: usize, budget| {
            table.row(&format!("{name}: {what}"), value as f64, budget);
        };
        tell("calls", calls.len(), Budget::None);
        tell(
            "most retries in 100 ms",
            peak(&calls, 100),
            most(most_at_once),
        );
        tell(
            "most retries in a minute",
            peak(&calls, 60_000),
            most(most_in_a_minute),
        );
        let last_s = calls.last().map_or(0, |last| last / 1_000);
        tell("last call, s", last_s as usize, Budget::None);
        for second in 0..TOLD {
            let within = |call: &&u64| **call / 1_000 == second as u64;
            let count = calls.iter().filter(within).count();
            tell(&format!("calls in second {second}"), count, Budget::None);
        }
    }
    table.finish()
}
