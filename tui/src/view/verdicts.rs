//! The verdicts of the diagnosis, and the evidence for the selected one.
//!
//! ```text
//!  Verdicts ----- verdict -- severity -- since -- lasted -- sure %
//!  Evidence ----- its sentence; because; who; hurts; next; explains
//! ```

use ax_wire::verdict::{Verdict, VerdictId};
use jiff::tz::TimeZone;
use ratatui::{
    buffer::Buffer,
    layout::{
        HorizontalAlignment::{Left, Right},
        Rect,
    },
    widgets::{Paragraph, Widget, Wrap},
};

use super::Screen;
use crate::{
    format::{age, printable, time_of_day},
    headline::Severity,
    list::Detail,
    screens::{Content, Panel},
    theme::Tone,
    verdict::{self, because},
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// A verdict as the list shows it.
#[derive(Clone, Debug)]
pub struct VerdictRow {
    pub verdict: Verdict,
    /// Another one explains it.
    pub follows: bool,
    pub now_unix_ns: u64,
    pub zone: TimeZone,
}

impl VerdictRow {
    fn state(&self) -> Cell {
        if self.follows {
            return Cell::new("follows", Tone::Quiet);
        }
        let severity = if self.verdict.id == VerdictId::Healthy {
            Severity::Healthy
        } else {
            Severity::from(self.verdict.severity)
        };
        let tone = match severity {
            Severity::Healthy => Tone::Good,
            Severity::Unknown | Severity::Info => Tone::Strong,
            Severity::Warning => Tone::Warning,
            Severity::Critical | Severity::Page => Tone::Critical,
        };
        Cell::new(severity.label(), tone)
    }

    fn lasted_ns(&self) -> u64 {
        verdict::lasted_ns(&self.verdict, self.now_unix_ns)
    }
}

/// One row a verdict, the likeliest cause first.
pub static VERDICTS: Table<VerdictRow> = Table {
    title: "Verdicts",
    empty: "too little is known yet to say anything",
    order: RowOrder::AsGiven,
    row_key: |row| verdict::name(&row.verdict),
    columns: &[
        Column {
            title: "verdict",
            width: 30,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(verdict::name(&row.verdict), Tone::Strong),
            sort: |row| SortKey::Text(verdict::name(&row.verdict)),
        },
        Column {
            title: "state",
            width: 8,
            align: Left,
            keep: 19,
            cell: VerdictRow::state,
            sort: |row| SortKey::Number(Some(f64::from(row.verdict.severity as u8))),
        },
        Column {
            title: "since",
            width: 8,
            align: Right,
            keep: 17,
            cell: |row| Cell::plain(time_of_day(row.verdict.since_unix_ns, &row.zone)),
            sort: |row| SortKey::number(Some(row.verdict.since_unix_ns)),
        },
        Column {
            title: "lasted",
            width: 7,
            align: Right,
            keep: 16,
            cell: |row| Cell::plain(age(row.lasted_ns())),
            sort: |row| SortKey::number(Some(row.lasted_ns())),
        },
        Column {
            title: "sure %",
            width: 6,
            align: Right,
            keep: 15,
            cell: |row| Cell::plain(format!("{:.0}", row.verdict.confidence * 100.0)),
            sort: |row| SortKey::Number(Some(row.verdict.confidence)),
        },
    ],
};

/// Its sentence, and everything that stands behind it.
pub fn detail(row: &VerdictRow) -> Detail {
    let verdict = &row.verdict;
    let joined = |what: &str, said: Vec<String>| {
        (!said.is_empty()).then(|| format!("{what} {}", said.join("; ")))
    };
    let who = verdict.culprit.as_ref().map(verdict::culprit);
    let explains = verdict.explains.iter().map(verdict::explained);
    let lines = [
        joined("because", verdict.evidence.iter().map(because).collect()),
        who.filter(|who| !who.is_empty()),
        joined(
            "hurts",
            verdict.who_is_hurt.iter().map(verdict::hurt).collect(),
        ),
        joined(
            "next",
            verdict
                .next_steps
                .iter()
                .map(|step| printable(step))
                .collect(),
        ),
        joined("explains", explains.collect()),
    ];
    Detail {
        first: printable(&verdict.sentence),
        second: lines.into_iter().flatten().collect::<Vec<_>>().join("\n"),
    }
}

impl Screen<'_> {
    /// The evidence for the selected verdict.
    pub(super) fn verdict_evidence(&self, area: Rect, buf: &mut Buffer) {
        let Content::List(list) = Panel::Verdicts.row().content else {
            return;
        };
        let inner = self.panel(area, "Evidence", None, buf);
        let Some(detail) = list.detail(self.app, self.app.table(Panel::Verdicts)) else {
            return;
        };
        let room = Rect {
            x: inner.x + 1,
            width: inner.width.saturating_sub(1),
            ..inner
        };
        Paragraph::new(format!("{}\n{}", detail.first, detail.second))
            .wrap(Wrap { trim: true })
            .render(room, buf);
    }
}
