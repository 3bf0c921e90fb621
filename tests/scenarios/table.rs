//! The outcomes as a table.

use std::fmt::Write as _;

use crate::{file::Scenario, run::Outcome};

const HEAD: &str = "scenario\truntime\tworkers\trate\tquiet_s\tnumbers\tseed\tload\texpected\tfirst\tafter_s\twithin_s\twrong\tresult";

/// One run.
pub fn line(scenario: &Scenario, outcome: &Outcome) -> String {
    let drawn = &outcome.drawn;
    let numbers = drawn
        .numbers
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let numbers: Vec<_> = numbers.collect();
    let expected: Vec<_> = scenario.expect.iter().map(|id| id.name()).collect();
    let wrong = outcome.wrong.iter().map(|wrong| {
        let first = if wrong.was_first { " first" } else { "" };
        format!("{}{first} at {:.1} s", wrong.id, wrong.at_s)
    });
    let wrong: Vec<_> = wrong
        .chain(outcome.alerts.iter().map(|alert| format!("alert {alert}")))
        .collect();
    let or_dash = |text: String| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text
        }
    };
    [
        scenario.name.clone(),
        drawn.flavor.name().to_owned(),
        drawn.workers.to_string(),
        drawn.rate.to_string(),
        drawn.quiet_s.to_string(),
        or_dash(numbers.join(" ")),
        drawn.seed.to_string(),
        format!("{:.1}", outcome.load),
        expected.join(" or "),
        or_dash(outcome.first.map(|id| id.to_string()).unwrap_or_default()),
        or_dash(
            outcome
                .verdict_after
                .map(|after| format!("{:.1}", after.as_secs_f64()))
                .unwrap_or_default(),
        ),
        scenario.within_s.to_string(),
        or_dash(wrong.join(", ")),
        if outcome.is_right(scenario) {
            "right"
        } else {
            "miss"
        }
        .to_owned(),
    ]
    .join("\t")
}

/// All runs, with the share of right ones.
pub fn of(done: &[(Scenario, Outcome)]) -> String {
    let mut table = String::new();
    let right = done
        .iter()
        .filter(|(it, outcome)| outcome.is_right(it))
        .count();
    let mut loads: Vec<_> = done.iter().map(|(_, outcome)| outcome.load).collect();
    loads.sort_by(f64::total_cmp);
    // Writing to a string cannot fail.
    let _ = writeln!(
        table,
        "# right: {right} of {}; load of the machine when a run began: median {:.1}, highest {:.1}",
        done.len(),
        loads.get(loads.len() / 2).unwrap_or(&0.0),
        loads.last().unwrap_or(&0.0)
    );
    let _ = writeln!(table, "{HEAD}");
    for (scenario, outcome) in done {
        let _ = writeln!(table, "{}", line(scenario, outcome));
    }
    table
}
