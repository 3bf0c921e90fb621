//! Snapshots of the service that is shown: why each was taken, of whom, and where it is.

use std::path::Path;

use ax_wire::{incident::SnapshotSummary, view::ServiceView};
use jiff::tz::TimeZone;
use ratatui::{
    buffer::Buffer,
    layout::{
        HorizontalAlignment::{Left, Right},
        Rect,
    },
};

use super::Screen;
use crate::{
    format::{UNKNOWN, age, printable, time_of_day},
    list::Detail,
    screens::Panel,
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
    words::{kilobytes, reason, suppressed},
};

/// A snapshot as the list shows it.
#[derive(Clone, Debug)]
pub struct SnapshotRow {
    pub snapshot: SnapshotSummary,
    pub now_unix_ns: u64,
    pub zone: TimeZone,
}

impl SnapshotRow {
    fn age_ns(&self) -> u64 {
        self.now_unix_ns.saturating_sub(self.snapshot.at_unix_ns)
    }

    fn culprit(&self) -> String {
        let culprit = self.snapshot.culprit.clone();
        culprit.unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// Where it is.
    pub fn detail(&self) -> Detail {
        Detail {
            first: printable(&self.snapshot.path),
            second: String::new(),
        }
    }

    fn file(&self) -> String {
        let path = Path::new(&self.snapshot.path);
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// One row a snapshot.
pub static SNAPSHOTS: Table<SnapshotRow> = Table {
    title: "Snapshots",
    empty: "no snapshot of this service; `c` takes one",
    order: RowOrder::AsGiven,
    row_key: |row| row.snapshot.id.to_string(),
    columns: &[
        Column {
            title: "reason",
            width: 14,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(reason(&row.snapshot.reason), Tone::Strong),
            sort: |row| SortKey::Text(reason(&row.snapshot.reason)),
        },
        Column {
            title: "culprit",
            width: 18,
            align: Left,
            keep: 19,
            cell: |row| Cell::plain(row.culprit()),
            sort: |row| SortKey::Text(row.culprit()),
        },
        Column {
            title: "taken",
            width: 8,
            align: Right,
            keep: 16,
            cell: |row| Cell::plain(time_of_day(row.snapshot.at_unix_ns, &row.zone)),
            sort: |row| SortKey::number(Some(row.snapshot.at_unix_ns)),
        },
        Column {
            title: "age",
            width: 10,
            align: Right,
            keep: 18,
            cell: |row| Cell::plain(age(row.age_ns())),
            sort: |row| SortKey::number(Some(row.age_ns())),
        },
        Column {
            title: "kB",
            width: 7,
            align: Right,
            keep: 17,
            cell: |row| Cell::plain(kilobytes(&row.snapshot)),
            sort: |row| SortKey::number(Some(row.snapshot.size_bytes)),
        },
        Column {
            title: "file",
            width: 54,
            align: Left,
            keep: 5,
            cell: |row| Cell::plain(row.file()),
            sort: |row| SortKey::Text(row.file()),
        },
    ],
};

impl Screen<'_> {
    pub fn snapshots(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let failed = view.dropped.snapshots_failed_total;
        let note = suppressed(&view.snapshots_suppressed, failed);
        self.history(Panel::Snapshots, note, area, buf);
        if self.app.opened.is_some() && view.snapshots.is_empty() {
            let words =
                "the file tells of no other snapshot; `ax-top snapshots` lists those there are";
            self.instead_of_rows(area, words, Tone::Quiet, buf);
        } else if self.app.playback.is_some() && view.snapshots.is_empty() {
            self.instead_of_rows(area, "there was no snapshot then", Tone::Quiet, buf);
        }
    }
}
