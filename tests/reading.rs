//! A snapshot is read, on the real binary: the file that must be read for ever, what each command makes of it, files that
//! are none, and the report in a browser. What a page or a trace holds in detail is tested beside their code.

mod support;

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use ax_wire::{event::StallKind, snapshot_file};
use serde_json::Value;
use support::{ax_top, find_program, run_to_end};

/// See `exit::BAD_DATA` of `ax-top`.
const BAD_DATA: i32 = 65;

/// Wrong usage.
const USAGE: i32 = 64;

const COMMANDS: [&str; 5] = [
    "report FILE",
    "export FILE --format perfetto",
    "export FILE --format otlp-json",
    "open FILE",
    "bundle FILE -o OUT",
];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snapshot-v1.json")
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
                        if ["name", "service", "lane", "place"].contains(&key.as_str()) =>
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
        serde_json::from_slice(&fs::read(fixture()).expect("reads")).expect("is JSON");
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

/// Loads a page in a headless browser of a given width; returns what its console said.
fn browse(browser: &Path, page: &Path, width: u32, picture: &Path) -> String {
    let profile = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--disable-gpu",
        "--hide-scrollbars",
        "--enable-logging=stderr",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
    ]);
    // Whatever a page asks for goes nowhere; the container of a test has no user namespaces for the sandbox.
    command.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--no-sandbox"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--window-size={width},2000"));
    command.arg(format!("--screenshot={}", picture.display()));
    command.arg(format!("file://{}", page.display()));
    let output = run_to_end(&mut command, 0);
    let console = said(&output);
    let lines = console.lines().filter(|line| line.contains(":CONSOLE"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Width and height of a PNG.
fn size(picture: &Path) -> (u32, u32) {
    let mut head = [0; 24];
    let mut file = File::open(picture).expect("there is a picture");
    file.read_exact(&mut head).expect("has a header");
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

#[test]
fn a_browser_shows_the_report_without_a_complaint_or_a_request() {
    let Some(browser) = find_program("chromium") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let output = run("report FILE", &fixture(), folder.path(), 0);
    let html = String::from_utf8(output.stdout).expect("is text");
    fs::write(&page, &html).expect("writes");
    for width in [360, 1280] {
        let picture = folder.path().join(format!("{width}.png"));
        assert_eq!(browse(&browser, &page, width, &picture), "", "{width}");
        assert_eq!(size(&picture).0, width);
    }
    // The same page with what it must never have: its own policy refuses it, and this test would see it.
    let attack = "<img src='http://x.test/a.png'><script>1</script></body>";
    fs::write(&page, html.replace("</body>", attack)).expect("writes");
    let picture = folder.path().join("attack.png");
    let console = browse(&browser, &page, 1280, &picture);
    assert!(
        console.matches("Content Security Policy").count() >= 2,
        "{console}"
    );
}
