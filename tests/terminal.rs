//! `ax-top` on a real terminal: a pseudo terminal whose output is read as a terminal would read it. What belongs here
//! is what a test in memory cannot show: that figures come, keys arrive, and the terminal is given back as it was.

mod support;

use std::path::Path;

use rustix::process::{Signal, kill_process};
use support::{
    eventually, http,
    terminal::{Terminal, modes},
};

#[test]
fn keys_arrive_a_stall_is_named_and_q_gives_the_terminal_back() {
    let mut terminal = Terminal::demo(120, 40);
    terminal.shows(&["demo", "live", "send_push", "save_order", "run/limit"]);
    assert_ne!(
        modes(&*terminal.master),
        terminal.modes_before,
        "raw mode is on"
    );
    terminal.press("?");
    terminal.shows(&["Help", "capture: take a snapshot of this service now"]);
    terminal.press("2");
    terminal.shows(&["[2 Lanes", "GET /rate", "Downstreams", "fetch_rate"]);
    terminal.press("\r");
    terminal.shows(&["Lane ", "Its limit, newest move first"]);
    terminal.press("7");
    terminal.shows(&["[7 Alerts"]);
    terminal.press("\t");
    terminal.shows(&["[8 Snapshots"]);
    terminal.press("c");
    terminal.shows(&["snapshot written: /", "asked for"]);
    terminal.press("1");
    terminal.shows(&["[1 Overview", "done/s over 2 s"]);
    terminal.press(" ");
    terminal.shows(&["FROZEN since"]);
    terminal.press(" ");
    eventually("the screen to go on", || {
        (!terminal.text().contains("FROZEN")).then_some(())
    });

    let service = terminal.service();
    let answer = http(&service, "POST", "/fault/block?ms=2000");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    terminal.shows(&["CRITICAL", "fault_block"]);

    // Its snapshot is listed with its culprit. Where the machine was so late before that one was taken within the minute,
    // it is not kept, and that is said with who held it back.
    terminal.press("8");
    let listed = |text: &str| {
        let mut rows = text.lines().skip_while(|line| !line.contains("Snapshots "));
        rows.any(|row| row.contains("fault_block") && row.contains(".json"))
    };
    let held_back = |text: &str| {
        let told = text.lines().find(|line| line.contains("not kept: "));
        told.is_some_and(|told| told.contains(" held back by the service"))
    };
    let text = terminal.becomes("the snapshot of the stall, or why there is none", |text| {
        listed(text) || held_back(text)
    });
    if listed(&text) {
        terminal.press("G");
        terminal.press("gg");
        terminal.shows(&["stall", "/snapshots/"]);
    } else {
        println!("held back:\n{text}");
        assert!(
            text.contains("too soon after its start"),
            "no reason:\n{text}"
        );
    }

    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}

#[test]
fn a_signal_ends_it_in_the_same_order() {
    let terminal = Terminal::demo(80, 24);
    terminal.shows(&["live", "push", "run/limit"]);
    kill_process(terminal.pid(), Signal::TERM).expect("it runs");
    assert!(terminal.ends_in_order().success());
}

/// A file is browsed on the same screens, without an agent.
#[test]
fn a_snapshot_is_browsed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snapshot-v1-stacks.json");
    let mut terminal = Terminal::start(&["open".as_ref(), file.as_ref()], 120, 40);
    terminal.shows(&[
        "snapshot-v1-stacks.json",
        "CRITICAL  stall",
        "task fault_block started demo/src/fault.rs",
    ]);
    terminal.press("2");
    terminal.shows(&["[2 Lanes", "GET /rate", "partner"]);
    // The stack leads to the function that blocked, and what ran and waited is listed.
    terminal.press("9");
    terminal.shows(&["[9 Stacks", "fault_block", "demo/src/fault.rs"]);
    terminal.press("0");
    terminal.shows(&["[0 ", "fault_block"]);
    terminal.press("c");
    terminal.shows(&["a snapshot file stands still"]);
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}
