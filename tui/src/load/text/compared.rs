//! Two sessions as text.

use std::fmt::Write as _;

use ax_agent::load::{Change, Comparison, Direction, Metric};

use crate::format::rate;

/// What changed between two sessions.
pub fn comparison(comparison: &Comparison) -> String {
    let mut text = String::new();
    let (first, second) = comparison.knee_per_s;
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "knee {}/s -> {}/s, {} loads in common",
        rate(first),
        rate(second),
        comparison.common_loads
    );
    for change in &comparison.changes {
        let _ = writeln!(text, "{}", change_line(change));
    }
    for doubt in &comparison.doubts {
        let _ = writeln!(text, "doubt: {doubt}");
    }
    let verdict = match (comparison.is_change(), comparison.is_regression()) {
        (_, true) => "REGRESSION",
        (true, false) => "changed for the better",
        (false, false) if comparison.changes.is_empty() => "nothing to compare",
        (false, false) => "no change beyond noise",
    };
    let _ = writeln!(text, "{verdict}");
    text
}

fn change_line(change: &Change) -> String {
    let name = metric(change.metric);
    let by = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let direction = match change.direction {
        Direction::Same => "no change",
        Direction::Better => "better",
        Direction::Worse => "WORSE",
    };
    format!(
        "{name:<16} {:>9}  ({} to {}, worth a word from {:.0} % on)  {direction}",
        by(change.ratio),
        by(change.low),
        by(change.high),
        change.worth * 100.0
    )
}

/// What is compared, in words.
fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::Capacity => "capacity",
        Metric::LatencyP50 => "latency p50",
        Metric::LatencyP99 => "latency p99",
        Metric::CpuPerRequest => "CPU per request",
        Metric::JobRun => "job run time",
        Metric::LagP99 => "lag p99",
    }
}
