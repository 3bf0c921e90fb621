//! The one task that owns every history and every viewer's queue, so that none of it needs a lock.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use ax_wire::{
    InstanceId,
    event::Events,
    hello::Hello,
    view::{AgentDropped, ServiceState},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    connection::ConnectionId,
    viewers::{Queue, Viewers},
};
use crate::{clock::Now, config::Config, history::ServiceHistory, ingest::CleanSample};

/// Messages that wait for the hub. Senders wait when it is full, and with them the sockets that they read.
const INBOX: usize = 16;

/// How often states are looked at, and viewers that missed something are brought up to date.
const TICK: Duration = Duration::from_secs(1);

/// What the agent did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    BadFrame,
    OversizedFrame,
    Refused,
}

impl Loss {
    fn count(self, dropped: &mut AgentDropped) {
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
    Sample(Box<CleanSample>),
    Events(Events),
    Goodbye,
}

#[derive(Debug)]
enum Message {
    Join {
        id: ConnectionId,
        uid: u32,
        hello: Box<Hello>,
        stop: CancellationToken,
        answer: oneshot::Sender<Result<(), String>>,
    },
    Frame(ConnectionId, FromService),
    Subscribe(ConnectionId, Queue),
    Lost(Option<ConnectionId>, Loss),
    Disconnected(ConnectionId),
}

/// A way to the hub. The hub ends when the last one is dropped.
#[derive(Clone, Debug)]
pub(super) struct HubHandle(mpsc::Sender<Message>);

impl HubHandle {
    /// Brings a service in, or says why not. `stop` ends its connection when another takes its place.
    pub(super) async fn join(
        &self,
        id: ConnectionId,
        uid: u32,
        hello: Hello,
        stop: CancellationToken,
    ) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let hello = Box::new(hello);
        self.send(Message::Join {
            id,
            uid,
            hello,
            stop,
            answer,
        })
        .await;
        let gone = |_| Err("the agent is stopping".to_owned());
        answered.await.unwrap_or_else(gone)
    }

    pub(super) async fn frame(&self, id: ConnectionId, frame: FromService) {
        self.send(Message::Frame(id, frame)).await;
    }

    pub(super) async fn subscribe(&self, id: ConnectionId, queue: Queue) {
        self.send(Message::Subscribe(id, queue)).await;
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

/// A service, and the connection on which it speaks.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) history: ServiceHistory,
    pub(super) dropped: AgentDropped,
    /// The state that viewers were last told.
    told: ServiceState,
    connection: Option<(ConnectionId, CancellationToken)>,
}

pub(super) type ServiceMap = BTreeMap<InstanceId, Service>;

#[derive(Debug)]
pub(super) struct Hub {
    config: Config,
    inbox: mpsc::Receiver<Message>,
    services: ServiceMap,
    /// Which service speaks on which connection.
    speakers: HashMap<ConnectionId, InstanceId>,
    viewers: Viewers,
    dropped: AgentDropped,
}

impl Hub {
    pub(super) fn new(config: Config) -> (HubHandle, Self) {
        let (sender, inbox) = mpsc::channel(INBOX);
        let hub = Self {
            config,
            inbox,
            services: BTreeMap::new(),
            speakers: HashMap::new(),
            viewers: Viewers::default(),
            dropped: AgentDropped::default(),
        };
        (HubHandle(sender), hub)
    }

    /// Works until the last handle is gone.
    pub(super) async fn run(mut self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message, Now::read()),
                    None => return,
                },
                _ = tick.tick() => self.tick(Now::read()),
            }
        }
    }

    fn take(&mut self, message: Message, now: Now) {
        match message {
            Message::Join {
                id,
                uid,
                hello,
                stop,
                answer,
            } => {
                let joined = self.join(id, uid, *hello, stop, now);
                // A connection that has been stopped meanwhile sends its `Disconnected` next.
                let _ = answer.send(joined);
            }
            Message::Frame(id, frame) => self.frame(id, frame, now),
            Message::Subscribe(id, queue) => {
                self.viewers.add(id, queue);
                self.viewers
                    .send_services(&self.services, &mut self.dropped, now);
                self.viewers
                    .catch_up(&mut self.services, &mut self.dropped, now);
            }
            Message::Lost(id, loss) => {
                loss.count(&mut self.dropped);
                if let Some(service) = id.and_then(|id| self.speaker(id)) {
                    loss.count(&mut service.dropped);
                }
            }
            Message::Disconnected(id) => {
                self.viewers.remove(id);
                if let Some(service) = self.speaker(id) {
                    service.history.disconnected();
                    service.connection = None;
                    self.tell_states(now);
                }
                self.speakers.remove(&id);
            }
        }
    }

    fn speaker(&mut self, id: ConnectionId) -> Option<&mut Service> {
        self.services.get_mut(self.speakers.get(&id)?)
    }

    fn join(
        &mut self,
        id: ConnectionId,
        uid: u32,
        hello: Hello,
        stop: CancellationToken,
        now: Now,
    ) -> Result<(), String> {
        let instance = hello.instance;
        let connected = self.speakers.len();
        match self.services.get_mut(&instance) {
            Some(known) if known.history.uid() != uid => {
                return Err(format!("instance {instance} belongs to another user"));
            }
            Some(known) => {
                if let Some((older, stop)) = known.connection.replace((id, stop)) {
                    // The newer connection is the one that the service still knows of.
                    self.speakers.remove(&older);
                    stop.cancel();
                }
                known.history.hello_again(hello, now);
            }
            None if connected >= self.config.max_services => {
                let most = self.config.max_services;
                return Err(format!("this agent already watches {most} services"));
            }
            None => {
                let history = ServiceHistory::new(hello, uid, now);
                let service = Service {
                    told: history.state(now),
                    history,
                    dropped: AgentDropped::default(),
                    connection: Some((id, stop)),
                };
                self.services.insert(instance, service);
            }
        }
        self.speakers.insert(id, instance);
        self.viewers
            .send_services(&self.services, &mut self.dropped, now);
        self.viewers
            .catch_up(&mut self.services, &mut self.dropped, now);
        self.tell_states(now);
        Ok(())
    }

    fn frame(&mut self, id: ConnectionId, frame: FromService, now: Now) {
        // A connection whose place another has taken may still have a frame under way.
        let Some(instance) = self.speakers.get(&id).copied() else {
            return;
        };
        let Some(service) = self.services.get_mut(&instance) else {
            return;
        };
        match frame {
            FromService::HelloAgain(hello) if hello.instance == instance => {
                service.history.hello_again(*hello, now);
            }
            // Another instance on this connection, or a sample out of order: not taken, and counted.
            FromService::HelloAgain(_) => {
                Loss::BadFrame.count(&mut service.dropped);
                Loss::BadFrame.count(&mut self.dropped);
            }
            FromService::Sample(sample) => {
                match service.history.sample(*sample, now) {
                    Ok(folded) => {
                        service.dropped.folded_total += folded;
                        self.dropped.folded_total += folded;
                    }
                    Err(error) => {
                        tracing::debug!(%instance, "{error}");
                        Loss::BadFrame.count(&mut service.dropped);
                        Loss::BadFrame.count(&mut self.dropped);
                        return;
                    }
                }
                self.viewers.send_view(service, &mut self.dropped, now);
            }
            FromService::Events(events) => service.history.events(events, now),
            FromService::Goodbye => service.history.goodbye(now),
        }
        self.tell_states(now);
    }

    /// Tells viewers of every service whose state is no longer what they were told.
    fn tell_states(&mut self, now: Now) {
        let mut changed = false;
        for service in self.services.values_mut() {
            let state = service.history.state(now);
            if service.told != state {
                service.told = state;
                changed = true;
                let hello = &service.history.hello;
                tracing::info!(service = hello.service, pid = hello.pid, "{state:?}");
                self.viewers.send_view(service, &mut self.dropped, now);
            }
        }
        if changed {
            self.viewers
                .send_services(&self.services, &mut self.dropped, now);
        }
    }

    fn tick(&mut self, now: Now) {
        self.forget_gone(now);
        self.tell_states(now);
        self.viewers
            .send_services(&self.services, &mut self.dropped, now);
        self.viewers
            .catch_up(&mut self.services, &mut self.dropped, now);
    }

    /// Drops services that are gone: those past their time, and the oldest beyond the count.
    fn forget_gone(&mut self, now: Now) {
        let gone = self.services.iter().filter_map(|(instance, service)| {
            Some((service.history.gone_since_mono_ns()?, *instance))
        });
        let mut gone: Vec<_> = gone.collect();
        gone.sort_unstable_by(|a, b| b.cmp(a));
        for (position, (since_mono_ns, instance)) in gone.into_iter().enumerate() {
            let past_time = now.since(since_mono_ns) >= self.config.keep_gone;
            // One that said goodbye may not have closed its connection yet.
            let connected = self.services[&instance].connection.is_some();
            if !connected && (past_time || position >= self.config.max_gone) {
                self.services.remove(&instance);
                self.viewers.forget(instance);
            }
        }
    }
}
