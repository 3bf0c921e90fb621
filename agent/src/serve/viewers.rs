//! The viewers' queues: every frame is encoded once and shared, and a slow viewer loses frames instead of holding
//! anybody up.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use ax_wire::{
    InstanceId, ToViewer,
    mark::Mark,
    view::{AgentDropped, ServiceView, Services},
};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    connection::ConnectionId, evidence::Evidence, hub::ServiceMap, line, service::Service,
};
use crate::{
    access::Sees,
    clock::Now,
    marks::Changes,
    view::{Extras, backfill, view},
    window::Tallies,
};

/// Frames on their way to one viewer, as lines.
pub(super) type Queue = mpsc::Sender<Arc<[u8]>>;

#[derive(Debug)]
struct Viewer {
    queue: Queue,
    sees: Sees,
    /// The services whose backfill it has: it gets views of those only.
    backfilled: HashSet<InstanceId>,
    /// Whether it has the services as they were last sent.
    has_services: bool,
}

impl Viewer {
    /// Whether charts and figures both fit, so that neither is encoded for nothing. A queue of one frame never says no.
    fn has_room_for_two(&self) -> bool {
        self.queue.capacity() >= self.queue.max_capacity().min(2)
    }

    /// Whether the frame found room. One for a viewer that is gone counts as delivered: its connection says so soon.
    fn offer(&self, frame: &Arc<[u8]>) -> bool {
        !matches!(
            self.queue.try_send(Arc::clone(frame)),
            Err(TrySendError::Full(_))
        )
    }
}

/// All viewers of the agent.
#[derive(Debug, Default)]
pub(super) struct Viewers {
    by_connection: HashMap<ConnectionId, Viewer>,
    /// The services as they were last sent, to those who see the same.
    sent: HashMap<Sees, Services>,
    /// What changed for all services, oldest first.
    marks: Vec<Mark>,
    /// See [`Services::file_problem`].
    file_problem: Option<String>,
    tallies: Tallies,
}

impl Viewers {
    pub(super) fn add(&mut self, id: ConnectionId, queue: Queue, sees: Sees) {
        let viewer = Viewer {
            queue,
            sees,
            backfilled: HashSet::new(),
            has_services: false,
        };
        self.by_connection.insert(id, viewer);
    }

    pub(super) fn remove(&mut self, id: ConnectionId) {
        self.by_connection.remove(&id);
    }

    /// A service is no longer kept. Should it come back, its charts begin anew.
    pub(super) fn forget(&mut self, instance: InstanceId) {
        for viewer in self.by_connection.values_mut() {
            viewer.backfilled.remove(&instance);
        }
    }

    /// Whether a viewer may see what belongs to this user.
    pub(super) fn sees(&self, id: ConnectionId, uid: u32) -> bool {
        let viewer = self.by_connection.get(&id);
        viewer.is_some_and(|viewer| viewer.sees.includes(uid))
    }

    /// Whether a viewer may see everything.
    pub(super) fn sees_all(&self, id: ConnectionId) -> bool {
        let viewer = self.by_connection.get(&id);
        viewer.is_some_and(|viewer| viewer.sees == Sees::All)
    }

    /// Takes what changed for all services, to be shown with each, and why the file is not in force.
    pub(super) fn set_rules(&mut self, marks: Vec<Mark>, file_problem: Option<String>) {
        self.marks = marks;
        self.file_problem = file_problem;
    }

    /// Sends a frame to one viewer, if it is still there.
    pub(super) fn send_to(&self, id: ConnectionId, frame: &ToViewer, dropped: &mut AgentDropped) {
        if let Some(viewer) = self.by_connection.get(&id) {
            let delivered = viewer.offer(&line(frame).into());
            dropped.viewer_frames_total += u64::from(!delivered);
        }
    }

    /// Sends the services to whoever does not have them as they are; to each those that it may see.
    pub(super) fn send_services(
        &mut self,
        services: &ServiceMap,
        dropped: &mut AgentDropped,
        now: Now,
    ) {
        let kinds: HashSet<Sees> = self.by_connection.values().map(|v| v.sees).collect();
        self.sent.retain(|sees, _| kinds.contains(sees));
        for sees in kinds {
            let seen = services.values().map(|s| s.history.summary(now));
            let mut list: Vec<_> = seen.filter(|seen| sees.includes(seen.uid)).collect();
            list.sort_by(|a, b| {
                let newest_first =
                    Reverse(a.process_start_unix_ns).cmp(&Reverse(b.process_start_unix_ns));
                a.service.cmp(&b.service).then(newest_first)
            });
            let current = Services {
                services: list,
                agent_dropped: *dropped,
                file_problem: self.file_problem.clone(),
            };
            let changed = self.sent.get(&sees) != Some(&current);
            let waiting = self.by_connection.values_mut();
            let waiting: Vec<_> = waiting
                .filter(|viewer| viewer.sees == sees && (changed || !viewer.has_services))
                .collect();
            if waiting.is_empty() {
                continue;
            }
            let frame: Arc<[u8]> = line(&ToViewer::Services(current.clone())).into();
            for viewer in waiting {
                viewer.has_services = viewer.offer(&frame);
                dropped.viewer_frames_total += u64::from(!viewer.has_services);
            }
            self.sent.insert(sees, current);
        }
    }

    /// What a viewer is shown of a service.
    pub(super) fn view(&mut self, service: &Service, evidence: &Evidence, now: Now) -> ServiceView {
        let (snapshots, suppressed) = evidence.of(&service.key());
        let alerts = service.book.alerts();
        let changes = Changes {
            window: service.history.window(),
            before: service.casebook.predecessor(),
            alerts: &alerts,
            snapshots: &snapshots,
            others: &self.other_marks(service),
        };
        let extras = Extras {
            marks: changes.marks(now.unix_ns),
            alerts,
            diagnosis: service.casebook.diagnosis().clone(),
            snapshots,
            suppressed,
            dropped: service.dropped,
        };
        view(service.history.window(), now, extras, &mut self.tallies)
    }

    /// What changed for all services and for this one, and has no other trace.
    fn other_marks(&self, service: &Service) -> Vec<Mark> {
        let of_all = self.marks.iter();
        let verdicts = service.casebook.marks().iter();
        of_all
            .chain(service.marks())
            .chain(verdicts)
            .cloned()
            .collect()
    }

    fn view_frame(&mut self, service: &Service, evidence: &Evidence, now: Now) -> Arc<[u8]> {
        let view = self.view(service, evidence, now);
        line(&ToViewer::View(Box::new(view))).into()
    }

    /// Sends views of the services that send no samples, whose viewers would else not see what has changed.
    pub(super) fn send_gone(
        &mut self,
        services: &mut ServiceMap,
        evidence: &Evidence,
        dropped: &mut AgentDropped,
        now: Now,
    ) {
        for service in services.values_mut() {
            if !service.history.speaks(now) {
                self.send_view(service, evidence, dropped, now);
            }
        }
    }

    /// Sends the view of a service to whoever has its backfill.
    pub(super) fn send_view(
        &mut self,
        service: &mut Service,
        evidence: &Evidence,
        dropped: &mut AgentDropped,
        now: Now,
    ) {
        let instance = service.instance();
        let is_ready = |viewer: &&Viewer| viewer.backfilled.contains(&instance);
        if !self.by_connection.values().any(|viewer| is_ready(&viewer)) {
            return;
        }
        let frame = self.view_frame(service, evidence, now);
        let ready = self.by_connection.values().filter(is_ready);
        let lost = ready.filter(|viewer| !viewer.offer(&frame)).count() as u64;
        service.dropped.viewer_frames_total += lost;
        dropped.viewer_frames_total += lost;
    }

    /// Sends charts and figures of each service to whoever has none of them yet: a viewer that has just come, a
    /// service that has just come, a queue that had no room before.
    pub(super) fn catch_up(
        &mut self,
        services: &mut ServiceMap,
        evidence: &Evidence,
        dropped: &mut AgentDropped,
        now: Now,
    ) {
        for (instance, service) in services {
            let uid = service.history.uid();
            let lacks = |viewer: &Viewer| {
                let new = viewer.sees.includes(uid) && !viewer.backfilled.contains(instance);
                new && viewer.has_room_for_two()
            };
            if !self.by_connection.values().any(lacks) {
                continue;
            }
            let window = service.history.window();
            let charts: Arc<[u8]> = line(&ToViewer::Backfill(backfill(window))).into();
            let figures = self.view_frame(service, evidence, now);
            for viewer in self
                .by_connection
                .values_mut()
                .filter(|viewer| lacks(viewer))
            {
                // The next tick tries again, so what finds no room for its charts has lost nothing.
                if viewer.offer(&charts) {
                    viewer.backfilled.insert(*instance);
                    let lost = u64::from(!viewer.offer(&figures));
                    service.dropped.viewer_frames_total += lost;
                    dropped.viewer_frames_total += lost;
                }
            }
        }
    }
}
