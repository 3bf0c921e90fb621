//! Everything of ax that crosses a socket or reaches disk: data and codecs, no judgement.
//!
//! Three parties speak newline-delimited JSON over a Unix socket:
//!
//! ```text
//!  service (ax-probe)  --ToAgent-->   agent (ax-agent)  --ToViewer-->   viewer (ax-top)
//!                     <--ToService--                    <--ToAgent---
//! ```
//!
//! The first line of a connection decides what it is: a [`Hello`](hello::Hello) makes it a service, a
//! [`Subscribe`](frame::Subscribe) a viewer. The agent answers with an [`Ack`](frame::Ack) or a
//! [`Refused`](frame::Refused).
//!
//! Units stand in the names: `*_ns` are integer nanoseconds, `*_bytes` are bytes, `*_mono_ns` are readings of
//! `CLOCK_MONOTONIC`, `*_unix_ns` are wall-clock nanoseconds since 1970. An `Option` that is `None` means *unknown*,
//! never zero.

pub mod alert;
pub mod control;
pub mod event;
pub mod frame;
pub mod graph;
pub mod hello;
pub mod histogram;
pub mod id;
pub mod incident;
pub mod job;
pub mod mark;
pub mod query;
pub mod recorder;
pub mod rules;
pub mod sample;
#[cfg(feature = "schema")]
pub mod schema;
pub mod second;
pub mod session;
pub mod snapshot_file;
pub mod socket;
pub mod stack;
pub mod trace;
pub mod verdict;
pub mod view;

pub use frame::{ToAgent, ToService, ToViewer};
pub use histogram::LatencyHistogram;
pub use id::{InstanceId, JobId, RuntimeId, SpanId, TraceId};
