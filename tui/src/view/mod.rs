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
pub mod types;
mod workers;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    widgets::Widget,
};

use crate::{
    app::{App, Mode, Panel},
    glyphs::{self, Glyphs},
    theme::{Theme, Tone},
    widget::table::TableView,
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
        match (self.app.mode, self.app.view()) {
            (Mode::Help, _) => self.help(body, buf),
            (Mode::Services, _) => self.services(body, buf),
            (_, None) => self.empty(body, buf),
            (Mode::Lanes, Some(view)) => self.flow(view, body, buf),
            (Mode::Lane, Some(view)) => self.lane(view, body, buf),
            (Mode::Alerts, Some(_)) => self.alerts(body, buf),
            (Mode::Snapshots, Some(_)) => self.snapshots(body, buf),
            (Mode::Evidence, Some(_)) => self.evidence(body, buf),
            (Mode::Overview, Some(view)) => match size {
                Size::Banner | Size::Compact => self.compact(view, body, buf),
                Size::Standard => self.standard(view, body, buf),
                Size::Wide => self.wide(view, body, buf),
            },
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

    /// Draws a panel with a table in it. Its title tells what it is sorted by, and what part of it finds room.
    fn table<R>(
        &self,
        view: &TableView<'_, R>,
        title: &str,
        panel: Option<Panel>,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let rows = area.height.saturating_sub(1);
        let mut title = title.to_owned();
        let more = [view.part(rows), view.state.sorted_by(view.table)];
        for more in more.into_iter().flatten() {
            title.push_str("  ");
            title.push_str(&more);
        }
        let inner = self.panel(area, &title, panel, buf);
        view.render(inner, buf);
    }

    /// Draws a panel's rule with its title, heavy where the keys act on it; returns the room below, with a space at
    /// its right so that a neighbour stands apart.
    fn panel(&self, area: Rect, title: &str, panel: Option<Panel>, buf: &mut Buffer) -> Rect {
        let has_panels = matches!(self.app.mode, Mode::Overview | Mode::Lanes);
        let focused = has_panels && panel == Some(self.app.focused());
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
