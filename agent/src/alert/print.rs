//! Rules as a file says them.

use std::fmt::Write as _;

use super::{Metric, Rule, Threshold, default_rules};
use crate::config::units::{print_duration, print_figure};

/// The condition of a rule in one line.
pub(crate) fn condition(rule: &Rule) -> String {
    let mut text = format!("{} {} {}", rule.metric.name(), rule.op, threshold(rule));
    if !rule.hold.is_zero() {
        // Writing to a string cannot fail.
        let _ = write!(text, " for {}", print_duration(rule.hold));
    }
    for (what, names) in [("service", &rule.services), ("subject", &rule.subjects)] {
        if !names.is_empty() {
            let _ = write!(text, ", {what} {}", names.join(" or "));
        }
    }
    text
}

fn threshold(rule: &Rule) -> String {
    match rule.threshold {
        Threshold::Fixed(figure) => print_figure(figure, rule.metric.unit()),
        Threshold::Snapshot => "snapshot".to_owned(),
    }
}

/// The rules that are built in, as a file that says the same, with every metric that there is.
#[must_use]
pub fn default_file() -> String {
    let mut text = String::from(
        "# The rules that are built in. A rule of the same name in your file takes the place of the keys that it gives;\n\
         # `enabled = false` switches one off.\n\
         #\n\
         # The metrics, and how their figures are written:\n",
    );
    for metric in Metric::all() {
        let (what, example) = crate::config::units::kind(metric.unit());
        let _ = writeln!(
            text,
            "#   {:<19} {}; {what}, {}",
            metric.name(),
            metric.says(),
            example.replace('`', "\"")
        );
    }
    for rule in default_rules() {
        text.push_str(&of_rule(&rule));
    }
    text
}

/// One rule without what stands at its default.
fn of_rule(rule: &Rule) -> String {
    let mut lines = vec![
        format!("name = \"{}\"", rule.name),
        format!("metric = \"{}\"", rule.metric.name()),
        format!("op = \"{}\"", rule.op),
        format!("threshold = \"{}\"", threshold(rule)),
    ];
    if let Some(clear) = rule.clear {
        lines.push(format!(
            "clear = \"{}\"",
            print_figure(clear, rule.metric.unit())
        ));
    }
    if !rule.hold.is_zero() {
        lines.push(format!("for = \"{}\"", print_duration(rule.hold)));
    }
    lines.push(format!(
        "clear_for = \"{}\"",
        print_duration(rule.clear_for)
    ));
    lines.push(format!("severity = \"{}\"", rule.severity));
    if !rule.cooldown.is_zero() {
        lines.push(format!("cooldown = \"{}\"", print_duration(rule.cooldown)));
    }
    format!("\n[[rule]]\n{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::read_text;

    /// F82: the built-in rules are in the language of files.
    #[test]
    fn the_built_in_rules_print_as_a_file_that_reads_back_as_them() {
        let text = default_file();
        let read = read_text(&text, None).unwrap_or_else(|problems| panic!("{problems:?}"));
        let mut rules = read.rules.rules;
        for rule in &mut rules {
            assert_ne!(rule.origin, super::super::Origin::BuiltIn, "{}", rule.name);
            rule.origin = super::super::Origin::BuiltIn;
        }
        assert_eq!(rules, default_rules());
    }

    #[test]
    fn a_condition_is_said_as_the_file_says_it() {
        let told: Vec<String> = default_rules().iter().take(4).map(condition).collect();
        assert_eq!(
            told,
            [
                "lag-p99 > 50ms for 10s",
                "lag-now > 1s for 30s",
                "lag-now > 5s",
                "lag-spike > snapshot",
            ]
        );
    }
}
