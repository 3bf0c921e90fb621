//! The one task that owns every history and every viewer's queue, so that none of it needs a lock.

mod controls;
mod questions;
mod rules;
mod snapshots;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use ax_wire::{InstanceId, ToViewer, hello::Hello, view::AgentDropped};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use self::rules::Alerts;
use super::{
    connection::ConnectionId,
    controls::Controls,
    evidence::{Answer, Asker, Evidence, refusal},
    memory,
    message::{FromService, HubHandle, Loss, Message, inbox},
    pause::OwnPause,
    questions::Questions,
    restart::SavedAlerts,
    service::{Service, Speaker},
    viewers::Viewers,
};
use crate::{
    alert::Book,
    clock::Now,
    config::Config,
    history::Day,
    marks::Predecessor,
    snapshot::{
        ServiceKey,
        store::{Report, Store, read_alerts},
    },
};

/// How often states are looked at, and viewers that missed something are brought up to date.
const TICK: Duration = Duration::from_secs(1);

pub(super) type ServiceMap = BTreeMap<InstanceId, Service>;

#[derive(Debug)]
pub(super) struct Hub {
    config: Config,
    inbox: mpsc::Receiver<Message>,
    services: ServiceMap,
    /// Which service speaks on which connection.
    speakers: HashMap<ConnectionId, InstanceId>,
    viewers: Viewers,
    evidence: Evidence,
    questions: Questions,
    controls: Controls,
    alerts: Alerts,
    saved: SavedAlerts,
    dropped: AgentDropped,
    own_pause: OwnPause,
    /// Once it is cancelled, connections end because we end: nobody is lost.
    stop: CancellationToken,
}

impl Hub {
    pub(super) fn new(config: Config, stop: CancellationToken) -> (HubHandle, Self) {
        let (sender, inbox) = inbox();
        let folder = config.snapshots.folder.clone();
        let saved = folder.as_deref().and_then(read_alerts);
        let back = sender.downgrade();
        let store = folder.map(|folder| {
            Store::start(folder, config.snapshots.clone(), move |report| {
                // A hub that is ending has no use for it.
                if let Some(hub) = back.upgrade() {
                    let _ = hub.blocking_send(Message::Disk(report));
                }
            })
        });
        let store = store.transpose().unwrap_or_else(|error| {
            tracing::error!("snapshots are off: no thread to write them: {error}");
            None
        });
        let now = Now::read();
        let mut saved = SavedAlerts::read(saved.as_deref(), now);
        let alerts = Alerts::new(&config, saved.take_silences(), sender.downgrade(), now);
        let mut viewers = Viewers::default();
        alerts.tell(&mut viewers);
        let hub = Self {
            alerts,
            evidence: Evidence::new(config.snapshots.clone(), store),
            config,
            inbox,
            services: BTreeMap::new(),
            speakers: HashMap::new(),
            viewers,
            questions: Questions::default(),
            controls: Controls::default(),
            saved,
            dropped: AgentDropped::default(),
            own_pause: OwnPause::new(TICK, now),
            stop,
        };
        (HubHandle::new(sender), hub)
    }

    /// Works until the last handle is gone, then waits for the disk.
    pub(super) async fn run(mut self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = Now::read();
            let timeouts = [
                self.evidence.next_timeout_mono_ns(),
                self.questions.next_timeout_mono_ns(),
                self.controls.next_timeout_mono_ns(),
            ];
            let timeout = timeouts.into_iter().flatten().min();
            let left = timeout.map(|at| Duration::from_nanos(at.saturating_sub(now.mono_ns)));
            tokio::select! {
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message, Now::read()),
                    None => break,
                },
                _ = tick.tick() => self.tick(Now::read()),
                () = sleep(left.unwrap_or_default()), if left.is_some() => {
                    self.conclude_captures(Now::read());
                    self.conclude_late(Now::read());
                    self.conclude_late_controls(Now::read());
                }
            }
        }
        drop(self.inbox);
        self.alerts.stop().await;
        if let Some(store) = self.evidence.take_store() {
            // Fails only if waiting panicked, which `finish` does not.
            let _ = tokio::task::spawn_blocking(|| store.finish()).await;
        }
    }

    fn take(&mut self, message: Message, now: Now) {
        match message {
            Message::Join {
                hello,
                speaker,
                answer,
            } => {
                let joined = self.join(*hello, speaker, now);
                // A connection that has been stopped meanwhile sends its `Disconnected` next.
                let _ = answer.send(joined);
            }
            Message::Frame(id, frame) => self.frame(id, frame, now),
            Message::Subscribe(id, queue, sees) => {
                self.viewers.add(id, queue, sees);
                self.tell_services(now);
            }
            Message::Capture(viewer, instance) => {
                if let Err(why) = self.capture(viewer, instance, now) {
                    self.answer(vec![refusal(Asker::Viewer(viewer), instance, why)]);
                }
            }
            Message::Ask(viewer, ask) => self.ask(viewer, &ask, now),
            Message::Control((viewer, uid), control) => self.control(viewer, uid, control, now),
            Message::Rules(viewer) => self.tell_rules(viewer, now),
            Message::Silence(asker, request) => self.silence(asker, request, now),
            Message::Acted(taken) => self.alerts.note(taken),
            Message::File(file) => self.take_file(*file, now),
            Message::Lost(id, loss) => {
                loss.count(&mut self.dropped);
                if let Some(service) = id.and_then(|id| self.speaker(id)) {
                    loss.count(&mut service.dropped);
                }
            }
            Message::Disconnected(id) => {
                self.viewers.remove(id);
                self.questions.forget(id);
                self.controls.forget(id);
                if let Some(service) = self.speaker(id) {
                    service.disconnected(now);
                    self.tell_states(now);
                    self.conclude_late(now);
                    self.conclude_late_controls(now);
                }
                self.speakers.remove(&id);
            }
            Message::Disk(Report::Named { id, stacks }) => {
                for service in self.services.values_mut() {
                    service.named(id, &stacks);
                }
            }
            Message::Disk(report) => {
                let answers = self.evidence.report(report, now);
                self.answer(answers);
                self.viewers
                    .send_gone(&mut self.services, &self.evidence, &mut self.dropped, now);
            }
        }
    }

    fn speaker(&mut self, id: ConnectionId) -> Option<&mut Service> {
        self.services.get_mut(self.speakers.get(&id)?)
    }

    fn join(&mut self, hello: Hello, speaker: Speaker, now: Now) -> Result<(), String> {
        let (id, instance, uid) = (speaker.id, hello.instance, speaker.peer.uid);
        let connected = self.speakers.len();
        let services = self.services.values();
        let of_user =
            services.filter(|known| known.speaker.is_some() && known.history.uid() == uid);
        let of_user = of_user.count();
        match self.services.get_mut(&instance) {
            Some(known) if known.history.uid() != uid => {
                return Err(format!("instance {instance} belongs to another user"));
            }
            Some(known) => {
                if let Some(older) = known.reconnected(hello, speaker, now) {
                    // The newer connection is the one that the service still knows of.
                    self.speakers.remove(&older.id);
                    older.stop.cancel();
                }
            }
            None if connected >= self.config.max_services => {
                let most = self.config.max_services;
                return Err(format!("this agent already watches {most} services"));
            }
            None if of_user >= self.config.max_services_of_user => {
                let most = self.config.max_services_of_user;
                return Err(format!(
                    "this agent already watches {most} services of user {uid}"
                ));
            }
            None => {
                let (seat, book, day) = self.seat_for(&hello, uid);
                let before = self.predecessor(&hello, uid, seat);
                let quiet_ns = self.config.quiet.as_nanos() as u64;
                let mut service = Service::new(hello, speaker, (seat, book), quiet_ns, now);
                service.history.day = day;
                let mut earlier = self.config.earlier.iter();
                if let Some(charts) = earlier.find(|charts| charts.instance == instance) {
                    service.history.recall(charts.points.clone());
                }
                if let Some(before) = before {
                    service.casebook.succeed(before);
                }
                self.services.insert(instance, service);
            }
        }
        self.speakers.insert(id, instance);
        self.evidence.look();
        self.tell_services(now);
        self.tell_states(now);
        Ok(())
    }

    /// The seat of a service that comes, and the alerts and the day that go with it: those of the last instance on it where
    /// that is gone, else the alerts from before our own restart.
    fn seat_for(&mut self, hello: &Hello, uid: u32) -> (u32, Book, Day) {
        let alike = |service: &&mut Service| {
            service.history.uid() == uid && service.history.hello.service == hello.service
        };
        let mut taken: Vec<u32> = self
            .services
            .values_mut()
            .filter(alike)
            .filter(|service| service.speaker.is_some())
            .map(|service| service.seat)
            .collect();
        taken.sort_unstable();
        taken.dedup();
        let free = (0..)
            .zip(&taken)
            .take_while(|(at, seat)| at == *seat)
            .count();
        let seat = free as u32;
        let before = self.services.values_mut().filter(alike);
        let before = before.filter(|service| service.seat == seat);
        let before = before.filter_map(|s| Some((s.history.gone_since_mono_ns()?, s)));
        let last = before.max_by_key(|(gone_since, _)| *gone_since);
        let (book, day) = if let Some((_, service)) = last {
            service.succeeded(&self.config.rules)
        } else {
            let name = hello.service.clone();
            let key = ServiceKey { uid, name, seat };
            let book = self.saved.take(&key, hello.instance);
            (book, Day::default())
        };
        (seat, book, day)
    }

    /// The last instance on a seat, which is gone.
    fn predecessor(&self, hello: &Hello, uid: u32, seat: u32) -> Option<Predecessor> {
        let alike = self.services.values().filter(|service| {
            let same = service.history.hello.service == hello.service;
            same && service.history.uid() == uid && service.seat == seat
        });
        let gone = alike.filter_map(|s| Some((s.history.gone_since_mono_ns()?, s)));
        let (_, last) = gone.max_by_key(|(gone_since, _)| *gone_since)?;
        last.history
            .change()
            .map(|_| Predecessor::of(&last.history))
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
            FromService::Backfill(charts, folded) => {
                count_folded(folded, service, &mut self.dropped);
                service.history.recall(charts.points);
            }
            FromService::Sample(sample) => {
                let suppressed = sample.sample.incidents_suppressed_total;
                self.evidence
                    .suppressed_by_service(service.key(), instance, suppressed);
                match service.history.sample(*sample, now) {
                    Ok(folded) => {
                        count_folded(folded, service, &mut self.dropped);
                        service.diagnose(now);
                    }
                    Err(error) => {
                        tracing::debug!(%instance, "{error}");
                        Loss::BadFrame.count(&mut service.dropped);
                        Loss::BadFrame.count(&mut self.dropped);
                        return;
                    }
                }
                self.viewers
                    .send_view(service, &self.evidence, &mut self.dropped, now);
            }
            FromService::Events(events, folded) => {
                count_folded(folded, service, &mut self.dropped);
                if let Some(unnamed) = service.later_stacks(&events) {
                    self.evidence.name(unnamed);
                }
                service.history.events(events, now);
            }
            FromService::Incident(incident) => self.incident(instance, *incident, now),
            FromService::Answer(answer) => return self.answered(instance, *answer, now),
            FromService::Controlled(told) => return self.controlled(instance, told, now),
            FromService::Goodbye => service.history.goodbye(now),
        }
        self.tell_states(now);
    }

    fn answer(&mut self, answers: Vec<Answer>) {
        for (asker, captured) in answers {
            match asker {
                Asker::Viewer(viewer) => {
                    let frame = ToViewer::Captured(captured);
                    self.viewers.send_to(viewer, &frame, &mut self.dropped);
                }
                Asker::Rule(occasion) => self.alerts.note_snapshot(&occasion, captured.outcome),
            }
        }
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
                self.viewers
                    .send_view(service, &self.evidence, &mut self.dropped, now);
            }
        }
        if changed {
            self.viewers
                .send_services(&self.services, &mut self.dropped, now);
        }
    }

    /// Brings viewers up to date that miss something.
    fn tell_services(&mut self, now: Now) {
        self.viewers
            .send_services(&self.services, &mut self.dropped, now);
        self.viewers
            .catch_up(&mut self.services, &self.evidence, &mut self.dropped, now);
    }

    fn tick(&mut self, now: Now) {
        self.notice_own_pause(now);
        self.forget_gone(now);
        self.tell_states(now);
        self.diagnose_silent(now);
        self.judge(now);
        self.write_last_seen(now);
        self.dropped.folded_total += memory::keep_within(&self.config, &mut self.services);
        self.tell_services(now);
    }

    fn notice_own_pause(&mut self, now: Now) {
        if let Some(paused) = self.own_pause.tick(now) {
            tracing::info!("this agent did not run for {} ms", paused.as_millis());
            for service in self.services.values_mut() {
                service.history.was_not_heard(paused, now);
            }
        }
    }

    /// A service that speaks is diagnosed with each of its samples; one that does not, here.
    fn diagnose_silent(&mut self, now: Now) {
        for service in self.services.values_mut() {
            let silent = service.speaker.is_some() && service.is_silent(now);
            if silent && service.diagnose(now) {
                self.viewers
                    .send_view(service, &self.evidence, &mut self.dropped, now);
            }
        }
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
            let connected = self.services[&instance].speaker.is_some();
            if !connected && (past_time || position >= self.config.max_gone) {
                self.services.remove(&instance);
                self.viewers.forget(instance);
            }
        }
    }
}

fn count_folded(folded: u64, service: &mut Service, dropped: &mut AgentDropped) {
    service.dropped.folded_total += folded;
    dropped.folded_total += folded;
}
