//! Connections, and the task that owns what they are about.

mod connection;
mod controls;
mod evidence;
mod hub;
mod lines;
mod memory;
mod message;
mod pause;
mod questions;
mod reload;
mod restart;
mod service;
mod viewers;

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU32},
    time::{Duration, Instant},
};

use ax_wire::{
    ToService,
    frame::{self, Refused},
    hello::PROTOCOL,
};
use tokio::{
    net::{UnixListener, UnixStream},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    connection::Connection,
    hub::Hub,
    message::{HubHandle, Loss},
};
use crate::{
    access::{Groups, Peer, Place, Quota, Sees, admits},
    config::Config,
    socket::{BindError, BoundSocket},
    throttle::Throttle,
};

/// How long accepting pauses after an error such as "too many open files", which only time heals.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Lines of more than a megabyte that are read at once, over all services: 8 MiB each at most.
const MAX_LONG_LINES: usize = 16;

/// An agent that listens. Connections queue from [`Agent::bind`] on and are served by [`Agent::run`].
///
/// Dropping it removes the socket's file and frees the lock.
#[derive(Debug)]
pub struct Agent {
    // Fields drop in this order: the file and the lock go last.
    listener: UnixListener,
    config: Config,
    socket: BoundSocket,
}

impl Agent {
    /// Takes the lock of the socket's folder, then the socket.
    ///
    /// # Errors
    ///
    /// [`BindError::AlreadyRunning`] when another agent holds the lock; else what the system or the folder's check said.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with its I/O driver enabled.
    pub fn bind(config: Config) -> Result<Self, BindError> {
        let (socket, listener) = BoundSocket::bind(&config)?;
        let listener = UnixListener::from_std(listener).map_err(|source| BindError::Io {
            action: "register",
            path: config.socket.clone(),
            source,
        })?;
        Ok(Self {
            listener,
            config,
            socket,
        })
    }

    /// The socket that it listens on.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// Serves until `stop` is cancelled, then closes every connection, awaits every task and removes the socket's file.
    ///
    /// Not cancel safe: dropping the future leaves connections open until the runtime goes. Cancel the token instead.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            listener,
            config,
            socket,
        } = self;
        let stop = stop.child_token();
        let (handle, hub) = Hub::new(config.clone(), stop.clone());
        let hub = tokio::spawn(hub.run());
        let (file, stamp) = (config.file.clone(), config.stamp.clone());
        let reload = Arc::clone(&config.reload);
        let server = Server {
            connections: Quota::new(config.max_connections, config.max_connections_of_user),
            long_lines: Quota::new(
                MAX_LONG_LINES,
                MAX_LONG_LINES / if config.system { 4 } else { 1 },
            ),
            groups: Groups::default(),
            speaking: Arc::default(),
            logs: Arc::default(),
            config: Arc::new(config),
            hub: handle,
            own_uid: rustix::process::getuid().as_raw(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        let reloading = async {
            match file {
                Some(file) => reload::watch(file.into(), stamp, reload, server.hub.clone()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = server.accept(&listener) => {}
            () = reloading => {}
        }
        drop(listener);
        drop(socket);
        // Each connection holds the token and a sender into the hub. The token ends them; the last sender to go, ours
        // or a connection's, ends the hub, which by then has read all that they sent.
        server.stop.cancel();
        server.tasks.close();
        server.tasks.wait().await;
        drop(server);
        if let Err(error) = hub.await {
            tracing::error!("the hub panicked: {error}");
        }
    }
}

/// Lines that strangers can cause.
#[derive(Debug, Default)]
struct Logs {
    accepting: Throttle,
    refused: Throttle,
    closed: Throttle,
}

/// What accepting needs.
struct Server {
    config: Arc<Config>,
    hub: HubHandle,
    connections: Arc<Quota>,
    long_lines: Arc<Quota>,
    groups: Groups,
    /// How many services speak.
    speaking: Arc<AtomicU32>,
    logs: Arc<Logs>,
    own_uid: u32,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Server {
    async fn accept(&self, listener: &UnixListener) {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if let Some(more) = self.logs.accepting.admit_words(Instant::now()) {
                        tracing::warn!("cannot accept a connection: {error}{more}");
                    }
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match self.admit(&stream) {
                Ok((peer, sees, place)) => {
                    let stop = self.stop.child_token();
                    let connection = Connection::new(stream, peer, sees, self, stop);
                    self.tasks.spawn(async move {
                        connection.serve().await;
                        drop(place);
                    });
                }
                Err(reason) => self.refuse(stream, &reason).await,
            }
        }
    }

    /// Who it is, what it sees, and its place; or why it has none. All of it comes from the kernel, before a byte is read.
    fn admit(&self, stream: &UnixStream) -> Result<(Peer, Sees, Place), String> {
        let credentials = stream.peer_cred();
        let credentials = credentials.map_err(|error| format!("cannot tell your user: {error}"))?;
        let peer = Peer {
            uid: credentials.uid(),
            gid: credentials.gid(),
            pid: credentials
                .pid()
                .and_then(|pid| u32::try_from(pid).ok())
                .filter(|pid| *pid > 0),
        };
        let sees = if self.config.system {
            self.groups.sees(peer)
        } else if admits(peer.uid, self.own_uid) {
            Sees::All
        } else {
            return Err(format!(
                "this agent serves user {} and root, not user {}; start an agent of your own",
                self.own_uid, peer.uid
            ));
        };
        let place = self.connections.take(peer.uid, "connections")?;
        Ok((peer, sees, place))
    }

    async fn refuse(&self, stream: UnixStream, reason: &str) {
        if let Some(more) = self.logs.refused.admit_words(Instant::now()) {
            tracing::warn!("connection refused: {reason}{more}");
        }
        self.hub.lost(None, Loss::Refused).await;
        // The line fits into an empty socket. A peer that cannot take it has been refused all the same, and whoever
        // waits behind it waits no longer.
        let _ = stream.try_write(&refusal(reason));
    }
}

/// The line that says no; the same for services and viewers.
fn refusal(reason: &str) -> Vec<u8> {
    line(&ToService::Refused(Refused {
        reason: reason.to_owned(),
        protocol: PROTOCOL,
    }))
}

/// A frame as a line. One that is too long for its reader becomes an empty line's worth of nothing, and is logged.
fn line<T: serde::Serialize>(frame: &T) -> Vec<u8> {
    let mut line = Vec::new();
    if let Err(error) = frame::encode(frame, &mut line) {
        tracing::error!("cannot send a frame: {error}");
    }
    line
}
