//! A trace drawn in cells: light where a job waits in its queue, hatched where it awaits, solid where it is polled, red
//! where an attempt failed, and across it the stalls that hit it.

use std::fmt::Write as _;

use ax_wire::{TraceId, trace::TraceView, view::StallView};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::Style,
};

use super::Screen;
use crate::{
    format::{duration, middle_cut, printable, time_of_day, width},
    theme::Tone,
    waterfall::{Piece, Row, Waterfall},
};

/// Columns of a row's title.
const TITLE: u16 = 26;

/// From this width on there is room for what became of each job, which takes two fifths of it at most.
const LEAST_WITH_FATE: u16 = 100;

impl Screen<'_> {
    /// The waterfall of a trace from its `first` row on, with a line about it above and one about the signs below.
    pub(super) fn waterfall_panel(
        &self,
        trace: Option<TraceId>,
        first: usize,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let title = trace.map_or_else(|| "Trace".to_owned(), |trace| format!("Trace {trace}"));
        let inner = self.panel(area, &title, None, buf);
        let view = match self.app.trace_view(trace) {
            _ if trace.is_none() => return,
            None => {
                let words = format!(" {}", self.app.asking_words());
                return self.text(inner, 0, &words, Tone::Quiet, buf);
            }
            Some(Err(why)) => {
                let text = format!(" unknown: {}", printable(why));
                return self.text(inner, 0, &text, Tone::Warning, buf);
            }
            Some(Ok(view)) => view,
        };
        let waterfall = self.app.waterfall(view);
        let (about, tone) = about(view, &waterfall, &self.app.zone);
        self.text(inner, 0, &format!(" {about}"), tone, buf);
        let stuck = stuck(
            self.app.view().map_or(&[][..], |view| &view.stalls),
            &waterfall,
        );
        let stuck_rows = u16::from(stuck.is_some());
        if let Some(stuck) = stuck {
            self.text(inner, 1, &format!(" {stuck}"), Tone::Critical, buf);
        }
        let rows = Rect {
            y: inner.y + 1 + stuck_rows,
            height: inner.height.saturating_sub(2 + stuck_rows),
            ..inner
        };
        let longest = waterfall.rows.iter().map(|row| width(&row.fate)).max();
        let fate = match rows.width {
            ..LEAST_WITH_FATE => 0,
            columns => (longest.unwrap_or(0) as u16).min(columns * 2 / 5),
        };
        let shown = waterfall.rows.iter().skip(first);
        for (y, row) in (rows.top()..rows.bottom()).zip(shown) {
            let line = Rect {
                y,
                height: 1,
                ..rows
            };
            self.waterfall_row(&waterfall, row, fate, line, buf);
        }
        // Below them, where there is room.
        let drawn = waterfall.rows.len().saturating_sub(first) as u16;
        let errors = (drawn + 1..rows.height).zip(errors(view));
        for (row, error) in errors {
            self.text(rows, row, &format!(" {error}"), Tone::Warning, buf);
        }
        let below = waterfall
            .rows
            .len()
            .saturating_sub(first + usize::from(rows.height));
        let more = if below > 0 {
            format!("{below} more below  ")
        } else {
            String::new()
        };
        let legend = format!(
            " {more}─ held  ░ queued  ▒ awaits (or polls under 5 ms)  █ poll  ╎ worker stuck"
        );
        self.text(
            inner,
            inner.height.saturating_sub(1),
            &legend,
            Tone::Quiet,
            buf,
        );
    }

    fn waterfall_row(
        &self,
        of: &Waterfall,
        row: &Row,
        fate_width: u16,
        line: Rect,
        buf: &mut Buffer,
    ) {
        let bars = line.width.saturating_sub(TITLE + 2 + fate_width);
        let indent = "  ".repeat(row.depth);
        let title = middle_cut(
            &row.title,
            usize::from(TITLE).saturating_sub(indent.len() + 1),
        );
        let tone = if row.failed {
            Tone::Critical
        } else {
            Tone::Plain
        };
        self.text(
            Rect {
                width: TITLE,
                ..line
            },
            0,
            &format!(" {indent}{title}"),
            tone,
            buf,
        );
        let at = Rect {
            x: line.x + TITLE,
            width: bars,
            ..line
        };
        for span in &row.spans {
            let (symbol, style) = self.piece(span.piece);
            let cell_of = |instant| of.place(instant) * f64::from(at.width);
            let from = cell_of(span.begin_unix_ns).floor() as u16;
            // However short it is, it takes a cell; the last instant lies in the last one.
            let to = (cell_of(span.end_unix_ns).ceil() as u16).max(from + 1);
            for x in from.min(at.width.saturating_sub(1))..to.min(at.width) {
                if let Some(cell) = buf.cell_mut(Position::new(at.x + x, at.y)) {
                    // A stall goes across: what it hit stays to be seen.
                    if span.piece == Piece::Stall && cell.symbol() != " " {
                        cell.set_style(style);
                        continue;
                    }
                    cell.set_symbol(symbol);
                    cell.set_style(style);
                }
            }
        }
        let fate = Rect {
            x: at.right() + 1,
            width: fate_width,
            ..line
        };
        self.text(
            fate,
            0,
            &row.fate,
            if row.failed {
                Tone::Warning
            } else {
                Tone::Quiet
            },
            buf,
        );
    }

    fn piece(&self, piece: Piece) -> (&'static str, Style) {
        let (symbol, tone) = match piece {
            Piece::Held => ("─", Tone::Quiet),
            Piece::Queued => ("░", Tone::Quiet),
            Piece::Run => ("▒", Tone::Plain),
            Piece::FailedRun => ("▒", Tone::Critical),
            Piece::Poll | Piece::LongPoll => ("█", Tone::Plain),
            Piece::Stall => ("╎", Tone::Critical),
        };
        (symbol, self.theme.style(tone))
    }
}

/// The stalls that hit it, in words: `worker 0 was stuck for 412 ms in render_pdf`.
fn stuck(stalls: &[StallView], waterfall: &Waterfall) -> Option<String> {
    let hit = stalls.iter().filter(|stall| {
        let end = stall.began_unix_ns.saturating_add(stall.stall.length_ns);
        stall.began_unix_ns < waterfall.to_unix_ns && end > waterfall.from_unix_ns
    });
    let told = hit.map(|stall| {
        let worker = stall.stall.worker;
        let worker = worker.map_or_else(
            || "a thread".to_owned(),
            |worker| format!("worker {worker}"),
        );
        let held = stall.stall.task.as_ref();
        let held = held.map_or_else(String::new, |task| format!(" in {}", task.name));
        format!(
            "{worker} was stuck for {}{held}",
            duration(stall.stall.length_ns)
        )
    });
    let told: Vec<_> = told.take(3).collect();
    (!told.is_empty()).then(|| printable(&format!("╎ {}", told.join(", "))))
}

/// Why jobs of it failed: `mail #1101 failed: the disk is full`.
fn errors(view: &TraceView) -> impl Iterator<Item = String> {
    view.jobs.iter().filter_map(|job| {
        let error = job.error.as_ref()?;
        let text = format!("{} #{} {}: {error}", job.job_type, job.id, job.state.word());
        Some(printable(&text))
    })
}

/// When it began, how long it is, and what is not known of it.
fn about(view: &TraceView, waterfall: &Waterfall, zone: &jiff::tz::TimeZone) -> (String, Tone) {
    if waterfall.rows.is_empty() {
        let why = view
            .unknown
            .first()
            .map_or("the recorder has moved on", String::as_str);
        return (
            format!("nothing of it is known any more: {}", printable(why)),
            Tone::Warning,
        );
    }
    let mut text = format!(
        "began {}  {} long  {} jobs",
        time_of_day(waterfall.from_unix_ns, zone),
        duration(waterfall.to_unix_ns - waterfall.from_unix_ns),
        waterfall.rows.len()
    );
    let mut tone = Tone::Plain;
    if view.recorded.left_out > 0 {
        let _ = write!(text, "  {} later events left out", view.recorded.left_out);
        tone = Tone::Warning;
    }
    if let Some(unknown) = view.unknown.first() {
        let _ = write!(text, "  unknown: {}", printable(unknown));
        tone = Tone::Warning;
    }
    (text, tone)
}
