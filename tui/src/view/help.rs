//! The help page, drawn from the table of keys.

use ratatui::{buffer::Buffer, layout::Rect};

use super::Screen;
use crate::{app::App, keys::Binding, screens::Panel, theme::Tone};

/// What the figures mean, where their names do not say it all.
const NOTES: &[&str] = &[
    "lag: the largest of schedule lag, timer lag and a stall's age (T 50, S 250 ms)",
    "under the charts: A an alert began, a ended, S snapshot, V verdict, L limit,",
    "  C control, R rules, B another build, ^ start, T a step of a load session",
    "mouse: click a row (twice opens it), heading, tab, chart; drag in it to zoom",
    "a filter's terms must all hold; a figure may have a unit: ns us ms s m h",
    "- is unknown (some needs tokio_unstable); dropped: lost before this screen",
];

fn line_of(binding: &Binding) -> String {
    format!(" {:<18}{}", binding.label(), binding.help)
}

/// How many lines the page has.
pub fn line_count(app: &App) -> usize {
    app.keymap.bindings().len() + NOTES.len()
}

impl Screen<'_> {
    pub fn help(&self, area: Rect, buf: &mut Buffer) {
        let room = usize::from(area.height.saturating_sub(1));
        let first = self.app.first_line(Panel::Help, room);
        let title = if line_count(self.app) <= room {
            "Help"
        } else {
            "Help, j and k for more"
        };
        let inner = self.panel(area, title, Some(Panel::Help), buf);
        let notes = NOTES.iter().map(|note| format!(" {note}"));
        let keys = self.app.keymap.bindings().iter();
        let keys = keys.map(line_of);
        for (row, line) in (0..).zip(keys.chain(notes).skip(first)) {
            self.text(inner, row, &line, Tone::Plain, buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::width;

    #[test]
    fn every_line_finds_room_in_80_columns() {
        for note in NOTES {
            assert!(width(note) < 79, "{note}");
        }
        for binding in crate::keys::bindings() {
            let line = line_of(&binding);
            assert!(width(&line) < 80, "{line}");
        }
    }
}
