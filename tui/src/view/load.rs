//! A load session: the one that runs or ran last, or a file that was opened.
//!
//! ```text
//!  how the load is made, of whom, how it ended
//!  knee: 920/s is the last good load, 950/s the first bad one
//!  filled first: lane db (limit 20) in step 4, 960/s
//!  lag p99 ms over achieved/s          | answers/s, lag, pending over time
//!  1000            .-5
//!   50 - - - - - - - - - - - the limit
//!    1   1--2---(3)       the knee in brackets
//!  step  offered/s achieved/s ..
//!  verdicts, advice, warnings
//! ```

use ax_agent::load::{Judged, Judgement};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
};

use super::Screen;
use crate::{
    format::{ms, rate, wrapped},
    load::{shown::Shown, text},
    report::moment,
    theme::Tone,
    widget::chart::{Scale, sparkline},
};

/// Columns of the labels at the left of the scatter.
const AXIS_WIDTH: u16 = 7;

/// From this width on, the table of steps has all of its columns and room for a judgement.
const ROOM_FOR_ALL: u16 = 130;

impl Screen<'_> {
    /// A session alone is no service that has verdicts of now: there is no banner.
    pub(super) fn load_alone(&self, area: Rect, buf: &mut Buffer) {
        let [header, body, footer] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(area);
        self.header(header, buf);
        self.load(body, buf);
        self.footer(footer, buf);
    }

    pub(crate) fn load(&self, area: Rect, buf: &mut Buffer) {
        let Some(shown) = &self.app.load else {
            self.no_session(area, buf);
            return;
        };
        let Shown {
            session, analysis, ..
        } = shown.as_ref();
        let steps = analysis.steps.len() as u16;
        let rows = area.height;
        let said = said(shown);
        let table_rows = (steps + 2).min(rows / 3).max(2);
        let said_rows = (said.len() as u16 + 1).min(rows / 4);
        let [head, plot, table, below] = Layout::vertical([
            Constraint::Length(3.min(rows)),
            Constraint::Fill(1),
            Constraint::Length(table_rows),
            Constraint::Length(said_rows),
        ])
        .areas(area);
        // The day too: the newest session may be an old one.
        let driver = format!(
            " {}  {}  {}  {}",
            moment(session.began_unix_ns),
            text::driver(session),
            text::service(session),
            text::ended(&session.end)
        );
        self.text(head, 0, &driver, Tone::Quiet, buf);
        self.text(
            head,
            1,
            &format!(" {}", text::knee(analysis)),
            Tone::Strong,
            buf,
        );
        let filled = text::filled(analysis);
        let filled = filled
            .first()
            .map_or(text::nothing_filled(session), String::as_str);
        self.text(head, 2, &format!(" {filled}"), Tone::Plain, buf);
        let [left, right] = if plot.width >= 90 {
            Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).areas(plot)
        } else {
            [plot, Rect { width: 0, ..plot }]
        };
        self.scatter(shown, left, buf);
        self.over_time(shown, right, buf);
        self.steps(shown, table, buf);
        let inner = self.panel(below, "What it means", None, buf);
        let width = usize::from(inner.width.saturating_sub(2)).max(1);
        let mut lines: Vec<_> = said.iter().flat_map(|said| wrapped(said, width)).collect();
        let room = usize::from(inner.height);
        if lines.len() > room && room > 0 {
            let left_out = lines.len() - (room - 1);
            lines.truncate(room - 1);
            lines.push(format!("{left_out} more lines: ax-top load show FILE"));
        }
        for (row, line) in (0..inner.height).zip(&lines) {
            self.text(inner, row, &format!(" {line}"), Tone::Plain, buf);
        }
    }

    fn no_session(&self, area: Rect, buf: &mut Buffer) {
        let lines = [
            "no load session yet. To find out how much a service bears:",
            "",
            "  ax-top load --url http://127.0.0.1:PORT/ --steps 100..1000x6",
            "  ax-top load --steps 1..64x7 -- wrk -c{connections} -d{seconds}s http://127.0.0.1:PORT/",
            "",
            "it is shown here step by step while it runs; ax-top open FILE shows an earlier one",
        ];
        for (row, line) in (1..).zip(lines) {
            self.text(area, row, &format!(" {line}"), Tone::Plain, buf);
        }
    }

    /// A point a step, with its number; where two stand in one place, the later one is seen.
    fn scatter(&self, shown: &Shown, area: Rect, buf: &mut Buffer) {
        let steps = &shown.analysis.steps;
        let has_lag = steps.iter().any(|step| step.figures.lag_p99_ns.is_some());
        let height_ns = |step: &Judged| {
            if has_lag {
                step.figures.lag_p99_ns
            } else {
                step.figures.p99_ns
            }
        };
        let what = if has_lag {
            "Lag p99 ms"
        } else {
            "Latency p99 ms"
        };
        let inner = self.panel(area, &format!("{what} over achieved/s"), None, buf);
        let points: Vec<_> = steps
            .iter()
            .filter_map(|step| {
                let ns = height_ns(step)?;
                Some((step, step.figures.achieved_per_s?, ns as f64 / 1e6))
            })
            .collect();
        if inner.height < 4 || inner.width < 2 * AXIS_WIDTH || points.is_empty() {
            return;
        }
        let limits = &shown.session.plan.limits;
        let limit_ns = if has_lag {
            limits.lag_p99_ns
        } else {
            limits.p99_ns
        };
        let limit = limit_ns.map(|ns| ns as f64 / 1e6);
        let heights = || points.iter().map(|(_, _, ms)| *ms).chain(limit);
        let highest = heights().fold(1.0, f64::max);
        let lowest = heights().fold(1.0, f64::min).max(0.001);
        let (floor, top) = (
            10_f64.powf(lowest.log10().floor()),
            10_f64.powf(highest.log10().ceil()),
        );
        let plane = Plane {
            area: Rect {
                x: inner.x + AXIS_WIDTH,
                width: inner.width - AXIS_WIDTH - 1,
                height: inner.height - 1,
                ..inner
            },
            scale: Scale::Log {
                floor,
                top: top.max(floor * 10.0),
            },
            most_per_s: points
                .iter()
                .map(|(_, per_s, _)| *per_s)
                .fold(1.0, f64::max)
                * 1.08,
        };
        let quiet = self.theme.style(Tone::Quiet);
        if let Some(limit) = limit {
            let y = plane.row(limit);
            buf.set_string(
                plane.area.x,
                y,
                "╌".repeat(usize::from(plane.area.width)),
                quiet,
            );
            buf.set_string(inner.x, y, format!("{limit:>5.0} "), quiet);
        }
        for value in [floor, top.max(floor * 10.0)] {
            let label = ms(Some((value * 1e6) as u64));
            buf.set_string(inner.x, plane.row(value), format!("{label:>6} "), quiet);
        }
        let axis = inner.y + inner.height - 1;
        buf.set_string(plane.area.x, axis, "0", quiet);
        let most = format!("{}/s", rate(Some(plane.most_per_s)));
        let at = plane.area.right().saturating_sub(most.len() as u16);
        buf.set_string(at, axis, most, quiet);
        for (step, per_s, ms) in &points {
            let number = step.figures.number;
            let is_knee = shown.analysis.knee.step == Some(number);
            let label = if is_knee {
                format!("({number})")
            } else {
                number.to_string()
            };
            let tone = match step.judgement {
                Judgement::Good => Tone::Good,
                Judgement::Bad(_) => Tone::Critical,
                Judgement::Unsure(_) => Tone::Quiet,
            };
            let back = u16::from(is_knee);
            let widest = plane.area.right().saturating_sub(label.len() as u16);
            let x = plane
                .column(*per_s)
                .saturating_sub(back)
                .clamp(plane.area.x, widest);
            buf.set_string(x, plane.row(*ms), label, self.theme.style(tone));
        }
    }

    /// Three figures over time, newest at the right.
    fn over_time(&self, shown: &Shown, area: Rect, buf: &mut Buffer) {
        if area.width < 20 || area.height < 4 {
            return;
        }
        let inner = self.panel(area, "Over time", None, buf);
        let session = &shown.session;
        let slices = || {
            let clients = session.steps.iter().filter_map(|step| step.client.as_ref());
            clients.flat_map(|client| &client.slices)
        };
        let seconds = || session.steps.iter().flat_map(|step| &step.service);
        let answers =
            slices().map(|slice| Some(slice.achieved as f64 * 1e9 / slice.length_ns.max(1) as f64));
        let latency =
            slices().map(|slice| Some(slice.latency.as_ref()?.quantile_ns(0.99)? as f64 / 1e6));
        let lag = seconds().map(|second| second.lag_ns.iter().max().map(|ns| *ns as f64 / 1e6));
        let pending =
            seconds().map(|second| Some(second.lanes.iter().map(|lane| lane.pending as f64).sum()));
        let cpus = seconds().map(|second| second.cpus_used);
        let rows: [(&str, Vec<Option<f64>>); 5] = [
            ("answers/s", answers.collect()),
            ("p99 ms", latency.collect()),
            ("lag max ms", lag.collect()),
            ("pending", pending.collect()),
            ("CPUs", cpus.collect()),
        ];
        let known = rows
            .iter()
            .filter(|(_, values)| values.iter().any(Option::is_some));
        for (row, (name, values)) in (0_u16..).step_by(2).zip(known) {
            let most = values.iter().copied().flatten().fold(0.0, f64::max);
            self.text(
                inner,
                row,
                &format!(" {name}, at most {}", rate(Some(most))),
                Tone::Quiet,
                buf,
            );
            let bars = sparkline(values, usize::from(inner.width.saturating_sub(1)), None);
            self.text(inner, row + 1, &format!(" {bars}"), Tone::Plain, buf);
        }
    }

    fn steps(&self, shown: &Shown, area: Rect, buf: &mut Buffer) {
        let inner = self.panel(area, "Steps", None, buf);
        // What is made of a step matters most, so the narrow table has fewer figures rather than no judgement.
        let (heading, row_of): (&str, fn(&Judged) -> String) = if inner.width < ROOM_FOR_ALL {
            (text::NARROW_HEADING, text::narrow_row)
        } else {
            (text::HEADING, text::row)
        };
        self.text(inner, 0, &format!(" {heading}"), Tone::Quiet, buf);
        let steps = &shown.analysis.steps;
        let room = usize::from(inner.height.saturating_sub(1));
        // The newest ones: while it runs, they are what is looked for.
        let first = steps.len().saturating_sub(room);
        for (row, step) in (1..).zip(&steps[first..]) {
            let tone = match step.judgement {
                Judgement::Good => Tone::Plain,
                Judgement::Bad(_) => Tone::Critical,
                Judgement::Unsure(_) => Tone::Quiet,
            };
            self.text(inner, row, &format!(" {}", row_of(step)), tone, buf);
        }
    }
}

struct Plane {
    area: Rect,
    scale: Scale,
    most_per_s: f64,
}

impl Plane {
    fn row(&self, ms: f64) -> u16 {
        let last = self.area.height - 1;
        let from_bottom = (self.scale.height(ms) * f64::from(last)).round() as u16;
        self.area.y + last - from_bottom.min(last)
    }

    fn column(&self, per_s: f64) -> u16 {
        let share = (per_s / self.most_per_s).clamp(0.0, 1.0);
        self.area.x + (share * f64::from(self.area.width - 1)).round() as u16
    }
}

/// What it means, the most important first.
fn said(shown: &Shown) -> Vec<String> {
    let Shown {
        session, analysis, ..
    } = shown;
    let warnings = session
        .warnings
        .iter()
        .map(|warning| format!("warning: {warning}"));
    text::verdicts(session)
        .into_iter()
        .chain(text::filled(analysis).into_iter().skip(1))
        .chain(text::advice(analysis))
        .chain(text::opinions(analysis))
        .chain(warnings)
        .collect()
}

#[cfg(test)]
mod tests;
