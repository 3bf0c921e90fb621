//! Where the agent listens, and how much it takes and keeps.

pub mod file;
pub(crate) mod table;
pub(crate) mod units;

use std::{env, path::PathBuf, sync::Arc, time::Duration};

use ax_wire::{
    snapshot_file::{self, Access},
    socket::{self, SOCKET_ENV},
    view::Backfill,
};

use tokio::sync::Notify;

use crate::{alert::RuleSet, snapshot};

/// How many connections are open at once, services and viewers together. Each costs a task and a read buffer that
/// grows to the longest frame it has seen.
pub const DEFAULT_MAX_CONNECTIONS: usize = 256;

/// How many services are connected at once. One of 50 types takes about 4 MiB after 15 minutes.
pub const DEFAULT_MAX_SERVICES: usize = 64;

/// How much all histories together may take; then the largest becomes shorter. Ten services of 50 types take about
/// 60 MiB; a hostile one up to 25 MiB.
pub const DEFAULT_MAX_HISTORY_BYTES: usize = 256 << 20;

/// The share of a system agent that one user may take: a quarter of its places.
const USER_SHARE: usize = 4;

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

/// For how long a service is not judged after it came: caches are cold, pools empty, figures few.
pub const DEFAULT_QUIET: Duration = Duration::from_secs(10);

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

/// Routes of one service: the 64 that a probe sends, `unmatched` and `other`.
pub const MAX_ROUTES: usize = 66;

/// Downstreams of one service: the 64 that a probe sends, and `other`.
pub const MAX_DOWNSTREAMS: usize = 65;

/// Kinds of callers of one downstream.
pub const MAX_CALLERS: usize = 129;

/// Calls under way that a downstream names.
pub const MAX_CALLS: usize = 16;

/// Lag points of one sample: ten a second of each runtime, for a few seconds that the socket was not read.
pub const MAX_LAG_POINTS: usize = 1_024;

/// Moves of a lane's limit that one sample tells.
pub const MAX_LIMIT_MOVES: usize = 32;

/// Bands of priorities that a lane's queue is told by: twice what a scheduler has.
pub const MAX_QUEUE_BANDS: usize = 8;

/// Events of one batch: as many as a probe keeps for an agent.
pub const MAX_EVENTS: usize = 1_024;

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
    /// How many of them may be one user's; fewer than all for a system agent.
    pub max_services_of_user: usize,
    /// How many connections may be one user's.
    pub max_connections_of_user: usize,
    /// See [`DEFAULT_MAX_HISTORY_BYTES`].
    pub max_history_bytes: usize,
    /// How much of that may be one user's.
    pub max_history_bytes_of_user: usize,
    /// Take services of every user, and show each viewer its own: see [`Config::system`].
    pub system: bool,
    /// See [`DEFAULT_MAX_GONE`].
    pub max_gone: usize,
    /// See [`DEFAULT_KEEP_GONE`].
    pub keep_gone: Duration,
    /// See [`DEFAULT_HANDSHAKE_TIMEOUT`].
    pub handshake_timeout: Duration,
    /// See [`DEFAULT_VIEWER_QUEUE_FRAMES`]; at least 1.
    pub viewer_queue_frames: usize,
    /// Where snapshots go, and how many.
    pub snapshots: snapshot::Settings,
    /// What is an alert, and what it does.
    pub rules: RuleSet,
    /// The file that `rules` and others come from: looked at once a second, and read anew when it has changed. It need not
    /// be there. `None`: what is here stays.
    pub file: Option<PathBuf>,
    /// The state in which `file` was read.
    pub stamp: file::Stamp,
    /// What `file` said of snapshots when it was taken by [`Self::apply`]: some of it holds until the agent is started again.
    pub file_keys: file::SnapshotKeys,
    /// Why `file` was not taken at the start, for viewers; what is built in is in force instead.
    pub problem: Option<String>,
    /// Has `file` read anew at once, changed or not.
    pub reload: Arc<Notify>,
    /// Charts that an earlier agent kept, as its viewers have them: an agent in an `ax-top` ends with it, and the next one
    /// goes on with these.
    pub earlier: Vec<Backfill>,
    /// For how long a service is not judged after it came, or was let go by a debugger.
    pub quiet: Duration,
    /// Whether it runs inside an `ax-top`: told to viewers, which then do not wait for it to come back, and in the lock.
    pub embedded: bool,
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

    /// The agent of a host: any user may connect, a viewer sees the services of its own user, root and the group `ax` see
    /// all, and no user may take more than a quarter of its places and memory. Snapshots belong to the user of their
    /// service.
    #[must_use]
    pub fn system(socket: impl Into<PathBuf>) -> Self {
        let all = Self::at(socket);
        Self {
            system: true,
            max_services_of_user: all.max_services / USER_SHARE,
            max_connections_of_user: all.max_connections / USER_SHARE,
            max_history_bytes_of_user: all.max_history_bytes / USER_SHARE,
            snapshots: snapshot::Settings {
                access: Access::Shared,
                ..all.snapshots
            },
            ..all
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
            max_services_of_user: DEFAULT_MAX_SERVICES,
            max_connections_of_user: DEFAULT_MAX_CONNECTIONS,
            max_history_bytes: DEFAULT_MAX_HISTORY_BYTES,
            max_history_bytes_of_user: DEFAULT_MAX_HISTORY_BYTES,
            system: false,
            max_gone: DEFAULT_MAX_GONE,
            keep_gone: DEFAULT_KEEP_GONE,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            viewer_queue_frames: DEFAULT_VIEWER_QUEUE_FRAMES,
            snapshots: snapshot::Settings::in_folder(snapshot_file::default_folder().ok()),
            rules: RuleSet::default(),
            file: None,
            stamp: file::Stamp::default(),
            file_keys: file::SnapshotKeys::default(),
            problem: None,
            reload: Arc::default(),
            earlier: Vec::new(),
            quiet: DEFAULT_QUIET,
            embedded: false,
        }
    }
}
