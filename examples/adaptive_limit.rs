//! A limit that finds itself: it rises while the downstream answers in time, and falls when that slows down.
//!
//! ```text
//! cargo run --release --example adaptive_limit
//! ```

use std::{
    convert::Infallible,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_probe::Probe;
use ax_scheduler::{JobContext, Scheduler, downstream, limit::AdaptiveLimit};
use tokio::time::sleep;

/// What a call takes as long as the database has room.
pub const CALL: Duration = Duration::from_millis(20);

/// A database that has room for so many calls: above that, all of them get slower.
#[derive(Clone)]
struct Database {
    room: u32,
    inside: Arc<AtomicU32>,
}

impl Database {
    async fn query(self) -> Result<(), Infallible> {
        let inside = self.inside.fetch_add(1, Relaxed) + 1;
        sleep(CALL * inside.max(self.room) / self.room).await;
        self.inside.fetch_sub(1, Relaxed);
        Ok(())
    }
}

/// Sends so many queries through a lane that begins at a limit of 2 and aims at twice the time of a call. Returns the
/// limit at which it arrives.
///
/// # Errors
///
/// When the lane cannot be opened, or takes a query no more.
pub async fn run(room: u32, queries: usize) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let ax = Scheduler::new();
    let lane = ax.lane("db").limit(2).capacity(queries);
    let lane = lane
        .adaptive(AdaptiveLimit::new(2..=500, CALL * 2))
        .open()?;
    let database = Database {
        room,
        inside: Arc::default(),
    };
    let db = downstream("database");
    let mut jobs = Vec::new();
    for _ in 0..queries {
        let database = database.clone();
        let query = move |_: JobContext| async move { db.call(database.query()).await };
        jobs.push(ax.job("query", query).lane(&lane).submit()?);
    }
    for job in jobs {
        job.await?;
    }
    let limit = lane.counts().limit;
    ax.shutdown().await;
    Ok(limit)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("adaptive-limit").install()?;
    for room in [10, 40] {
        let limit = run(room, 5_000).await?;
        println!("a database with room for {room}: a limit of {limit}");
    }
    Ok(())
}
