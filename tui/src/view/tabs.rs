//! The screens by their keys, at the right of the first line: by their names where there is room, else the open one alone
//! by its name.

use ratatui::{buffer::Buffer, layout::Rect};

use super::{Screen, header::Part};
use crate::{drawn::Target, format::width, screens::Mode, theme::Tone};

/// Narrower lines have no room for tabs.
const LEAST_WIDTH: u16 = 40;

/// Parts of the header from this `keep` on are worth more than the names of the screens.
const KEEP: u8 = 5;

struct Tab {
    mode: Mode,
    text: String,
    tone: Tone,
}

impl Screen<'_> {
    /// Draws the tabs beside the other parts of the line. Returns the room that is left for those.
    pub(super) fn tabs(&self, parts: &[Part], area: Rect, buf: &mut Buffer) -> Rect {
        if area.width < LEAST_WIDTH {
            return area;
        }
        let kept = parts.iter().filter(|part| part.keep >= KEEP);
        let needed: usize = kept.map(|part| width(&part.text) + 2).sum();
        let room = usize::from(area.width).saturating_sub(needed + 1);
        let named = self.tab_texts(true);
        let (tabs, gap) = if length(&named, 2) <= room {
            (named, 2)
        } else {
            (self.tab_texts(false), 1)
        };
        let taken = (length(&tabs, gap) as u16).min(area.width);
        let mut x = area.right() - taken;
        for tab in &tabs {
            let at = Rect::new(x, area.y, width(&tab.text) as u16, 1).intersection(area);
            self.text(at, 0, &tab.text, tab.tone, buf);
            self.note(at, Target::Tab(tab.mode));
            x = x.saturating_add(at.width + gap as u16);
        }
        Rect {
            width: area.width.saturating_sub(taken + 1),
            ..area
        }
    }

    /// Each tab, the open one in brackets, with how many alerts fire and snapshots there are.
    fn tab_texts(&self, named: bool) -> Vec<Tab> {
        let app = self.app;
        let (firing, snapshots) = (app.firing(), app.snapshot_count());
        let tab = |(key, page): (char, &crate::screens::Page)| {
            let open = page.mode == app.mode.screen();
            let (count, tone) = match page.mode {
                Mode::Alerts if firing > 0 => (format!(" {firing}!"), Tone::Critical),
                Mode::Snapshots if snapshots > 0 && named => (format!(" {snapshots}"), Tone::Quiet),
                _ => (String::new(), Tone::Quiet),
            };
            let text = if named || open {
                format!("{key} {}{count}", page.name)
            } else {
                let firing = page.mode == Mode::Alerts && firing > 0;
                format!("{key}{}", if firing { "!" } else { "" })
            };
            Tab {
                mode: page.mode,
                text: if open { format!("[{text}]") } else { text },
                tone: if open && tone == Tone::Quiet {
                    Tone::Strong
                } else {
                    tone
                },
            }
        };
        app.screens().map(tab).collect()
    }
}

/// Columns that the tabs take, with gaps between them and one column at the right.
fn length(tabs: &[Tab], gap: usize) -> usize {
    tabs.iter().map(|tab| width(&tab.text) + gap).sum::<usize>() + 1 - gap.min(1)
}
