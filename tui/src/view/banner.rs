//! The sentences that tell healthy from not, and why.

use ax_wire::verdict::Verdict;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Margin, Rect},
    text::Line,
    widgets::{Paragraph, Widget, Wrap},
};

use super::{Screen, Size};
use crate::{
    app::Pace,
    format::end_cut,
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
        let inset = area.inner(Margin::new(u16::from(area.width > 1), 0));
        let more = self.cause_first(&headlines).map_or_else(Vec::new, |cause| {
            verdict::below(cause, usize::from(inset.height).saturating_sub(1))
        });
        // What a cause needs beside its sentence stands before what else is wrong.
        let [said, below] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(more.len() as u16)])
                .areas(inset);
        let width = usize::from(inset.width);
        if !more.is_empty() {
            lines.truncate(1);
        }
        if said.height == 1
            && let Some(first) = lines.first_mut()
        {
            *first = Line::styled(end_cut(&first.to_string(), width), first.style);
        }
        Paragraph::new(lines)
            .wrap(Wrap { trim: true })
            .render(said, buf);
        for (row, line) in more.iter().enumerate() {
            self.text(below, row as u16, &end_cut(line, width), Tone::Plain, buf);
        }
    }

    /// The likeliest cause, where the banner begins with it.
    fn cause_first(&self, headlines: &[Headline]) -> Option<&Verdict> {
        let view = self.app.view()?;
        let cause = verdict::causes(view).next()?;
        let first = headlines.first()?;
        let is_first = first.sentence == verdict::headline(cause, view.at_unix_ns).sentence;
        is_first.then_some(cause)
    }

    /// What the banner takes: a cause has a sentence of one line or two, who did it and who is hurt, and what to do.
    pub(super) fn banner_rows(&self, size: Size, width: u16) -> u16 {
        let cause = || {
            let view = self.app.view()?;
            let cause = verdict::causes(view).next()?;
            Some(verdict::headline(cause, view.at_unix_ns))
        };
        match (self.app.mode, size) {
            // The help page needs the whole screen, and is read for a moment.
            (Mode::Help, _) => 0,
            (_, Size::Wide) => cause().map_or(2, |cause| {
                let said = cause.severity.label().len() + 4 + cause.sentence.chars().count();
                if said <= usize::from(width) { 3 } else { 4 }
            }),
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
