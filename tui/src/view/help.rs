//! The help page, drawn from the table of keys.

use ratatui::{buffer::Buffer, layout::Rect};

use super::Screen;
use crate::{keys::BINDINGS, theme::Tone};

/// What the figures mean, where their names do not say it all.
const NOTES: &[&str] = &[
    "lag: the largest of schedule lag, timer lag and a stall's age (T 50, S 250 ms)",
    "- is unknown (some needs tokio_unstable); dropped: lost before this screen",
];

impl Screen<'_> {
    pub(super) fn help(&self, area: Rect, buf: &mut Buffer) {
        let inner = self.panel(area, "Help", None, buf);
        let keys = BINDINGS
            .iter()
            .map(|binding| format!(" {:<20}{}", binding.label, binding.help));
        let notes = NOTES.iter().map(|note| format!(" {note}"));
        for (row, line) in (0..).zip(keys.chain(notes)) {
            self.text(inner, row, &line, Tone::Plain, buf);
        }
    }
}
