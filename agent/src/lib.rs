//! The agent of a host: services send it what they measure, viewers are shown what it makes of it.
//!
//! ```text
//!  service --> connection task --> hub --> connection task --> viewer
//!              decodes, cleans     owns     writes; loses frames
//!              (ingest)            all      when the viewer is slow
//!                                  histories
//! ```
//!
//! - [`config`] and [`socket`](BindError): where it listens, and that it listens alone;
//! - `serve`: connections, and the hub, the one task that owns every history and every viewer's queue;
//! - `ingest`: the one place where a stranger's text and lists are made safe;
//! - [`history`]: fifteen minutes of each service in bounded memory;
//! - [`window`] and [`view`]: figures as pure functions of a history and a [`clock::Now`].
//!
//! Rules of the kind "is it wrong?" will stand beside [`view`] as `alert`, those of the kind "why?" as `diagnosis`:
//! both read a [`window::Window`]; the hub is where they are asked once a second, and where `snapshot` is set off.
//!
//! ```no_run
//! # async fn run() -> Result<(), ax_agent::BindError> {
//! use ax_agent::{Agent, CancellationToken, Config};
//!
//! let stop = CancellationToken::new();
//! let agent = Agent::bind(Config::per_user())?;
//! println!("listening on {}", agent.socket().display());
//! agent.run(stop).await;
//! # Ok(())
//! # }
//! ```

mod access;
pub mod alert;
pub mod clock;
pub mod config;
mod daemon;
pub mod history;
mod ingest;
mod serve;
pub mod snapshot;
mod socket;
mod text;
pub mod view;
pub mod window;

pub use config::Config;
pub use daemon::{EXIT_ALREADY_RUNNING, EXIT_FAILURE, EXIT_OK, EXIT_USAGE, main};
pub use ingest::CleanSample;
pub use serve::Agent;
pub use socket::BindError;
pub use tokio_util::sync::CancellationToken;
