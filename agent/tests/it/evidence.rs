//! Incidents become files: acknowledged first, within limits, and said where they cannot.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use ax_wire::{
    ToAgent, ToService, ToViewer,
    alert::AlertState,
    event::{Stall, StallKind},
    hello::Hello,
    incident::{
        CountOf, Incident, IncidentId, QueueFacts, Reason, RunningJob, SnapshotSummary, Writer,
    },
    sample::{Dropped, ProcessSample, TaskKind, TaskRef},
    snapshot_file::{file_name, read},
    view::ServiceView,
};
use tokio::time::{Instant, sleep};

use crate::{
    captures::{capture, captured},
    common::{MS, Peer, SECOND, TestAgent, done, hello, job_type, lag_point, lane, sample},
};

fn task(name: &str) -> TaskRef {
    TaskRef {
        name: name.into(),
        kind: TaskKind::Job,
        job: None,
        lane: Some("api".into()),
        place: None,
        trace: None,
    }
}

pub fn incident(reason: Reason) -> Incident {
    let stall = Stall {
        id: 1,
        runtime: ax_wire::RuntimeId(1),
        worker: Some(0),
        tid: None,
        kind: StallKind::Stall,
        began_mono_ns: SECOND,
        length_ns: 250 * MS,
        run_queue_ns: None,
        on_cpu_ns: None,
        task: Some(task("render")),
        thread: None,
    };
    Incident {
        id: IncidentId::new_now(),
        reason,
        at_mono_ns: 2 * SECOND,
        at_unix_ns: std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_nanos() as u64,
        stalls: vec![stall],
        stacks: Vec::new(),
        runtimes: Vec::new(),
        process: ProcessSample::default(),
        lanes: vec![lane("api", done(10))],
        running: Vec::new(),
        running_total: 0,
        queues: Vec::new(),
        waiting: Vec::new(),
        lag: Vec::new(),
        recorder: None,
        suppressed_total: 0,
        dropped: Dropped::default(),
        unknown: vec!["native stacks".into()],
    }
}

pub fn stall() -> Incident {
    incident(Reason::Stall {
        stall: 1,
        length_ns: 250 * MS,
    })
}

/// Sends an incident and waits until the agent takes it over. Returns how long that took.
pub async fn report(service: &mut Peer, incident: Incident) -> Duration {
    let (id, sent) = (incident.id, Instant::now());
    service.send(&ToAgent::Incident(Box::new(incident))).await;
    let answer: ToService = service.next().await;
    assert!(
        matches!(answer, ToService::IncidentAck(ack) if ack.id == id),
        "{answer:?}"
    );
    sent.elapsed()
}

pub async fn view_where(
    viewer: &mut Peer,
    service: &mut Peer,
    second: &mut u64,
    wanted: impl Fn(&ServiceView) -> bool,
) -> ServiceView {
    for _ in 0..200 {
        *second += 1;
        service.send_sample(sample(*second)).await;
        let view = viewer.wait_for(|frame| match frame {
            ToViewer::View(view) => Some(*view),
            _ => None,
        });
        let view = view.await;
        if wanted(&view) {
            return view;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("no such view");
}

pub async fn gone_view(
    viewer: &mut Peer,
    of: &Hello,
    wanted: impl Fn(&ServiceView) -> bool,
) -> ServiceView {
    viewer
        .wait_for(|frame| match frame {
            ToViewer::View(view) if view.summary.instance == of.instance && wanted(&view) => {
                Some(*view)
            }
            _ => None,
        })
        .await
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("can be listed");
    let paths = entries.map(|entry| entry.expect("is there").path());
    paths
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect()
}

#[tokio::test]
async fn an_incident_is_acknowledged_first_and_becomes_a_file_with_what_the_agent_knows() {
    let agent = TestAgent::start();
    let hello = hello("checkout");
    let mut service = agent.service(&hello).await;
    let mut viewer = agent.viewer().await;
    for second in 1..=5 {
        let mut sample = sample(second);
        sample.lanes = vec![lane("api", done(second * 10))];
        sample.types = vec![job_type("render", "api", done(second * 10), &[3 * MS])];
        service.send_sample(sample).await;
    }
    let incident = stall();
    let id = incident.id;
    let took = report(&mut service, incident).await;
    println!("acknowledged after {took:?}");
    assert!(took < Duration::from_millis(200), "{took:?}");
    let mut second = 5;
    let view = view_where(&mut viewer, &mut service, &mut second, |v| {
        !v.snapshots.is_empty()
    })
    .await;
    let SnapshotSummary {
        path,
        culprit,
        size_bytes,
        ..
    } = &view.snapshots[0];
    assert_eq!(
        (view.snapshots[0].id, culprit.as_deref()),
        (id, Some("render"))
    );
    let path = Path::new(path);
    assert_eq!(
        path.file_name().expect("has one"),
        file_name("checkout", id).as_str()
    );
    let meta = fs::metadata(path).expect("is there");
    assert_eq!(
        (meta.permissions().mode() & 0o777, meta.len()),
        (0o600, *size_bytes)
    );
    let snapshot = read(path).expect("is a snapshot");
    assert_eq!(
        (snapshot.writer, snapshot.history.len()),
        (Writer::Agent, 5)
    );
    assert_eq!(snapshot.incident.expect("is kept").id, id);
    assert_eq!(snapshot.types[0].run.as_ref().expect("is kept").count(), 5);
    assert!(snapshot.view.is_some() && snapshot.unknown.contains(&"native stacks".to_owned()));
    agent.stop().await;
}

#[tokio::test]
async fn cooldown_and_counts_survive_reconnect_restart_of_the_service_and_of_the_agent() {
    let agent = TestAgent::start();
    let first = hello("checkout");
    let mut service = agent.service(&first).await;
    let mut second = 1;
    service.send_sample(sample(second)).await;
    report(&mut service, stall()).await;
    report(&mut service, stall()).await;
    drop(service);
    let mut service = agent.service(&first).await;
    report(&mut service, stall()).await;
    let mut viewer = agent.viewer().await;
    drop(service);
    // A process takes longer to start than an agent to see that the one before is gone; two at once have limits of
    // their own.
    gone_view(&mut viewer, &first, |view| {
        view.summary.state == ax_wire::view::ServiceState::Lost
    })
    .await;
    let next = hello("checkout");
    let mut service = agent.service(&next).await;
    report(&mut service, stall()).await;
    let view = view_where(&mut viewer, &mut service, &mut second, |v| {
        v.summary.instance == next.instance && v.snapshots_suppressed.by_agent_total >= 3
    });
    let view = view.await;
    assert_eq!(view.snapshots.len(), 1);
    assert_eq!(view.snapshots_suppressed.by_agent_total, 3);
    let why = view.snapshots_suppressed.last_reason.expect("is said");
    assert!(why.contains("cooldown of 60 s"), "{why}");
    let folder = agent.folder().join("snapshots");
    assert_eq!(files(&folder).len(), 1);
    // Another service is not held back.
    let mut other = agent.service(&hello("search")).await;
    report(&mut other, stall()).await;
    let folder = agent.restart_in().await;

    let agent = TestAgent::again(folder);
    let mut service = agent.service(&next).await;
    service.send_sample(sample(900)).await;
    let mut viewer = agent.viewer().await;
    let mut second = 900;
    let view = view_where(&mut viewer, &mut service, &mut second, |v| {
        !v.snapshots.is_empty()
    })
    .await;
    assert_eq!(view.snapshots.len(), 1, "the file is known again");
    report(&mut service, stall()).await;
    let suppressed = |v: &ServiceView| v.snapshots_suppressed.by_agent_total == 1;
    view_where(&mut viewer, &mut service, &mut second, suppressed).await;
    agent.stop().await;
}

#[tokio::test]
async fn a_service_that_dies_leaves_what_was_last_seen_within_three_seconds() {
    let agent = TestAgent::start();
    let hello = hello("checkout");
    let mut service = agent.service(&hello).await;
    let mut viewer = agent.viewer().await;
    for second in 1..=3 {
        service.send_sample(sample(second)).await;
    }
    gone_view(&mut viewer, &hello, |view| view.point.is_some()).await;
    let died = Instant::now();
    drop(service);
    let view = gone_view(&mut viewer, &hello, |view| !view.snapshots.is_empty()).await;
    let said = died.elapsed();
    println!("last seen after {said:?}");
    assert!(said < Duration::from_secs(4), "{said:?}");
    let lost = view
        .alerts
        .iter()
        .find(|alert| alert.rule == "service-lost");
    assert_eq!(lost.expect("is said").state, AlertState::Firing);
    let snapshot = read(Path::new(&view.snapshots[0].path)).expect("is a snapshot");
    assert_eq!(
        (snapshot.reason, snapshot.history.len()),
        (Reason::LastSeen, 3)
    );
    agent.stop().await;
}

#[tokio::test]
async fn neither_a_goodbye_nor_a_reconnect_nor_our_own_end_is_a_death() {
    let agent = TestAgent::start();
    let (leaves, returns, stays) = (hello("leaves"), hello("returns"), hello("stays"));
    let mut services = Vec::new();
    for hello in [&leaves, &returns, &stays] {
        let mut service = agent.service(hello).await;
        service.send_sample(sample(1)).await;
        services.push(service);
    }
    let _stays = services.pop();
    drop(services.pop());
    let mut leaving = services.pop().expect("is there");
    leaving.send(&ToAgent::Goodbye).await;
    drop(leaving);
    let _returned = agent.service(&returns).await;
    sleep(Duration::from_secs(3)).await;
    let folder = agent.restart_in().await;
    let files = files(&folder.path().join("snapshots"));
    assert!(files.is_empty(), "{files:?}");
}

#[tokio::test]
async fn what_is_wrong_with_the_folder_is_said_and_ends_with_its_cause() {
    let agent = TestAgent::with(|config| config.snapshots.cooldown = Duration::ZERO);
    let folder = agent.folder().join("snapshots");
    let hello = hello("checkout");
    let mut service = agent.service(&hello).await;
    let mut viewer = agent.viewer().await;
    let mut second = 1;
    service.send_sample(sample(second)).await;

    // Removed while running: made again.
    report(&mut service, stall()).await;
    view_where(&mut viewer, &mut service, &mut second, |v| {
        v.snapshots.len() == 1
    })
    .await;
    fs::remove_dir_all(&folder).expect("removes");
    let again = stall();
    let id = again.id;
    report(&mut service, again).await;
    let is_there = |v: &ServiceView| v.snapshots.first().is_some_and(|known| known.id == id);
    view_where(&mut viewer, &mut service, &mut second, is_there).await;
    assert!(folder.is_dir());

    // Open to others.
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("chmod");
    report(&mut service, stall()).await;
    let failed = |count| move |v: &ServiceView| v.snapshots_suppressed.failed_total == count;
    let view = view_where(&mut viewer, &mut service, &mut second, failed(1)).await;
    let why = view.snapshots_suppressed.last_reason.expect("is said");
    assert!(why.contains("chmod 0700"), "{why}");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("chmod");

    // A link planted where the file will go.
    let planted = stall();
    let victim = agent.folder().join("victim");
    fs::write(&victim, "precious").expect("writes");
    symlink(&victim, folder.join(file_name("checkout", planted.id))).expect("links");
    report(&mut service, planted).await;
    let view = view_where(&mut viewer, &mut service, &mut second, failed(2)).await;
    let why = view.snapshots_suppressed.last_reason.expect("is said");
    assert!(why.contains("is not overwritten"), "{why}");
    assert_eq!(fs::read_to_string(&victim).expect("is read"), "precious");

    // A link in the place of the folder, or a file.
    let aside = agent.folder().join("aside");
    fs::rename(&folder, &aside).expect("renames");
    symlink(&aside, &folder).expect("links");
    report(&mut service, stall()).await;
    let view = view_where(&mut viewer, &mut service, &mut second, failed(3)).await;
    let why = view.snapshots_suppressed.last_reason.expect("is said");
    assert!(why.contains("not a folder"), "{why}");
    fs::remove_file(&folder).expect("removes");
    fs::rename(&aside, &folder).expect("renames");

    // Right again, and nobody else has noticed.
    let other = self::hello("search");
    let mut other = agent.service(&other).await;
    report(&mut other, stall()).await;
    report(&mut service, stall()).await;
    view_where(&mut viewer, &mut service, &mut second, |v| {
        v.snapshots.len() >= 2
    })
    .await;
    agent.stop().await;
}

#[tokio::test]
async fn an_agent_without_a_folder_leaves_incidents_to_the_service() {
    let agent = TestAgent::with(|config| config.snapshots.folder = None);
    let hello = hello("checkout");
    let mut service = agent.service(&hello).await;
    let mut viewer = agent.viewer().await;
    service.send(&ToAgent::Incident(Box::new(stall()))).await;
    viewer.send(&capture(hello.instance)).await;
    let why = captured(&mut viewer).await.outcome.expect_err("is refused");
    assert!(why.contains("--snapshots"), "{why}");
    service.send_sample(sample(1)).await;
    service.finish_sending().await;
    assert!(
        service.next_or_end::<ToService>().await.is_none(),
        "no acknowledgement"
    );
    agent.stop().await;
}

#[tokio::test]
async fn files_beyond_the_caps_are_removed_oldest_first() {
    let agent = TestAgent::with(|config| {
        config.snapshots.cooldown = Duration::ZERO;
        config.snapshots.max_files_of_service = 3;
        config.snapshots.max_files = 4;
    });
    let mut second = 1;
    let mut viewer = agent.viewer().await;
    let mut service = agent.service(&hello("checkout")).await;
    service.send_sample(sample(second)).await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        let incident = stall();
        ids.push(incident.id);
        report(&mut service, incident).await;
        let newest = *ids.last().expect("is there");
        let is_there = |v: &ServiceView| v.snapshots.first().is_some_and(|s| s.id == newest);
        view_where(&mut viewer, &mut service, &mut second, is_there).await;
    }
    let kept = view_where(&mut viewer, &mut service, &mut second, |v| {
        v.snapshots.len() == 3
    })
    .await;
    let kept: Vec<_> = kept
        .snapshots
        .iter()
        .rev()
        .map(|summary| summary.id)
        .collect();
    assert_eq!(kept, ids[3..]);
    assert_eq!(files(&agent.folder().join("snapshots")).len(), 3);
    agent.stop().await;
}

#[tokio::test]
async fn hostile_text_in_an_incident_reaches_neither_file_nor_screen() {
    let agent = TestAgent::start();
    let evil = "\u{1b}[2J\u{202e}".repeat(3_000);
    let mut service = agent.service(&hello(&evil)).await;
    let mut viewer = agent.viewer().await;
    let mut second = 1;
    service.send_sample(sample(second)).await;
    let mut incident = incident(Reason::Code {
        label: evil.clone(),
    });
    incident.stalls[0].task = Some(task(&evil));
    incident.lanes = vec![lane(&evil, done(1)); 100];
    incident.running = vec![
        RunningJob {
            task: task(&evil),
            elapsed_ns: 1,
            queue_wait_ns: 1,
            attempt: 1,
            priority: 1,
            poll_age_ns: None,
            unpolled_ns: None,
            waits_for: None,
        };
        20
    ];
    incident.queues = vec![QueueFacts {
        lane: evil.clone(),
        by_type: Some(vec![CountOf {
            name: evil.clone(),
            count: 1,
        }]),
        ..QueueFacts::default()
    }];
    incident.unknown = vec![evil; 10];
    report(&mut service, incident).await;
    let view = view_where(&mut viewer, &mut service, &mut second, |v| {
        !v.snapshots.is_empty()
    })
    .await;
    let text = fs::read_to_string(&view.snapshots[0].path).expect("is read");
    for json in [text, serde_json::to_string(&view).expect("serializes")] {
        assert!(!json.contains("\\u001b") && !json.contains(['\u{1b}', '\u{202e}']));
        assert!(json.len() < 300_000, "{}", json.len());
    }
    agent.stop().await;
}

#[tokio::test]
async fn an_alert_keeps_its_identity_over_a_restart_of_the_agent() {
    let late = |second: u64| {
        let mut sample = sample(second);
        sample.lag = vec![lag_point(second * SECOND, 400 * MS)];
        sample
    };
    let agent = TestAgent::with(|config| config.quiet = Duration::ZERO);
    let hello = hello("checkout");
    let mut service = agent.service(&hello).await;
    let mut viewer = agent.viewer().await;
    let mut began = 0;
    for second in 1..200 {
        service.send_sample(late(second)).await;
        let view = gone_view(&mut viewer, &hello, |_| true).await;
        if let Some(alert) = view.alerts.iter().find(|alert| alert.rule == "stall") {
            began = alert.began_unix_ns;
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert_ne!(began, 0, "fires");
    let folder = agent.restart_in().await;

    let agent = TestAgent::again(folder);
    let mut service = agent.service(&hello).await;
    let mut viewer = agent.viewer().await;
    service.send_sample(late(500)).await;
    let view = gone_view(&mut viewer, &hello, |view| !view.alerts.is_empty()).await;
    assert_eq!(
        (view.alerts[0].rule.as_str(), view.alerts[0].began_unix_ns),
        ("stall", began)
    );
    agent.stop().await;
}
