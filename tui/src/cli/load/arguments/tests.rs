//! What is refused before anything is sent.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    run: Run,
}

fn parsed(line: &str) -> Result<Run, String> {
    let line = Line::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
    Ok(line.run)
}

/// The sentence with which it is refused; `fine` where it is not.
fn said(line: &str) -> String {
    match parsed(line).map(|run| run.check()) {
        Ok(Ok(())) => "fine".to_owned(),
        Ok(Err(failure)) => failure.to_string(),
        Err(said) => said,
    }
}

/// Every option of the own generator beside a wrapped command, and the other way round.
#[test]
fn an_option_that_would_be_ignored_is_refused() {
    for option in [
        "--method POST",
        "--header A:b",
        "--body x",
        "--warm-up 1s",
        "--timeout 1s",
        "--max-in-flight 5",
        "--threads 2",
        "--arrivals poisson",
        "--ca x.pem",
        "--i-own-this-host",
        "--url http://127.0.0.1:1/",
    ] {
        let said = said(&format!("load {option} -- tool"));
        assert!(said.contains("cannot be used with"), "{option}: {said}");
    }
    for option in ["--lane db", "--background 1s"] {
        let said = said(&format!("load --url http://127.0.0.1:1/ {option}"));
        assert!(said.contains("cannot be used with"), "{option}: {said}");
    }
    let said = said("load --url http://127.0.0.1:1/ --no-search --precision 3%");
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn what_would_be_mended_is_refused_with_what_to_do() {
    for (line, part) in [
        ("load", "--url"),
        ("load --steps 1,2 -- tool", "change nothing"),
        ("load -- tool {rate} {connections}", "both"),
        (
            "load --step-for 1500ms -- tool {rate} {seconds}",
            "whole seconds",
        ),
        (
            "load --url http://127.0.0.1/ --threads 4 --max-in-flight 2",
            "shared",
        ),
        ("load --url http://127.0.0.1/ --output /", "already there"),
        (
            "load --url http://127.0.0.1/ --html /dev/null",
            "already there",
        ),
        (
            "load --url http://127.0.0.1/ --html /nonexistent/x.html",
            "cannot write",
        ),
        ("load --step-for 1500ms -- tool {rate}", "fine"),
        (
            "load --steps 1,2 --step-for 2s -- tool {connections} {seconds}",
            "fine",
        ),
        ("load --url http://127.0.0.1/ --steps 5 --no-search", "fine"),
    ] {
        let said = said(line);
        assert!(said.contains(part), "{line}: {said}");
    }
}
