//! What the hub is told, and the way to tell it.

use ax_wire::{
    InstanceId,
    control::{Control, Controlled},
    event::Events,
    hello::Hello,
    incident::Incident,
    query::{Answer, Ask},
    rules::{ActionTaken, SilenceRequest},
    view::{AgentDropped, Backfill},
};
use tokio::sync::{mpsc, oneshot};

use super::{connection::ConnectionId, reload::Reread, service::Speaker, viewers::Queue};
use crate::{access::Sees, ingest::CleanSample, snapshot::store::Report};

/// Messages that wait for the hub. Senders wait when it is full, and with them the sockets that they read.
const INBOX: usize = 16;

/// The hub's inbox.
pub(super) fn inbox() -> (mpsc::Sender<Message>, mpsc::Receiver<Message>) {
    mpsc::channel(INBOX)
}

/// What the agent did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    BadFrame,
    OversizedFrame,
    Refused,
}

impl Loss {
    pub(super) fn count(self, dropped: &mut AgentDropped) {
        match self {
            Self::BadFrame => dropped.bad_frames_total += 1,
            Self::OversizedFrame => dropped.oversized_frames_total += 1,
            Self::Refused => dropped.refused_connections_total += 1,
        }
    }
}

/// A frame of a service that has joined, cleaned.
#[derive(Debug)]
pub(super) enum FromService {
    HelloAgain(Box<Hello>),
    /// With how many points were cut.
    Backfill(Backfill, u64),
    Sample(Box<CleanSample>),
    /// With how many events were cut.
    Events(Events, u64),
    Incident(Box<Incident>),
    Answer(Box<Answer>),
    Controlled(Controlled),
    Goodbye,
}

/// What the hub is told.
#[derive(Debug)]
pub(super) enum Message {
    Join {
        hello: Box<Hello>,
        speaker: Speaker,
        answer: oneshot::Sender<Result<(), String>>,
    },
    Frame(ConnectionId, FromService),
    Subscribe(ConnectionId, Queue, Sees),
    Capture(ConnectionId, InstanceId),
    Ask(ConnectionId, Box<Ask>),
    /// Who orders, and its user.
    Control((ConnectionId, u32), Control),
    Rules(ConnectionId),
    /// Who asks, its user, and what it sees.
    Silence((ConnectionId, u32, Sees), SilenceRequest),
    /// A rule has done something.
    Acted(ActionTaken),
    /// The configuration file has been read anew.
    File(Box<Reread>),
    Lost(Option<ConnectionId>, Loss),
    Disconnected(ConnectionId),
    Disk(Report),
}

/// A way to the hub. The hub ends when the last one is dropped.
#[derive(Clone, Debug)]
pub(super) struct HubHandle(mpsc::Sender<Message>);

impl HubHandle {
    pub(super) fn new(sender: mpsc::Sender<Message>) -> Self {
        Self(sender)
    }

    /// Brings a service in, or says why not.
    pub(super) async fn join(&self, hello: Hello, speaker: Speaker) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let hello = Box::new(hello);
        self.send(Message::Join {
            hello,
            speaker,
            answer,
        })
        .await;
        let gone = |_| Err("the agent is stopping".to_owned());
        answered.await.unwrap_or_else(gone)
    }

    pub(super) async fn frame(&self, id: ConnectionId, frame: FromService) {
        self.send(Message::Frame(id, frame)).await;
    }

    pub(super) async fn subscribe(&self, id: ConnectionId, queue: Queue, sees: Sees) {
        self.send(Message::Subscribe(id, queue, sees)).await;
    }

    /// A viewer asks for a snapshot; the answer comes through its queue.
    pub(super) async fn capture(&self, id: ConnectionId, instance: InstanceId) {
        self.send(Message::Capture(id, instance)).await;
    }

    /// A viewer asks something; the answer comes through its queue.
    pub(super) async fn ask(&self, id: ConnectionId, ask: Ask) {
        self.send(Message::Ask(id, Box::new(ask))).await;
    }

    /// A viewer asks for a change; the outcome comes through its queue.
    pub(super) async fn control(&self, from: (ConnectionId, u32), control: Control) {
        self.send(Message::Control(from, control)).await;
    }

    /// A viewer asks what the rules say; the answer comes through its queue.
    pub(super) async fn rules(&self, id: ConnectionId) {
        self.send(Message::Rules(id)).await;
    }

    /// A viewer asks for a silence; the answer comes through its queue.
    pub(super) async fn silence(&self, asker: (ConnectionId, u32, Sees), request: SilenceRequest) {
        self.send(Message::Silence(asker, request)).await;
    }

    /// The configuration file has been read anew.
    pub(super) async fn file(&self, file: Reread) {
        self.send(Message::File(Box::new(file))).await;
    }

    /// Counts a loss, of a connection where it has one.
    pub(super) async fn lost(&self, id: Option<ConnectionId>, loss: Loss) {
        self.send(Message::Lost(id, loss)).await;
    }

    pub(super) async fn disconnected(&self, id: ConnectionId) {
        self.send(Message::Disconnected(id)).await;
    }

    async fn send(&self, message: Message) {
        // The hub outlives its handles unless it panicked, and then `Agent::run` says so.
        let _ = self.0.send(message).await;
    }
}
