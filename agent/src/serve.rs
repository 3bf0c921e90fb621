//! Connections, and the task that owns what they are about.

mod connection;
mod hub;
mod viewers;

use std::{path::Path, sync::Arc, time::Duration};

use ax_wire::{
    ToService,
    frame::{self, Refused},
    hello::PROTOCOL,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    connection::Connection,
    hub::{Hub, HubHandle, Loss},
};
use crate::{
    config::Config,
    socket::{BindError, BoundSocket, admits},
};

/// How long accepting pauses after an error such as "too many open files", which only time heals.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a peer may take to read why it is refused: one short line into an empty socket.
const REFUSE_TIMEOUT: Duration = Duration::from_millis(100);

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
        let (handle, hub) = Hub::new(config.clone());
        let hub = tokio::spawn(hub.run());
        let server = Server {
            config: Arc::new(config),
            hub: handle,
            own_uid: rustix::process::getuid().as_raw(),
            tasks: TaskTracker::new(),
            stop: stop.child_token(),
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = server.accept(&listener) => {}
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

/// What accepting needs.
struct Server {
    config: Arc<Config>,
    hub: HubHandle,
    own_uid: u32,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Server {
    async fn accept(&self, listener: &UnixListener) {
        let places = Arc::new(Semaphore::new(self.config.max_connections));
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Who it is comes from the kernel, before a byte is read.
            let uid = match stream.peer_cred() {
                Ok(peer) if admits(peer.uid(), self.own_uid) => peer.uid(),
                Ok(peer) => {
                    let reason = format!(
                        "this agent serves user {} and root, not user {}; start an agent of your own",
                        self.own_uid,
                        peer.uid()
                    );
                    self.refuse(stream, &reason).await;
                    continue;
                }
                Err(error) => {
                    self.refuse(stream, &format!("cannot tell your user: {error}"))
                        .await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                let most = self.config.max_connections;
                self.refuse(stream, &format!("all {most} connections are taken"))
                    .await;
                continue;
            };
            let connection = Connection::new(
                stream,
                uid,
                Arc::clone(&self.config),
                self.hub.clone(),
                self.stop.child_token(),
            );
            self.tasks.spawn(async move {
                connection.serve().await;
                drop(place);
            });
        }
    }

    async fn refuse(&self, mut stream: UnixStream, reason: &str) {
        tracing::warn!("connection refused: {reason}");
        self.hub.lost(None, Loss::Refused).await;
        // A peer that does not listen has been refused all the same.
        let _ = timeout(REFUSE_TIMEOUT, stream.write_all(&refusal(reason))).await;
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
