//! Event-loop lag over time.

use ax_wire::view::ServiceView;
use ratatui::{buffer::Buffer, layout::Rect, widgets::Widget};

use super::Screen;
use crate::{
    format::{ms, width},
    theme::Tone,
    widget::chart::{Chart, Mark, Scale},
};

/// Where the axis starts. Healthy lag is about 0.1 ms.
const FLOOR_MS: f64 = 0.1;

/// What a panel's rule needs beside its title.
const TITLE_FRAME: usize = 5;

/// What stands below the newest second.
const NOW: &str = "now";

/// Where it ends, unless the lag is larger.
const LEAST_TOP_MS: f64 = 500.0;

impl Screen<'_> {
    pub(super) fn lag(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let lag = &view.lag;
        let figures = format!(
            "ms  p50 {}  p99 {}  max {}",
            ms(lag.p50_ns),
            ms(lag.p99_ns),
            ms(lag.max_ns)
        );
        let long = format!("Event-loop lag {figures}");
        let title = if width(&long) + TITLE_FRAME <= usize::from(area.width) {
            long
        } else {
            format!("Lag {figures}")
        };
        let inner = self.panel(area, &title, None, buf);
        let chart_area = Rect {
            height: inner.height.saturating_sub(1),
            ..inner
        };
        let values = self.lag_values();
        let columns = usize::from(Chart::columns(inner.width));
        let visible = values.iter().rev().take(columns).copied().flatten();
        let top = top_ms(visible.fold(0.0, f64::max));
        let marks = marks(view, top);
        let chart = Chart {
            values: &values,
            scale: Scale::Log {
                floor: FLOOR_MS,
                top,
            },
            marks: &marks,
            theme: self.theme,
        };
        chart.render(chart_area, buf);
        let axis = Rect {
            x: inner.x,
            y: inner.y + chart_area.height,
            width: inner.width,
            height: inner.height.min(1),
        };
        self.axis(view, axis, columns as u16, buf);
    }

    /// How far back the chart reaches, and marks below the seconds in which an alert began or a snapshot was taken.
    fn axis(&self, view: &ServiceView, area: Rect, columns: u16, buf: &mut Buffer) {
        let alerts = view
            .alerts
            .iter()
            .filter(|alert| alert.fired_unix_ns.is_some())
            .map(|alert| ("A", alert.began_unix_ns));
        let snapshots = view
            .snapshots
            .iter()
            .map(|snapshot| ("S", snapshot.at_unix_ns));
        let points = self.app.feed().map(|feed| feed.points.iter().rev());
        let newest_first: Vec<u64> = points
            .into_iter()
            .flatten()
            .take(usize::from(columns))
            .map(|point| point.at_unix_ns)
            .collect();
        // Of two in one second the snapshot stands: it is what can be opened.
        let marks: Vec<_> = alerts
            .chain(snapshots)
            .filter_map(|(sign, at)| Some((sign, column_of(at, &newest_first)?)))
            .collect();
        // Where something has just happened, the mark says more than the word.
        let quiet = marks.iter().all(|(_, back)| usize::from(*back) > NOW.len());
        let (from, now) = (format!("-{columns}s"), if quiet { NOW } else { "" });
        let room = usize::from(area.width).saturating_sub(from.len());
        self.text(area, 0, &format!("{from}{now:>room$}"), Tone::Quiet, buf);
        for (sign, back) in marks {
            if back < area.width && area.height > 0 {
                let x = area.right() - 1 - back;
                buf.set_string(x, area.y, sign, self.theme.style(Tone::Strong));
            }
        }
    }

    /// The largest lag of each second in ms, oldest first. A second that brought no point is unknown.
    fn lag_values(&self) -> Vec<Option<f64>> {
        self.app
            .feed()
            .map(|feed| {
                feed.points
                    .iter()
                    .map(|point| point.lag_max_ns.map(|ns| ns as f64 / 1e6))
                    .collect()
            })
            .unwrap_or_default()
    }
}

/// How many columns from the right the second stands in which something happened: a point ends its second. `None` where
/// it is no longer on the chart.
fn column_of(at_unix_ns: u64, newest_first: &[u64]) -> Option<u16> {
    let ended = newest_first.iter().take_while(|end| **end >= at_unix_ns);
    match ended.count() {
        // Since the newest point: in the second that goes on.
        0 => (!newest_first.is_empty()).then_some(0),
        all if all == newest_first.len() => None,
        some => Some(some as u16 - 1),
    }
}

/// The top of the axis: steps of ten, so that it seldom moves.
fn top_ms(largest: f64) -> f64 {
    let mut top = LEAST_TOP_MS;
    while top < largest {
        top *= 10.0;
    }
    top
}

fn marks(view: &ServiceView, top: f64) -> Vec<Mark> {
    let in_ms = |ns: u64| ns as f64 / 1e6;
    let threshold = |ns: u64, tone| Mark {
        value: in_ms(ns),
        label: label(in_ms(ns)),
        line: true,
        tone,
    };
    let tick = |value: f64| Mark {
        value,
        label: label(value),
        line: false,
        tone: Tone::Plain,
    };
    let mut marks = vec![tick(FLOOR_MS), tick(1.0), tick(10.0)];
    marks.push(threshold(view.hello.stall_threshold_ns, Tone::Warning));
    marks.push(threshold(view.hello.snapshot_threshold_ns, Tone::Critical));
    if top > LEAST_TOP_MS {
        marks.push(Mark {
            tone: Tone::Critical,
            ..tick(top)
        });
    }
    marks
}

/// A figure of the axis in four characters.
fn label(ms: f64) -> String {
    if ms < 1.0 {
        format!("{ms:.1}")
    } else if ms < 10_000.0 {
        format!("{ms:.0}")
    } else {
        format!("{:.0}k", ms / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stands_under_the_second_that_it_fell_into() {
        let ends = [300, 200, 100];
        let columns = [350, 300, 201, 200, 101, 100, 99].map(|at| column_of(at, &ends));
        assert_eq!(
            columns,
            [Some(0), Some(0), Some(0), Some(1), Some(1), None, None]
        );
        assert_eq!(column_of(1, &[]), None);
    }

    #[test]
    fn the_axis_reaches_over_what_it_shows() {
        assert!((top_ms(0.0) - 500.0).abs() < f64::EPSILON);
        assert!((top_ms(501.0) - 5_000.0).abs() < f64::EPSILON);
        let labels = [0.1, 250.0, 5_000.0, 50_000.0].map(label);
        assert_eq!(labels, ["0.1", "250", "5000", "50k"]);
    }
}
