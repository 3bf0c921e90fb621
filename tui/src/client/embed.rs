//! An agent inside this process, on a thread and a runtime of its own, so that neither a slow terminal nor a large
//! screen holds up its services.

use std::{
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use anyhow::Context as _;
use ax_agent::{Agent, Config, symbol::OWN_PROGRAM};
use ax_wire::view::Backfill;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Ends its agent when dropped, and waits for it.
pub struct Embedded {
    socket: PathBuf,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Starts an agent on this socket, which goes on with the charts of an earlier one. `configured`: by this user's
    /// configuration file, where there is one. A file that is wrong leaves the rules that are built in, and
    /// `ax-top rules` says so.
    ///
    /// # Errors
    ///
    /// The socket or its lock is taken (another process is the agent by now), or its folder cannot be used.
    pub async fn start(
        socket: PathBuf,
        earlier: Vec<Backfill>,
        configured: bool,
    ) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let (bound, is_bound) = oneshot::channel();
        let until = stop.clone();
        let thread = thread::Builder::new()
            .name("ax-agent".to_owned())
            .spawn(move || run(socket, earlier, configured, bound, until))
            .context("cannot start the thread of the embedded agent")?;
        let socket = is_bound
            .await
            .context("the embedded agent died while it started")??;
        Ok(Self {
            socket,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether its thread is alive.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // Its panic, if it had one, has been printed by then.
            let _ = thread.join();
        }
    }
}

fn run(
    socket: PathBuf,
    earlier: Vec<Backfill>,
    configured: bool,
    bound: oneshot::Sender<anyhow::Result<PathBuf>>,
    until: CancellationToken,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime.context("cannot start the runtime of the embedded agent") {
        Ok(runtime) => runtime,
        Err(error) => {
            // Nobody waits for the answer when ax-top is ending already.
            let _ = bound.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        let mut config = Config {
            socket,
            earlier,
            embedded: true,
            ..Config::per_user()
        };
        if configured {
            config.take_default_file();
        }
        config.snapshots.symbolizer = Some(OWN_PROGRAM.into());
        match Agent::bind(config) {
            Ok(agent) => {
                let _ = bound.send(Ok(agent.socket().to_owned()));
                agent.run(until).await;
            }
            Err(error) => {
                // Its text names the cause already; a chain would say it twice.
                let _ = bound.send(Err(anyhow::anyhow!("{error}")));
            }
        }
    });
}
