//! The way to the agent: attach to one that runs, or run one in this process, and keep at it for as long as `ax-top`
//! lives.
//!
//! ```text
//!  candidates --answers--> Attached --agent gone--+
//!      |  none answers                            |
//!      +--lock taken by us--> Embedded            +--> again from the start
//!      +--lock taken by another ax-top------------+
//! ```

mod connect;
mod embed;

use std::{path::PathBuf, time::Duration};

use ax_wire::{ToViewer, socket};
use tokio::sync::mpsc;

use self::{
    connect::{Connection, subscribe},
    embed::Embedded,
};
use crate::world::{Link, Update};

/// Between two tries to reach or to be an agent.
const RETRY: Duration = Duration::from_millis(250);

/// Frames that may wait for the screen; beyond it the socket fills, and the agent drops frames and counts them.
const UPDATES: usize = 64;

/// Where to look for an agent, and where to be one.
#[derive(Clone, Debug)]
pub struct Sockets {
    /// Tried in this order.
    pub candidates: Vec<PathBuf>,
    /// The socket of an embedded agent.
    pub own: PathBuf,
}

impl Sockets {
    /// The places that services, viewers and agents agree on.
    pub fn from_env() -> Self {
        Self {
            candidates: socket::candidates(),
            own: socket::per_user(),
        }
    }

    /// This socket and no other.
    pub fn only(socket: PathBuf) -> Self {
        Self {
            candidates: vec![socket.clone()],
            own: socket,
        }
    }
}

/// Starts the client on the current runtime. It ends, and an embedded agent with it, when the receiver is dropped or
/// the runtime shuts down.
pub fn start(sockets: Sockets) -> mpsc::Receiver<Update> {
    let (updates, receiver) = mpsc::channel(UPDATES);
    tokio::spawn(async move {
        let closed = updates.clone();
        tokio::select! {
            () = closed.closed() => {}
            () = follow(sockets, updates) => {}
        }
    });
    receiver
}

/// Whoever listens to the client is gone.
struct Closed;

async fn follow(sockets: Sockets, updates: mpsc::Sender<Update>) {
    let mut embedded: Option<Embedded> = None;
    loop {
        let tried = match &embedded {
            Some(agent) => vec![agent.socket().to_owned()],
            None => sockets.candidates.clone(),
        };
        let problem = match first_agent(&tried).await {
            Found::Agent(connection) => {
                let socket = connection.socket.clone();
                let link = match &embedded {
                    Some(_) => Link::Embedded { socket },
                    None => Link::Attached { socket },
                };
                let Ok(why) = pump(*connection, link, &updates).await else {
                    return;
                };
                why
            }
            Found::Refusal(problem) => problem,
            Found::Nobody if embedded.as_ref().is_some_and(Embedded::is_running) => {
                "the embedded agent does not answer".to_owned()
            }
            Found::Nobody => match Embedded::start(sockets.own.clone()).await {
                Ok(agent) => {
                    embedded = Some(agent);
                    continue;
                }
                Err(problem) => {
                    embedded = None;
                    format!("{problem:#}")
                }
            },
        };
        let link = Link::Connecting {
            problem: Some(problem),
        };
        if updates.send(Update::Link(link)).await.is_err() {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// What a look at the candidates came to.
enum Found {
    Agent(Box<Connection>),
    /// An agent answered and would not have us, or is not to be trusted: services go to it, so embedding another one
    /// would show nothing.
    Refusal(String),
    Nobody,
}

async fn first_agent(sockets: &[PathBuf]) -> Found {
    let mut refusal = None;
    for socket in sockets {
        match subscribe(socket).await {
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
) -> Result<String, Closed> {
    let hand_on = async |update| updates.send(update).await.map_err(|_| Closed);
    hand_on(Update::Link(link)).await?;
    loop {
        match connection.next_frame().await {
            Ok(Some(ToViewer::Refused(refused))) => return Ok(refused.reason),
            Ok(Some(frame)) => hand_on(Update::Frame(frame)).await?,
            Ok(None) => return Ok("the agent closed the connection".to_owned()),
            Err(problem) => return Ok(problem.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
