//! The viewers' queues: every frame is encoded once and shared, and a slow viewer loses frames instead of holding
//! anybody up.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use ax_wire::{
    InstanceId, ToViewer,
    view::{AgentDropped, Services},
};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    connection::ConnectionId,
    hub::{Service, ServiceMap},
    line,
};
use crate::{
    clock::Now,
    view::{Extras, backfill, view},
    window::Tallies,
};

/// Frames on their way to one viewer, as lines.
pub(super) type Queue = mpsc::Sender<Arc<[u8]>>;

#[derive(Debug)]
struct Viewer {
    queue: Queue,
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
    /// The services as they were last sent.
    sent: Option<Services>,
    tallies: Tallies,
}

impl Viewers {
    pub(super) fn add(&mut self, id: ConnectionId, queue: Queue) {
        let viewer = Viewer {
            queue,
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

    /// Sends the services to whoever does not have them as they are.
    pub(super) fn send_services(
        &mut self,
        services: &ServiceMap,
        dropped: &mut AgentDropped,
        now: Now,
    ) {
        if self.by_connection.is_empty() {
            return;
        }
        let mut list: Vec<_> = services.values().map(|s| s.history.summary(now)).collect();
        list.sort_by(|a, b| {
            let newest_first =
                Reverse(a.process_start_unix_ns).cmp(&Reverse(b.process_start_unix_ns));
            a.service.cmp(&b.service).then(newest_first)
        });
        let current = Services {
            services: list,
            agent_dropped: *dropped,
        };
        let changed = self.sent.as_ref() != Some(&current);
        let waiting = self.by_connection.values_mut();
        let waiting: Vec<_> = waiting
            .filter(|viewer| changed || !viewer.has_services)
            .collect();
        if waiting.is_empty() {
            return;
        }
        let frame: Arc<[u8]> = line(&ToViewer::Services(current.clone())).into();
        for viewer in waiting {
            viewer.has_services = viewer.offer(&frame);
            dropped.viewer_frames_total += u64::from(!viewer.has_services);
        }
        self.sent = Some(current);
    }

    /// Sends the view of a service to whoever has its backfill.
    pub(super) fn send_view(
        &mut self,
        service: &mut Service,
        dropped: &mut AgentDropped,
        now: Now,
    ) {
        let instance = service.history.hello.instance;
        let viewers = self.by_connection.values();
        let ready: Vec<_> = viewers
            .filter(|v| v.backfilled.contains(&instance))
            .collect();
        if ready.is_empty() {
            return;
        }
        let frame = view_frame(service, now, &mut self.tallies);
        let lost = ready.iter().filter(|viewer| !viewer.offer(&frame)).count() as u64;
        service.dropped.viewer_frames_total += lost;
        dropped.viewer_frames_total += lost;
    }

    /// Sends charts and figures of each service to whoever has none of them yet: a viewer that has just come, a
    /// service that has just come, a queue that had no room before.
    pub(super) fn catch_up(
        &mut self,
        services: &mut ServiceMap,
        dropped: &mut AgentDropped,
        now: Now,
    ) {
        for (instance, service) in services {
            let viewers = self.by_connection.values_mut();
            let new: Vec<_> = viewers
                .filter(|v| !v.backfilled.contains(instance) && v.has_room_for_two())
                .collect();
            if new.is_empty() {
                continue;
            }
            let window = service.history.window();
            let charts: Arc<[u8]> = line(&ToViewer::Backfill(backfill(window))).into();
            let figures = view_frame(service, now, &mut self.tallies);
            for viewer in new {
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

fn view_frame(service: &Service, now: Now, tallies: &mut Tallies) -> Arc<[u8]> {
    let window = service.history.window();
    let extras = Extras {
        dropped: service.dropped,
        ..Extras::default()
    };
    let view = view(window, now, extras, tallies);
    line(&ToViewer::View(Box::new(view))).into()
}
