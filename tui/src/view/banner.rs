//! The sentence that tells healthy from not, and why.

use ratatui::{
    buffer::Buffer,
    layout::{Margin, Rect},
    widgets::{Paragraph, Widget, Wrap},
};

use super::Screen;
use crate::{
    app::Pace,
    headline::{self, Severity},
    theme::Tone,
};

impl Screen<'_> {
    pub(super) fn banner(&self, area: Rect, buf: &mut Buffer) {
        let app = self.app;
        let headline = headline::of_world(&app.world, app.shown);
        let tone = match headline.severity {
            Severity::Healthy => Tone::Good,
            Severity::Unknown => Tone::Strong,
            Severity::Warning => Tone::Warning,
            Severity::Critical => Tone::Critical,
        };
        let style = self.theme.style(tone);
        // Where the banner is all there is, no header says that the screen stands still.
        let frozen = if app.pace != Pace::Live && area.height == buf.area.height {
            "FROZEN  "
        } else {
            ""
        };
        let label = headline.severity.label();
        let text = format!("{frozen}{label}  {}", headline.sentence);
        let inset = area.inner(Margin::new(u16::from(area.width > 1), 0));
        Paragraph::new(text)
            .style(style)
            .wrap(Wrap { trim: true })
            .render(inset, buf);
    }
}
