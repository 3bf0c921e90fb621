//! Known causes against verdicts: each file of `tests/scenarios/` names a fault of the demo, a load, and what must be said
//! of it, first and within a time, and what must not be said.
//!
//! `cargo test --release --test scenarios -- --nocapture` runs one seed of those that are marked `short`. `AX_FULL=1` runs
//! all of them, each fault twice on each runtime and the healthy loads once, for two minutes; with `AX_BLESS=1` the table is kept in `tests/results/scenarios.tsv`.
//! `AX_SCENARIO=a,b` picks some, `AX_SEED=n` repeats the numbers of a run.

#[path = "scenarios/capacity.rs"]
mod capacity;
#[path = "scenarios/file.rs"]
mod file;
#[path = "scenarios/run.rs"]
mod run;
mod support;
#[path = "scenarios/table.rs"]
mod table;

use std::{
    collections::{HashSet, VecDeque},
    env,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use ax_wire::verdict::VerdictId;
use fastrand::Rng;
use file::{Drawn, Flavor, Quadrant, Scenario};
use run::{Outcome, Plan};
use serde_json::Value;
use support::{ax_top, full, record::Record, run_to_end};

const HOW: &str = "AX_FULL=1 AX_BLESS=1 cargo test --release --test scenarios -- --nocapture";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// One run that is to be made.
struct Task {
    scenario: Scenario,
    drawn: Drawn,
}

/// F91: the first verdict is the cause, it comes within seconds, and nothing wrong is said beside it.
#[test]
fn each_fault_leads_to_its_verdict() {
    let seed = env::var("AX_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("AX_SEED={seed}");
    let tasks = tasks(seed);
    assert!(!tasks.is_empty(), "AX_SCENARIO names none of the scenarios");
    let plan = Plan {
        healthy_for: Duration::from_secs(if full() { 120 } else { 10 }),
        patience: Duration::from_secs(20),
    };
    let (alone, together): (Vec<_>, Vec<_>) =
        tasks.into_iter().partition(|task| task.scenario.alone);
    let mut done = run_all(together, if full() { 3 } else { 4 }, &plan);
    done.extend(run_all(alone, 1, &plan));
    done.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    let mut record = Record::new("scenarios.tsv", HOW);
    record.line(table::of(&done));
    if full() {
        record.finish();
    }
    let missed: Vec<_> = done
        .iter()
        .filter(|(scenario, outcome)| !passes(scenario, outcome))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

fn tasks(seed: u64) -> Vec<Task> {
    let named = env::var("AX_SCENARIO").ok();
    let named: Option<HashSet<_>> = named.as_deref().map(|names| names.split(',').collect());
    let picked = |scenario: &Scenario| match &named {
        Some(named) => named.contains(scenario.name.as_str()),
        None => full() || scenario.short,
    };
    let mut tasks = Vec::new();
    for scenario in Scenario::all(&folder()).into_iter().filter(picked) {
        // The numbers of a scenario do not depend on which others run.
        let name = scenario.name.bytes();
        let own = name.fold(seed, |seed, byte| seed.rotate_left(7) ^ u64::from(byte));
        let mut random = Rng::with_seed(own);
        let flavors = if full() {
            scenario.load.flavors.clone()
        } else {
            vec![scenario.load.flavors[random.usize(..scenario.load.flavors.len())]]
        };
        // A service in which nothing is wrong is watched for minutes instead.
        let runs = if full() && scenario.fault.is_some() {
            2
        } else {
            1
        };
        for flavor in flavors {
            for _ in 0..runs {
                tasks.push(Task {
                    drawn: scenario.draw(flavor, random.u64(..)),
                    scenario: scenario.clone(),
                });
            }
        }
    }
    tasks
}

/// Runs them, so many at once.
fn run_all(tasks: Vec<Task>, at_once: usize, plan: &Plan) -> Vec<(Scenario, Outcome)> {
    let tasks = Mutex::new(VecDeque::from(tasks));
    let done = Mutex::new(Vec::new());
    let next = || {
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.pop_front()
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(Task {
                    scenario,
                    mut drawn,
                }) = next()
                {
                    if let Some(percent) = scenario.load.percent_of_capacity {
                        drawn.rate = capacity::of(drawn.flavor) * percent / 100;
                    }
                    let outcome = run::run(&scenario, &drawn, plan);
                    println!("{}", table::line(&scenario, &outcome));
                    for wrong in &outcome.wrong {
                        println!("    {}: {}", wrong.id, wrong.sentence);
                    }
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((scenario, outcome));
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// In the long version all must be right. The short version runs on machines that are busy with other things, too: the
/// right verdict must come first at last and what it is confused with must not come, but it may take its time. Where the
/// machine had no CPU to give, as the service itself says, other things were wrong as well; then the right verdict must
/// be among what is said.
fn passes(scenario: &Scenario, outcome: &Outcome) -> bool {
    if full() {
        return outcome.is_right(scenario);
    }
    let cpus = thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
    let starved = outcome
        .wrong
        .iter()
        .any(|wrong| wrong.id == VerdictId::CpuStarvation);
    if starved && outcome.load > cpus {
        return outcome.said;
    }
    let confused = |wrong: &run::Wrong| scenario.forbid.contains(&wrong.id);
    let healthy = scenario.fault.is_none();
    !outcome.wrong.iter().any(|wrong| healthy || confused(wrong))
        && outcome.said
        && (healthy || outcome.verdict_after.is_some())
}

/// Each verdict but `healthy` has a fault of its name, and each fault has a scenario.
#[test]
fn the_gallery_is_complete() {
    let output = run_to_end(
        ax_top(Path::new("/nonexistent/agent.sock")).args(["demo", "--list-faults", "--json"]),
        0,
    );
    let faults: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a list");
    let text = |fault: &Value, key: &str| fault[key].as_str().expect("a text").to_owned();
    let pairs: Vec<_> = faults
        .iter()
        .map(|fault| (text(fault, "name"), text(fault, "expect")))
        .collect();
    for id in VerdictId::ALL
        .iter()
        .filter(|id| **id != VerdictId::Healthy)
    {
        let own = (id.name().to_owned(), id.name().to_owned());
        assert!(pairs.contains(&own), "no fault is named {id}");
    }
    let scenarios = Scenario::all(&folder());
    for (name, expect) in &pairs {
        assert!(
            scenarios
                .iter()
                .any(|scenario| scenario.fault.as_ref() == Some(name)
                    && scenario.expect.iter().any(|id| id.name() == expect)),
            "no scenario has the fault {name} and expects {expect}"
        );
    }
    for scenario in &scenarios {
        let known = |fault: &String| pairs.iter().any(|(name, _)| name == fault);
        assert!(scenario.fault.iter().all(known), "{scenario:#?}");
    }
}

/// F81: each quadrant of the board has its scenario.
#[test]
fn each_quadrant_of_the_board_has_a_scenario() {
    let scenarios = Scenario::all(&folder());
    let quadrants: HashSet<_> = scenarios.iter().filter_map(|it| it.quadrant).collect();
    let all = [
        Quadrant::LagHighCpuLow,
        Quadrant::CpuHighLagNormal,
        Quadrant::PoolBusy,
        Quadrant::MemoryUp,
    ];
    assert_eq!(quadrants, HashSet::from(all));
}

#[test]
fn a_scenario_with_a_word_that_is_not_known_is_refused() {
    const RIGHT: &str = "fault = \"slot-leak\"\nexpect = [\"slot-leak\"]\n";
    assert!(Scenario::parse("right", RIGHT).is_ok());
    let wrong = [
        ("forbids = []\n", "forbids"),
        ("[load]\nspeed = [1, 2]\n", "speed"),
        ("[load]\nrate = [2, 1]\n", "2 to 1"),
        ("forbid = [\"bad-karma\"]\n", "a verdict that there is not"),
        ("[load]\nflavors = [\"green-threads\"]\n", "green-threads"),
    ];
    for (more, named) in wrong {
        let error = Scenario::parse("wrong", &format!("{RIGHT}{more}")).expect_err(more);
        assert!(error.contains(named), "{error}");
    }
}

/// The numbers of a run come from its seed alone.
#[test]
fn a_seed_repeats_a_run() {
    for scenario in Scenario::all(&folder()) {
        let draw = |seed| format!("{:?}", scenario.draw(Flavor::MultiThread, seed));
        assert_eq!(draw(7), draw(7));
    }
}

/// The command that people type: the verdict is in the report, first; what is not known is refused with what is.
#[test]
fn the_headless_demo_tells_its_fault() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let demo = |arguments: &str, code| {
        let mut command = ax_top(&folder.path().join("ax/agent.sock"));
        command.arg("demo").args(arguments.split(' '));
        run_to_end(&mut command, code)
    };
    let report = demo(
        "--fault stuck-dependencies --after 3s --set chains=4 --headless --for 10s --json",
        0,
    );
    let report: Value = serde_json::from_slice(&report.stdout).expect("one object");
    let verdicts = report["verdicts"].as_array().expect("a list");
    assert!(
        verdicts
            .iter()
            .any(|verdict| verdict["id"] == "stuck-dependencies"),
        "{verdicts:#?}"
    );
    for (wrong, told) in [
        ("--headless --for 1s --fault bad-karma", "cpu-throttled"),
        (
            "--headless --for 1s --fault slot-leak --set slots=1",
            "uploads_per_s=5",
        ),
    ] {
        let output = demo(wrong, 64);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(told), "{said}");
    }
}
