//! A service that knows nothing of ax, watched through one line.
//!
//! ```text
//! cargo run --release --example observe_mini_redis        # listens on 127.0.0.1:6379, or on the port given
//! cargo run --release                                     # in a second terminal: the dashboard
//! redis-benchmark -t set,get -n 200000                    # in a third: some traffic
//! ```

use std::{error::Error, future::Future};

use ax_probe::Probe;
use tokio::net::TcpListener;

/// Serves the Redis protocol on `listener` until `shutdown`.
///
/// # Errors
///
/// When the probe cannot be installed, or the server fails.
pub async fn run(
    listener: TcpListener,
    shutdown: impl Future,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("mini-redis").install()?; // the one line
    mini_redis::server::run(listener, shutdown).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let port = std::env::args()
        .nth(1)
        .map_or(Ok(6379), |port| port.parse())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening 127.0.0.1:{}", listener.local_addr()?.port());
    run(listener, tokio::signal::ctrl_c()).await
}
