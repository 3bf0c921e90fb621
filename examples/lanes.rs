//! The third step: work as jobs in lanes. Limits, priorities and timeouts are kept for you, and every queue is seen.
//!
//! ```text
//! cargo run --release --example lanes
//! ```

use std::{error::Error, time::Duration};

use ax_probe::Probe;
use ax_scheduler::{Scheduler, SubmitError};
use tokio::time::sleep;

/// Offers `pages` pages to a lane that recognizes five at once and queues at most a hundred. Returns how many were
/// recognized and how many were turned away at once.
///
/// # Errors
///
/// When the probe cannot be installed, the lane cannot be opened, or a job fails.
pub async fn run(pages: u32) -> Result<(u32, u32), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("lanes").install()?;
    let ax = Scheduler::new();
    let ocr = ax
        .lane("ocr")
        .limit(5)
        .capacity(100)
        .timeout(Duration::from_secs(3))
        .open()?;
    let (mut accepted, mut turned_away) = (Vec::new(), 0);
    for page in 0..pages {
        let job = ax.job("recognize", move |_| async move {
            sleep(Duration::from_millis(20)).await;
            Ok::<u32, std::convert::Infallible>(page)
        });
        match job.lane(&ocr).submit() {
            Ok(handle) => accepted.push(handle),
            Err(SubmitError::Full { .. }) => turned_away += 1,
            Err(other) => return Err(other.into()),
        }
    }
    let mut recognized = 0;
    for handle in accepted {
        handle.await?;
        recognized += 1;
    }
    Ok((recognized, turned_away))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (recognized, turned_away) = run(120).await?;
    println!("{recognized} pages recognized, {turned_away} turned away at once");
    Ok(())
}
