//! The help page, drawn from the table of keys.

use ratatui::{buffer::Buffer, layout::Rect};

use super::Screen;
use crate::{keys::BINDINGS, screens::Panel, theme::Tone};

/// What the figures mean, where their names do not say it all.
const NOTES: &[&str] = &[
    "lag: the largest of schedule lag, timer lag and a stall's age (T 50, S 250 ms)",
    "under the lag chart: A an alert began, S a snapshot was taken",
    "- is unknown (some needs tokio_unstable); dropped: lost before this screen",
];

/// How many lines the page has.
pub fn line_count() -> usize {
    BINDINGS.len() + NOTES.len()
}

impl Screen<'_> {
    pub fn help(&self, area: Rect, buf: &mut Buffer) {
        let room = usize::from(area.height.saturating_sub(1));
        let first = self.app.first_line(Panel::Help, room);
        let title = if line_count() <= room {
            "Help"
        } else {
            "Help, j and k for more"
        };
        let inner = self.panel(area, title, None, buf);
        let notes = NOTES.iter().map(|note| format!(" {note}"));
        let keys = BINDINGS
            .iter()
            .map(|binding| format!(" {:<16}{}", binding.label, binding.help));
        for (row, line) in (0..).zip(keys.chain(notes).skip(first)) {
            self.text(inner, row, &line, Tone::Plain, buf);
        }
    }
}
