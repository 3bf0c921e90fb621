//! A snapshot file as the screens, the report and the exports see it: with a view in any case, and every instant on the
//! wall clock.

mod answers;
mod made;

use std::path::Path;

use ax_agent::symbol::{OWN_PROGRAM, Symbolizer};
use ax_wire::{
    ToViewer,
    incident::{Incident, IncidentId, Snapshot},
    sample::LagPoint,
    snapshot_file,
    stack::ThreadStack,
    verdict::VerdictId,
    view::{Backfill, LaneView, Point, ServiceView, Services, StallView},
};

use self::made::{made_point, made_view};

use crate::{
    headline::{self, Headline},
    world::{Link, Update, World},
};

/// The seconds that the figures of a snapshot cover.
const WINDOW_NS: u64 = 60_000_000_000;

/// A snapshot that has been read.
#[derive(Clone, Debug)]
pub struct Opened {
    /// As it stands in the file.
    pub snapshot: Snapshot,
    /// What a screen shows of it: the agent's view, or one made of what the probe took down, with the incident's own
    /// stalls and alerts in it.
    pub view: ServiceView,
    /// The name of the file, without its folder.
    pub name: String,
}

impl Opened {
    /// Reads a file, and names its stacks where its writer could not: a service that wrote it itself leaves addresses. The
    /// file stays as it is. Blocks, some 100 ms where there are stacks to name.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, and what to do.
    pub fn read(path: &Path) -> Result<Self, snapshot_file::SnapshotFileError> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let mut snapshot = snapshot_file::read(path)?;
        if let Some(incident) = &mut snapshot.incident {
            Symbolizer::new(OWN_PROGRAM).name_here(&mut incident.stacks);
        }
        Ok(Self::new(snapshot, name))
    }

    /// Of a snapshot that is in memory.
    pub fn new(snapshot: Snapshot, name: String) -> Self {
        let view = view_of(&snapshot);
        Self {
            snapshot,
            view,
            name,
        }
    }

    /// When the evidence was taken.
    pub fn at_unix_ns(&self) -> u64 {
        taken_unix_ns(&self.snapshot)
    }

    /// The incident's id, where it has one.
    pub fn id(&self) -> Option<IncidentId> {
        self.snapshot.incident.as_ref().map(|incident| incident.id)
    }

    /// The wall time of a monotonic instant of the service.
    pub fn unix_ns(&self, mono_ns: u64) -> u64 {
        self.snapshot.incident.as_ref().map_or_else(
            || self.snapshot.hello.clock.to_unix_ns(mono_ns),
            |incident| {
                // The wall clock may have been stepped since the handshake; the incident has both of its own instant.
                incident
                    .at_unix_ns
                    .saturating_add(mono_ns)
                    .saturating_sub(incident.at_mono_ns)
            },
        )
    }

    /// The stacks of what was stuck.
    pub fn stacks(&self) -> &[ThreadStack] {
        let incident = self.snapshot.incident.as_ref();
        incident.map_or(&[], |incident| &incident.stacks)
    }

    /// A point a second, and one of the incident's own instant.
    pub fn points(&self) -> Vec<Point> {
        let mut points = self.snapshot.history.clone();
        if self.snapshot.incident.is_some() {
            points.push(made_point(&self.snapshot));
        }
        points
    }

    /// What was wrong at that time, worst first, and at least one.
    pub fn headlines(&self) -> Vec<Headline> {
        headline::of_service(&self.view, self.view.at_unix_ns)
    }

    /// A world in which the service stands still.
    pub fn world(&self) -> World {
        let mut world = World::new();
        world.now_unix_ns = self.view.at_unix_ns;
        world.apply(Update::Link(Link::File {
            name: self.name.clone(),
        }));
        let view = self.view.clone();
        world.apply(Update::Frame(ToViewer::Services(Services {
            services: vec![view.summary.clone()],
            agent_dropped: view.agent_dropped,
            ..Services::default()
        })));
        world.apply(Update::Frame(ToViewer::Backfill(Backfill {
            instance: view.summary.instance,
            points: self.snapshot.history.clone(),
        })));
        world.apply(Update::Frame(ToViewer::View(Box::new(view))));
        world
    }
}

fn taken_unix_ns(snapshot: &Snapshot) -> u64 {
    let incident = snapshot.incident.as_ref();
    incident.map_or(snapshot.written_unix_ns, |incident| incident.at_unix_ns)
}

fn view_of(snapshot: &Snapshot) -> ServiceView {
    let mut view = match &snapshot.view {
        Some(view) => view.clone(),
        None => made_view(snapshot),
    };
    // The evidence is of one instant, the view of a moment before.
    view.at_unix_ns = view.at_unix_ns.max(taken_unix_ns(snapshot));
    if let Some(incident) = &snapshot.incident {
        view.stalls.retain(|known| {
            let mut stalls = incident.stalls.iter();
            !stalls.any(|stall| stall.id == known.stall.id)
        });
        let going_on = incident.stalls.iter().map(|stall| StallView {
            stall: stall.clone(),
            ongoing: true,
            began_unix_ns: incident
                .at_unix_ns
                .saturating_sub(incident.at_mono_ns.saturating_sub(stall.began_mono_ns)),
        });
        view.stalls.splice(0..0, going_on);
        if !incident.stalls.is_empty() {
            // The view's verdict is of the second before, when that was still true.
            view.diagnosis
                .verdicts
                .retain(|verdict| verdict.id != VerdictId::Healthy);
        }
        catch_up(&mut view, incident);
    }
    view.alerts.clone_from(&snapshot.alerts);
    // World takes a view without a point for one from before the first sample.
    view.point = view
        .point
        .or_else(|| snapshot.history.last().cloned())
        .or_else(|| Some(made_point(snapshot)));
    view
}

/// Brings what is of one instant from the second before up to that of the incident.
fn catch_up(view: &mut ServiceView, incident: &Incident) {
    let lag_ns = incident.lag.iter().filter_map(LagPoint::lag_ns).max();
    view.lag.max_ns = view.lag.max_ns.max(lag_ns);
    for taken in &incident.lanes {
        let mut lanes = view.lanes.iter_mut();
        let same =
            |lane: &&mut LaneView| lane.scheduler == taken.scheduler && lane.name == taken.name;
        if let Some(lane) = lanes.find(same) {
            lane.limit = taken.limit;
            lane.running = taken.running;
            lane.pending = taken.pending;
            lane.waiting = taken.waiting;
            lane.head_age_ns = taken.head_age_ns;
        }
    }
    for taken in &incident.runtimes {
        let mut runtimes = view.runtimes.iter_mut();
        let Some(runtime) = runtimes.find(|runtime| runtime.info.id == taken.info.id) else {
            continue;
        };
        for worker in &mut runtime.workers {
            let mut now = taken.workers.iter();
            if let Some(now) = now.find(|now| now.index == worker.index) {
                worker.tid = now.tid;
                worker.state = now.state;
                worker.poll.clone_from(&now.poll);
                worker.thread = now.thread;
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use ax_wire::{
        incident::Writer,
        sample::WorkerState,
        stack::{Frame, Function, Module, StackEnd, StackProof},
    };

    use super::*;
    use crate::app::App;

    /// The snapshot that must be read for ever, taken of the demo under a fault.
    pub fn fixture() -> Opened {
        let json = include_str!("../../tests/fixtures/snapshot-v1.json");
        let snapshot = serde_json::from_str(json).expect("reads for ever");
        Opened::new(snapshot, "snapshot-v1.json".to_owned())
    }

    /// The same with two stacks of worker 1, named but for the outermost frame.
    pub fn with_stacks() -> Opened {
        let function = |name: &str| Function {
            name: name.to_owned(),
            file: Some("demo/src/fault.rs".to_owned()),
            line: Some(53),
        };
        let frame = |offset, functions: &[&str]| Frame {
            module: Some(0),
            offset,
            functions: functions.iter().map(|name| function(name)).collect(),
        };
        let mut snapshot = fixture().snapshot;
        let incident = snapshot.incident.as_mut().expect("has one");
        let stall = &incident.stalls[1];
        let stack = ThreadStack {
            stall: stall.id,
            runtime: stall.runtime,
            worker: stall.worker,
            tid: 31_699,
            at_mono_ns: incident.at_mono_ns,
            stall_age_ns: 52_000_000,
            held_up_ns: 600,
            proof: StackProof::SamePoll,
            end: StackEnd::Root,
            modules: vec![Module {
                path: "/srv/demo".to_owned(),
                build_id: None,
                unnamed: None,
            }],
            frames: vec![
                frame(0x100, &["std::thread::sleep"]),
                frame(0x200, &["demo::inlined<[u8; 4]>", "demo::fault::block"]),
                frame(0x300, &["tokio::run"]),
                frame(0x500, &[]),
            ],
        };
        incident.stacks = vec![stack.clone(), stack];
        Opened::new(snapshot, "snapshot-v1.json".to_owned())
    }

    /// The same without what an agent adds.
    pub fn by_probe() -> Opened {
        let mut snapshot = fixture().snapshot;
        snapshot.writer = Writer::Probe;
        snapshot.view = None;
        snapshot.history.clear();
        snapshot.alerts.clear();
        Opened::new(snapshot, "snapshot-v1.json".to_owned())
    }

    #[test]
    fn a_snapshot_without_a_view_says_the_same_of_what_was_stuck() {
        let (agent, probe) = (fixture(), by_probe());
        let said = agent.headlines().swap_remove(0).sentence;
        assert_eq!(
            said,
            "stall 252 ms on all 2 workers, still going on: task fault_block started demo/src/fault.rs:53"
        );
        assert_eq!(probe.headlines().swap_remove(0).sentence, said);
        let lanes = |opened: &Opened| -> Vec<_> {
            let lanes = opened.view.lanes.iter();
            lanes.map(|lane| (lane.name.clone(), lane.limit)).collect()
        };
        assert_eq!(lanes(&agent), lanes(&probe));
        assert_eq!(probe.view.lanes[2].pending, 15);
        assert_eq!(
            agent.view.lanes[2].pending, 15,
            "of the instant, not of the second before"
        );
        let stuck = |opened: &Opened| {
            App::workers(&opened.view).all(|worker| worker.state == WorkerState::Stalled)
        };
        assert!(stuck(&agent) && stuck(&probe));
        assert!(probe.view.lag.max_ns.is_some_and(|max| max > 200_000_000));
    }

    /// The agent's verdict is of the second before.
    #[test]
    fn a_snapshot_of_a_stall_is_not_said_to_be_healthy() {
        let mut snapshot = fixture().snapshot;
        let view = snapshot.view.as_mut().expect("by the agent");
        let healthy = serde_json::json!({
            "id": "healthy", "severity": "info", "confidence": 1.0, "since_unix_ns": 0,
            "sentence": "nothing waits", "evidence": [], "who_is_hurt": [], "next_steps": [],
        });
        view.diagnosis.verdicts = vec![serde_json::from_value(healthy).expect("a verdict")];
        let opened = Opened::new(snapshot, "snapshot-v1.json".to_owned());
        let first = opened.headlines().swap_remove(0);
        assert!(first.sentence.starts_with("stall 252 ms"), "{first:?}");
    }

    #[test]
    fn the_world_of_a_file_stands_still_and_holds_it_all() {
        let opened = fixture();
        let world = opened.world();
        let instance = world.choose(None).expect("one service");
        let feed = world.feed(instance).expect("has figures");
        assert_eq!(feed.points.len(), opened.snapshot.history.len());
        assert_eq!(feed.view.as_deref(), Some(&opened.view));
        assert_eq!(by_probe().world().choose(None), Some(instance));
    }

    #[test]
    fn a_monotonic_instant_is_told_by_the_incidents_own_clock() {
        let opened = fixture();
        let incident = opened.snapshot.incident.as_ref().expect("has one");
        assert_eq!(opened.unix_ns(incident.at_mono_ns), opened.at_unix_ns());
        assert_eq!(
            opened.unix_ns(incident.at_mono_ns - 5),
            opened.at_unix_ns() - 5
        );
    }
}
