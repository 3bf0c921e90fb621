//! What the screens with a history share: a table, and below it the selected row in full.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    widgets::{Paragraph, Widget, Wrap},
};

use super::Screen;
use crate::{
    theme::Tone,
    widget::table::{Table, TableState, TableView},
};

/// A rule, and four lines: the longest path of a file takes two of 80 columns.
const DETAIL_ROWS: u16 = 5;

/// The selected row in full.
pub(super) struct Detail {
    pub first: String,
    pub second: String,
}

impl Screen<'_> {
    /// `note`: what is missing from the rows, in words.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is one of the things that a history is made of"
    )]
    pub(super) fn history<R>(
        &self,
        table: &Table<R>,
        rows: &[R],
        state: &TableState,
        note: Option<String>,
        detail: impl Fn(&R) -> Detail,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let below = if rows.is_empty() { 1 } else { DETAIL_ROWS };
        let [table_at, below] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(below)]).areas(area);
        let view = TableView {
            table,
            rows,
            state,
            focused: true,
            theme: self.theme,
        };
        self.table(&view, table.title, None, table_at, buf);
        let note = note.unwrap_or_default();
        if let Some(row) = state.selected_row(table, rows) {
            let detail = detail(row);
            let inner = self.panel(below, "Selected", None, buf);
            let room = Rect {
                x: inner.x + 1,
                width: inner.width.saturating_sub(1),
                height: inner.height.saturating_sub(u16::from(!note.is_empty())),
                ..inner
            };
            Paragraph::new(format!("{}\n{}", detail.first, detail.second))
                .wrap(Wrap { trim: false })
                .render(room, buf);
        }
        let note_at = Rect {
            x: below.x + 1,
            width: below.width.saturating_sub(1),
            ..below
        };
        let row = below.height.saturating_sub(1);
        self.text(note_at, row, &note, Tone::Warning, buf);
    }
}
