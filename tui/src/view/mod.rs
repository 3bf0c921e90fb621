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
mod axis;
mod banner;
pub mod dependencies;
pub mod downstreams;
mod empty;
pub mod evidence;
mod flow;
mod footer;
mod header;
pub mod help;
mod histogram;
mod history;
pub mod jobs;
mod lag;
pub mod lanes;
mod load;
mod overview;
mod process;
pub mod routes;
pub mod services;
pub mod snapshots;
pub mod stacks;
mod tabs;
pub mod traces;
pub mod types;
pub mod verdicts;
mod waterfall;
mod workers;
mod workers_in_full;

use std::cell::RefCell;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    widgets::Widget,
};

use crate::{
    app::App,
    drawn::{Drawn, Target},
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
    /// Where things stand, once it has been drawn.
    drawn: RefCell<Drawn>,
}

impl<'a> Screen<'a> {
    pub fn new(app: &'a App, theme: Theme, glyphs: Glyphs) -> Self {
        let theme = app
            .palette
            .map_or(theme, |palette| theme.with_palette(palette));
        Self {
            app,
            theme,
            glyphs,
            drawn: RefCell::default(),
        }
    }

    /// Where things stand on the frame that has been drawn.
    pub fn into_drawn(self) -> Drawn {
        self.drawn.into_inner()
    }

    /// Notes where something stands that can be pointed at.
    fn note(&self, area: Rect, target: Target) {
        self.drawn.borrow_mut().add(area, target);
    }
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        if self.app.is_session_alone() && self.app.mode == Mode::Load {
            self.load_alone(area, buf);
            return;
        }
        // What asks for an answer is seen on the smallest screen.
        let asks = self.app.confirm.is_some() || self.app.prompt.is_some();
        if size == Size::Banner && self.app.mode == Mode::Overview && !asks {
            self.tiny(area, buf);
            return;
        }
        let [header, banner, body, footer] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(self.banner_rows(size, area.width)),
            Constraint::Fill(1),
            Constraint::Length(self.footer_rows(area.width)),
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

impl Screen<'_> {
    /// Writes text at the start of a row, cut at its end.
    fn text(&self, area: Rect, row: u16, text: &str, tone: Tone, buf: &mut Buffer) {
        // A layout may hand out rooms that begin below the last line of a screen that is too small for it.
        let line = Rect {
            y: area.y.saturating_add(row),
            height: 1,
            ..area
        };
        let line = line.intersection(buf.area);
        if row < area.height && !line.is_empty() {
            let style = self.theme.style(tone);
            buf.set_stringn(line.x, line.y, text, usize::from(line.width), style);
        }
    }

    /// Draws a panel with its list in it. Its title tells what it is sorted by, and what part of it finds room.
    fn list(&self, panel: Panel, title: &str, area: Rect, buf: &mut Buffer) {
        let Content::List(list) = panel.row().content else {
            return;
        };
        let state = self.app.table(panel);
        let mut title = title.to_owned();
        let room = Rect {
            width: area.width.saturating_sub(1),
            height: area.height.saturating_sub(1),
            ..area
        };
        for remark in list.remarks(state, room) {
            title.push_str("  ");
            title.push_str(&remark);
        }
        let inner = self.panel(area, &title, Some(panel), buf);
        let look = Look {
            focused: self.app.focused() == Some(panel),
            theme: self.theme,
        };
        let table = list.draw(self.app, state, look, inner, buf);
        self.drawn.borrow_mut().add_table(panel, table);
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
        let inner = Rect {
            y: area.y + 1,
            height: area.height.saturating_sub(1),
            width,
            ..area
        };
        if let Some(panel) = panel {
            // Where it is a list, its headings take a row.
            let rows = inner.height.saturating_sub(1);
            self.drawn.borrow_mut().add_panel(panel, area, rows);
        }
        inner
    }
}

#[cfg(test)]
pub mod tests;
