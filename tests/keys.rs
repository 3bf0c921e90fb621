//! Every key of the help table on a real terminal, and what a hand does besides: suspend, point, look at nothing. What
//! belongs here needs a terminal, and goes through all keys or all of a session.

mod support;

use std::{process::Command, thread, time::Duration};

use rustix::process::{Signal, kill_process};
use support::{eventually, full, terminal::Terminal, watched};

/// What a key does: pressed after these, what the screen must become.
struct Deed {
    name: &'static str,
    before: &'static str,
    becomes: Becomes,
}

enum Becomes {
    /// It shows this, and did not before.
    Shows(&'static str),
    /// It shows this no more, and did before.
    Loses(&'static str),
    /// Another row is selected.
    Moves,
    /// The line that holds this reads differently.
    Changes(&'static str),
    /// It shows this; it may have done so before.
    Says(&'static str),
}

use Becomes::{Changes, Loses, Moves, Says, Shows};

const fn deed(name: &'static str, before: &'static str, becomes: Becomes) -> Deed {
    Deed {
        name,
        before,
        becomes,
    }
}

/// In front of each stands `1` and `r`: the overview, live.
const DEEDS: &[Deed] = &[
    deed("help", "", Shows("this page")),
    deed("overview", "2", Shows("[1 Overview]")),
    deed("lanes", "", Shows("[2 Lanes]")),
    deed("jobs", "", Shows("[3 Jobs]")),
    deed("traces", "", Shows("[4 Traces]")),
    deed("workers", "", Shows("[5 Workers]")),
    deed("deps", "", Shows("[6 Deps]")),
    deed("alerts", "", Shows("[7 Alerts")),
    deed("snapshots", "", Shows("[8 Snapshots")),
    deed("load", "", Shows("[9 Load")),
    deed("evidence", "", Shows("of a snapshot alone")),
    deed("next-screen", "", Shows("[2 Lanes]")),
    deed("previous-screen", "2", Shows("[1 Overview]")),
    deed("capture", "", Shows("snapshot written: /")),
    deed("next-panel", "", Shows("━ Job types")),
    // From where the one before has led.
    deed("previous-panel", "", Shows("━ Lanes")),
    deed("down", "gg", Moves),
    deed("up", "G", Moves),
    deed("half-page-down", "gg", Moves),
    deed("half-page-up", "G", Moves),
    deed("page-down", "gg", Moves),
    deed("page-up", "G", Moves),
    deed("top", "G", Moves),
    deed("bottom", "gg", Moves),
    deed("columns-right", "", Loses(" fill ")),
    deed("columns-left", "L", Shows(" fill ")),
    deed("open", "", Shows("Its limit, newest move first")),
    deed("back", "\r", Loses("Its limit, newest move first")),
    deed("filter", "", Shows("wait>100ms")),
    deed("command", "", Shows("alerts  back  bottom")),
    deed("sort-next", "", Shows("by lane ▲")),
    // From where the one before has led, and so on.
    deed("sort-previous", "", Loses("by lane ▲")),
    deed("sort-reverse", ">>", Shows("by fill ▲")),
    deed("sort-again", ">", Says("by run/limit ▼")),
    deed("freeze", "", Shows("FROZEN since")),
    deed("now", " ", Loses("FROZEN since")),
    deed("zoom-in", "", Shows("-22s")),
    deed("zoom-out", "", Shows("-1m30s")),
    deed("zoom-reset", "-", Shows("-45s")),
    deed("time-back", "+++", Loses("-11s")),
    deed("time-forward", "+++b", Shows("-11s")),
    deed("cursor-older", "", Shows("CURSOR at ")),
    deed("cursor-newer", ",,,", Changes("ms at ")),
    deed("mark-older", "", Shows("ms at ")),
    // The start is one mark, the snapshot above another.
    deed("mark-newer", "NN", Changes("ms at ")),
    deed("slower", "", Shows("only a replay has a speed")),
    deed("faster", "", Shows("only a replay has a speed")),
    deed("services", "", Shows("last heard")),
    deed("next-service", "", Says("[1 Overview]")),
    deed("previous-service", "", Says("[1 Overview]")),
    deed("copy", "", Shows("copied: ")),
    deed("export-csv", "", Shows(".csv")),
    deed("export-json", "", Shows(".json")),
    deed("pause", "", Shows("of demo? it begins no job")),
    deed("resize-lane", "", Shows(":resize ")),
    deed("cancel", "", Shows("select a job first")),
    deed("retry", "", Shows("select a job first")),
    deed("redraw", "", Says("[1 Overview]")),
];

/// Tried where they end or stop the program.
const ELSEWHERE: [&str; 2] = ["quit", "suspend"];

/// What a terminal sends for a key that the configuration writes so.
fn sent(key: &str) -> String {
    key.split(' ')
        .map(|key| match key {
            "space" => " ".to_owned(),
            "enter" => "\r".to_owned(),
            "esc" => "\x1b".to_owned(),
            "tab" => "\t".to_owned(),
            "shift-tab" => "\x1b[Z".to_owned(),
            "pageup" => "\x1b[5~".to_owned(),
            "pagedown" => "\x1b[6~".to_owned(),
            key => match key.strip_prefix("ctrl-") {
                Some(letter) => {
                    let letter = letter.bytes().next().expect("a letter");
                    char::from(letter & 0x1f).to_string()
                }
                None => key.to_owned(),
            },
        })
        .collect()
}

/// The help table, as the configuration prints it: each action with its first key.
fn table() -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_ax-top"))
        .args(["config", "--print-default"])
        .output()
        .expect("it starts");
    let text = String::from_utf8(output.stdout).expect("is text");
    let (_, keys) = text.split_once("[keys]\n").expect("has keys");
    let line = |line: &str| {
        let (name, rest) = line.split_once(" = [\"").expect(line);
        let (key, _) = rest.split_once('"').expect(line);
        (name.to_owned(), key.to_owned())
    };
    keys.lines().map(line).collect()
}

/// The seconds for which the service has been up, as the header says it: `up 21s`, `up 1m03s`.
fn up(text: &str) -> u64 {
    let (_, rest) = text.split_once("  up ").unwrap_or_default();
    let word = rest.split_whitespace().next().unwrap_or_default();
    match word.strip_suffix('s').map(str::parse) {
        Some(Ok(seconds)) => seconds,
        _ if word.contains('m') => 60,
        _ => 0,
    }
}

/// `F97`: no key ends the program, and each does what its line says.
#[test]
fn every_key_does_what_the_help_says() {
    let table = table();
    assert!(table.len() > 40, "{table:?}");
    let mut terminal = Terminal::demo(120, 40);
    terminal.shows(&[
        "demo",
        "live",
        "send_push",
        "save_order",
        "run/limit",
        "GET /rate",
    ]);
    for (name, key) in &table {
        if ELSEWHERE.contains(&name.as_str()) {
            continue;
        }
        let deed = DEEDS.iter().find(|deed| deed.name == name);
        let deed = deed.unwrap_or_else(|| panic!("nobody has said what `{name}` does"));
        if name.starts_with("time-") {
            // There is no way back before the beginning.
            terminal.becomes("charts with a past", |text| up(text) >= 20);
        }
        // Out of any line that is typed into, no filter, the overview, live.
        for keys in ["\x1b", "\x1b", "1", "r", "="] {
            terminal.press(keys);
            thread::sleep(Duration::from_millis(20));
        }
        terminal.becomes("the overview, live", |text| {
            text.contains("[1 Overview]")
                && !text.contains("FROZEN")
                && !text.contains("any other key no")
        });
        for key in deed.before.chars() {
            terminal.press(&key.to_string());
        }
        let key = sent(key);
        match &deed.becomes {
            Says(wanted) => {
                terminal.press(&key);
                terminal.becomes(name, |text| text.contains(wanted));
            }
            Shows(wanted) => {
                terminal.becomes("as before", |text| !text.contains(wanted));
                terminal.press(&key);
                terminal.becomes(name, |text| text.contains(wanted));
            }
            Loses(lost) => {
                terminal.becomes("as before", |text| text.contains(lost));
                terminal.press(&key);
                terminal.becomes(name, |text| !text.contains(lost));
            }
            Changes(place) => {
                let line = |text: &str| {
                    let mut lines = text.lines().filter(|line| line.contains(place));
                    lines.next().map(str::to_owned)
                };
                terminal.becomes("as before", |text| line(text).is_some());
                // What was pressed before is drawn by then: frames are 100 ms apart.
                thread::sleep(Duration::from_millis(150));
                let before = line(&terminal.text());
                terminal.press(&key);
                terminal.becomes(name, |text| {
                    line(text).is_some_and(|now| Some(now) != before)
                });
            }
            Moves => {
                thread::sleep(Duration::from_millis(150));
                let before = eventually("a selected row", || terminal.selected_row());
                terminal.press(&key);
                eventually(name, || {
                    terminal.selected_row().filter(|row| *row != before)
                });
            }
        }
    }
    terminal.press("\x1b\x1b");
    thread::sleep(Duration::from_millis(50));
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}

/// Ctrl-Z gives the terminal back and stops; whoever lets it go on gets the screen again, whole.
#[test]
fn it_is_suspended_and_returns() {
    let mut terminal = Terminal::demo(100, 30);
    terminal.shows(&["demo", "live", "run/limit"]);
    let alternate = |terminal: &Terminal| {
        terminal
            .screen
            .lock()
            .expect("no panic")
            .screen()
            .alternate_screen()
    };
    assert!(alternate(&terminal));
    let stat = format!("/proc/{}/stat", terminal.pid().as_raw_nonzero());
    let stopped = || {
        let stat = std::fs::read_to_string(&stat).expect("it lives");
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'))
    };
    terminal.press("\x1a");
    eventually("it to stop", || stopped().then_some(()));
    eventually("the terminal to be given back", || {
        (!alternate(&terminal)).then_some(())
    });
    kill_process(terminal.pid(), Signal::CONT).expect("it is there");
    eventually("the screen to be back", || {
        alternate(&terminal).then_some(())
    });
    terminal.shows(&["live", "run/limit", "q quit"]);
    // A job that is stopped from elsewhere gives the terminal back as well.
    kill_process(terminal.pid(), Signal::TSTP).expect("it is there");
    eventually("it to stop", || stopped().then_some(()));
    kill_process(terminal.pid(), Signal::CONT).expect("it is there");
    terminal.shows(&["live", "run/limit", "q quit"]);
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}

/// A frozen screen writes nothing, since nothing on it changes.
#[test]
fn a_screen_on_which_nothing_changes_is_not_drawn() {
    let mut terminal = Terminal::demo(100, 30);
    terminal.shows(&["demo", "live", "run/limit"]);
    terminal.press(" ");
    terminal.shows(&["FROZEN since"]);
    thread::sleep(Duration::from_millis(200));
    let written = || terminal.written.load(std::sync::atomic::Ordering::Relaxed);
    let before = written();
    // The clock itself is measured: two seconds in which a live screen would have been drawn twice.
    thread::sleep(Duration::from_secs(2));
    assert_eq!(
        written(),
        before,
        "bytes were written to a screen that stands still"
    );
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}

/// As a new user would: nothing to attach to, what to do is said, and a service shows soon after it has started.
#[test]
fn with_nothing_to_attach_to_it_says_what_to_do_and_shows_what_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ax/agent.sock");
    let mut terminal = Terminal::start_with(&[], &[("AX_SOCKET", socket.as_os_str())], 100, 30);
    terminal.shows(&[
        "This ax-top listens on",
        "ax_probe::Probe::builder(\"my-service\").install()",
        "ax-top demo",
    ]);
    let (_runtime, probe) = watched::bare("late-comer", &socket);
    let began = std::time::Instant::now();
    terminal.shows(&["late-comer", "live", "Now"]);
    let took = began.elapsed();
    println!("shown after {took:?}");
    if full() {
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    drop(probe);
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}
