//! Incidents, from a blocked worker to the snapshot file: with agents of every sort, with none, and where there is no
//! place for a file.

mod common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use ax_probe::{Builder, Probe};
use ax_wire::{
    ToAgent,
    incident::{Incident, Reason, Snapshot, Writer},
    sample::WorkerState,
    snapshot_file,
};
use common::{FakeAgent, Manners, turn};
use tokio::runtime::{self, Runtime};

/// How long the workers are blocked: longer than the evidence may take, as the file is to be there before the end.
const BLOCKED: Duration = Duration::from_secs(2);

/// When the file is to be there: well before the end of the block, on a busy machine too. The budget is 250 ms, and
/// 200 more where an agent has to be waited for.
const SOON: Duration = Duration::from_millis(1_600);

struct Service {
    runtime: Runtime,
    probe: Probe,
    folder: tempfile::TempDir,
}

impl Service {
    /// Takes evidence from the first moment on. `socket` may be one on which nobody listens.
    fn start(socket: &Path, settings: impl FnOnce(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build();
        let runtime = runtime.expect("builds");
        let probe = Probe::builder("test")
            .socket(socket)
            .quiet_start(Duration::ZERO)
            .stacks(true)
            .snapshot_dir(folder.path().join("snapshots"));
        let probe = settings(probe).install_on(runtime.handle());
        // Until the probe has met its agent, if there is one, and the workers.
        thread::sleep(Duration::from_millis(400));
        Self {
            runtime,
            probe: probe.expect("installs"),
            folder,
        }
    }

    fn snapshots(&self) -> PathBuf {
        self.folder.path().join("snapshots")
    }

    /// Blocks every worker, and returns when both are.
    fn block(&self) -> Blocked {
        let together = Arc::new(Barrier::new(3));
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let together = Arc::clone(&together);
                let _inside = self.runtime.enter();
                ax_probe::spawn("blocker", async move {
                    together.wait();
                    thread::sleep(BLOCKED);
                })
            })
            .collect();
        together.wait();
        Blocked {
            since: Instant::now(),
            tasks,
        }
    }

    fn end(self, blocked: Blocked) {
        for task in blocked.tasks {
            self.runtime.block_on(task).expect("ends");
        }
        self.probe.shutdown();
    }
}

struct Blocked {
    since: Instant,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("reads").path());
    let ready = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    ready.collect()
}

/// Waits for a file; how long that took since `since`.
fn wait_for_file(folder: &Path, since: Instant) -> (Snapshot, Duration) {
    loop {
        if let Some(path) = files(folder).first() {
            let took = since.elapsed();
            let mode = fs::metadata(path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            return (snapshot_file::read(path).expect("a snapshot"), took);
        }
        assert!(since.elapsed() < Duration::from_secs(10), "no file came");
        thread::sleep(Duration::from_millis(2));
    }
}

fn no_agent() -> PathBuf {
    PathBuf::from("/nonexistent/agent.sock")
}

fn incident_of(agent: &FakeAgent) -> Incident {
    agent.wait_for(|frame| match frame {
        ToAgent::Incident(incident) => Some(incident.as_ref().clone()),
        _ => None,
    })
}

fn check_evidence(incident: &Incident) {
    assert!(
        matches!(incident.reason, Reason::Stall { length_ns, .. } if length_ns >= 250_000_000),
        "{:?}",
        incident.reason
    );
    assert_eq!(incident.stalls.len(), 2, "{:?}", incident.stalls);
    let of_stall = |id| incident.stacks.iter().any(|stack| stack.stall == id);
    assert!(
        incident.stalls.iter().any(|stall| of_stall(stall.id)),
        "{:?}",
        incident.stacks
    );
    let workers = &incident.runtimes[0].workers;
    for worker in workers {
        assert_eq!(worker.state, WorkerState::Stalled);
        let poll = worker.poll.as_ref().expect("named");
        assert_eq!(poll.task.name, "blocker");
        assert!(worker.thread.is_some());
    }
    assert!(incident.lag.len() >= 3, "{:?}", incident.lag);
    assert!(incident.process.rss_bytes.is_some());
}

#[test]
fn without_an_agent_the_probe_writes_the_file_while_every_worker_is_blocked() {
    let _turn = turn();
    let service = Service::start(&no_agent(), |probe| probe.service_version("7"));
    // Some history before it.
    thread::sleep(Duration::from_millis(1_200));
    let blocked = service.block();
    let (snapshot, took) = wait_for_file(&service.snapshots(), blocked.since);
    println!("no agent: on disk {took:?} after the block began (budget 700 ms)");
    assert!(took < SOON, "{took:?}");
    assert_eq!(snapshot.writer, Writer::Probe);
    assert_eq!(snapshot.hello.service_version.as_deref(), Some("7"));
    assert!(snapshot.history.len() >= 2, "{:?}", snapshot.history);
    assert!(snapshot.types.iter().any(|of| of.name == "blocker"));
    assert!(snapshot.view.is_none() && !snapshot.unknown.is_empty());
    check_evidence(snapshot.incident.as_ref().expect("taken"));
    thread::sleep(BLOCKED.saturating_sub(blocked.since.elapsed()));
    assert_eq!(
        files(&service.snapshots()).len(),
        1,
        "one for two stalls and their lag"
    );
    service.end(blocked);
}

#[test]
fn what_an_agent_takes_over_the_probe_does_not_write() {
    let _turn = turn();
    for manners in [Manners::Acks, Manners::AcksAndLeaves] {
        let agent = FakeAgent::start_as(manners);
        let service = Service::start(&agent.socket(), |probe| probe);
        let blocked = service.block();
        let incident = incident_of(&agent);
        let took = blocked.since.elapsed();
        println!("an agent that {manners:?}: offered {took:?} after the block began");
        assert!(took < Duration::from_secs(1), "{took:?}");
        check_evidence(&incident);
        thread::sleep(BLOCKED.saturating_sub(blocked.since.elapsed()));
        assert!(files(&service.snapshots()).is_empty());
        service.end(blocked);
        let incidents = agent.frames().into_iter();
        let incidents = incidents.filter(|frame| matches!(frame, ToAgent::Incident(_)));
        assert_eq!(incidents.count(), 1, "two stalls and their lag are one");
    }
}

#[test]
fn what_no_agent_takes_over_in_time_the_probe_writes_once() {
    let _turn = turn();
    for manners in [Manners::Silent, Manners::AcksTooLate, Manners::Leaves] {
        let agent = FakeAgent::start_as(manners);
        let service = Service::start(&agent.socket(), |probe| probe);
        let blocked = service.block();
        let (snapshot, took) = wait_for_file(&service.snapshots(), blocked.since);
        println!("{manners:?} agent: on disk {took:?} after the block began (budget 700 ms)");
        assert!(took < SOON, "{took:?}");
        assert_eq!(snapshot.writer, Writer::Probe);
        check_evidence(snapshot.incident.as_ref().expect("taken"));
        thread::sleep(Duration::from_millis(500));
        assert_eq!(files(&service.snapshots()).len(), 1);
        service.end(blocked);
    }
}

/// Shows what went wrong, counts it, and neither harms the service nor follows a link.
#[test]
fn a_bad_place_for_files_is_counted_and_harms_nothing() {
    let _turn = turn();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let places = tempfile::tempdir().expect("a folder");
    let place = |name| places.path().join(name);
    symlink(elsewhere.path(), place("a link")).expect("links");
    fs::write(place("a file"), "in the way").expect("writes");
    fs::create_dir(place("open to others")).expect("makes");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(place("open to others"), open).expect("ours");
    let names = ["a link", "a file", "open to others"];
    let unwritable = PathBuf::from("/proc/ax/snapshots");
    for case in names.map(place).into_iter().chain([unwritable]) {
        let agent = FakeAgent::start();
        let service = Service::start(&agent.socket(), |probe| probe.snapshot_dir(&case));
        let case = case.display();
        service.probe.capture("for a bad place");
        let failed = agent.wait_for(|frame| match frame {
            ToAgent::Sample(sample) => {
                Some(sample.dropped.snapshots_failed_total).filter(|count| *count > 0)
            }
            _ => None,
        });
        assert_eq!(failed, 1, "{case}");
        assert_eq!(service.probe.panicked_threads(), 0, "{case}");
        assert!(files(elsewhere.path()).is_empty(), "{case}");
        service.probe.shutdown();
    }
}

#[test]
fn a_capture_from_code_carries_its_label_and_has_a_rate() {
    let _turn = turn();
    let agent = FakeAgent::start_as(Manners::Acks);
    let service = Service::start(&agent.socket(), |probe| probe);
    service.probe.capture("negative balance");
    let label = "negative balance".to_owned();
    assert_eq!(incident_of(&agent).reason, Reason::Code { label });
    for _ in 0..40 {
        service.probe.capture("again");
        thread::sleep(Duration::from_millis(5));
    }
    let beyond = 41 - ax_probe::CAPTURES_PER_MINUTE;
    wait_for_suppressed(&agent, beyond as u64);
    service.probe.shutdown();
    let incidents = agent.frames().into_iter();
    let incidents = incidents.filter(|frame| matches!(frame, ToAgent::Incident(_)));
    assert_eq!(incidents.count(), ax_probe::CAPTURES_PER_MINUTE);
}

#[test]
fn an_agent_that_asks_gets_evidence() {
    let _turn = turn();
    let agent = FakeAgent::start_as(Manners::Captures);
    // No cooldown and no quiet start apply to what was asked for.
    let quiet = |probe: Builder| probe.quiet_start(Duration::from_mins(10));
    let service = Service::start(&agent.socket(), quiet);
    let incident = incident_of(&agent);
    assert_eq!(incident.reason, Reason::Capture);
    assert_eq!(incident.runtimes[0].workers.len(), 2);
    assert!(incident.stalls.is_empty());
    service.probe.shutdown();
    assert!(files(&service.snapshots()).is_empty());
}

fn wait_for_suppressed(agent: &FakeAgent, total: u64) {
    agent.wait_for(|frame| match frame {
        ToAgent::Sample(sample) => (sample.incidents_suppressed_total == total).then_some(()),
        _ => None,
    });
}

#[test]
fn a_start_is_quiet_and_says_so() {
    let _turn = turn();
    let agent = FakeAgent::start_as(Manners::Acks);
    let quiet = |probe: Builder| probe.quiet_start(Duration::from_mins(10));
    let service = Service::start(&agent.socket(), quiet);
    let blocked = service.block();
    wait_for_suppressed(&agent, 1);
    service.end(blocked);
    let frames = agent.frames();
    assert!(
        !frames
            .iter()
            .any(|frame| matches!(frame, ToAgent::Incident(_)))
    );
}

/// Whoever has waited for a service asks in the moment in which it is there.
#[test]
fn what_is_asked_with_the_greeting_is_answered() {
    let _turn = turn();
    let agent = FakeAgent::start_as(Manners::CapturesAtOnce);
    let service = Service::start(&agent.socket(), |probe| probe);
    assert_eq!(incident_of(&agent).reason, Reason::Capture);
    service.probe.shutdown();
}
