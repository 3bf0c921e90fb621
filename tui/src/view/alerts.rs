//! Verdicts with their evidence, and alerts: what fires, and the history of what did.

use ax_wire::{alert::Alert, view::ServiceView};
use jiff::tz::TimeZone;
use ratatui::{
    buffer::Buffer,
    layout::{
        Constraint,
        HorizontalAlignment::{Left, Right},
        Layout, Rect,
    },
};

use super::{Screen, overview::table_rows, verdicts::VERDICTS};
use crate::{
    format::{age, maybe_time_of_day, printable, time_of_day},
    headline,
    list::Detail,
    screens::Panel,
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
    words::{alert_name, figure, lasted_ns, state_word},
};

/// An alert as the list shows it.
#[derive(Clone, Debug)]
pub struct AlertRow {
    pub alert: Alert,
    pub now_unix_ns: u64,
    pub zone: TimeZone,
}

impl AlertRow {
    fn lasted_ns(&self) -> u64 {
        lasted_ns(&self.alert, self.now_unix_ns)
    }

    fn figure(&self, value: f64) -> Cell {
        Cell::plain(figure(value, self.alert.unit))
    }

    fn time(&self, unix_ns: Option<u64>) -> Cell {
        Cell::plain(maybe_time_of_day(unix_ns, &self.zone))
    }
}

/// One row an alert.
pub static ALERTS: Table<AlertRow> = Table {
    title: "Alerts",
    empty: "no alert has begun since the agent knows this service",
    order: RowOrder::AsGiven,
    row_key: |row| format!("{}/{}", alert_name(&row.alert), row.alert.began_unix_ns),
    columns: &[
        Column {
            title: "rule",
            width: 14,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(alert_name(&row.alert), Tone::Strong),
            sort: |row| SortKey::Text(alert_name(&row.alert)),
        },
        Column {
            title: "state",
            width: 7,
            align: Left,
            keep: 19,
            cell: |row| {
                let (word, tone) = state_word(&row.alert);
                Cell::new(word, tone)
            },
            sort: |row| SortKey::Text(state_word(&row.alert).0.to_owned()),
        },
        Column {
            title: "severity",
            width: 8,
            align: Left,
            keep: 18,
            cell: |row| {
                let (_, tone) = state_word(&row.alert);
                Cell::new(row.alert.severity.to_string(), tone)
            },
            sort: |row| SortKey::Number(Some(f64::from(row.alert.severity as u8))),
        },
        Column {
            title: "began",
            width: 8,
            align: Right,
            keep: 17,
            cell: |row| row.time(Some(row.alert.began_unix_ns)),
            sort: |row| SortKey::number(Some(row.alert.began_unix_ns)),
        },
        Column {
            title: "fired",
            width: 8,
            align: Right,
            keep: 5,
            cell: |row| row.time(row.alert.fired_unix_ns),
            sort: |row| SortKey::number(row.alert.fired_unix_ns),
        },
        Column {
            title: "ended",
            width: 8,
            align: Right,
            keep: 6,
            cell: |row| row.time(row.alert.resolved_unix_ns),
            sort: |row| SortKey::number(row.alert.resolved_unix_ns),
        },
        Column {
            title: "lasted",
            width: 7,
            align: Right,
            keep: 14,
            cell: |row| Cell::plain(age(row.lasted_ns())),
            sort: |row| SortKey::number(Some(row.lasted_ns())),
        },
        Column {
            title: "value",
            width: 9,
            align: Right,
            keep: 10,
            cell: |row| row.figure(row.alert.value),
            sort: |row| SortKey::Number(Some(row.alert.value)),
        },
        Column {
            title: "peak",
            width: 9,
            align: Right,
            keep: 16,
            cell: |row| row.figure(row.alert.peak),
            sort: |row| SortKey::Number(Some(row.alert.peak)),
        },
        Column {
            title: "threshold",
            width: 9,
            align: Right,
            keep: 15,
            cell: |row| row.figure(row.alert.threshold),
            sort: |row| SortKey::Number(Some(row.alert.threshold)),
        },
    ],
};

/// A rule, a sentence of two lines, and a line or two for each kind of evidence.
const MOST_EVIDENCE_ROWS: u16 = 12;

/// Where there are fewer rows, the panel that has the focus takes all of them.
const LEAST_FOR_BOTH: u16 = 26;

impl Screen<'_> {
    /// The verdicts and the evidence for one above, the alerts below.
    pub fn alerts(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let none = view.diagnosis.verdicts.is_empty();
        // The banner may have worse to say; here it stands beside the alerts that are not those of the file.
        let problem = headline::of_file(&self.app.world).map(|said| said.sentence);
        let one_at_a_time = area.height < LEAST_FOR_BOTH;
        if one_at_a_time && (none || self.app.focused() == Some(Panel::Alerts)) {
            return self.history(Panel::Alerts, problem, area, buf);
        }
        let verdicts = table_rows(view.diagnosis.verdicts.len()).min(area.height / 4);
        let evidence = match (none, one_at_a_time) {
            (true, _) => 0,
            (false, true) => area.height.saturating_sub(verdicts + 1),
            (false, false) => (area.height / 2).min(MOST_EVIDENCE_ROWS),
        };
        let [verdicts, evidence, alerts] = Layout::vertical([
            Constraint::Length(verdicts),
            Constraint::Length(evidence),
            Constraint::Fill(1),
        ])
        .areas(area);
        self.list(Panel::Verdicts, VERDICTS.title, verdicts, buf);
        if evidence.height > 0 {
            self.verdict_evidence(evidence, buf);
        }
        if one_at_a_time {
            let (count, plural) = match view.alerts.len() {
                1 => (1, ""),
                count => (count, "s"),
            };
            let (words, tone) = match problem {
                Some(problem) => (problem, Tone::Warning),
                None => (
                    format!("{count} alert{plural}, on the next panel: l"),
                    Tone::Quiet,
                ),
            };
            self.text(alerts, 0, &format!(" {words}"), tone, buf);
        } else {
            self.history(Panel::Alerts, problem, alerts, buf);
        }
    }
}

/// What it is about, and when it was.
pub fn detail(row: &AlertRow) -> Detail {
    let sentence = format!("{}: {}", alert_name(&row.alert), row.alert.sentence);
    Detail {
        first: printable(&sentence),
        second: times(row),
    }
}

/// `began 14:03:15, fired 14:03:25, ended 14:03:50: value 180.0 ms, peak 412.0 ms, threshold 50.0 ms`.
fn times(row: &AlertRow) -> String {
    let alert = &row.alert;
    let at = |what: &str, unix_ns: Option<u64>| {
        unix_ns.map_or_else(String::new, |unix_ns| {
            format!(", {what} {}", time_of_day(unix_ns, &row.zone))
        })
    };
    let shown = |value| figure(value, alert.unit);
    format!(
        "began {}{}{}: value {}, peak {}, threshold {}",
        time_of_day(alert.began_unix_ns, &row.zone),
        at("fired", alert.fired_unix_ns),
        at("ended", alert.resolved_unix_ns),
        shown(alert.value),
        shown(alert.peak),
        shown(alert.threshold)
    )
}
