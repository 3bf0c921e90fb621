//! Jobs as data, in lanes with limits, priorities and timeouts, visible while they run.
//!
//! ```
//! # use std::time::Duration;
//! use ax_scheduler::{JobContext, Scheduler};
//!
//! async fn calc(cx: JobContext) -> Result<u32, std::io::Error> {
//!     // Long work looks at `cx.is_cancelled()` now and then, or selects on `cx.cancelled()`.
//!     Ok(if cx.is_cancelled() { 0 } else { 42 })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ax = Scheduler::new();
//! let db = ax.lane("db").limit(40).timeout(Duration::from_secs(10)).open()?;
//!
//! let month = 11;
//! let report = ax
//!     .job("calc_report", move |cx| async move { Ok::<_, std::io::Error>(calc(cx).await? + month) })
//!     .lane(&db)
//!     .priority(70)
//!     .timeout(Duration::from_secs(5))
//!     .submit()?;
//! assert_eq!(report.await?, 53);
//!
//! ax.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! - A [`Lane`] runs at most `limit` jobs at once and queues at most `capacity`; one more is refused with
//!   [`SubmitError::Full`]. The highest priority goes first, first in first out among equals.
//! - Whatever happens to a job (error, panic, timeout, cancellation, the runtime's end), its [`JobHandle`] resolves, its
//!   slot is free again, and it is counted once.
//! - A job that is submitted inside a job inherits its trace.
//! - Every lane and job type shows in `ax-top` where the service has a probe (`ax_probe`).
//! - All time is tokio's: under `tokio::time::pause` a test moves timeouts by hand.

mod batch;
mod blocking;
mod buckets;
mod cell;
mod context;
mod downstream;
mod error;
mod guard;
mod handle;
mod job;
mod lane;
pub mod limit;
#[cfg(test)]
mod model;
mod order;
mod periodic;
mod place;
mod policy;
pub mod priority;
mod repeats;
mod room;
mod runner;
mod scheduler;
mod settings;
mod shared;
mod slots;
mod snapshot;
mod state;
mod stream;
mod time;
mod types;

pub use ax_probe::{self as probe, trace};
pub use ax_wire::{
    JobId, TraceId,
    sample::{DownstreamSample, LaneSample, PoolSample},
};

pub use batch::{BatchError, window};
pub use blocking::BlockingLane;
pub use context::JobContext;
pub use downstream::{
    Downstream, InjectionNotAllowed, MAX_CALLERS, MAX_DOWNSTREAMS, MAX_OLDEST, downstream,
};
pub use error::{JobError, LaneError, SubmitError};
pub use handle::JobHandle;
pub use job::JobBuilder;
pub use lane::{
    DEFAULT_CANCEL_GRACE, DEFAULT_CAPACITY, DEFAULT_HIGH_WATER_PERCENT, DEFAULT_LANE,
    DEFAULT_LIMIT, Lane, LaneBuilder, MAX_CAPACITY, MAX_LIMIT,
};
pub use order::Ageing;
pub use periodic::Periodic;
pub use place::Place;
pub use policy::{FullPolicy, Spill, SpilledJob};
pub use scheduler::{DEFAULT_SHUTDOWN_GRACE, Scheduler, SchedulerBuilder};
pub use snapshot::{LaneSnapshot, RunningJob, Snapshot};
pub use state::JobState;
pub use stream::{Page, RowCounts, for_each_row, pages};
