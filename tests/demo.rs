//! The main job, on the real binary: `ax-top demo`.

mod support;

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{Guarded, ax_top, http, run_to_end};

fn demo_json(extra: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = ax_top(&folder.path().join("ax/agent.sock"));
    command.args(["demo", "--headless", "--for", "5s", "--json"]);
    command.args(extra);
    let output = run_to_end(&mut command, 0);
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn headless_demo_reports_a_live_service() {
    let start = Instant::now();
    let report = demo_json(&[]);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    let number = |key: &str| {
        report[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{key} is not a count in {report:#}"))
    };
    assert!(number("finished_jobs") >= 100, "{report:#}");
    assert!(number("lag_p99_ns") > 0, "{report:#}");
    assert_eq!(number("dropped_frames"), 0, "{report:#}");
    for key in ["alerts", "snapshots", "verdicts"] {
        assert!(report[key].is_array(), "{key} in {report:#}");
    }
    let names = |key: &str, name: &str| -> Vec<String> {
        let rows = report[key].as_array().expect("an array");
        let mut names: Vec<String> = rows
            .iter()
            .map(|row| row[name].as_str().expect("a name").to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("lanes", "name"), ["api", "db", "files", "push"]);
    let service = &report["services"][0];
    assert_eq!(service["summary"]["service"], "demo");
    assert_eq!(service["summary"]["state"], "live");
}

/// The demo's service ends when its standard input does, so that it never outlives an `ax-top` that was killed.
#[test]
fn demo_service_ends_with_its_standard_input() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let child = ax_top(&folder.path().join("ax/agent.sock"))
        .arg("demo-service")
        .env("TMPDIR", scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut child = Guarded(child);
    let mut stdout = BufReader::new(child.0.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    let address = line
        .trim()
        .strip_prefix("listening http://")
        .unwrap_or_else(|| panic!("unexpected first line {line:?}"));
    let answer = http(address, "POST", "/fault/block?ms=999999");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    for (method, path) in [("POST", "/order"), ("GET", "/orders")] {
        let answer = http(address, method, path);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let files = || {
        std::fs::read_dir(scratch.path())
            .expect("can be listed")
            .count()
    };
    assert_eq!(files(), 1, "the folder of its database");
    drop(child.0.stdin.take());
    let start = Instant::now();
    let status = support::eventually("the service to end", || child.0.try_wait().expect("waits"));
    assert!(status.success(), "{status}");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(files(), 0, "it takes its database with it");
}
