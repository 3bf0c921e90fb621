//! What the stack of a blocked worker says: ways to block, flavors of runtime, jobs and plain tasks, in a service that is
//! this binary once more (see [`service`]), and names from the real reader process.
//!
//! `cargo test --release --test stacks -- --nocapture` prints the table; `AX_FULL=1` adds builds without debug information
//! and ten thousand stacks under churn.

#[path = "stacks/fake_agent.rs"]
mod fake_agent;
#[path = "stacks/kinds.rs"]
mod kinds;
#[path = "stacks/service.rs"]
mod service;
mod support;

use std::{
    collections::{HashMap, HashSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use ax_agent::symbol::{Symbolizer, fold::culprit};
use ax_wire::{
    RuntimeId, snapshot_file,
    stack::{StackProof, ThreadStack},
};
use fake_agent::{FakeAgent, Told};
use kinds::Kind;
use service::{Cell, MODE_ENV, Mode};
use support::{Guarded, ax_agent, ax_top, eventually, find_program, full, run_to_end};

/// Not a test of its own: the service that the other tests start.
#[test]
fn service() {
    if let Ok(mode) = env::var(MODE_ENV) {
        service::run(&mode);
    }
}

/// Starts this binary, or a copy of it, as the service.
fn start_service(binary: &Path, mode: Mode, socket: &Path, folder: &Path) -> Guarded {
    let child = Command::new(binary)
        .args(["--exact", "service", "--nocapture"])
        .env(MODE_ENV, mode.name())
        .env("AX_SOCKET", socket)
        .env("HOSTALIASES", folder.join(kinds::ALIASES))
        .env(kinds::FOLDER_ENV, folder)
        .env_remove("AX_DISABLE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn();
    Guarded(child.expect("the service starts"))
}

fn symbolizer() -> Symbolizer {
    Symbolizer::new(env!("CARGO_BIN_EXE_ax-agent"))
}

fn own_binary() -> PathBuf {
    env::current_exe().expect("known")
}

/// The stacks of each cell, by its runtime.
type Stacks = HashMap<RuntimeId, Vec<ThreadStack>>;

/// Takes the stacks of all cells, and names them while the service lives.
fn matrix(binary: &Path, named_later_with: Option<&Path>) -> Stacks {
    let agent = FakeAgent::start();
    let symbolizer = symbolizer();
    let mut service = start_service(binary, Mode::Matrix, &agent.socket(), agent.folder());
    let mut stacks = Stacks::new();
    let mut connection = agent.accept();
    while let Some(told) = connection.next() {
        let Told::Stack { runtime, stack, .. } = told else {
            continue;
        };
        let mut named = [*stack];
        symbolizer.name(connection.pid(), &mut named);
        if let Some(original) = named_later_with {
            let module = named[0]
                .modules
                .iter()
                .find(|module| module.build_id.is_some());
            assert!(module.is_some(), "{named:#?}");
            let unnamed = culprit(&named[0]).map(|function| &function.name);
            assert!(
                unnamed.is_none_or(|name| !name.contains("kinds")),
                "stripped: {unnamed:?}"
            );
            symbolizer
                .name_with(original, &mut named)
                .expect("the same build");
        }
        stacks.entry(runtime).or_default().extend(named);
    }
    let status = service.0.wait().expect("a child");
    assert!(status.success(), "{status}");
    stacks
}

/// What the table says of a cell, and whether it is right.
fn judge(kind: Kind, stacks: Option<&Vec<ThreadStack>>) -> (String, bool) {
    let Some(stacks) = stacks else {
        return ("no stack".to_owned(), false);
    };
    let names: Vec<_> = stacks.iter().filter_map(culprit).collect();
    let wanted = format!("kinds::{}", kind.function());
    let right = names
        .iter()
        .find(|function| function.name.ends_with(&wanted));
    let proof = match stacks[0].proof {
        StackProof::SamePoll => "",
        _ => " ?",
    };
    match (right, names.first()) {
        (Some(function), _) => {
            let line = function
                .line
                .map_or_else(String::new, |line| format!(":{line}"));
            (format!("{}{line}{proof}", kind.function()), true)
        }
        (None, Some(other)) => (format!("wrong: {}", other.name), false),
        (None, None) => ("without a name".to_owned(), false),
    }
}

/// Prints the table of one build and fails where a cell is wrong.
fn check(build: &str, stacks: &Stacks, with_lines: bool) {
    println!("\nbuild: {build}; `?`: no wrapped poll to compare, the stack is labelled");
    print!("{:<16}", "blocked in");
    for (title, ..) in Cell::columns() {
        print!("{title:<26}");
    }
    let (mut wrong, mut last) = (Vec::new(), None);
    for (cell, id) in Cell::all().zip(1..) {
        if last != Some(cell.kind) {
            print!("\n{:<16}", cell.kind.title());
            last = Some(cell.kind);
        }
        let stacks = stacks.get(&RuntimeId(id));
        let (text, right) = judge(cell.kind, stacks);
        print!("{text:<26}");
        if !right || text.contains(':') != with_lines {
            wrong.push((cell, text, stacks));
        }
    }
    println!();
    assert!(wrong.is_empty(), "{build}: {wrong:#?}");
    let held_up = stacks.values().flatten().map(|stack| stack.held_up_ns);
    let longest_ns = held_up.max().expect("stacks");
    println!(
        "longest hold-up of a thread: {:.1} us",
        longest_ns as f64 / 1e3
    );
}

#[test]
fn the_stack_names_the_users_function_however_it_blocks() {
    check("line tables", &matrix(&own_binary(), None), true);
    if !full() {
        return;
    }
    let Some(strip) = find_program("strip") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    for (build, option) in [
        ("no debug information", "--strip-debug"),
        ("stripped, then `ax-top symbolize`", "--strip-all"),
    ] {
        let copy = folder.path().join("stacks");
        let _ = fs::remove_file(&copy);
        let stripped = Command::new(&strip)
            .args([Path::new(option), Path::new("-o"), &copy, &own_binary()])
            .status();
        assert!(stripped.expect("strip starts").success());
        let later = (option == "--strip-all").then(own_binary);
        let stacks = matrix(&copy, later.as_deref());
        check(build, &stacks, later.is_some());
    }
}

/// Jobs of two kinds end at about the time when their stack is taken: a stack that is kept shows the job that it is said
/// to be of.
#[test]
fn no_stack_is_kept_of_a_job_that_had_moved_on() {
    let wanted = if full() { 10_000 } else { 500 };
    let agent = FakeAgent::start();
    let symbolizer = symbolizer();
    let _service = start_service(&own_binary(), Mode::Churn, &agent.socket(), agent.folder());
    let mut connection = agent.accept();
    let (mut checked, mut without_function) = (0, 0);
    while checked < wanted {
        let told = connection.next().expect("the service goes on");
        let Told::Stack { task, stack, .. } = told else {
            continue;
        };
        let task = task.expect("only jobs run there");
        let mut named = [*stack];
        symbolizer.name(connection.pid(), &mut named);
        assert_eq!(named[0].proof, StackProof::SamePoll);
        let names = named[0].frames.iter().flat_map(|frame| &frame.functions);
        let shows = |function: &str| {
            let wanted = format!("kinds::{function}");
            names
                .clone()
                .any(|function| function.name.ends_with(&wanted))
        };
        let other = if task == "odd" { "even" } else { "odd" };
        assert!(!shows(other), "a stack of {task} shows {other}: {named:#?}");
        // In the first and last microseconds of its poll a job is outside its function.
        without_function += usize::from(!shows(&task));
        checked += 1;
    }
    println!(
        "{checked} stacks under churn: none of another job, {without_function} at the edge of their own"
    );
    assert!(
        without_function * 20 < checked,
        "{without_function} of {checked}"
    );
}

/// The whole way: the agent writes the snapshot, then the names into it, of both stacks; and `ax-top symbolize` reads it.
#[test]
fn the_snapshot_of_an_incident_gets_the_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("run/agent.sock");
    let snapshots = folder.path().join("snapshots");
    let mut agent = ax_agent(&socket);
    agent
        .arg("--snapshots")
        .arg(&snapshots)
        .args(["--log", "warn"]);
    let _agent = Guarded(agent.spawn().expect("the agent starts"));
    eventually("the agent's socket", || socket.exists().then_some(()));
    let _service = start_service(&own_binary(), Mode::Incident, &socket, folder.path());
    let file = eventually("a snapshot", || {
        let names = fs::read_dir(&snapshots).ok()?.flatten();
        let mut paths = names.map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|end| end == "json"))
    });
    let written = Instant::now();
    let wrong = |stack: &ThreadStack| {
        culprit(stack).is_none_or(|function| !function.name.ends_with("kinds::odd"))
    };
    let mut first_named = None;
    let incident = eventually("names of two stacks", || {
        let snapshot = snapshot_file::read(&file).expect("always whole");
        let incident = snapshot.incident.expect("taken");
        if !incident.stacks.iter().all(wrong) {
            first_named.get_or_insert_with(|| written.elapsed());
        }
        let both = incident.stacks.len() == 2 && !incident.stacks.iter().any(wrong);
        both.then_some(incident)
    });
    println!(
        "names in the file {:?} after it was written, of the second stack {:?}",
        first_named.expect("before the second"),
        written.elapsed()
    );
    assert_eq!(incident.stalls.len(), 1);
    let lines = |stack: &ThreadStack| culprit(stack).and_then(|function| function.line);
    assert_eq!(
        incident
            .stacks
            .iter()
            .map(lines)
            .collect::<HashSet<_>>()
            .len(),
        1,
        "it does not move"
    );

    let output = folder.path().join("with-names.json");
    let mut symbolize = ax_top(&socket);
    symbolize
        .arg("symbolize")
        .arg(&file)
        .arg("--output")
        .arg(&output);
    let printed = run_to_end(symbolize.arg("--with").arg(own_binary()), 0);
    let printed = String::from_utf8(printed.stdout).expect("text");
    assert!(printed.contains("-> stacks::kinds::odd"), "{printed}");
    assert!(printed.contains("frames of the runtime"), "{printed}");
    let copy = snapshot_file::read(&output).expect("a snapshot");
    assert_eq!(
        copy.incident.map(|incident| incident.stacks),
        Some(incident.stacks)
    );
    for (with, why) in [
        (env!("CARGO_BIN_EXE_ax-agent"), "another build"),
        ("/etc/passwd", "no ELF file"),
        ("/nonexistent", "cannot be opened"),
    ] {
        let mut symbolize = ax_top(&socket);
        let refused = run_to_end(
            symbolize.arg("symbolize").arg(&file).args(["--with", with]),
            65,
        );
        let said = String::from_utf8(refused.stderr).expect("text");
        assert!(said.contains(why), "{with}: {said}");
    }
}
