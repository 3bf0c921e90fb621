//! Load sessions: load is raised step by step, and what the service says of its inside at the same moment is kept beside
//! what the load tool sees of its outside.
//!
//! ```text
//!  plan --> runner --load--> generator (HTTP) or a wrapped command
//!             ^  |
//!             |  +--judged so far (ax_agent::load): which step is next
//!             |
//!           watch <--views-- agent            session --> file, text, page, screen
//! ```
//!
//! What the figures mean is worked out in [`ax_agent::load`]; here load is made, figures are gathered, and told.

pub mod abort;
pub mod command;
mod ends;
mod first;
pub mod generator;
pub mod listens;
mod outside;
pub mod page;
pub mod plan;
pub mod progress;
pub mod runner;
pub mod secrets;
pub mod shown;
pub mod text;
pub mod watch;
