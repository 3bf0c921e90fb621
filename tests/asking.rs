//! What a viewer asks beyond the figures, on the real programs: a job of the demo is found by its id, its trace is opened,
//! and who waits for whom is seen.

mod support;

use support::{eventually, terminal::Terminal};

/// The number behind `name #` on the screen.
fn id_after(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("{name} #"))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[test]
fn a_job_is_found_by_its_id_and_its_trace_opened() {
    let mut terminal = Terminal::demo(120, 40);
    terminal.shows(&["live", "send_push", "load_sales"]);
    terminal.press("3");
    terminal.shows(&["[3 Jobs", "how long it takes", "p99.9"]);

    // The types lead to single jobs, but for those of tasks, which are not listed; a query leads to those of one type.
    eventually("a type of jobs to be opened", || {
        terminal.press("\r");
        let text = terminal.becomes("an answer to enter", |text| {
            text.contains("is a task: only jobs") || text.contains("jobs live")
        });
        if text.contains("is a task") {
            terminal.press("j");
            terminal.becomes("no words of before", |text| !text.contains("is a task"));
            return None;
        }
        Some(())
    });
    terminal.shows(&["jobs live"]);
    terminal.press("/");
    terminal.press("\x15type=load_sales");
    terminal.press("\r");
    let id = eventually("a job of that type", || {
        id_after(&terminal.text(), "load_sales")
    });
    terminal.press("/");
    terminal.press(&format!("\x15id={id}"));
    terminal.press("\r");
    terminal.shows(&[
        "1-1 of 1 that match",
        &format!("load_sales #{id}"),
        "demo/src/lanes.rs:",
    ]);
    terminal.shows(&["started"]);

    terminal.press("\r");
    terminal.shows(&[
        "Trace ",
        "began ",
        &format!("load_sales #{id} (files)"),
        "queued",
    ]);
    terminal.press("\x1b");
    terminal.shows(&["that match"]);

    // A faulty query is told with its place, and the keys are keys again afterwards.
    terminal.press("/");
    terminal.press("\x15wiat>1s");
    terminal.shows(&["did you mean `wait`?"]);
    terminal.press("\x1b");
    // Together with what follows, it would be another key.
    terminal.becomes("the query as it was", |text| {
        text.contains(&format!("/ id={id}"))
    });

    terminal.press("4");
    terminal.shows(&["recent", "slow"]);
    terminal.press("5");
    terminal.shows(&["Workers: busy share", "on-CPU", "Blocking pool"]);
    terminal.press("6");
    terminal.shows(&["load_sales-", "sum_sales-", "mail_sales-", "waiting"]);
    terminal.press("q");
    assert!(terminal.ends_in_order().success());
}
