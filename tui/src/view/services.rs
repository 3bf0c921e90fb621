//! The list of services.

use ax_wire::view::{ServiceState, ServiceSummary};
use ratatui::{
    buffer::Buffer,
    layout::{
        HorizontalAlignment::{Left, Right},
        Rect,
    },
};

use super::Screen;
use crate::{
    format::{age, service_name, uptime},
    screens::Panel,
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// A service as the list shows it.
#[derive(Clone, Debug)]
pub struct ServiceRow {
    pub summary: ServiceSummary,
    pub now_unix_ns: u64,
    /// Whether the overview shows it.
    pub shown: bool,
}

/// How long a service has been up, or was.
pub fn up_ns(summary: &ServiceSummary, now_unix_ns: u64) -> u64 {
    let until = match summary.state {
        ServiceState::Ended | ServiceState::Lost => summary.last_seen_unix_ns,
        ServiceState::Live | ServiceState::Silent | ServiceState::Other => now_unix_ns,
    };
    until.saturating_sub(summary.process_start_unix_ns)
}

impl ServiceRow {
    fn up_ns(&self) -> u64 {
        up_ns(&self.summary, self.now_unix_ns)
    }

    fn unheard_ns(&self) -> u64 {
        self.now_unix_ns
            .saturating_sub(self.summary.last_seen_unix_ns)
    }
}

/// The word for a state.
pub fn state_word(state: ServiceState) -> (&'static str, Tone) {
    match state {
        ServiceState::Live => ("live", Tone::Good),
        ServiceState::Silent => ("SILENT", Tone::Critical),
        ServiceState::Lost => ("LOST", Tone::Critical),
        ServiceState::Ended => ("ended", Tone::Warning),
        ServiceState::Other => ("unknown", Tone::Warning),
    }
}

/// One row a service.
pub static SERVICES: Table<ServiceRow> = Table {
    title: "Services",
    empty: "no service is connected",
    order: RowOrder::Kept,
    row_key: |row| row.summary.instance.to_string(),
    columns: &[
        Column {
            title: "service",
            width: 16,
            align: Left,
            keep: 20,
            cell: |row| {
                let mark = if row.shown { "* " } else { "  " };
                let name = service_name(&row.summary.service);
                Cell::new(format!("{mark}{name}"), Tone::Strong)
            },
            sort: |row| SortKey::Text(row.summary.service.clone()),
        },
        Column {
            title: "pid",
            width: 8,
            align: Right,
            keep: 19,
            cell: |row| Cell::plain(row.summary.pid.to_string()),
            sort: |row| SortKey::number(Some(u64::from(row.summary.pid))),
        },
        Column {
            title: "uid",
            width: 6,
            align: Right,
            keep: 5,
            cell: |row| Cell::plain(row.summary.uid.to_string()),
            sort: |row| SortKey::number(Some(u64::from(row.summary.uid))),
        },
        Column {
            title: "state",
            width: 7,
            align: Left,
            keep: 18,
            cell: |row| {
                let (word, tone) = state_word(row.summary.state);
                Cell::new(word, tone)
            },
            sort: |row| SortKey::Text(state_word(row.summary.state).0.to_owned()),
        },
        Column {
            title: "up",
            width: 8,
            align: Right,
            keep: 10,
            cell: |row| Cell::plain(uptime(row.up_ns())),
            sort: |row| SortKey::number(Some(row.up_ns())),
        },
        Column {
            title: "last heard",
            width: 12,
            align: Right,
            keep: 9,
            cell: |row| Cell::plain(format!("{} ago", age(row.unheard_ns()))),
            sort: |row| SortKey::number(Some(row.unheard_ns())),
        },
    ],
};

impl Screen<'_> {
    pub fn services(&self, area: Rect, buf: &mut Buffer) {
        self.list(Panel::Services, SERVICES.title, area, buf);
    }
}
