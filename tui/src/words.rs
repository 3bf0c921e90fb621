//! Alerts and snapshots in words: the same on the screen and without one.

use ax_wire::{
    alert::{Alert, AlertState, Severity, Unit},
    incident::{Reason, SnapshotSummary},
    view::Suppressed,
};

use crate::{
    format::{age, count, duration, megabytes, ms, percent, printable, rate},
    theme::Tone,
};

/// The tone of an alert that fires, and of whatever repeats it.
fn severity_tone(severity: Severity) -> Tone {
    match severity {
        Severity::Info => Tone::Strong,
        Severity::Warning => Tone::Warning,
        Severity::Critical | Severity::Page => Tone::Critical,
    }
}

/// The word for a state. One that fires is the only one in capitals.
pub fn state_word(alert: &Alert) -> (&'static str, Tone) {
    match alert.state {
        AlertState::Pending => ("pending", Tone::Plain),
        AlertState::Firing if alert.silenced.is_some() => ("silenced", Tone::Quiet),
        AlertState::Firing => ("FIRING", severity_tone(alert.severity)),
        AlertState::Resolved => ("ended", Tone::Quiet),
        AlertState::Other => ("unknown", Tone::Warning),
    }
}

/// `lag-high`, or with what it is about: `backlog-grows api`.
pub fn alert_name(alert: &Alert) -> String {
    let subject = alert.subject.as_ref();
    let subject = subject.map_or_else(String::new, |subject| format!(" {subject}"));
    printable(&format!("{}{subject}", alert.rule))
}

/// From its beginning to its end, or until now.
pub fn lasted_ns(alert: &Alert, now_unix_ns: u64) -> u64 {
    let until = alert.resolved_unix_ns.unwrap_or(now_unix_ns);
    until.saturating_sub(alert.began_unix_ns)
}

/// A figure of an alert with its unit, which is the same for any size of it: a column of it can be compared.
pub fn figure(value: f64, unit: Unit) -> String {
    let whole = value.max(0.0) as u64;
    match unit {
        Unit::Nanoseconds => format!("{} ms", ms(Some(whole))),
        Unit::Bytes => format!("{} MB", megabytes(Some(whole))),
        Unit::Count => count(Some(whole)),
        Unit::PerSecond => format!("{}/s", rate(Some(value))),
        Unit::Share => format!("{} %", percent(Some(value))),
        Unit::Other => format!("{value}"),
    }
}

/// `lag-high for 12 s: the event loop is late`.
pub fn alert_sentence(alert: &Alert, now_unix_ns: u64) -> String {
    format!(
        "{} for {}: {}",
        alert_name(alert),
        age(lasted_ns(alert, now_unix_ns)),
        printable(&alert.sentence)
    )
}

/// Why a snapshot was taken.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Stall { length_ns, .. } => format!("stall {}", duration(*length_ns)),
        Reason::Lag { lag_ns, .. } => format!("lag {}", duration(*lag_ns)),
        Reason::Capture => "asked for".to_owned(),
        Reason::Code { label } => printable(&format!("code: {label}")),
        Reason::Alert { rule } => printable(&format!("rule {rule}")),
        Reason::LastSeen => "last seen".to_owned(),
        Reason::Other => "unknown".to_owned(),
    }
}

/// A size for a column headed `kB`.
pub fn kilobytes(snapshot: &SnapshotSummary) -> String {
    format!("{:.0}", snapshot.size_bytes as f64 / 1e3)
}

/// What became of incidents that have no snapshot; nothing where every one has. `failed_in_service` are those that the
/// service was to write itself.
pub fn suppressed(suppressed: &Suppressed, failed_in_service: u64) -> Option<String> {
    let parts: Vec<_> = [
        (suppressed.by_service_total, "held back by the service"),
        (suppressed.by_agent_total, "held back by the agent"),
        (suppressed.failed_total, "could not be written"),
        (
            failed_in_service,
            "could not be written by the service (its log says why)",
        ),
    ]
    .into_iter()
    .filter(|(total, _)| *total > 0)
    .map(|(total, what)| format!("{total} {what}"))
    .collect();
    // A service does not say which of its two reasons it was.
    let by_service = match suppressed.by_service_total {
        0 => "",
        _ => " (too soon after its start, or after the one before)",
    };
    let reason = suppressed.last_reason.as_ref();
    let reason = reason.map_or_else(
        || by_service.to_owned(),
        |reason| format!(" (last: {})", printable(reason)),
    );
    (!parts.is_empty()).then(|| format!("not kept: {}{reason}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_figure_carries_its_unit() {
        assert_eq!(figure(180e6, Unit::Nanoseconds), "180.0 ms");
        assert_eq!(figure(3e9, Unit::Nanoseconds), "3000.0 ms");
        assert_eq!(figure(2e9, Unit::Bytes), "2000 MB");
        assert_eq!(figure(57.0, Unit::Count), "57");
        assert_eq!(figure(0.5, Unit::PerSecond), "0.5/s");
        assert_eq!(figure(0.8, Unit::Share), "80 %");
    }

    #[test]
    fn a_sentence_names_the_rule_and_for_how_long() {
        let firing = &fixture::firing().alerts[1];
        assert_eq!(
            alert_sentence(firing, fixture::NOW_UNIX_NS),
            "lag-high for 12 s: event-loop lag p99 is 180 ms, above 50 ms"
        );
    }

    #[test]
    fn nothing_suppressed_is_nothing_said() {
        assert_eq!(suppressed(&Suppressed::default(), 0), None);
        let some = Suppressed {
            by_service_total: 3,
            failed_total: 1,
            last_reason: Some("the disk is full".to_owned()),
            ..Suppressed::default()
        };
        assert_eq!(
            suppressed(&some, 2).as_deref(),
            Some(
                "not kept: 3 held back by the service, 1 could not be written, 2 could not be written by the service \
                 (its log says why) (last: the disk is full)"
            )
        );
    }
}
