//! The commands of `ax-top` without a screen, on the real binaries: several services, those that are gone, snapshots, and
//! a place that cannot be trusted. What they print in detail is tested beside them.

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use ax_wire::incident::Reason;
use serde_json::Value;
use support::{Guarded, ax_agent, ax_top, eventually, run_to_end};

/// An agent of its own, with its own folder for snapshots.
struct Host {
    socket: PathBuf,
    agent: Option<Guarded>,
    folder: tempfile::TempDir,
}

impl Host {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut host = Self {
            socket: folder.path().join("ax/agent.sock"),
            agent: None,
            folder,
        };
        let mut command = host.on(ax_agent(&host.socket));
        let agent = command.stderr(Stdio::null()).spawn();
        host.agent = Some(Guarded(agent.expect("it starts")));
        eventually("the agent's socket", || host.socket.exists().then_some(()));
        host
    }

    fn on(&self, mut command: Command) -> Command {
        command.env("XDG_STATE_HOME", self.folder.path());
        // A service that is killed leaves its files behind.
        command.env("TMPDIR", self.folder.path());
        command.env_remove("STATE_DIRECTORY");
        command
    }

    fn ax_top(&self, line: &str) -> Command {
        let mut command = self.on(ax_top(&self.socket));
        command.args(line.split(' '));
        command
    }

    /// A demo service without traffic, once it listens.
    fn service(&self) -> Guarded {
        let mut command = self.ax_top("demo-service --rate 0");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = Guarded(child.expect("it starts"));
        let stdout = child.0.stdout.take().expect("piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert!(line.starts_with("listening "), "{line}");
        child
    }

    /// Waits until so many services are in these states.
    fn wait_for(&self, wanted: &[&str]) {
        eventually(&format!("services that are {wanted:?}"), || {
            let output = self.ax_top("services --json").output().expect("it starts");
            let told: Value = serde_json::from_slice(&output.stdout).ok()?;
            let services = told["services"].as_array()?.iter();
            let mut states: Vec<_> = services
                .map(|service| service["state"].as_str().unwrap_or("?"))
                .collect();
            states.sort_unstable();
            (states == wanted).then_some(())
        });
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn snapshot_path(output: &Output) -> PathBuf {
    PathBuf::from(stdout(output).trim_end())
}

#[test]
fn services_of_one_name_stand_apart_and_one_that_is_killed_is_said() {
    let host = Host::start();
    let mut first = host.service();
    let second = host.service();
    host.wait_for(&["live", "live"]);
    let (gone, here) = (first.0.id().to_string(), second.0.id().to_string());

    let which = run_to_end(&mut host.ax_top("capture demo"), 64);
    let said = stderr(&which);
    assert!(said.contains(&gone) && said.contains(&here), "{said}");

    let status = stdout(&run_to_end(&mut host.ax_top("status"), 0));
    assert_eq!(
        status.matches("pid ").count(),
        2,
        "figures of both\n{status}"
    );

    first.0.kill().expect("it runs");
    host.wait_for(&["live", "lost"]);
    let listed = stdout(&run_to_end(&mut host.ax_top("services"), 0));
    let line = |pid: &str| {
        let mut lines = listed.lines();
        lines.find(|line| line.contains(pid)).unwrap_or_default()
    };
    assert!(line(&gone).contains("LOST"), "{listed}");
    assert!(line(&here).contains("live"), "{listed}");

    let watched = stdout(&run_to_end(&mut host.ax_top("watch --for 2s"), 0));
    let count = |pid: &str| watched.lines().filter(|line| line.contains(pid)).count();
    assert_eq!(count(&gone), 1, "what is gone is said once\n{watched}");
    assert!(count(&here) >= 2, "{watched}");

    let status = stdout(&run_to_end(&mut host.ax_top("status"), 0));
    assert!(
        status.contains("its connection broke without a goodbye"),
        "{status}"
    );
    let refused = run_to_end(&mut host.ax_top(&format!("capture {gone}")), 75);
    assert!(
        stderr(&refused).contains("was lost"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_capture_is_written_listed_and_pruned() {
    let host = Host::start();
    let service = host.service();
    host.wait_for(&["live"]);
    let nobody = run_to_end(&mut host.ax_top("capture nobody"), 3);
    assert!(
        stderr(&nobody).contains("no service `nobody`"),
        "{}",
        stderr(&nobody)
    );

    let path = snapshot_path(&run_to_end(&mut host.ax_top("capture demo"), 0));
    let meta = fs::metadata(&path).expect("the file that it names");
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    let snapshot: Value = serde_json::from_slice(&fs::read(&path).expect("reads")).expect("JSON");
    assert_eq!(snapshot["reason"]["reason"], "capture");
    assert_eq!(snapshot["hello"]["pid"], service.0.id());

    let list = |line: &str| -> Value {
        let output = run_to_end(&mut host.ax_top(line), 0);
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    };
    let told = list("snapshots --json");
    assert_eq!(told["snapshots"][0]["path"], path.to_str().expect("UTF-8"));
    assert_eq!(told["snapshots"].as_array().map(Vec::len), Some(1));
    let told = list("snapshots --prune --keep 0 --json");
    assert_eq!(told["removed"][0], path.to_str().expect("UTF-8"));
    assert!(!path.exists());
}

#[test]
fn snapshots_are_listed_without_an_agent() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = ax_top(&folder.path().join("ax/agent.sock"));
    command
        .args(["snapshots"])
        .env("XDG_STATE_HOME", folder.path());
    let output = run_to_end(&mut command, 0);
    assert!(
        stdout(&output).starts_with("no snapshots in "),
        "{output:?}"
    );
    assert!(
        !folder.path().join("ax/agent.sock").exists(),
        "no agent is started for it"
    );
}

/// Somebody else was first to make the folder of our socket.
#[test]
fn a_socket_folder_of_another_owner_is_refused_with_advice() {
    let runtime = tempfile::tempdir().expect("a temporary folder");
    let folder = runtime.path().join("ax");
    fs::create_dir(&folder).expect("makes");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("ours");
    let nobody = 65_534;
    if chown(&folder, Some(nobody), None).is_err() {
        println!("skipped: needs root");
        return;
    }
    let mut command = ax_top(Path::new(""));
    command
        .arg("status")
        .env_remove("AX_SOCKET")
        .env("XDG_RUNTIME_DIR", runtime.path());
    let output = run_to_end(&mut command, 69);
    let said = stderr(&output);
    assert!(said.contains("belongs to user 65534"), "{said}");
    assert!(said.contains("AX_SOCKET"), "{said}");
}

/// F100: one archive of a service as it is now, to hand on.
#[test]
fn a_bundle_of_a_live_service_unpacks_to_a_snapshot_and_a_report() {
    let host = Host::start();
    let _service = host.service();
    host.wait_for(&["live"]);
    let archive = host.folder.path().join("bundle.tar.gz");
    let line = format!("bundle demo -o {}", archive.display());
    let told = stdout(&run_to_end(&mut host.ax_top(&line), 0));
    assert!(told.contains("redacted"), "{told}");
    let mut tar = Command::new("tar");
    tar.current_dir(host.folder.path()).arg("xzf").arg(&archive);
    run_to_end(&mut tar, 0);
    let entries = fs::read_dir(host.folder.path()).expect("lists").flatten();
    let unpacked = entries.map(|entry| entry.path());
    let unpacked = unpacked
        .filter(|path| path.is_dir())
        .find(|path| path.join("report.html").is_file())
        .expect("a folder with a report");
    let snapshot = ax_wire::snapshot_file::read(&unpacked.join("snapshot.json")).expect("reads");
    assert_eq!(snapshot.hello.service, "demo");
    assert_eq!(snapshot.reason, Reason::Capture);
    let rules = fs::read(unpacked.join("rules.json")).expect("the agent says them");
    let rules: Value = serde_json::from_slice(&rules).expect("JSON");
    let rules = rules["rules"].as_array().expect("an array");
    assert!(
        rules.iter().any(|rule| rule["name"] == "lag-high"),
        "{rules:?}"
    );
    let missing = run_to_end(&mut host.ax_top("bundle nobody"), 3);
    assert!(stderr(&missing).contains("nobody"), "{}", stderr(&missing));
}
