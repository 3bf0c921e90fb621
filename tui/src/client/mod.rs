//! The way to the agent: attach to one that runs, or run one in this process, and keep at it for as long as `ax-top`
//! lives.
//!
//! ```text
//!  candidates --answers--> Attached --agent gone--+
//!      |  none answers                            |
//!      +--lock taken by us--> Embedded            +--> again from the start
//!      +--lock taken by another ax-top------------+
//! ```
//!
//! An agent of its own that goes away is waited for, since most often it is being restarted; one that was embedded in
//! another `ax-top` ends with it for good.
//!
//! An embedded agent ends with its `ax-top`. Every other viewer has the charts by then; the one that takes the lock next
//! hands them to its own agent, for whoever comes later.

mod connect;
mod embed;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use ax_wire::{
    ToAgent, ToViewer,
    socket::{self, SOCKET_ENV},
    view::Backfill,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use self::{
    connect::{Connection, check_folder, subscribe},
    embed::Embedded,
};
use crate::world::{Link, Update};

/// Between two tries to reach or to be an agent.
const RETRY: Duration = Duration::from_millis(250);

/// How long an agent that went away is waited for before one is started here: a restart takes a second or two.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(10);

/// Frames that may wait for the screen; beyond it the socket fills, and the agent drops frames and counts them.
const UPDATES: usize = 64;

/// Requests that may wait for the agent; a person makes one at a time.
const REQUESTS: usize = 4;

/// Where to look for an agent, and where to be one.
#[derive(Clone, Debug)]
pub struct Sockets {
    /// Tried in this order.
    candidates: Vec<PathBuf>,
    /// The socket of an embedded agent; none is started where there is none.
    own: Option<PathBuf>,
    /// Whether an agent of ours goes by this user's configuration file.
    configured: bool,
    /// The one that must lie in a folder of ours alone, because nobody named it.
    private: Option<PathBuf>,
}

impl Sockets {
    /// The places that services, viewers and agents agree on.
    pub fn from_env() -> Self {
        let named = std::env::var_os(SOCKET_ENV).is_some_and(|path| !path.is_empty());
        let own = socket::per_user();
        Self {
            candidates: socket::candidates(),
            private: (!named).then(|| own.clone()),
            own: Some(own),
            configured: true,
        }
    }

    /// The same, but never an agent in this process.
    pub fn without_embedding(self) -> Self {
        Self { own: None, ..self }
    }

    /// This socket and no other. An agent on it is for a demo, whose alerts are not to reach anybody's pager: it goes by the
    /// rules that are built in.
    pub fn only(socket: PathBuf) -> Self {
        Self {
            candidates: vec![socket.clone()],
            own: Some(socket),
            configured: false,
            private: None,
        }
    }
}

/// A running client.
pub struct Client {
    /// What it tells.
    pub updates: mpsc::Receiver<Update>,
    requests: mpsc::Sender<ToAgent>,
}

impl Client {
    /// Asks the agent something. The answer comes as an update; what is asked while no agent is connected is forgotten.
    /// Returns false where the agent does not read what it was asked before: then this is not asked.
    pub fn ask(&self, request: ToAgent) -> bool {
        self.requests.try_send(request).is_ok()
    }
}

/// Starts the client on the current runtime. It ends, and an embedded agent with it, when it is dropped or the runtime
/// shuts down.
pub fn start(sockets: Sockets) -> Client {
    let (updates, receiver) = mpsc::channel(UPDATES);
    let (requests, requested) = mpsc::channel(REQUESTS);
    tokio::spawn(async move {
        let closed = updates.clone();
        tokio::select! {
            () = closed.closed() => {}
            () = follow(sockets, updates, requested) => {}
        }
    });
    Client {
        updates: receiver,
        requests,
    }
}

/// Whoever listens to the client is gone.
struct Closed;

async fn follow(
    sockets: Sockets,
    updates: mpsc::Sender<Update>,
    mut requests: mpsc::Receiver<ToAgent>,
) {
    let mut embedded: Option<Embedded> = None;
    let mut own_agent_at = Instant::now();
    loop {
        let mut own_agent_in = None;
        let tried = match &embedded {
            Some(agent) => vec![agent.socket().to_owned()],
            None => sockets.candidates.clone(),
        };
        let problem = match first_agent(&tried, sockets.private.as_deref()).await {
            Found::Agent(connection) => {
                let socket = connection.socket.clone();
                let separate = !connection.embedded;
                let link = match &embedded {
                    Some(_) => Link::Embedded { socket },
                    None => Link::Attached { socket },
                };
                let pumped = pump(*connection, link, &updates, &mut requests).await;
                let Ok(why) = pumped else {
                    return;
                };
                if separate {
                    own_agent_at = Instant::now() + COMES_BACK_WITHIN;
                }
                why
            }
            Found::Refusal(problem) => problem,
            Found::Nobody if embedded.as_ref().is_some_and(Embedded::is_running) => {
                "the embedded agent does not answer".to_owned()
            }
            Found::Nobody => match &sockets.own {
                None => "no agent listens".to_owned(),
                Some(_) if Instant::now() < own_agent_at => {
                    own_agent_in = Some(own_agent_at - Instant::now());
                    "waiting for it to come back".to_owned()
                }
                Some(own) => {
                    let Ok(earlier) = known(&updates).await else {
                        return;
                    };
                    match Embedded::start(own.clone(), earlier, sockets.configured).await {
                        Ok(agent) => {
                            embedded = Some(agent);
                            continue;
                        }
                        Err(problem) => {
                            embedded = None;
                            format!("{problem:#}")
                        }
                    }
                }
            },
        };
        let link = Link::Connecting {
            problem: Some(problem),
            own_agent_in,
        };
        if updates.send(Update::Link(link)).await.is_err() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The charts that whoever listens to the client has from earlier agents.
async fn known(updates: &mpsc::Sender<Update>) -> Result<Vec<Backfill>, Closed> {
    let (ask, answer) = oneshot::channel();
    let asked = updates.send(Update::HandOver(ask)).await;
    asked.map_err(|_| Closed)?;
    Ok(answer.await.unwrap_or_default())
}

/// What a look at the candidates came to.
enum Found {
    Agent(Box<Connection>),
    /// An agent answered and would not have us, or is not to be trusted: services go to it, so embedding another one
    /// would show nothing.
    Refusal(String),
    Nobody,
}

async fn first_agent(sockets: &[PathBuf], private: Option<&Path>) -> Found {
    let mut refusal = None;
    for socket in sockets {
        let checked = match private {
            Some(private) if private == socket => check_folder(socket),
            _ => Ok(()),
        };
        let connected = match checked {
            Ok(()) => subscribe(socket).await,
            Err(error) => Err(error),
        };
        match connected {
            Ok(connection) => return Found::Agent(Box::new(connection)),
            Err(error) if error.nobody_there() => {}
            Err(error) => refusal = refusal.or(Some(error.to_string())),
        }
    }
    refusal.map_or(Found::Nobody, Found::Refusal)
}

/// Hands on frame after frame until the connection ends; says why it did.
async fn pump(
    mut connection: Connection,
    link: Link,
    updates: &mpsc::Sender<Update>,
    requests: &mut mpsc::Receiver<ToAgent>,
) -> Result<String, Closed> {
    let hand_on = async |update| updates.send(update).await.map_err(|_| Closed);
    while requests.try_recv().is_ok() {}
    hand_on(Update::Link(link)).await?;
    loop {
        let frame = tokio::select! {
            frame = connection.next_frame() => frame,
            Some(request) = requests.recv() => match connection.ask(&request).await {
                Ok(()) => continue,
                Err(problem) => Err(problem),
            },
        };
        match frame {
            Ok(Some(ToViewer::Refused(refused))) => return Ok(refused.reason),
            Ok(Some(frame)) => hand_on(Update::Frame(frame)).await?,
            Ok(None) => return Ok("the agent closed the connection".to_owned()),
            Err(problem) => return Ok(problem.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
