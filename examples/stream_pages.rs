//! A table that is larger than memory: pages of 500 rows, and a window of 20 calls on them.
//!
//! ```text
//! cargo run --release --example stream_pages
//! ```

use std::{error::Error, io, time::Duration};

use ax_probe::Probe;
use ax_scheduler::{JobContext, Page, RowCounts, Scheduler, for_each_row, pages};
use tokio::time::sleep;

/// Rows of a page.
pub const PAGE: u64 = 500;

/// Rows under way at once.
pub const WINDOW: usize = 20;

/// Stands for `SELECT .. WHERE id >= from ORDER BY id LIMIT 500`.
async fn select(from: u64, rows: u64) -> io::Result<Page<u64, u64>> {
    sleep(Duration::from_millis(5)).await;
    let end = rows.min(from + PAGE);
    Ok(Page {
        rows: (from..end).collect(),
        next: (end < rows).then_some(end),
    })
}

/// Stands for a call on one row; every hundredth fails.
async fn export(row: u64) -> io::Result<()> {
    sleep(Duration::from_millis(1)).await;
    if row % 100 == 99 {
        Err(io::Error::other("this row cannot be exported"))
    } else {
        Ok(())
    }
}

/// Exports a table of so many rows inside one job. However many there are, one page and one window are in memory.
///
/// # Errors
///
/// When a page cannot be read.
pub async fn run(rows: u64) -> Result<RowCounts, Box<dyn Error + Send + Sync>> {
    let ax = Scheduler::new();
    let job = ax.job("export_table", move |_: JobContext| {
        let rows = pages(0, move |from| select(from, rows));
        for_each_row(WINDOW, rows, export)
    });
    let counts = job.submit()?.await?;
    ax.shutdown().await;
    Ok(counts)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("stream-pages").install()?;
    let counts = run(20_000).await?;
    println!(
        "{} rows exported, {} failed",
        counts.succeeded, counts.failed
    );
    Ok(())
}
