//! Where the agent listens, and how much it takes and keeps.

use std::{env, path::PathBuf, time::Duration};

use ax_wire::socket::{self, SOCKET_ENV};

/// How many connections are open at once, services and viewers together. Each costs a task and a read buffer that
/// grows to the longest frame it has seen.
pub const DEFAULT_MAX_CONNECTIONS: usize = 256;

/// How many services are connected at once. One of 50 types takes about 4 MiB after 15 minutes.
pub const DEFAULT_MAX_SERVICES: usize = 64;

/// How many services that ended or were lost are kept for a viewer to look back at; each as dear as a live one.
pub const DEFAULT_MAX_GONE: usize = 16;

/// For how long a service that ended or was lost is kept. Afterwards a reconnect of it begins a new history.
pub const DEFAULT_KEEP_GONE: Duration = Duration::from_mins(15);

/// How long a new connection may take to send its first line. Longer helps a starved service, and lets silent
/// connections fill the table.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many frames wait for one viewer before it loses some. Frames are shared between viewers, so a slow viewer
/// costs only what the others have already read.
pub const DEFAULT_VIEWER_QUEUE_FRAMES: usize = 64;

/// How many frames of one service are read in a second; the rest waits in its socket, where the service drops and
/// counts what no longer fits. A probe sends one sample a second and events in batches.
pub const MAX_FRAMES_PER_SECOND: u32 = 64;

/// Job types and named tasks of one service: the 128 that a probe sends, and `other`.
pub const MAX_TYPES: usize = 129;

/// Lanes of one service.
pub const MAX_LANES: usize = 64;

/// Runtimes of one service.
pub const MAX_RUNTIMES: usize = 16;

/// Workers of one service, over all of its runtimes.
pub const MAX_WORKERS: usize = 256;

/// Lag points of one sample: ten a second of each runtime, for a few seconds that the socket was not read.
pub const MAX_LAG_POINTS: usize = 1_024;

/// Characters of any text that came from a service.
pub const MAX_TEXT_CHARS: usize = 200;

/// What an agent is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The socket to listen on. Its folder is made where it is missing, and holds `agent.lock`.
    pub socket: PathBuf,
    /// Refuse a folder that is not ours alone. On for the per-user default, which lies in a place that others may
    /// write to; off for a socket that was named on purpose.
    pub private_folder: bool,
    /// See [`DEFAULT_MAX_CONNECTIONS`].
    pub max_connections: usize,
    /// See [`DEFAULT_MAX_SERVICES`].
    pub max_services: usize,
    /// See [`DEFAULT_MAX_GONE`].
    pub max_gone: usize,
    /// See [`DEFAULT_KEEP_GONE`].
    pub keep_gone: Duration,
    /// See [`DEFAULT_HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// See [`DEFAULT_VIEWER_QUEUE_FRAMES`]; at least 1.
    pub viewer_queue_frames: usize,
}

impl Config {
    /// An agent for this user alone, where [`ax_wire::socket::per_user`] says.
    #[must_use]
    pub fn per_user() -> Self {
        let named = env::var_os(SOCKET_ENV).is_some_and(|path| !path.is_empty());
        Self {
            private_folder: !named,
            ..Self::at(socket::per_user())
        }
    }

    /// An agent on a socket that was named on purpose.
    #[must_use]
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            private_folder: false,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_services: DEFAULT_MAX_SERVICES,
            max_gone: DEFAULT_MAX_GONE,
            keep_gone: DEFAULT_KEEP_GONE,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            viewer_queue_frames: DEFAULT_VIEWER_QUEUE_FRAMES,
        }
    }
}
