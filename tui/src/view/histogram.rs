//! The histograms of one type: how long its jobs wait and run, how long one poll takes, how late a woken one is polled.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
};

use super::Screen;
use crate::{
    format::{age, printable},
    theme::Tone,
    widget::histogram::HistogramView,
};

/// Columns that one histogram needs to be read.
const WIDTH: u16 = 29;

impl Screen<'_> {
    /// Of the type that is selected on the screen of jobs.
    pub(super) fn type_histograms(&self, area: Rect, buf: &mut Buffer) {
        let Some(of) = self.app.selected_type() else {
            return;
        };
        let title = format!(
            "{}: how long it takes, │ marks the longer time; delay: woken to polled, of one poll in 64",
            printable(&of.name)
        );
        let inner = self.panel(area, &title, None, buf);
        let histograms = match self.app.histograms() {
            None => {
                let words = format!(" {}", self.app.asking_words());
                return self.text(inner, 0, &words, Tone::Quiet, buf);
            }
            Some(Err(why)) => {
                let text = format!(" unknown: {}", printable(why));
                return self.text(inner, 0, &text, Tone::Warning, buf);
            }
            Some(Ok(histograms)) => histograms,
        };
        let (lately, all) = (age(histograms.lately_ns), age(histograms.all_ns));
        let shown = [
            ("wait", &histograms.queue_wait),
            ("run", &histograms.run),
            ("poll", &histograms.poll),
            ("delay", &histograms.schedule_delay),
        ];
        let fit = usize::from(inner.width / WIDTH).clamp(1, shown.len());
        let columns = Layout::horizontal(vec![Constraint::Fill(1); fit])
            .spacing(1)
            .split(inner);
        for (column, (title, compared)) in columns.iter().zip(shown) {
            let view = HistogramView {
                title,
                compared,
                spans: (&lately, &all),
                theme: self.theme,
            };
            let x = column.x + 1;
            let width = column.width.saturating_sub(1);
            view.draw(
                Rect {
                    x,
                    width,
                    ..*column
                },
                buf,
            );
        }
    }
}
