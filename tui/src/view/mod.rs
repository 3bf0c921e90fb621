//! The screen, drawn from an [`App`] that does not change meanwhile. At 120 columns:
//!
//! ```text
//!  header   who, live or FROZEN, clock, dropped, the screens
//!  banner   what is wrong, worst first, in sentences
//!  lag chart                  | workers            | process
//!  lanes
//!  job types
//!  footer   keys
//! ```
//!
//! At 80x24 the four figures that matter stand beside the chart, and one table at a time below it. Smaller: banner,
//! figures, lanes; smaller than 40x10: who and the banner, and the figures where there is room. The other screens are a table with the selected row in full below
//! it, in place of what lies between banner and footer.

pub mod alerts;
mod banner;
pub mod downstreams;
mod empty;
pub mod evidence;
mod flow;
mod header;
pub mod help;
mod history;
mod lag;
pub mod lanes;
mod overview;
mod process;
pub mod routes;
pub mod services;
pub mod snapshots;
pub mod stacks;
pub mod types;
mod workers;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    widgets::Widget,
};

use crate::{
    app::App,
    glyphs::{self, Glyphs},
    list::Look,
    screens::{Content, Draw, Mode, Panel},
    theme::{Theme, Tone},
};

/// A state and the means to draw it.
pub struct Screen<'a> {
    pub app: &'a App,
    pub theme: Theme,
    pub glyphs: Glyphs,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// Below 40x10.
    Banner,
    /// Below 80x24.
    Compact,
    /// Below 110x30.
    Standard,
    Wide,
}

impl Size {
    fn of(area: Rect) -> Self {
        match (area.width, area.height) {
            (..40, _) | (_, ..10) => Self::Banner,
            (..80, _) | (_, ..24) => Self::Compact,
            (..110, _) | (_, ..30) => Self::Standard,
            _ => Self::Wide,
        }
    }
}

impl Widget for &Screen<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let size = Size::of(area);
        self.screen(size, area, buf);
        if self.glyphs == Glyphs::Ascii {
            glyphs::to_ascii(buf, area);
        }
    }
}

impl Screen<'_> {
    fn screen(&self, size: Size, area: Rect, buf: &mut Buffer) {
        if size == Size::Banner && self.app.mode == Mode::Overview {
            self.tiny(area, buf);
            return;
        }
        let [header, banner, body, footer] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(banner_rows(self.app.mode)),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(area);
        self.header(header, buf);
        self.banner(banner, buf);
        self.footer(footer, buf);
        match (self.app.mode.page().draw, self.app.view()) {
            (Draw::Always(draw), _) => draw(self, body, buf),
            (Draw::Service(draw), Some(view)) => draw(self, view, body, buf),
            (Draw::Service(_), None) => self.empty(body, buf),
        }
        if !self.app.is_current() {
            // What is not of now must not look as if it were.
            buf.set_style(body, Theme::faded());
        }
    }
}

/// The help page needs the whole screen, and is read for a moment.
fn banner_rows(mode: Mode) -> u16 {
    match mode {
        Mode::Help => 0,
        _ => 2,
    }
}

impl Screen<'_> {
    /// Writes text at the start of a row, cut at its end.
    fn text(&self, area: Rect, row: u16, text: &str, tone: Tone, buf: &mut Buffer) {
        if row < area.height {
            let style = self.theme.style(tone);
            buf.set_stringn(area.x, area.y + row, text, usize::from(area.width), style);
        }
    }

    /// Draws a panel with its list in it. Its title tells what it is sorted by, and what part of it finds room.
    fn list(&self, panel: Panel, title: &str, area: Rect, buf: &mut Buffer) {
        let Content::List(list) = panel.row().content else {
            return;
        };
        let state = self.app.table(panel);
        let mut title = title.to_owned();
        for remark in list.remarks(self.app, state, area.height.saturating_sub(1)) {
            title.push_str("  ");
            title.push_str(&remark);
        }
        let inner = self.panel(area, &title, Some(panel), buf);
        let look = Look {
            focused: self.app.focused() == Some(panel),
            theme: self.theme,
        };
        list.draw(self.app, state, look, inner, buf);
    }

    /// Draws a panel's rule with its title, heavy where the keys act on it; returns the room below, with a space at
    /// its right so that a neighbour stands apart.
    fn panel(&self, area: Rect, title: &str, panel: Option<Panel>, buf: &mut Buffer) -> Rect {
        // Where there is but one panel, there is no other to tell it from.
        let several = self.app.mode.page().panels.len() > 1;
        let focused = several && panel.is_some() && panel == self.app.focused();
        let (line, tone) = if focused {
            ("━", Tone::Strong)
        } else {
            ("─", Tone::Quiet)
        };
        let width = area.width.saturating_sub(1);
        let rule = Rect { width, ..area };
        self.text(rule, 0, &line.repeat(usize::from(width)), tone, buf);
        let title_at = Rect {
            x: rule.x + 1,
            width: width.saturating_sub(1),
            ..rule
        };
        let title_tone = if focused { Tone::Strong } else { Tone::Plain };
        self.text(title_at, 0, &format!(" {title} "), title_tone, buf);
        Rect {
            y: area.y + 1,
            height: area.height.saturating_sub(1),
            width,
            ..area
        }
    }
}

#[cfg(test)]
mod tests;
