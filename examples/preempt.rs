//! Long work that gives way: reports are calculated in the slots that nobody else needs, and a payment that finds all
//! slots taken begins at once, in the slot of a report that is put back and begins anew.
//!
//! ```text
//! cargo run --release --example preempt
//! ```

use std::{convert::Infallible, error::Error, time::Duration};

use ax_probe::Probe;
use ax_scheduler::{JobContext, Scheduler};
use tokio::time::{Instant, sleep};

/// Jobs that run at once.
pub const LIMIT: usize = 4;

/// What a report takes.
pub const REPORT: Duration = Duration::from_secs(1);

/// What a payment takes.
pub const PAYMENT: Duration = Duration::from_millis(50);

/// How it went.
#[derive(Debug)]
pub struct Day {
    /// How long the slowest payment took, from its submit on.
    pub slowest_payment: Duration,
    /// Reports that were put back.
    pub preempted: u64,
    /// Reports that are done.
    pub reports: u64,
}

/// Calculates so many reports, and takes a payment every 200 ms meanwhile. Reports give way where `preempt` says so.
///
/// # Errors
///
/// When the lane cannot be opened, takes a job no more, or a job fails.
pub async fn run(
    reports: usize,
    payments: usize,
    preempt: bool,
) -> Result<Day, Box<dyn Error + Send + Sync>> {
    let ax = Scheduler::new();
    let lane = ax.lane("office").limit(LIMIT).preempt(preempt);
    // What a report has calculated so far is worth nothing: it needs no time to put anything away.
    let lane = lane.cancel_grace(Duration::ZERO).open()?;
    let mut calculated = Vec::new();
    for number in 0..reports {
        let report = ax.job("report", move |_: JobContext| async move {
            sleep(REPORT).await;
            Ok::<_, Infallible>(number)
        });
        let report = report.preemptible().priority(10);
        calculated.push(report.lane(&lane).submit()?);
    }
    let mut slowest_payment = Duration::ZERO;
    for _ in 0..payments {
        sleep(Duration::from_millis(200)).await;
        let came = Instant::now();
        let payment = ax.job("payment", |_: JobContext| async {
            sleep(PAYMENT).await;
            Ok::<_, Infallible>(())
        });
        payment.lane(&lane).priority(90).submit()?.await?;
        slowest_payment = slowest_payment.max(came.elapsed());
    }
    let mut done = 0;
    for report in calculated {
        report.await?;
        done += 1;
    }
    let preempted = lane.counts().preempted_total;
    ax.shutdown().await;
    Ok(Day {
        slowest_payment,
        preempted,
        reports: done,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("preempt").install()?;
    for preempt in [false, true] {
        let day = run(12, 5, preempt).await?;
        println!("reports give way: {preempt}; {day:?}");
    }
    Ok(())
}
