//! The agent of a host: services send it what they measure, viewers are shown what it makes of it.
//!
//! ```text
//!  service --> connection task --> hub --> connection task --> viewer
//!              decodes, cleans     owns     writes; loses frames
//!              (ingest)            all      when the viewer is slow
//!                                  histories
//! ```
//!
//! - [`config`] and [`socket`](BindError): where it listens, and that it listens alone. The lock `agent.lock` stays in
//!   the folder when the agent ends, and the next one takes it over;
//! - `access`: who may connect, who sees what, and how much of the agent one user may take;
//! - `serve`: connections, and the hub, the one task that owns every history and every viewer's queue;
//! - `ingest`: the one place where a stranger's text and lists are made safe;
//! - [`history`]: fifteen minutes of each service in bounded memory;
//! - [`window`] and [`view`]: figures as pure functions of a history and a [`clock::Now`];
//! - [`alert`]: "is something wrong?", asked once a second of each service;
//! - [`load`]: what a load session means;
//! - [`diagnosis`]: "why is it slow?", asked with each sample;
//! - [`marks`]: what changed, for the charts;
//! - [`snapshot`]: evidence of incidents, captures and deaths, in files.
//!
//! What outlives a reconnect and a restart of a service: its alerts, and its limits and counts of snapshots. What outlives
//! a restart of the agent, killed or not: firing alerts (`alerts.state` beside the snapshots), snapshot files, and the
//! limits, which are taken from those files. History and resolved alerts do not.
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
pub mod diagnosis;
pub mod history;
mod ingest;
pub mod load;
pub mod marks;
mod serve;
pub mod snapshot;
mod socket;
pub mod symbol;
mod text;
mod throttle;
pub mod view;
pub mod window;

pub use config::Config;
pub use daemon::{EXIT_ALREADY_RUNNING, EXIT_CONFIG, EXIT_FAILURE, EXIT_OK, EXIT_USAGE, main};
pub use ingest::CleanSample;
pub use serve::Agent;
pub use socket::BindError;
pub use text::is_safe;
pub use tokio_util::sync::CancellationToken;
