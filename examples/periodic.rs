//! A job that comes back on a schedule: at whole periods, however long a run takes, and never in a burst.
//!
//! ```text
//! cargo run --release --example periodic
//! ```

use std::{
    error::Error,
    io,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use ax_probe::Probe;
use ax_scheduler::{JobContext, Scheduler};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

/// Every `period`, a run that takes a third of it, but for the third run, which takes two and a half. Returns when the
/// first `runs` began, from the start.
///
/// # Errors
///
/// When the lane cannot be opened.
pub async fn run(
    period: Duration,
    runs: usize,
) -> Result<Vec<Duration>, Box<dyn Error + Send + Sync>> {
    let ax = Scheduler::new();
    let lane = ax.lane("sync").limit(1).open()?;
    let (report, mut reports) = mpsc::unbounded_channel();
    let (start, number) = (Instant::now(), AtomicU32::new(0));
    let every = lane.periodic("sync_stock", period, move |_: JobContext| {
        let third = number.fetch_add(1, Relaxed) == 2;
        // Nobody listens any more when the example is over.
        let _ = report.send(start.elapsed());
        async move {
            sleep(if third { period * 5 / 2 } else { period / 3 }).await;
            Ok::<_, io::Error>(())
        }
    })?;
    let mut times = Vec::new();
    while times.len() < runs
        && let Some(time) = reports.recv().await
    {
        times.push(time);
    }
    drop(every);
    ax.shutdown().await;
    Ok(times)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("periodic").install()?;
    for time in run(Duration::from_millis(200), 8).await? {
        println!("{:>6.1} ms", time.as_secs_f64() * 1e3);
    }
    Ok(())
}
