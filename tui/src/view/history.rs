//! What the screens with a history share: a table, and below it the selected row in full.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    widgets::{Paragraph, Widget, Wrap},
};

use super::Screen;
use crate::{
    screens::{Content, Panel},
    theme::Tone,
};

/// A rule, and four lines: the longest path of a file takes two of 80 columns.
const DETAIL_ROWS: u16 = 5;

impl Screen<'_> {
    /// Says why a table has no rows, in the place of what it says when it is empty. `table`: with its panel's rule.
    pub(super) fn instead_of_rows(&self, table: Rect, words: &str, tone: Tone, buf: &mut Buffer) {
        if table.height > 2 {
            let at = Rect {
                y: table.y + 2,
                height: 1,
                ..table
            };
            self.text(at, 0, &" ".repeat(usize::from(at.width)), Tone::Plain, buf);
            self.text(at, 0, &format!(" {words}"), tone, buf);
        }
    }

    /// `note`: what is missing from the rows, in words.
    pub(super) fn history(&self, panel: Panel, note: Option<String>, area: Rect, buf: &mut Buffer) {
        let Content::List(list) = panel.row().content else {
            return;
        };
        let detail = list.detail(self.app, self.app.table(panel));
        let below = if detail.is_some() { DETAIL_ROWS } else { 1 };
        let [table_at, below] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(below)]).areas(area);
        self.list(panel, list.title(), table_at, buf);
        let note = note.unwrap_or_default();
        if let Some(detail) = detail {
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
