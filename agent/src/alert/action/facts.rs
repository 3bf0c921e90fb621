//! What an alert tells a program or a pager: the same facts as JSON, as environment and as placeholders.

use std::fmt::Write as _;

use ax_wire::{
    InstanceId,
    alert::{Alert, AlertState, Severity},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::alert::words;

/// Version of the JSON; goes up when something in it changes its meaning.
const VERSION: u32 = 1;

/// The name of each fact, and what it is.
pub(crate) const NAMES: [(&str, &str); 18] = [
    (
        "action",
        "`trigger` when the alert fires, `resolve` when it ends",
    ),
    (
        "key",
        "the same for the beginning and the end of an alert, and for its next time",
    ),
    ("host", "the name of the host"),
    ("service", "the name of the service"),
    ("pid", "its process id"),
    ("instance", "the id of this start of it"),
    ("rule", "the name of the rule"),
    (
        "subject",
        "the lane, type, downstream or runtime; empty where the rule is about the service",
    ),
    ("severity", "`info`, `warning`, `critical` or `page`"),
    (
        "pager_severity",
        "the same in the words of pagers: `info`, `warning`, `error` or `critical`",
    ),
    ("state", "`firing` or `resolved`"),
    ("sentence", "what is wrong, in one sentence"),
    ("value", "the newest figure, with its unit"),
    ("peak", "the worst figure, with its unit"),
    ("threshold", "what it is held against, with its unit"),
    ("began", "when the condition was first seen, RFC 3339"),
    ("fired", "when it fired"),
    ("resolved", "when it ended; empty before that"),
];

/// Of which service an alert is.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) service: String,
    pub(crate) instance: InstanceId,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
}

/// An alert, told.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    values: [String; NAMES.len()],
    json: Value,
}

impl Facts {
    pub(crate) fn new(subject: &Subject, alert: &Alert) -> Self {
        let ended = alert.state == AlertState::Resolved;
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let of = alert.subject.clone().unwrap_or_default();
        let figure = |value| words::figure(value, alert.unit);
        let action = if ended { "resolve" } else { "trigger" };
        let key = format!(
            "{host}/{}/{}/{}/{of}",
            subject.uid, subject.service, alert.rule
        );
        let json = json!({
            "version": VERSION,
            "action": action,
            "key": key,
            "host": host,
            "service": {
                "name": subject.service,
                "pid": subject.pid,
                "uid": subject.uid,
                "instance": subject.instance,
            },
            "alert": alert,
        });
        Self {
            json,
            values: [
                action.to_owned(),
                key,
                host,
                subject.service.clone(),
                subject.pid.to_string(),
                subject.instance.to_string(),
                alert.rule.clone(),
                of,
                alert.severity.to_string(),
                pager_severity(alert.severity).to_owned(),
                if ended { "resolved" } else { "firing" }.to_owned(),
                alert.sentence.clone(),
                figure(alert.value),
                figure(alert.peak),
                figure(alert.threshold),
                time(Some(alert.began_unix_ns)),
                time(alert.fired_unix_ns),
                time(alert.resolved_unix_ns),
            ],
        }
    }

    /// A fact by its name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let at = NAMES.iter().position(|(known, _)| *known == name)?;
        Some(&self.values[at])
    }

    /// All of them as JSON.
    pub(crate) fn json(&self) -> &Value {
        &self.json
    }

    /// All of them as environment: `AX_SERVICE`, `AX_RULE`.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (String, &str)> {
        let named = NAMES.iter().zip(&self.values);
        named
            .map(|((name, _), value)| (format!("AX_{}", name.to_ascii_uppercase()), value.as_str()))
    }
}

fn pager_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "error",
        Severity::Page => "critical",
    }
}

fn time(unix_ns: Option<u64>) -> String {
    let mut text = String::new();
    if let Some(at) =
        unix_ns.and_then(|ns| Timestamp::from_millisecond((ns / 1_000_000).cast_signed()).ok())
    {
        // Writing to a string cannot fail.
        let _ = write!(text, "{at}");
    }
    text
}
