//! The report of rules as text.

use std::fmt::Write as _;

use ax_wire::rules::{RuleInfo, RuleState, RulesReport, ServiceRules, Standing};

use super::silence;
use crate::{
    format::{age, cell, duration, printable, service_name},
    words::{alert_sentence, figure},
};

/// Alerts that ended and things that were done, the newest, of each.
const MOST_HISTORY: usize = 10;

/// Everything, what is wrong with the rules themselves first.
pub fn report(report: &RulesReport, now_unix_ns: u64) -> String {
    let mut text = heading(report, now_unix_ns);
    let _ = writeln!(
        text,
        "{:<20} {:<8} {:<34} {:>8}  does",
        "rule", "severity", "condition", "cooldown"
    );
    for rule in &report.rules {
        text.push_str(&rule_line(rule));
    }
    for service in &report.services {
        text.push_str(&service_lines(service, now_unix_ns));
    }
    if report.services.is_empty() {
        text.push_str("\nno service is connected: the rules have nothing to look at\n");
    }
    for (at, silence) in report.silences.iter().enumerate() {
        let heading = if at == 0 { "\nsilences\n" } else { "" };
        let left = age(silence.until_unix_ns.saturating_sub(now_unix_ns));
        let _ = writeln!(
            text,
            "{heading}  {}: {left} more, by {}: {}",
            silence::what(silence),
            printable(&silence.by),
            printable(&silence.reason)
        );
    }
    for (at, taken) in report.actions.iter().take(MOST_HISTORY).enumerate() {
        let heading = if at == 0 { "\ndone lately\n" } else { "" };
        let ago = age(now_unix_ns.saturating_sub(taken.at_unix_ns));
        let of = taken.subject.as_ref();
        let of = of.map_or_else(String::new, |of| format!(" {of}"));
        let failed = if taken.done { "" } else { "FAILED " };
        let line = format!(
            "{ago} ago  {} {}{of}: {failed}{}: {}",
            service_name(&taken.service),
            taken.rule,
            taken.action,
            taken.outcome
        );
        let _ = writeln!(text, "{heading}  {}", printable(&line));
    }
    text
}

fn heading(report: &RulesReport, now_unix_ns: u64) -> String {
    let mut text = String::new();
    let ago = age(now_unix_ns.saturating_sub(report.read_unix_ns));
    let of_file = report.rules.iter().any(|rule| rule.origin != "built in");
    // Writing to a string cannot fail.
    let _ = match &report.file {
        Some(file) if of_file => writeln!(text, "rules of {}, read {ago} ago", printable(file)),
        Some(file) => writeln!(
            text,
            "rules that are built in; yours go to {}",
            printable(file)
        ),
        None => writeln!(text, "rules that are built in; this agent looks at no file"),
    };
    if let Some(problem) = &report.problem {
        text.push_str("NOT TAKEN, the rules before stay in force:\n");
        for line in problem.lines() {
            let _ = writeln!(text, "  {}", printable(line));
        }
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {}", printable(warning));
    }
    text.push('\n');
    text
}

fn rule_line(rule: &RuleInfo) -> String {
    let does = match (rule.enabled, rule.actions.is_empty()) {
        (false, _) => "switched off".to_owned(),
        (true, true) => "-".to_owned(),
        (true, false) => rule.actions.join(", "),
    };
    let origin = match rule.origin.as_str() {
        "built in" => String::new(),
        place => format!("  ({place})"),
    };
    format!(
        "{} {:<8} {} {:>8}  {}\n",
        cell(&rule.name, 20),
        rule.severity.to_string(),
        cell(&rule.condition, 34),
        duration(rule.cooldown_ns),
        printable(&format!("{does}{origin}"))
    )
}

fn service_lines(service: &ServiceRules, now_unix_ns: u64) -> String {
    let mut text = format!(
        "\n{}  pid {}\n  {:<20} {:<16} {:<9} why\n",
        printable(service_name(&service.service)),
        service.pid,
        "rule",
        "subject",
        "state"
    );
    let mut states: Vec<&RuleState> = service.states.iter().collect();
    states.sort_by_key(|state| rank(state.standing));
    for state in states {
        let line = format!(
            "  {} {} {:<9} {}",
            cell(&state.rule, 20),
            cell(state.subject.as_deref().unwrap_or(""), 16),
            word(state.standing),
            printable(&why(state))
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for alert in service.history.iter().take(MOST_HISTORY) {
        let ended = alert.resolved_unix_ns.unwrap_or(now_unix_ns);
        let ago = age(now_unix_ns.saturating_sub(ended));
        let _ = writeln!(
            text,
            "  ended {ago} ago: {}",
            alert_sentence(alert, now_unix_ns)
        );
    }
    text
}

/// An alert that fires is said with its figure; the other reasons have theirs in the sentence.
fn why(state: &RuleState) -> String {
    match (state.standing, state.value) {
        (Standing::Firing | Standing::Pending, Some(value)) => format!(
            "{}; {}, threshold {}",
            state.why,
            figure(value, state.unit),
            figure(state.threshold, state.unit)
        ),
        _ => state.why.clone(),
    }
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Firing => "FIRING",
        Standing::Silenced => "silenced",
        Standing::Cooldown => "cooldown",
        Standing::Pending => "pending",
        Standing::Fine => "fine",
        Standing::Unknown => "no figure",
        Standing::Quiet => "quiet",
        Standing::Other => "?",
    }
}

/// What needs somebody comes first.
fn rank(standing: Standing) -> u8 {
    match standing {
        Standing::Firing => 0,
        Standing::Silenced | Standing::Cooldown => 1,
        Standing::Pending => 2,
        Standing::Quiet => 3,
        Standing::Fine => 4,
        Standing::Unknown | Standing::Other => 5,
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::{
        alert::{Severity, Unit},
        rules::{ActionTaken, SilenceInfo},
    };

    use super::*;
    use crate::fixture;

    fn state(rule: &str, standing: Standing, value: Option<f64>, why: &str) -> RuleState {
        RuleState {
            rule: rule.to_owned(),
            subject: (rule == "rejections").then(|| "api".to_owned()),
            standing,
            value,
            threshold: 50e6,
            unit: Unit::Nanoseconds,
            why: why.to_owned(),
        }
    }

    /// F82: each rule, its state, and why it does not fire.
    #[test]
    fn every_rule_is_said_with_its_reason() {
        let view = fixture::firing();
        let now = fixture::NOW_UNIX_NS;
        let info = |name: &str, condition: &str| RuleInfo {
            name: name.to_owned(),
            origin: "built in".to_owned(),
            enabled: true,
            metric: "lag-p99".to_owned(),
            condition: condition.to_owned(),
            severity: Severity::Warning,
            cooldown_ns: 60_000_000_000,
            actions: Vec::new(),
        };
        let told = RulesReport {
            file: Some("/etc/ax/agent.toml".to_owned()),
            read_unix_ns: now - 5_000_000_000,
            problem: Some("/etc/ax/agent.toml:3:1: unknown key `treshold`".to_owned()),
            warnings: vec!["lag-page would page, and has nowhere to go".to_owned()],
            rules: vec![
                info("lag-high", "lag-p99 > 50ms for 10s"),
                RuleInfo {
                    origin: "/etc/ax/agent.toml:1".to_owned(),
                    actions: vec!["bell".to_owned(), "exec pager".to_owned()],
                    severity: Severity::Critical,
                    ..info("fat", "rss > 2GiB")
                },
                RuleInfo {
                    enabled: false,
                    ..info("stall", "lag-spike > snapshot")
                },
            ],
            services: vec![ServiceRules {
                instance: view.summary.instance,
                service: view.summary.service.clone(),
                pid: 4_121,
                states: vec![
                    state("fat", Standing::Unknown, None, "no sample has come yet"),
                    state(
                        "lag-high",
                        Standing::Firing,
                        Some(180e6),
                        "fires, since 12 s",
                    ),
                    state(
                        "rejections",
                        Standing::Fine,
                        Some(0.0),
                        "0.0/s, fires at > 0.0/s",
                    ),
                ],
                history: view.alerts.last().cloned().into_iter().collect(),
            }],
            silences: vec![SilenceInfo {
                rule: Some("stall".to_owned()),
                service: None,
                subject: Some("db".to_owned()),
                uid: None,
                until_unix_ns: now + 90_000_000_000,
                reason: "nightly import".to_owned(),
                by: "user 1000".to_owned(),
            }],
            actions: vec![ActionTaken {
                at_unix_ns: now - 2_000_000_000,
                service: "checkout".to_owned(),
                rule: "fat".to_owned(),
                subject: None,
                action: "exec pager".to_owned(),
                done: false,
                outcome: "pager was killed: it had not ended after 10 s".to_owned(),
            }],
        };
        insta::assert_snapshot!(report(&told, now));
    }
}
