//! The sentences that tell healthy from not, and why.

use ratatui::{
    buffer::Buffer,
    layout::{Margin, Rect},
    text::Line,
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
        // Where it stands at the very top, no header says that the screen stands still.
        let frozen = if matches!(app.pace, Pace::Frozen { .. }) && area.y == 0 {
            "FROZEN  "
        } else {
            ""
        };
        // The worst comes first and may take all the room; the header counts the alerts in any case.
        let mut headlines = headline::of_world(&app.world, app.shown);
        if let Some(ended) = app.demo.as_ref().and_then(|demo| demo.ended.as_ref()) {
            headlines.insert(0, headline::of_dead_demo(ended));
        }
        let lines: Vec<Line> = headlines
            .iter()
            .zip(std::iter::once(frozen).chain(std::iter::repeat("")))
            .map(|(headline, frozen)| {
                let label = headline.severity.label();
                let style = self.theme.style(tone(headline.severity));
                Line::styled(format!("{frozen}{label}  {}", headline.sentence), style)
            })
            .collect();
        let inset = area.inner(Margin::new(u16::from(area.width > 1), 0));
        Paragraph::new(lines)
            .wrap(Wrap { trim: true })
            .render(inset, buf);
    }
}

fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Healthy => Tone::Good,
        Severity::Unknown | Severity::Info => Tone::Strong,
        Severity::Warning => Tone::Warning,
        Severity::Critical | Severity::Page => Tone::Critical,
    }
}
