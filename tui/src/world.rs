//! What is known of the agent and its services. The screen draws a clone of it: cloning shares the large parts, and
//! to freeze the screen is not to take the next clone.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ax_wire::{
    InstanceId, ToViewer,
    alert::{Alert, AlertState},
    control::Controlled,
    frame::Captured,
    rules::{RulesReport, SilenceAnswer},
    view::{
        AgentDropped, Backfill, Point, Rates, ServiceState, ServiceSummary, ServiceView, Services,
    },
};
use tokio::sync::oneshot;

use crate::answers::Answers;

/// Points kept of each service: 15 minutes, what the agent keeps itself.
const MAX_POINTS: usize = 15 * 60;

/// How long the figures of a service outlive its leaving the agent's list: while a new agent takes over, the service
/// needs up to a second to find it.
const KEEP_UNLISTED_NS: u64 = 60 * 1_000_000_000;

/// How `ax-top` comes by its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// No agent yet, or no longer; what stood in the way, once something did.
    Connecting {
        problem: Option<String>,
        /// How long the agent that went away is still waited for; then one is started in this process.
        own_agent_in: Option<Duration>,
    },
    /// Another process is the agent.
    Attached { socket: PathBuf },
    /// The agent runs inside this process.
    Embedded { socket: PathBuf },
    /// There is no agent: the figures are those of a snapshot file, and stand still.
    File { name: String },
    /// There is none either: they are those of a recording.
    Recording { name: String },
}

impl Link {
    /// Before anything has been tried.
    pub const CONNECTING: Self = Self::Connecting {
        problem: None,
        own_agent_in: None,
    };
}

/// What the client tells.
#[derive(Debug)]
pub enum Update {
    Link(Link),
    Frame(ToViewer),
    /// An agent is about to start in this process and asks for the charts that are known, so that whoever attaches to it
    /// sees them too.
    HandOver(oneshot::Sender<Vec<Backfill>>),
}

/// Everything the agent told, newest state.
#[derive(Clone, Debug)]
pub struct World {
    pub link: Link,
    /// Of the last change; stands still while the screen is frozen.
    pub now_unix_ns: u64,
    /// Whether the agent has said which services there are.
    pub listed: bool,
    /// By name, then by start, newest first.
    pub services: Vec<ServiceSummary>,
    pub agent_dropped: AgentDropped,
    /// Why the agent's configuration file is not in force.
    pub file_problem: Option<String>,
    /// What was asked, and answered.
    pub answers: Answers,
    /// What became of the last capture, until somebody has told it.
    pub captured: Option<Captured>,
    /// What became of the last change of a service, until somebody has told it.
    pub controlled: Option<Controlled>,
    /// What the agent said last of its rules, where that was asked for.
    pub rules: Option<Arc<RulesReport>>,
    /// What became of the last silence that was asked for, until somebody has told it.
    pub silenced: Option<SilenceAnswer>,
    /// An alert that rings has begun, until somebody has rung.
    pub rings: bool,
    feeds: BTreeMap<InstanceId, ServiceFeed>,
}

/// The figures of one service.
#[derive(Clone, Debug, Default)]
pub struct ServiceFeed {
    pub view: Option<Arc<ServiceView>>,
    /// A point a second, oldest first.
    pub points: Arc<VecDeque<Point>>,
    /// Whether more was lost in the last second than before.
    pub losing: bool,
}

impl World {
    pub fn new() -> Self {
        Self {
            link: Link::CONNECTING,
            now_unix_ns: 0,
            listed: false,
            services: Vec::new(),
            agent_dropped: AgentDropped::default(),
            file_problem: None,
            answers: Answers::default(),
            captured: None,
            controlled: None,
            rules: None,
            silenced: None,
            rings: false,
            feeds: BTreeMap::new(),
        }
    }

    /// Takes in what the client told.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Link(link) => {
                self.listed &= !matches!(link, Link::Connecting { .. });
                self.answers.forget_open();
                self.link = link;
            }
            Update::HandOver(answer) => {
                // Nobody waits for it when the client is ending.
                let _ = answer.send(self.backfills());
            }
            Update::Frame(ToViewer::Services(services)) => self.list(services),
            Update::Frame(ToViewer::Backfill(backfill)) => self.backfill(backfill),
            Update::Frame(ToViewer::View(view)) => self.view(*view),
            Update::Frame(ToViewer::Controlled(controlled)) => self.controlled = Some(controlled),
            Update::Frame(ToViewer::Captured(captured)) => self.captured = Some(captured),
            Update::Frame(ToViewer::Rules(rules)) => self.rules = Some(Arc::from(rules)),
            Update::Frame(ToViewer::Silenced(answer)) => self.silenced = Some(answer),
            Update::Frame(ToViewer::Answer(answer)) => {
                self.answers.take(*answer, self.now_unix_ns);
            }
            Update::Frame(ToViewer::Ack(_) | ToViewer::Refused(_) | ToViewer::Unknown) => {}
        }
    }

    /// The figures of a service, once there are any.
    pub fn feed(&self, instance: InstanceId) -> Option<&ServiceFeed> {
        self.feeds.get(&instance)
    }

    /// The newest view of a service, once a sample of it has come.
    pub fn newest_view(&self, instance: InstanceId) -> Option<&Arc<ServiceView>> {
        self.feed(instance)?.view.as_ref()
    }

    /// One line about a service that the agent lists.
    pub fn summary(&self, instance: InstanceId) -> Option<&ServiceSummary> {
        self.services
            .iter()
            .find(|service| service.instance == instance)
    }

    /// The service to show: the one shown so far, or the new start of it, or the first that speaks.
    pub fn choose(&self, shown: Option<InstanceId>) -> Option<InstanceId> {
        let live = |service: &&ServiceSummary| service.state == ServiceState::Live;
        let current = shown.and_then(|instance| self.summary(instance));
        let chosen = match current {
            Some(current) if current.state == ServiceState::Live => Some(current),
            Some(current) => self
                .services
                .iter()
                .filter(live)
                .find(|service| service.service == current.service)
                .or(Some(current)),
            None => self
                .services
                .iter()
                .find(live)
                .or_else(|| self.services.first()),
        };
        let kept = shown.filter(|instance| self.feeds.contains_key(instance));
        chosen.map(|service| service.instance).or(kept)
    }

    fn backfills(&self) -> Vec<Backfill> {
        let feeds = self.feeds.iter().map(|(instance, feed)| Backfill {
            instance: *instance,
            points: feed.points.iter().cloned().collect(),
        });
        feeds.collect()
    }

    fn list(&mut self, services: Services) {
        self.listed = true;
        self.services = services.services;
        self.agent_dropped = services.agent_dropped;
        self.file_problem = services.file_problem;
        for summary in &self.services {
            let view = self.feeds.get_mut(&summary.instance);
            if let Some(view) = view.and_then(|feed| feed.view.as_mut())
                && view.summary != *summary
            {
                Arc::make_mut(view).summary.clone_from(summary);
            }
        }
        let oldest = self.now_unix_ns.saturating_sub(KEEP_UNLISTED_NS);
        let listed = &self.services;
        self.feeds.retain(|instance, feed| {
            listed.iter().any(|service| service.instance == *instance)
                || feed
                    .view
                    .as_ref()
                    .is_some_and(|view| view.at_unix_ns > oldest)
        });
    }

    /// A new agent may know less of the past than is known here: what is older than its first point stays.
    fn backfill(&mut self, backfill: Backfill) {
        let Some(first) = backfill.points.first().map(|point| point.at_unix_ns) else {
            return;
        };
        let feed = self.feeds.entry(backfill.instance).or_default();
        let points = Arc::make_mut(&mut feed.points);
        points.retain(|point| point.at_unix_ns < first);
        points.extend(backfill.points);
        trim(points);
    }

    /// A view without a point was made before the first sample: there is nothing in it but who the service is.
    fn view(&mut self, view: ServiceView) {
        if let Some(summary) = self
            .services
            .iter_mut()
            .find(|summary| summary.instance == view.summary.instance)
        {
            summary.clone_from(&view.summary);
        }
        let Some(point) = view.point.clone() else {
            return;
        };
        let feed = self.feeds.entry(view.summary.instance).or_default();
        self.rings |= feed
            .view
            .as_ref()
            .is_some_and(|before| begins_to_ring(before, &view));
        let before = feed.view.as_ref().map(|view| lost_total(view));
        feed.losing = before.is_some_and(|before| lost_total(&view) > before);
        let last = feed.points.back().map(|point| point.at_unix_ns);
        if last.is_none_or(|last| point.at_unix_ns > last) {
            let points = Arc::make_mut(&mut feed.points);
            points.push_back(point);
            trim(points);
        }
        feed.view = Some(Arc::new(view));
    }
}

/// Whether an alert rings now that did not ring in the view before. What rang before anybody looked rings no more.
fn begins_to_ring(before: &ServiceView, now: &ServiceView) -> bool {
    let rings = |alert: &&Alert| alert.bell && alert.state == AlertState::Firing;
    now.alerts.iter().filter(rings).any(|alert| {
        let same = |known: &Alert| {
            (&known.rule, &known.subject, known.began_unix_ns)
                == (&alert.rule, &alert.subject, alert.began_unix_ns)
        };
        !before.alerts.iter().filter(rings).any(same)
    })
}

fn trim(points: &mut VecDeque<Point>) {
    let surplus = points.len().saturating_sub(MAX_POINTS);
    points.drain(..surplus);
}

/// The view of a service that is not heard any more: levels stay as they were last, rates and shares are unknown now.
pub fn last_words(view: &ServiceView) -> ServiceView {
    let mut view = view.clone();
    view.process.cpus_used = None;
    view.process.probe_cpus_used = None;
    for worker in view.runtimes.iter_mut().flat_map(|r| &mut r.workers) {
        worker.busy_share = None;
        worker.on_cpu_share = None;
        worker.run_queue_share = None;
    }
    for lane in &mut view.lanes {
        (lane.rates, lane.recent) = (Rates::default(), Rates::default());
        lane.full_ns = None;
    }
    for r#type in &mut view.types {
        r#type.rates = Rates::default();
    }
    view
}

/// Everything that was lost on the way from the service to this screen.
pub fn lost_total(view: &ServiceView) -> u64 {
    let service = view.dropped;
    dropped_frames(view)
        + service.events_total
        + service.lag_points_total
        + service.types_folded_total
        + service.threads_unseen_total
        + service.baggage_entries_total
        + service.snapshots_failed_total
        + view.agent_dropped.folded_total
}

/// The part of [`lost_total`] that is whole frames.
pub fn dropped_frames(view: &ServiceView) -> u64 {
    let agent = view.agent_dropped;
    view.dropped.frames_total
        + agent.bad_frames_total
        + agent.oversized_frames_total
        + agent.viewer_frames_total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn applied(world: &mut World, view: ServiceView) -> &ServiceFeed {
        let instance = view.summary.instance;
        world.apply(Update::Frame(ToViewer::View(Box::new(view))));
        world.feed(instance).expect("is known")
    }

    #[test]
    fn a_view_from_before_the_first_sample_holds_no_figures() {
        let mut world = fixture::world(Vec::new());
        let mut view = fixture::healthy();
        world.services.push(view.summary.clone());
        view.point = None;
        world.apply(Update::Frame(ToViewer::View(Box::new(view.clone()))));
        assert!(world.newest_view(view.summary.instance).is_none());
    }

    #[test]
    fn it_is_losing_only_while_the_count_grows() {
        let mut world = fixture::world(vec![fixture::healthy()]);
        let mut view = fixture::healthy();
        view.dropped.frames_total = 3;
        assert!(applied(&mut world, view.clone()).losing);
        assert!(!applied(&mut world, view).losing);
    }

    #[test]
    fn points_are_bounded_and_never_doubled() {
        let mut world = fixture::world(vec![fixture::healthy()]);
        let mut view = fixture::healthy();
        let before = applied(&mut world, view.clone()).points.len();
        for second in 1..=1_000 {
            let point = view.point.as_mut().expect("has one");
            point.at_unix_ns = fixture::NOW_UNIX_NS + second * 1_000_000_000;
            applied(&mut world, view.clone());
            applied(&mut world, view.clone());
        }
        let points = &applied(&mut world, view).points;
        assert!(before < MAX_POINTS);
        assert_eq!(points.len(), MAX_POINTS);
        assert!(points.iter().is_sorted_by_key(|point| point.at_unix_ns));
    }

    #[test]
    fn the_charts_outlive_a_change_of_agents() {
        let view = fixture::healthy();
        let instance = view.summary.instance;
        let mut world = fixture::world(vec![view.clone()]);
        let known = world.feed(instance).map_or(0, |feed| feed.points.len());
        world.apply(Update::Link(Link::CONNECTING));
        world.apply(Update::Frame(ToViewer::Services(Services::default())));
        let last = fixture::points(&view).pop().expect("has points");
        world.apply(Update::Frame(ToViewer::Backfill(Backfill {
            instance,
            points: vec![last],
        })));
        let points = world.feed(instance).map_or(0, |feed| feed.points.len());
        assert_eq!(points, known, "the new agent knew only the last of them");
        world.now_unix_ns += 2 * KEEP_UNLISTED_NS;
        world.apply(Update::Frame(ToViewer::Services(Services::default())));
        assert!(world.feed(instance).is_none(), "nobody came back");
    }

    /// F82: the bell of an alert rings once, when it begins, and not for what rang before anybody looked.
    #[test]
    fn an_alert_with_a_bell_rings_when_it_begins() {
        let mut world = World::new();
        let mut show = |bell: bool| {
            let mut view = fixture::firing();
            view.alerts[0].bell = bell;
            world.apply(Update::Frame(ToViewer::View(Box::new(view))));
            std::mem::take(&mut world.rings)
        };
        assert!(!show(true), "it rang before");
        assert!(!show(false));
        assert!(show(true));
        assert!(!show(true), "once");
    }
}
