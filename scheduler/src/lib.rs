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
//! A job may depend on others, by handle or by a name that is still to come, and be tried again:
//!
//! ```
//! # use std::{io, time::Duration};
//! # use ax_scheduler::{Backoff, JobContext, Scheduler};
//! # async fn fetch(cx: JobContext) -> Result<(), io::Error> { Ok(()) }
//! # async fn calc(cx: JobContext) -> Result<u32, io::Error> { Ok(42) }
//! # fn secs(seconds: u64) -> Duration { Duration::from_secs(seconds) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let ax = Scheduler::new();
//! let sales = ax.job("fetch_sales", fetch).submit()?;
//! let stock = ax.job("fetch_stock", fetch).submit()?;
//! let ads = ax.job("fetch_ads", fetch).submit()?;
//! let report = ax.job("calc_report", calc).after([&sales, &stock, &ads]).priority(70).timeout(secs(5)).retry(Backoff::exponential()).submit()?;
//! assert_eq!(report.await?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! Or be data: a name, a payload and options, run by a handler that was registered for the name.
//!
//! ```
//! # use std::{io, time::Duration};
//! # use ax_scheduler::{Backoff, JobContext, Scheduler};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let ax = Scheduler::new();
//! # // F18
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Mail {
//!     to: String,
//! }
//!
//! ax.register("send_mail", |_cx: JobContext, mail: Mail| async move {
//!     Ok::<_, io::Error>(format!("sent to {}", mail.to))
//! })?;
//! let mail = Mail { to: "a@b.c".into() };
//! let job = ax
//!     .job_from("send_mail", &mail)?
//!     .priority(70)
//!     .timeout(Duration::from_secs(5))
//!     .retry(Backoff::exponential().retries(2))
//!     .submit()?;
//! assert_eq!(job.await?, "sent to a@b.c");
//! # Ok(())
//! # }
//! ```
//!
//! - A [`Lane`] runs at most `limit` jobs at once and queues at most `capacity`; one more is refused with
//!   [`SubmitError::Full`]. The highest priority goes first, first in first out among equals.
//! - In a lane that preempts ([`LaneBuilder::preempt`]), a job that finds all slots taken stops a lower one that allows it
//!   ([`JobBuilder::preemptible`]), which is queued again and begins anew.
//! - A job that waits, for a time ([`JobBuilder::delay`]), for others ([`JobBuilder::after`]) or for its next attempt
//!   ([`JobBuilder::retry`]), holds no slot. As many may wait as the capacity lets queue.
//! - What happens to jobs is told to listeners ([`Scheduler::subscribe`]), to a sink ([`SchedulerBuilder::on_event`]) and
//!   to the log (target `ax::job`); what stands where is a [`Scheduler::page`] away.
//! - Whatever happens to a job (error, panic, timeout, cancellation, the runtime's end), its [`JobHandle`] resolves, its
//!   slot is free again, and it is counted once.
//! - A job that is submitted inside a job inherits its trace.
//! - Every lane and job type shows in `ax-top` where the service has a probe (`ax_probe`).
//! - All time is tokio's: under `tokio::time::pause` a test moves timeouts by hand.

mod answers;
mod backoff;
mod batch;
mod blocking;
mod body;
mod buckets;
mod budget;
mod cell;
mod context;
mod control;
mod downstream;
mod error;
mod events;
mod flight;
mod guard;
mod handle;
mod handler;
mod hub;
mod job;
mod job_ref;
mod lane;
mod ledger;
pub mod limit;
pub mod load;
#[cfg(test)]
mod model;
mod order;
mod page;
mod periodic;
mod place;
mod plan;
mod policy;
mod preset;
pub mod priority;
mod records;
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
mod summary;
mod time;
mod timer;
mod types;
mod waiting_jobs;
mod waits;

pub use ax_probe::{self as probe, trace};
pub use ax_wire::{
    JobId, TraceId,
    incident::WaitsFor,
    sample::{DownstreamSample, LaneSample, PoolSample},
};

pub use backoff::{
    Backoff, DEFAULT_BACKOFF_CAP, DEFAULT_JITTER, DEFAULT_RETRIES, MAX_DELAY, Retry,
};
pub use batch::{BatchError, window};
pub use blocking::BlockingLane;
pub use body::{Again, Body, Once};
pub use budget::{MAX_BUDGET, RetryBudget};
pub use context::JobContext;
pub use downstream::{
    Downstream, InjectionNotAllowed, MAX_CALLERS, MAX_DOWNSTREAMS, MAX_OLDEST, downstream,
};
pub use error::{DuplicateHandler, JobError, LaneError, SubmitError};
pub use events::{DEFAULT_EVENT_CAPACITY, JobEvent, JobEventKind, JobEvents, MAX_EVENT_CAPACITY};
pub use handle::JobHandle;
pub use handler::HandlerBody;
pub use hub::{DEFAULT_REMEMBER, DEFAULT_REMEMBER_COUNT};
pub use job::{JobBuilder, Submitted};
pub use job_ref::JobRef;
pub use lane::{
    DEFAULT_CANCEL_GRACE, DEFAULT_CAPACITY, DEFAULT_HIGH_WATER_PERCENT, DEFAULT_LANE,
    DEFAULT_LIMIT, DEFAULT_SLOW_PERCENT, Lane, LaneBuilder, MAX_CAPACITY, MAX_LIMIT,
};
pub use ledger::WaitKind;
pub use order::Ageing;
pub use page::{JobEntry, LONG_WAIT, MAX_NAMED_DEPENDENCIES, MAX_PAGE, WaitReason};
pub use periodic::Periodic;
pub use place::Place;
pub use plan::{DEFAULT_HEARTBEAT, Dependency, DependencyFailure, MAX_PATH, PathStep, Progress};
pub use policy::{FullPolicy, Spill, SpilledJob};
pub use preset::{Preset, RUNS_FOR_ADVICE, TimeoutAdvice};
pub use records::JobRecord;
pub use scheduler::{DEFAULT_SHUTDOWN_GRACE, Scheduler, SchedulerBuilder};
pub use snapshot::{LaneSnapshot, RunningJob, Snapshot};
pub use state::JobState;
pub use stream::{Page, RowCounts, for_each_row, pages};
pub use summary::DEFAULT_SUMMARY_INTERVAL;
pub use waits::{MAX_WAIT_LABEL_CHARS, MAX_WAIT_LABELS, at};
