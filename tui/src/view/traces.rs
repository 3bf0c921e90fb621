//! Traces: those of failed jobs, those of slow ones, and all that are kept, newest first; below them the waterfall of the
//! selected one.

use ax_wire::{
    trace::{TraceSummary, Why},
    view::ServiceView,
};
use ratatui::{
    buffer::Buffer,
    layout::{
        Constraint,
        HorizontalAlignment::{Left, Right},
        Layout, Rect,
    },
};

use super::{Screen, jobs::state_tone};
use crate::{
    format::{UNKNOWN, ms, printable},
    list::Detail,
    screens::Panel,
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// One row a trace.
pub static TRACES: Table<TraceSummary> = Table {
    title: "Traces",
    empty: "none is kept yet: traces are kept of jobs that fail, are slow, or are of the sample of one in 64",
    order: RowOrder::AsGiven,
    row_key: |row| row.trace.to_string(),
    columns: &[
        Column {
            title: "job",
            width: 16,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(format!("{} #{}", row.job_type, row.job), Tone::Strong),
            sort: |row| SortKey::Text(row.job_type.clone()),
        },
        Column {
            title: "state",
            width: 9,
            align: Left,
            keep: 19,
            cell: |row| Cell::new(row.state.word(), state_tone(row.state)),
            sort: |row| SortKey::Text(row.state.word().to_owned()),
        },
        Column {
            title: "lane",
            width: 8,
            align: Left,
            keep: 14,
            cell: |row| Cell::plain(row.lane.clone().unwrap_or_else(|| UNKNOWN.to_owned())),
            sort: |row| SortKey::Text(row.lane.clone().unwrap_or_default()),
        },
        Column {
            title: "whole ms",
            width: 9,
            align: Right,
            keep: 18,
            cell: |row| Cell::plain(ms(Some(row.length_ns))),
            sort: |row| SortKey::number(Some(row.length_ns)),
        },
        Column {
            title: "wait ms",
            width: 8,
            align: Right,
            keep: 16,
            cell: |row| Cell::plain(ms(row.queue_wait_ns)),
            sort: |row| SortKey::number(row.queue_wait_ns),
        },
        Column {
            title: "run ms",
            width: 8,
            align: Right,
            keep: 17,
            cell: |row| Cell::plain(ms(row.run_ns)),
            sort: |row| SortKey::number(row.run_ns),
        },
        Column {
            title: "jobs",
            width: 4,
            align: Right,
            keep: 13,
            cell: |row| Cell::plain(row.jobs.to_string()),
            sort: |row| SortKey::number(Some(row.jobs)),
        },
        Column {
            title: "failed",
            width: 6,
            align: Right,
            keep: 12,
            cell: |row| {
                let tone = if row.unsuccessful > 0 {
                    Tone::Warning
                } else {
                    Tone::Plain
                };
                Cell::new(row.unsuccessful.to_string(), tone)
            },
            sort: |row| SortKey::number(Some(row.unsuccessful)),
        },
        Column {
            title: "long polls",
            width: 10,
            align: Right,
            keep: 10,
            cell: |row| {
                let tone = if row.long_polls > 0 {
                    Tone::Warning
                } else {
                    Tone::Plain
                };
                Cell::new(row.long_polls.to_string(), tone)
            },
            sort: |row| SortKey::number(Some(row.long_polls)),
        },
        Column {
            title: "kept for",
            width: 8,
            align: Left,
            keep: 9,
            cell: |row| Cell::plain(why(row.why)),
            sort: |row| SortKey::Text(why(row.why).to_owned()),
        },
        Column {
            title: "trace",
            width: 16,
            align: Left,
            keep: 8,
            cell: |row| Cell::new(row.trace.to_string()[..16].to_owned(), Tone::Quiet),
            sort: |row| SortKey::Text(row.trace.to_string()),
        },
    ],
};

fn why(why: Why) -> &'static str {
    match why {
        Why::Failed => "failing",
        Why::Slow => "slowness",
        Why::Sampled => "sample",
        Why::Other => UNKNOWN,
    }
}

/// Which trace it is, to be copied.
pub fn detail(row: &TraceSummary) -> Detail {
    Detail {
        first: format!("trace {}", row.trace),
        second: String::new(),
    }
}

impl Screen<'_> {
    /// The three lists, of which the one that the keys act on is shown.
    pub fn traces(&self, _: &ServiceView, area: Rect, buf: &mut Buffer) {
        let waterfall = area.height / 2;
        let [tabs, table, below] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(waterfall),
        ])
        .areas(area);
        let focused = self.app.focused();
        let lists = [
            (
                Panel::FailedTraces,
                "failed",
                self.app.failed_traces().len(),
            ),
            (Panel::SlowTraces, "slow", self.app.slow_traces().len()),
            (
                Panel::RecentTraces,
                "recent",
                self.app.recent_traces().len(),
            ),
        ];
        let mut x = tabs.x + 1;
        for (panel, name, count) in lists {
            let (text, tone) = if focused == Some(panel) {
                (format!("[{name} {count}]"), Tone::Strong)
            } else {
                (format!(" {name} {count} "), Tone::Quiet)
            };
            let at = Rect {
                x,
                width: tabs.right().saturating_sub(x),
                ..tabs
            };
            self.text(at, 0, &text, tone, buf);
            x += text.chars().count() as u16 + 1;
        }
        let (note, tone) = match self.app.traces() {
            None => (self.app.asking_words().to_owned(), Tone::Quiet),
            Some(Err(why)) => (format!("unknown: {}", printable(why)), Tone::Warning),
            Some(Ok(traces)) if traces.forgotten_total > 0 => {
                let text = format!("{} older ones made room", traces.forgotten_total);
                (text, Tone::Quiet)
            }
            Some(Ok(_)) => (String::new(), Tone::Quiet),
        };
        let at = Rect {
            x: x + 1,
            width: tabs.right().saturating_sub(x + 1),
            ..tabs
        };
        self.text(at, 0, &note, tone, buf);
        let shown = focused.unwrap_or(Panel::FailedTraces);
        let title = match shown {
            Panel::SlowTraces if self.app.opened.is_some() => {
                "Slow: stuck, running long or with long polls"
            }
            Panel::RecentTraces if self.app.opened.is_some() => {
                "Recent: all that the flight recorder held, newest first"
            }
            Panel::SlowTraces => "Slow: the slowest of each type in 15 minutes",
            Panel::RecentTraces => "Recent: all that are kept, newest first",
            _ => "Failed: jobs without success, newest first",
        };
        self.list(shown, title, table, buf);
        match self.app.traces() {
            Some(Ok(_)) if self.app.opened.is_some() && self.app.table(shown).count() == 0 => {
                let words = "the file holds none of these; l and h lead to the other lists";
                self.instead_of_rows(table, words, Tone::Quiet, buf);
            }
            Some(Ok(_)) => {}
            _ => self.instead_of_rows(table, "", Tone::Quiet, buf),
        }
        let selected = self.app.table(shown).selected();
        let selected = selected.and_then(|trace| trace.parse().ok());
        self.waterfall_panel(selected, 0, below, buf);
    }

    /// One trace alone.
    pub fn trace(&self, _: &ServiceView, area: Rect, buf: &mut Buffer) {
        let room = usize::from(area.height.saturating_sub(5));
        let first = self.app.first_line(Panel::Trace, room);
        self.waterfall_panel(self.app.looks.trace, first, area, buf);
    }
}
