//! The second step: tasks with names. A poll that does not return is then named while it is stuck.
//!
//! ```text
//! cargo run --release --example named_tasks
//! ```

use std::{error::Error, thread, time::Duration};

use ax_probe::Probe;
use tokio::time::{interval, sleep};

/// Ten quick tasks a second, and now and then one that blocks its worker for `block`, for `rounds` seconds.
///
/// # Errors
///
/// When the probe cannot be installed, or a task panics.
pub async fn run(rounds: u32, block: Duration) -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("named-tasks").install()?;
    let mut seconds = interval(Duration::from_secs(1));
    for _ in 0..rounds {
        seconds.tick().await;
        for _ in 0..10 {
            ax_probe::spawn("resize_image", async {
                sleep(Duration::from_millis(20)).await;
            });
        }
        // The fault to look for: a blocking call inside a poll.
        ax_probe::spawn("read_config", async move { thread::sleep(block) }).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    run(600, Duration::from_millis(120)).await
}
