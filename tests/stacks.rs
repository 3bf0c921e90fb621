//! What the stack of a blocked worker says: ways to block, flavors of runtime, jobs and plain tasks, in a service that is
//! this binary once more (see [`service`]), and names from the real reader process.
//!
//! `cargo test --release -p ax --test stacks -- --nocapture` prints the table; `AX_FULL=1` adds builds without debug information
//! and ten thousand stacks under churn, and `AX_BLESS=1` keeps both in `tests/results/`.

#[path = "stacks/debug_files.rs"]
mod debug_files;
#[path = "stacks/fake_agent.rs"]
mod fake_agent;
#[path = "stacks/incident.rs"]
mod incident;
#[path = "stacks/kinds.rs"]
mod kinds;
#[path = "stacks/service.rs"]
mod service;
mod support;

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ax_agent::symbol::{Symbolizer, fold::culprit};
use ax_wire::{
    RuntimeId,
    stack::{StackProof, ThreadStack},
};
use fake_agent::{FakeAgent, Told};
use kinds::Kind;
use service::{Cell, MODE_ENV, Mode};
use support::{Guarded, find_program, full, record::Record};

/// The command behind the result files.
const HOW: &str = "AX_FULL=1 AX_BLESS=1 cargo test --release -p ax --test stacks -- --nocapture";

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
        .stdin(Stdio::piped())
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
    let mut symbolizer = symbolizer();
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
            // One that has forgotten these names: the next stack is to have none before.
            symbolizer = self::symbolizer();
        }
        stacks.entry(runtime).or_default().extend(named);
    }
    // Closes its standard input, upon which it ends.
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
fn check(build: &str, stacks: &Stacks, with_lines: bool, record: &mut Record) {
    record.line(format!("\nbuild: {build}"));
    let row = |first: &str, cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| format!("{cell:<26}")).collect();
        format!("{first:<16}{}", cells.concat())
    };
    let columns = Cell::columns().map(|(title, ..)| title.to_owned());
    record.line(row("blocked in", &columns));
    let mut wrong = Vec::new();
    let mut cells = Cell::all().zip((1..).map(RuntimeId)).peekable();
    while let Some(&(Cell { kind, .. }, _)) = cells.peek() {
        let mut said = Vec::new();
        while let Some((cell, id)) = cells.next_if(|(cell, _)| cell.kind == kind) {
            let stacks = stacks.get(&id);
            let (text, right) = judge(cell.kind, stacks);
            if !right || text.contains(':') != with_lines {
                wrong.push((cell, text.clone(), stacks));
            }
            said.push(text);
        }
        record.line(row(kind.title(), &said));
    }
    assert!(wrong.is_empty(), "{build}: {wrong:#?}");
    let held_up = stacks.values().flatten().map(|stack| stack.held_up_ns);
    let longest_ns = held_up.max().expect("stacks");
    record.line(format!(
        "longest hold-up of a thread: {:.1} us",
        longest_ns as f64 / 1e3
    ));
}

#[test]
fn the_stack_names_the_users_function_however_it_blocks() {
    let mut record = Record::new("stacks.txt", HOW);
    record.line("The function that the stack of a blocked worker names, and its line.");
    record.line("`?`: no wrapped poll to compare before and after, and the stack is labelled so.");
    check(
        "line tables",
        &matrix(&own_binary(), None),
        true,
        &mut record,
    );
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
        check(build, &stacks, later.is_some(), &mut record);
    }
    record.finish();
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
    let (mut checked, mut without_function, mut unknown) = (0, 0, 0);
    while checked < wanted {
        let told = connection.next().expect("the service goes on");
        let Told::Stack { task, stack, .. } = told else {
            continue;
        };
        // The beginning of its stall may have been dropped on the way: the reader is slower than the service.
        let Some(task) = task else {
            unknown += 1;
            assert!(unknown < wanted, "{unknown} stacks of nobody knows what");
            continue;
        };
        let mut named = [*stack];
        symbolizer.name(connection.pid(), &mut named);
        assert_eq!(named[0].proof, StackProof::SamePoll);
        let functions = named[0].frames.iter().flat_map(|frame| &frame.functions);
        let shows = |function: &str| {
            let wanted = format!("kinds::{function}");
            functions
                .clone()
                .any(|function| function.name.ends_with(&wanted))
        };
        let other = if task == "odd" { "even" } else { "odd" };
        assert!(!shows(other), "a stack of {task} shows {other}: {named:#?}");
        // In the first and last microseconds of its poll a job is outside its function.
        without_function += usize::from(!shows(&task));
        checked += 1;
    }
    let mut record = Record::new("stacks-churn.txt", HOW);
    record.line(format!(
        "{checked} stacks under churn: none of another job, {without_function} at the edge of their own"
    ));
    assert!(
        without_function * 20 < checked,
        "{without_function} of {checked}"
    );
    if full() {
        record.finish();
    }
}
