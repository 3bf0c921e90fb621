//! Every way in which a session ends before its plan does: what was measured until then is in its file, with why.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{
    service::Service,
    support::{Guarded, PrivateAgent, ax_top, eventually, run_to_end},
};

fn saved(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).expect("the session is in its file");
    serde_json::from_str(&text).expect("whole")
}

fn long_session(service: &Service, file: &Path) -> Command {
    let mut command = ax_top(service.agent.socket());
    command.args([
        "load",
        "--quiet",
        "--url",
        &service.url("/work?us=1000"),
        "--output",
    ]);
    command.arg(file).args([
        "--steps",
        "20..100x5",
        "--step-for",
        "1500ms",
        "--warm-up",
        "100ms",
    ]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Starts a session, and waits until its first step is in its file.
fn begun(service: &Service, file: &Path) -> Guarded {
    let child = Guarded(long_session(service, file).spawn().expect("starts"));
    eventually("the first step", || {
        let text = std::fs::read_to_string(file).ok()?;
        let session: Value = serde_json::from_str(&text).ok()?;
        (session["steps"].as_array()?.len() == 1).then_some(())
    });
    child
}

fn exit_code(child: &mut Guarded) -> Option<i32> {
    let status = eventually("the session to end", || child.0.try_wait().expect("waits"));
    status.code()
}

#[test]
fn a_signal_a_threshold_and_a_death_leave_the_session_so_far() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    let mut service = Service::start();

    let mut child = begun(&service, &file("interrupted"));
    let pid = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    assert_eq!(exit_code(&mut child), Some(130));
    let session = saved(&file("interrupted"));
    assert_eq!(session["end"]["kind"], "interrupted");
    assert!(
        session["steps"]
            .as_array()
            .is_some_and(|steps| !steps.is_empty())
    );

    let mut command = long_session(&service, &file("aborted"));
    command.args(["--abort", "lag_p99>1ms", "--abort", "p99>1ms"]);
    assert_eq!(run_to_end(&mut command, 5).status.code(), Some(5));
    let session = saved(&file("aborted"));
    assert_eq!(session["end"]["kind"], "aborted");
    let why = session["end"]["why"].as_str().expect("says why");
    assert!(why.contains(">1ms: it is "), "{why}");

    let mut child = begun(&service, &file("gone"));
    service.kill();
    assert_eq!(exit_code(&mut child), Some(5));
    let session = saved(&file("gone"));
    assert_eq!(session["end"]["kind"], "service_gone", "{}", session["end"]);
}

#[test]
fn what_cannot_be_loaded_is_said_and_kept() {
    let agent = PrivateAgent::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |name: &str, arguments: &[&str], code: i32| {
        let file = folder.path().join(name);
        let mut command = ax_top(agent.socket());
        command
            .args(["load", "--quiet", "--output"])
            .arg(&file)
            .args(arguments);
        let output = run_to_end(&mut command, code);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (said, file)
    };
    // A port that nobody has: it was ours a moment ago.
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("has one").to_string()
    };
    let (said, file) = run("unreachable", &["--url", &format!("http://{nobody}/")], 69);
    assert!(said.contains("nothing answers"), "{said}");
    assert_eq!(saved(&file)["end"]["kind"], "unreachable");

    let plain = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let secure = format!("https://{}/", plain.local_addr().expect("has one"));
    std::thread::spawn(move || {
        for stream in plain.incoming().flatten() {
            use std::io::Write as _;
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let (said, file) = run("tls", &["--url", &secure], 69);
    assert!(said.contains("no secure connection"), "{said}");
    assert_eq!(saved(&file)["end"]["kind"], "unreachable");

    let (said, file) = run("elsewhere", &["--url", "http://192.0.2.1/"], 64);
    assert!(said.contains("--i-own-this-host"), "{said}");
    assert!(!file.exists(), "nothing was begun");

    let (said, _) = run("nothing", &[], 64);
    assert!(said.contains("--url"), "{said}");
    // A wrapped tool is counted by the service, and there is none.
    let (said, _) = run("no-service", &["--", "true"], 3);
    assert!(said.contains("no service is connected"), "{said}");
}

#[test]
fn a_wrapped_command_that_fails_ends_the_session() {
    let service = Service::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |name: &str, command_line: &[&str]| {
        let file = folder.path().join(name);
        let mut command = ax_top(service.agent.socket());
        command
            .args(["load", "--quiet", "--output"])
            .arg(&file)
            .arg("--")
            .args(command_line);
        run_to_end(&mut command, 5);
        saved(&file)
    };
    let session = run(
        "failed",
        &["sh", "-c", "echo out; echo bad luck >&2; exit 3"],
    );
    assert_eq!(session["end"]["kind"], "command_failed");
    let why = session["end"]["why"].as_str().expect("says why");
    assert!(
        why.contains("exit code 3") && why.contains("bad luck"),
        "{why}"
    );
    let kept = &session["steps"][0]["command"];
    assert_eq!(
        (kept["exit_code"].as_i64(), kept["stdout"].as_str()),
        (Some(3), Some("out\n"))
    );
    let session = run("missing", &["/nonexistent/tool"]);
    assert!(
        session["end"]["why"]
            .as_str()
            .is_some_and(|why| why.contains("cannot run"))
    );
}
