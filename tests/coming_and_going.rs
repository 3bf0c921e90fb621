//! Processes that are killed, stopped and started again: what is said of them, and how soon.
//!
//! The service is a copy of this program, so that it can be killed.

mod support;

use std::{
    convert::Infallible,
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ax_probe::Probe;
use ax_scheduler::Scheduler;
use ax_wire::{
    InstanceId,
    alert::{Alert, AlertState},
    incident::Reason,
    snapshot_file,
    verdict::{Verdict, VerdictId},
    view::{ServiceState, ServiceView},
};
use rustix::process::{Pid, Signal, kill_process};
use support::{Guarded, PATIENCE, Viewer, ax_agent, eventually, watched};

const CHILD: &str = "AX_TEST_SERVICE_SOCKET";
const SERVICE: &str = "checkout";

/// Within which a death is to be said, and the file of what was last seen is to be there.
const SAID: Duration = Duration::from_secs(3);

/// For how long a service is not judged after it came.
const QUIET: Duration = Duration::from_secs(10);

/// The service's part: a lane of one slot that is taken for good and refuses everybody else, until the parent closes our
/// stdin.
#[test]
#[ignore = "the other half of the test here, which starts it"]
fn serve_until_stdin_ends() {
    let Some(socket) = env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    watched::build(Some(2), "main").block_on(async {
        let _probe = Probe::builder(SERVICE)
            .socket(&socket)
            .snapshot_dir(socket.with_file_name("own-snapshots"))
            .install()
            .expect("a runtime");
        let ax = Scheduler::new();
        let lane = ax.lane("db").limit(1).capacity(1).open();
        let lane = lane.expect("valid settings");
        let mut taken = Vec::new();
        loop {
            let job = ax.job("never_ends", |_| {
                std::future::pending::<Result<(), Infallible>>()
            });
            taken.extend(job.lane(&lane).submit());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

/// The folder of one test, and what runs on its socket.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("ax/agent.sock")
    }

    fn snapshots(&self) -> PathBuf {
        self.folder.path().join("ax/state/ax/snapshots")
    }

    fn agent(&self) -> (Guarded, Viewer) {
        let agent = ax_agent(&self.socket()).stderr(Stdio::null()).spawn();
        let agent = Guarded(agent.expect("the agent starts"));
        // One that was killed has left its socket, where nobody listens.
        eventually("the agent's socket", || {
            std::os::unix::net::UnixStream::connect(self.socket()).ok()
        });
        (agent, Viewer::connect(&self.socket()))
    }

    fn service(&self) -> Guarded {
        let child = Command::new(env::current_exe().expect("has a path"))
            .args(["--ignored", "--exact", "serve_until_stdin_ends"])
            .env(CHILD, self.socket())
            .env_remove("AX_DISABLE")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Guarded(child.expect("the service starts"))
    }

    fn last_seen(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.snapshots()).ok()?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| is_last_seen(path))
    }
}

fn is_last_seen(path: &Path) -> bool {
    snapshot_file::summary(path).is_ok_and(|summary| summary.reason == Reason::LastSeen)
}

fn state(view: &ServiceView, state: ServiceState) -> Option<InstanceId> {
    (view.summary.state == state).then_some(view.summary.instance)
}

fn firing(view: &ServiceView, rule: &str) -> Option<Alert> {
    let mut alerts = view.alerts.iter();
    alerts
        .find(|alert| alert.rule == rule && alert.state == AlertState::Firing)
        .cloned()
}

fn signal(process: &Guarded, signal: Signal) {
    let pid = Pid::from_child(&process.0);
    kill_process(pid, signal).expect("is our child");
}

#[test]
fn whoever_is_killed_or_stopped_is_missed_and_known_again() {
    let place = Place {
        folder: tempfile::tempdir().expect("a temporary folder"),
    };
    let (agent, mut viewer) = place.agent();
    let service = place.service();
    let first = viewer.wait_view(SERVICE, "the service", |v| state(v, ServiceState::Live));
    let refusing = viewer.wait_view(SERVICE, "its alert", |v| firing(v, "rejections"));

    println!("what happened          what was seen                  after");
    let say = |what: &str, seen: &str, since: Instant| {
        let took = since.elapsed();
        println!("{what:<22} {seen:<30} {took:.1?}");
        took
    };

    // Dropping kills with -9, and waits for the end.
    drop(agent);
    let since = Instant::now();
    let (_agent, mut viewer) = place.agent();
    let again = viewer.wait_view(SERVICE, "the service again", |v| {
        Some((state(v, ServiceState::Live)?, firing(v, "rejections")?))
    });
    say(
        "agent killed, started",
        "service live, alert goes on",
        since,
    );
    assert_eq!(again.0, first);
    assert_eq!(again.1.began_unix_ns, refusing.began_unix_ns);
    let judged_at = Instant::now() + QUIET + Duration::from_secs(3);
    let judged_again = viewer.wait_view(SERVICE, "a judgement", |v| {
        (Instant::now() > judged_at).then(|| firing(v, "rejections"))
    });
    let judged_again = judged_again.expect("still refuses");
    assert_eq!(judged_again.began_unix_ns, refusing.began_unix_ns);

    signal(&service, Signal::STOP);
    let since = Instant::now();
    viewer.wait_view(SERVICE, "silence", |v| state(v, ServiceState::Silent));
    let silent = say("service stopped", "state silent", since);
    viewer.wait_view(SERVICE, "its alert", |v| firing(v, "service-silent"));
    let told = say("", "alert service-silent", since);
    // Silent is who has sent nothing for 3 s; the agent looks once a second.
    let some_three_s = Duration::from_millis(1_900)..SAID + Duration::from_secs(3);
    assert!(some_three_s.contains(&silent) && some_three_s.contains(&told));
    signal(&service, Signal::CONT);
    let since = Instant::now();
    viewer.wait_view(SERVICE, "life", |v| {
        let silent = firing(v, "service-silent");
        state(v, ServiceState::Live).filter(|_| silent.is_none())
    });
    assert!(say("service goes on", "state live, alert resolved", since) < SAID);

    drop(service);
    let since = Instant::now();
    let watch = thread::spawn({
        let folder = place.snapshots();
        move || wait_for_last_seen(&folder, since)
    });
    viewer.wait_view(SERVICE, "its loss", |v| state(v, ServiceState::Lost));
    let lost = say("service killed", "state lost", since);
    let alert = viewer.wait_view(SERVICE, "its alert", |v| firing(v, "service-lost"));
    let told = say("", "alert service-lost", since);
    let written = watch.join().expect("no panic");
    println!(
        "{:<22} {:<30} {written:.1?}",
        "", "snapshot of what was last seen"
    );
    assert!(lost < SAID && told < SAID && written < SAID, "{alert:?}");
    let snapshot = snapshot_file::read(&place.last_seen().expect("is there")).expect("reads");
    assert_eq!(snapshot.hello.instance, first);
    assert!(!snapshot.history.is_empty());

    let since = Instant::now();
    let service = place.service();
    let second = viewer.wait_view(SERVICE, "the next instance", |v| {
        state(v, ServiceState::Live).filter(|instance| *instance != first)
    });
    say("service started again", "state live", since);
    // The two are apart: the first is still lost, and its successor is not.
    let seen = viewer.wait_view(SERVICE, "the one before", |v| state(v, ServiceState::Lost));
    assert_eq!(seen, first);
    assert_ne!(second, first);
    drop(service);
}

fn wait_for_last_seen(folder: &Path, since: Instant) -> Duration {
    while since.elapsed() < PATIENCE {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        if entries
            .map(|entry| entry.path())
            .any(|path| is_last_seen(&path))
        {
            return since.elapsed();
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("nothing was written to {}", folder.display());
}

/// An agent that was stopped itself, as by Ctrl-Z of the dashboard that it lives in, does not take its own pause for a
/// silence of the services.
#[test]
fn an_agent_that_was_stopped_blames_no_service() {
    if !support::full() {
        println!(
            "skipped: needs AX_FULL=1, an agent is stopped for longer than silence may last; the rule is in `pause.rs`"
        );
        return;
    }
    let place = Place {
        folder: tempfile::tempdir().expect("a temporary folder"),
    };
    let (agent, mut viewer) = place.agent();
    let _service = place.service();
    let first = viewer.first_figures(SERVICE);
    // Alerts are not judged before.
    let judged_from = first.at_unix_ns + QUIET.as_nanos() as u64;
    viewer.wait_view(SERVICE, "the end of the quiet time", |view| {
        (view.at_unix_ns > judged_from).then_some(())
    });
    signal(&agent, Signal::STOP);
    // The clock itself is measured: longer than after which a service counts as silent, and is said to be frozen.
    thread::sleep(Duration::from_secs(6));
    signal(&agent, Signal::CONT);
    let resumed_unix_ns = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_nanos() as u64;
    let mut seen = 0;
    while seen < 4 {
        let view = viewer.next_view(SERVICE);
        if view.at_unix_ns < resumed_unix_ns {
            continue;
        }
        seen += 1;
        let silent = firing(&view, "service-silent");
        assert!(silent.is_none(), "{silent:#?}");
        let frozen = |verdict: &Verdict| verdict.id == VerdictId::ProcessFrozen;
        let verdicts = &view.diagnosis.verdicts;
        assert!(!verdicts.iter().any(frozen), "{verdicts:#?}");
    }
}
