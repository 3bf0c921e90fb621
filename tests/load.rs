//! Load sessions on the real binaries: whether the knee is where it must be, whether latency is what the schedule says, and
//! whether the generator keeps to it (F20 to F22, F83, F94).
//!
//! `cargo test --release --test load -- --nocapture` prints the figures; with `AX_FULL=1` it repeats them and writes
//! `bench/results/load.tsv`.

#[path = "load/ends.rs"]
mod ends;
#[path = "load/generator.rs"]
mod generator;
#[path = "load/service.rs"]
mod service;
mod support;

use std::{
    path::PathBuf,
    process::{Command, Output},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use service::{LIMIT, Service};
use support::{ax_top, find_program, full, run_to_end};

/// The other half of [`Service::start`].
#[test]
#[ignore = "the service under load, which the tests start"]
fn serve_until_stdin_ends() {
    service::serve();
}

/// One at a time: each measures what the machine can do.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `ax-top load` on a service.
fn load(service: &Service) -> Command {
    let mut command = ax_top(service.agent.socket());
    command.args(["load", "--quiet", "--json"]);
    // A machine that runs all tests at once makes every event loop late, and the knee is not asked for by lag here.
    command.args(["--lag-p99", "10s"]);
    command
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// A row of the results, printed and kept for the file.
fn result(case: &str, figures: &str) {
    static ROWS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    println!("{case}\t{figures}");
    if full() {
        let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
        rows.push(format!("{case}\t{figures}"));
        rows.sort();
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("bench/results/load.tsv");
        let text = format!("case\tfigures\n{}\n", rows.join("\n"));
        std::fs::write(file, text).expect("the folder is there");
    }
}

/// How far a figure may be off: on a machine that does other things as well, only the class is certain.
fn tolerance() -> f64 {
    if full() { 0.05 } else { 0.35 }
}

fn repetitions(few: usize) -> usize {
    if full() { 10 } else { few }
}

/// What a lane of this limit can do with jobs of the length that was measured while it was loaded.
struct Truth {
    count: u64,
    seconds: f64,
}

impl Truth {
    fn begin(service: &Service) -> Self {
        let (count, seconds) = service.worked();
        Self { count, seconds }
    }

    fn per_s(&self, service: &Service) -> f64 {
        let (count, seconds) = service.worked();
        let mean = (seconds - self.seconds) / (count - self.count) as f64;
        LIMIT as f64 / mean
    }
}

fn knee(report: &Value) -> f64 {
    let knee = &report["analysis"]["knee"]["per_s"];
    knee.as_f64()
        .unwrap_or_else(|| panic!("no knee in {:#}", report["analysis"]))
}

/// F22: the knee of an open loop is the limit of the lane over the mean run time of its jobs, within 5 %.
#[test]
fn the_knee_of_a_lane_is_its_limit_over_the_run_time() {
    let _alone = alone();
    let mut off = Vec::new();
    for round in 1..=repetitions(1) {
        let service = Service::start();
        let truth = Truth::begin(&service);
        let mut command = load(&service);
        command.args(["--url", &service.url("/work?us=20000")]);
        command.args(["--steps", "600..1400x3", "--warm-up", "500ms"]);
        command.args(["--step-for", if full() { "5s" } else { "2s" }]);
        command.args(["--precision", if full() { "3%" } else { "6%" }]);
        let report = json(&run_to_end(&mut command, 0));
        let (knee, truth) = (knee(&report), truth.per_s(&service));
        off.push(knee / truth - 1.0);
        let steps = report["analysis"]["steps"].as_array().map_or(0, Vec::len);
        result(
            &format!("knee, open loop, {round}"),
            &format!(
                "{knee:.0}/s, limit / run time {truth:.0}/s, {:+.1} %, {steps} steps",
                off[round - 1] * 100.0
            ),
        );
        // Short steps on a shared machine may end before the lane has been full for long enough.
        if full() {
            let first = &report["analysis"]["filled"][0];
            assert_eq!(
                (first["what"].as_str(), first["name"].as_str()),
                (Some("lane"), Some("work")),
                "{first}"
            );
        }
    }
    assert!(off.iter().all(|off| off.abs() <= tolerance()), "{off:?}");
}

/// The same through another tool, whose connections each wait for their answer.
#[test]
fn the_knee_is_found_through_a_wrapped_tool() {
    let _alone = alone();
    if find_program("wrk").is_none() {
        return;
    }
    let mut off = Vec::new();
    for round in 1..=repetitions(1) {
        let service = Service::start();
        let truth = Truth::begin(&service);
        let mut command = load(&service);
        command.args(["--precision", if full() { "3%" } else { "8%" }]);
        command.args([
            "--steps",
            "10..40x3",
            "--step-for",
            if full() { "5s" } else { "2s" },
        ]);
        command.args([
            "--lane",
            "work",
            "--",
            "wrk",
            "-t1",
            "-c{connections}",
            "-d{seconds}s",
        ]);
        command.arg(service.url("/work?us=20000"));
        let report = json(&run_to_end(&mut command, 0));
        let (knee, truth) = (knee(&report), truth.per_s(&service));
        off.push(knee / truth - 1.0);
        result(
            &format!("knee, wrk, {round}"),
            &format!(
                "{knee:.0}/s, limit / run time {truth:.0}/s, {:+.1} %",
                off[round - 1] * 100.0
            ),
        );
        let run = &report["session"]["steps"][0]["command"];
        assert_eq!(run["exit_code"], 0);
        assert!(
            run["stdout"]
                .as_str()
                .is_some_and(|text| text.contains("Requests/sec")),
            "{run}"
        );
    }
    assert!(off.iter().all(|off| off.abs() <= tolerance()), "{off:?}");
}

/// On a service that computes: the search ends within 10 % of a slow sweep in steps of 4 %.
#[test]
fn the_knee_of_a_service_that_computes_is_that_of_a_slow_sweep() {
    let _alone = alone();
    if !full() {
        println!("skipped: needs AX_FULL=1, a slow sweep takes minutes");
        return;
    }
    let service = Service::start();
    let url = service.url("/spin?us=10000");
    let run = |steps: &str, step_for: &str, more: &[&str]| {
        let mut command = load(&service);
        command.args(["--url", &url, "--steps", steps, "--step-for", step_for]);
        command.args(more);
        knee(&json(&run_to_end(&mut command, 0)))
    };
    let searched = run("50..2000x5", "5s", &[]);
    let (from, to) = (searched * 0.7, searched * 1.35);
    let slow = run(&format!("{from:.0}..{to:.0}x17"), "10s", &["--no-search"]);
    let off = searched / slow - 1.0;
    result(
        "knee, computing",
        &format!(
            "searched {searched:.0}/s, slow sweep {slow:.0}/s, {:+.1} %",
            off * 100.0
        ),
    );
    assert!(off.abs() <= 0.10, "{searched} {slow}");
}

/// F83: with 500 ms on the downstream, the lane that calls it fills first, and the agent says which downstream is slow.
#[test]
fn a_slow_downstream_is_named_with_the_lane_that_filled_first() {
    let _alone = alone();
    let service = Service::start();
    let mut command = load(&service);
    // What is usual is learned of eight seconds with calls, older than the newest five.
    command.args([
        "--url",
        &service.url("/db"),
        "--steps",
        "100",
        "--step-for",
        "14s",
        "--no-search",
    ]);
    run_to_end(&mut command, 0);
    let mut command = load(&service);
    command.args(["--url", &service.url("/db"), "--inject", "database:+500ms"]);
    command.args([
        "--steps",
        "100",
        "--step-for",
        "6s",
        "--no-search",
        "--warm-up",
        "500ms",
    ]);
    let report = json(&run_to_end(&mut command, 0));
    let first = &report["analysis"]["filled"][0];
    assert_eq!(
        (first["what"].as_str(), first["name"].as_str()),
        (Some("lane"), Some("db")),
        "{first}"
    );
    let verdicts: Vec<_> = report["session"]["verdicts"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|seen| {
            (
                seen["verdict"]["id"].clone(),
                seen["verdict"]["subject"].clone(),
            )
        })
        .collect();
    result(
        "+500 ms downstream",
        &format!("filled first: lane db; verdicts {verdicts:?}"),
    );
    assert!(
        verdicts.contains(&("downstream-slow".into(), "database".into())),
        "{verdicts:?}"
    );
    let step = &report["session"]["steps"][0]["service"][0];
    assert_eq!(
        step["downstreams"][0]["injected_delay_ns"], 500_000_000,
        "{step}"
    );
    let mut viewer = service.agent.viewer();
    viewer.wait_view("load-test", "the end of the delay", |view| {
        view.downstreams[0]
            .injected_delay_ns
            .is_none()
            .then_some(())
    });
}

/// F94: two sessions of one build do not differ; one whose jobs take a tenth longer does.
#[test]
fn a_tenth_more_work_is_a_change_and_noise_is_none() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut same, mut told) = (0, 0);
    let rounds = repetitions(1);
    let cases = if full() {
        vec![("work", 20_000, 22_000), ("spin", 10_000, 11_000)]
    } else {
        vec![("work", 20_000, 22_000)]
    };
    for (path, usual, more) in cases {
        (same, told) = (0, 0);
        for round in 0..rounds {
            let service = Service::start();
            let session = |name: &str, us: u32| {
                let file = folder.path().join(format!("{path}-{round}-{name}.json"));
                let mut command = load(&service);
                command.args(["--url", &service.url(&format!("/{path}?us={us}"))]);
                command.args([
                    "--steps",
                    if full() { "50..150x3" } else { "50,150" },
                    "--no-search",
                    "--warm-up",
                    "500ms",
                    "--output",
                ]);
                command
                    .arg(&file)
                    .args(["--step-for", if full() { "5s" } else { "2s" }]);
                run_to_end(&mut command, 0);
                file
            };
            let files = [session("a", usual), session("b", usual), session("c", more)];
            let compare = |second: &PathBuf, code: i32| {
                let mut command = ax_top(service.agent.socket());
                command.args(["load", "compare", "--fail-on", "regression"]);
                let output = command.arg(&files[0]).arg(second).output().expect("starts");
                println!("{}", String::from_utf8_lossy(&output.stdout));
                output.status.code() == Some(code)
            };
            same += usize::from(compare(&files[1], 0));
            told += usize::from(compare(&files[2], 4));
        }
        result(
            &format!("compare, {path}"),
            &format!("no change in {same} of {rounds}, a tenth more told in {told} of {rounds}"),
        );
        let least = rounds * 9 / 10;
        assert!(
            same >= least && told >= least.max(1),
            "{path}: {same} {told}"
        );
    }
    let _ = (same, told);
}
