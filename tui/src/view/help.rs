//! The help page, drawn from the table of keys.

use ratatui::{buffer::Buffer, layout::Rect};

use super::Screen;
use crate::{
    app::App,
    keys::{Action, Binding},
    screens::Panel,
    theme::Tone,
};

/// What the figures mean, where their names do not say it all.
const NOTES: &[&str] = &[
    "lag: the largest of schedule lag, timer lag and a stall's age (T 50, S 250 ms)",
    "under the charts: A an alert began, a ended, S snapshot, V verdict, L limit,",
    "  C control, R rules, B another build, ^ start, T a step of a load session",
    "mouse: click a row (twice opens it), heading, tab, chart; drag in it to zoom",
    "a filter's terms must all hold; a figure may have a unit: ns us ms s m h",
    "- is unknown (some needs tokio_unstable); dropped: lost before this screen",
];

fn line_of(binding: &Binding, app: &App) -> String {
    // A key may open another screen where a snapshot file is shown.
    let help = match app.meant(binding.action) {
        Action::Open(mode) if binding.action != Action::Open(mode) => mode.page().help,
        _ => binding.help,
    };
    format!(" {:<18}{help}", binding.label())
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
        let keys = keys.map(|binding| line_of(binding, self.app));
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
        let of_agent = App::new(None, jiff::tz::TimeZone::UTC);
        let file = App::of_file(crate::opened::tests::fixture(), jiff::tz::TimeZone::UTC);
        for binding in crate::keys::bindings() {
            for app in [&of_agent, &file] {
                let line = line_of(&binding, app);
                assert!(width(&line) < 80, "{line}");
            }
        }
        let stacks = |app: &App| {
            let bindings = crate::keys::bindings();
            let mut lines = bindings.iter().map(|binding| line_of(binding, app));
            lines.any(|line| line.starts_with(" 9 ") && line.contains("stacks"))
        };
        assert!(
            stacks(&file) && !stacks(&of_agent),
            "9 is another screen of a file"
        );
    }
}
