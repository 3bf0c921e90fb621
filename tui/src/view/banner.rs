//! The sentences that tell healthy from not, and why.

use ax_wire::verdict::Verdict;
use ratatui::{
    buffer::Buffer,
    layout::{Margin, Rect},
    text::Line,
    widgets::{Paragraph, Widget, Wrap},
};

use super::{Screen, Size};
use crate::{
    app::Pace,
    headline::{self, Headline, Severity},
    screens::Mode,
    theme::Tone,
    verdict,
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
        let mut lines: Vec<Line> = headlines
            .iter()
            .zip(std::iter::once(frozen).chain(std::iter::repeat("")))
            .map(|(headline, frozen)| {
                let label = headline.severity.label();
                let style = self.theme.style(tone(headline.severity));
                Line::styled(format!("{frozen}{label}  {}", headline.sentence), style)
            })
            .collect();
        // What a cause needs beside its sentence stands before what else is wrong.
        if let Some(cause) = self.cause_first(&headlines) {
            let style = self.theme.style(Tone::Plain);
            let more = verdict::below(cause, usize::from(area.height).saturating_sub(1));
            let more = more.into_iter().map(|line| Line::styled(line, style));
            lines.splice(1..1, more);
        }
        let inset = area.inner(Margin::new(u16::from(area.width > 1), 0));
        Paragraph::new(lines)
            .wrap(Wrap { trim: true })
            .render(inset, buf);
    }

    /// The likeliest cause, where the banner begins with it.
    fn cause_first(&self, headlines: &[Headline]) -> Option<&Verdict> {
        let view = self.app.view()?;
        let cause = verdict::causes(view).next()?;
        let first = headlines.first()?;
        let is_first = first.sentence == verdict::headline(cause, view.at_unix_ns).sentence;
        is_first.then_some(cause)
    }

    /// What the banner takes: a cause has a sentence, who did it and who is hurt, and what to do.
    pub(super) fn banner_rows(&self, size: Size) -> u16 {
        let cause = || {
            self.app
                .view()
                .and_then(|view| verdict::causes(view).next())
        };
        match (self.app.mode, size) {
            // The help page needs the whole screen, and is read for a moment.
            (Mode::Help, _) => 0,
            (_, Size::Wide) if cause().is_some() => 3,
            _ => 2,
        }
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
