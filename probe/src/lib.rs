//! The part of ax that runs inside an async service: how late its event loop is, which worker is stuck and in whose
//! poll, how long the polls of each named task take. It tells an agent (`ax-agent`, or the one inside `ax-top`) over a
//! Unix socket, and goes on without one.
//!
//! Three steps, each useful without the next:
//!
//! ```no_run
//! # async fn serve() {}
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // 1. One line: lag, workers, stalls.
//!     let probe = ax_probe::Probe::builder("checkout").install()?;
//!     // 2. Names: who stalls a worker, who is slow, who leaks.
//!     ax_probe::spawn("serve", serve()).await?;
//!     // 3. Lanes with limits and priorities: the crate `ax-scheduler`.
//!     probe.shutdown();
//!     Ok(())
//! }
//! ```
//!
//! The service never waits for the probe: what a slow agent does not take is dropped, counted and shown. Memory is
//! bounded: [`MAX_TYPES`](task_type::MAX_TYPES) names, [`MAX_THREADS`](slot::MAX_THREADS) threads, [`LAG_POINTS`],
//! [`EVENTS`], [`RECENT_LAG_POINTS`], [`HISTORY_POINTS`], [`OUT_BUFFER_BYTES`], [`MAX_REPLY_BYTES`],
//! [`MAX_BAGGAGE_BYTES`](trace::MAX_BAGGAGE_BYTES) for each trace. A figure that cannot be had is unknown, never zero.

mod cgroup;
pub mod clock;
mod elf;
pub mod histogram;
mod hooks;
mod incident;
mod probe;
mod publisher;
pub mod recorder;
mod runtime;
mod shared;
pub mod slot;
pub mod source;
mod spawn;
mod stack;
mod stall;
mod syscalls;
pub mod task_type;
mod thread_groups;
mod threads;
pub mod trace;
pub mod wake;
mod watchdog;

pub use ax_wire::TraceId;

#[cfg(feature = "tower")]
pub use self::trace::{TraceLayer, TraceService};
pub use self::{
    hooks::{Hooks, configure},
    incident::{AUTOMATIC_PER_HOUR, CAPTURES_PER_MINUTE, MAX_LABEL_CHARS, RECENT_LAG_POINTS},
    probe::{
        Builder, DEFAULT_QUIET_START, DEFAULT_SNAPSHOT_COOLDOWN, DEFAULT_SNAPSHOT_THRESHOLD,
        DEFAULT_STALL_THRESHOLD, DISABLE_ENV, InstallError, MIN_STALL_THRESHOLD, Probe,
        SHUTDOWN_TIMEOUT,
    },
    publisher::{HISTORY_POINTS, MAX_REPLY_BYTES, MAX_SNAPSHOT_FILES, OUT_BUFFER_BYTES},
    shared::{EVENTS, LAG_POINTS},
    slot::current_trace,
    spawn::{Named, spawn, spawn_blocking},
};
