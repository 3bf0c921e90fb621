//! A snapshot is read, on the real binary: the files that must be read for ever, what each command makes of them, files that
//! are none, and the report in a browser. What a page or a trace holds in detail is tested beside their code.

#[path = "reading/browser.rs"]
mod browser;
mod support;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use ax_agent::symbol::{
    fold::{culprit, fold},
    progress::{Progress, progress},
};
use ax_wire::{
    event::StallKind,
    incident::Snapshot,
    snapshot_file,
    stack::{StackEnd, StackProof},
};
use serde_json::Value;
use support::{ax_top, run_to_end};

/// See `exit::BAD_DATA` of `ax-top`.
const BAD_DATA: i32 = 65;

/// Wrong usage.
const USAGE: i32 = 64;

const COMMANDS: [&str; 8] = [
    "report FILE",
    "export FILE --format perfetto",
    "export FILE --format otlp-json",
    "export FILE --format collapsed",
    "export FILE --format speedscope",
    "open FILE",
    "symbolize FILE",
    "bundle FILE -o OUT",
];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snapshot-v1.json")
}

/// One with stacks and what the flight recorder held.
fn with_stacks() -> PathBuf {
    fixture().with_file_name("snapshot-v1-stacks.json")
}

/// Runs `ax-top`, `FILE` and `OUT` in its arguments replaced; no agent is there.
fn run(line: &str, file: &Path, folder: &Path, code: i32) -> Output {
    let mut command = ax_top(&folder.join("no-agent.sock"));
    command.current_dir(folder);
    command.args(line.split(' ').map(|word| match word {
        "FILE" => file.to_owned(),
        "OUT" => folder.join("out"),
        word => PathBuf::from(word),
    }));
    run_to_end(&mut command, code)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_fixture_is_read_for_ever() {
    let snapshot = snapshot_file::read(&fixture()).expect("every later ax reads it");
    assert_eq!(snapshot.version, 1);
    let incident = snapshot.incident.expect("has one");
    assert_eq!(incident.stalls.len(), 2);
    let stall = &incident.stalls[1];
    assert_eq!(stall.kind, StallKind::Stall);
    let culprit = stall.task.as_ref().expect("is named");
    assert_eq!(culprit.name, "fault_block");
    assert_eq!(culprit.place.as_deref(), Some("demo/src/fault.rs:53"));
    assert_eq!(incident.running.len(), 8);
    assert_eq!(incident.queues[2].pending, 15);
    assert!(snapshot.history.len() >= 60);
    let types = snapshot.types.iter();
    assert!(types.filter(|of| of.run.is_some()).count() >= 5);
}

#[test]
fn the_fixture_with_stacks_is_read_for_ever() {
    let snapshot = snapshot_file::read(&with_stacks()).expect("every later ax reads it");
    assert_eq!(snapshot.version, 1);
    let incident = snapshot.incident.expect("has one");
    assert_eq!(incident.stacks.len(), 2);
    for stack in &incident.stacks {
        assert_eq!(stack.stall, incident.stalls[0].id);
        assert_eq!(
            (stack.proof, stack.end),
            (StackProof::SamePoll, StackEnd::Root)
        );
        let found = culprit(stack).expect("the demo's own");
        assert_eq!(found.name, "ax_demo::fault::Block::start::{{closure}}");
        assert_eq!(found.line, Some(53));
    }
    let both = (&incident.stacks[0], &incident.stacks[1]);
    assert_eq!(progress(both.0, both.1), Some(Progress::None));
    let recorder = incident.recorder.expect("what it held");
    assert_eq!(recorder.events.len(), 162);
    assert!(recorder.events.is_sorted_by_key(|event| event.at_mono_ns));
    let of = recorder.events.iter().filter_map(|event| event.of);
    assert!(
        of.max()
            .is_some_and(|most| (most as usize) < recorder.names.len())
    );
}

/// Each format on the file with stacks, by what a reader of that format looks at first.
#[test]
fn every_format_holds_the_stacks_or_the_jobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let exported = |format: &str| {
        let line = format!("export FILE --format {format}");
        let output = run(&line, &with_stacks(), folder.path(), 0);
        String::from_utf8(output.stdout).expect("text")
    };
    let collapsed = exported("collapsed");
    for line in collapsed.lines() {
        assert!(line.starts_with("worker 0;"), "{line}");
        assert!(line.ends_with(";__clock_nanosleep 1"), "{line}");
    }
    assert_eq!(collapsed.lines().count(), 2);
    let json = |text: String| -> Value { serde_json::from_str(&text).expect("one JSON value") };
    let speedscope = json(exported("speedscope"));
    assert_eq!(speedscope["profiles"][0]["name"], "worker 0");
    let perfetto = json(exported("perfetto"));
    let events = perfetto["traceEvents"].as_array().expect("an array");
    assert!(
        events
            .iter()
            .any(|event| event["name"] == "stall fault_block")
    );
    let printed = run("symbolize FILE", &with_stacks(), folder.path(), 0);
    let printed = String::from_utf8(printed.stdout).expect("text");
    assert!(
        printed.contains("-> ax_demo::fault::Block::start"),
        "{printed}"
    );
}

#[test]
fn what_is_made_is_private_and_replaces_nothing() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().expect("a folder");
    for line in [
        "report FILE -o OUT",
        "export FILE --format otlp-json -o OUT",
        "bundle FILE -o OUT",
    ] {
        run(line, &fixture(), folder.path(), 0);
        let out = folder.path().join("out");
        let mode = fs::metadata(&out).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{line}");
        let before = fs::read(&out).expect("reads");
        let again = run(line, &fixture(), folder.path(), USAGE);
        assert!(
            said(&again).contains("is not overwritten"),
            "{line}: {}",
            said(&again)
        );
        assert_eq!(fs::read(&out).expect("reads"), before);
        fs::remove_file(&out).expect("removes");
    }
}

#[test]
fn a_bundle_is_named_after_its_snapshot_and_unpacks_with_tar() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = run("bundle FILE", &fixture(), folder.path(), 0);
    let told = String::from_utf8(told.stdout).expect("is text");
    let name = "ax-bundle-snapshot-v1";
    assert!(
        told.starts_with(&format!("{name}.tar.gz\nredacted: ")),
        "{told}"
    );
    let mut tar = Command::new("tar");
    tar.current_dir(folder.path())
        .arg("xzf")
        .arg(format!("{name}.tar.gz"));
    run_to_end(&mut tar, 0);
    let unpacked = folder.path().join(name);
    run(
        "report FILE",
        &unpacked.join("snapshot.json"),
        folder.path(),
        0,
    );
    for file in ["README.txt", "report.html", "trace.json"] {
        assert!(unpacked.join(file).is_file(), "{file}");
    }
}

/// The paths are shortened, and still tell whose code it is.
#[test]
fn a_redacted_stack_names_the_same_function() {
    let folder = tempfile::tempdir().expect("a folder");
    run("bundle FILE -o OUT", &with_stacks(), folder.path(), 0);
    let mut tar = Command::new("tar");
    tar.current_dir(folder.path()).arg("xzf").arg("out");
    run_to_end(&mut tar, 0);
    let unpacked = folder
        .path()
        .join("ax-bundle-snapshot-v1-stacks/snapshot.json");
    let text = fs::read_to_string(&unpacked).expect("reads");
    assert!(!text.contains("/opt/build"), "where it was built");
    let redacted = snapshot_file::read(&unpacked).expect("reads");
    let whole = snapshot_file::read(&with_stacks()).expect("reads");
    let lines = |snapshot: &Snapshot| {
        let stacks = &snapshot.incident.as_ref().expect("has one").stacks;
        fold(&stacks[0]).len()
    };
    assert_eq!(lines(&redacted), lines(&whole));
    let incident = redacted.incident.expect("has one");
    let found = culprit(&incident.stacks[0]).expect("the demo's own");
    assert_eq!(found.name, "ax_demo::fault::Block::start::{{closure}}");
    assert_eq!(found.file.as_deref(), Some("demo/src/fault.rs"));
}

/// Each file with a part of what is said of it.
fn bad_files(folder: &Path) -> Vec<(PathBuf, &'static str)> {
    let whole = fs::read(fixture()).expect("reads");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("writes");
        path
    };
    let mut newer: Value = serde_json::from_slice(&whole).expect("is JSON");
    newer["version"] = 99.into();
    newer["hello"] = Value::Null;
    let huge = folder.join("huge.json");
    let sparse = File::create(&huge).expect("creates");
    sparse.set_len(500_000_000).expect("grows");
    let deep = "[".repeat(1 << 20);
    vec![
        (
            file("half.json", &whole[..whole.len() / 2]),
            "is not a snapshot of ax: EOF",
        ),
        (file("empty.json", b""), "is not a snapshot of ax"),
        (
            file("deep.json", deep.as_bytes()),
            "is not a snapshot of ax",
        ),
        (
            file("other.json", b"{\"version\": 1}"),
            "is not a snapshot of ax: missing field",
        ),
        (
            file("newer.json", newer.to_string().as_bytes()),
            "version 99; this ax reads up to 1: open it with a newer ax",
        ),
        (
            huge,
            "has 500000000 bytes, more than the 67108864 that a snapshot may have",
        ),
        (folder.join("missing.json"), "cannot open"),
        (folder.to_owned(), "not a plain file"),
        (PathBuf::from("/dev/zero"), "not a plain file"),
    ]
}

#[test]
fn what_is_no_snapshot_is_said_by_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, wanted) in bad_files(folder.path()) {
        for line in COMMANDS {
            let output = run(line, &file, folder.path(), BAD_DATA);
            let said = said(&output);
            assert!(said.contains(wanted), "{line} {}: {said}", file.display());
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(output.stdout.is_empty());
        }
    }
    assert!(
        !folder.path().join("out").exists(),
        "nothing is left behind"
    );
}

/// Escapes of a terminal in every name that a service may choose.
fn hostile(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(hostile),
        Value::Object(all) => {
            for (key, value) in all {
                match value {
                    Value::String(text)
                        if ["name", "service", "lane", "place", "file", "path"]
                            .contains(&key.as_str()) =>
                    {
                        text.push_str("\u{1b}[2J\u{7}<script>alert(1)</script>");
                    }
                    value => hostile(value),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn no_escape_of_a_hostile_service_reaches_an_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut snapshot =
        serde_json::from_slice(&fs::read(with_stacks()).expect("reads")).expect("is JSON");
    hostile(&mut snapshot);
    let file = folder.path().join("hostile\u{1b}[2J.json");
    fs::write(&file, snapshot.to_string()).expect("writes");
    for line in COMMANDS {
        let code = if line == "open FILE" { USAGE } else { 0 };
        let output = run(line, &file, folder.path(), code);
        let mut out = output.stdout;
        out.extend(&output.stderr);
        assert!(!out.contains(&0x1b) && !out.contains(&7), "{line}");
        let text = String::from_utf8_lossy(&out);
        assert!(line != "report FILE" || !text.contains("<script"), "{line}");
    }
}

#[test]
fn without_a_terminal_open_says_what_to_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run("open FILE", &fixture(), folder.path(), USAGE);
    assert!(
        said(&output).contains("use ax-top report"),
        "{}",
        said(&output)
    );
}
