//! Event-loop lag over time.

use ax_wire::view::ServiceView;
use ratatui::{buffer::Buffer, layout::Rect, widgets::Widget};

use super::Screen;
use crate::{
    format::{ms, printable, time_of_day, width},
    theme::Tone,
    widget::chart::{Chart, Scale, Tick},
};

/// Where the axis starts. Healthy lag is about 0.1 ms.
const FLOOR_MS: f64 = 0.1;

/// What a panel's rule needs beside its title.
const TITLE_FRAME: usize = 5;

/// Where it ends, unless the lag is larger.
const LEAST_TOP_MS: f64 = 500.0;

impl Screen<'_> {
    pub(super) fn lag(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let figures = self.lag_figures(view);
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
        let span = self.app.span(Chart::columns(inner.width));
        let points = self.app.feed().map(|feed| feed.points.iter());
        let values = points.map_or_else(Vec::new, |points| {
            span.values(points, |point| point.lag_max_ns.map(|ns| ns as f64 / 1e6))
        });
        let top = top_ms(values.iter().copied().flatten().fold(0.0, f64::max));
        let chart = Chart {
            values: &values,
            scale: Scale::Log {
                floor: FLOOR_MS,
                top,
            },
            ticks: &ticks(view, top),
            pointed: self.pointed(span),
            theme: self.theme,
        };
        chart.render(chart_area, buf);
        self.axis(view, span, inner, buf);
    }

    /// `ms  p50 0.1  p99 31.0  max 412.0`; where the cursor stands, what was then: `ms at 14:03:21  p50 0.1  max 412.0`.
    fn lag_figures(&self, view: &ServiceView) -> String {
        let lag = &view.lag;
        let Some(cursor) = self.app.timeline.cursor_unix_ns else {
            return format!(
                "ms  p50 {}  p99 {}  max {}",
                ms(lag.p50_ns),
                ms(lag.p99_ns),
                ms(lag.max_ns)
            );
        };
        let then = self.app.point_at_cursor();
        let happened = self.app.happened_at_cursor();
        let happened = happened.map_or_else(String::new, |told| format!("  {}", printable(&told)));
        format!(
            "ms at {}  p50 {}  max {}{happened}",
            time_of_day(cursor, &self.app.zone),
            ms(then.and_then(|point| point.lag_p50_ns)),
            ms(then.and_then(|point| point.lag_max_ns)),
        )
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

fn ticks(view: &ServiceView, top: f64) -> Vec<Tick> {
    let in_ms = |ns: u64| ns as f64 / 1e6;
    let threshold = |ns: u64, tone| Tick {
        value: in_ms(ns),
        label: label(in_ms(ns)),
        line: true,
        tone,
    };
    let tick = |value: f64| Tick {
        value,
        label: label(value),
        line: false,
        tone: Tone::Plain,
    };
    let mut ticks = vec![tick(FLOOR_MS), tick(1.0), tick(10.0)];
    ticks.push(threshold(view.hello.stall_threshold_ns, Tone::Warning));
    ticks.push(threshold(view.hello.snapshot_threshold_ns, Tone::Critical));
    if top > LEAST_TOP_MS {
        ticks.push(Tick {
            tone: Tone::Critical,
            ..tick(top)
        });
    }
    ticks
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
    fn the_axis_reaches_over_what_it_shows() {
        assert!((top_ms(0.0) - 500.0).abs() < f64::EPSILON);
        assert!((top_ms(501.0) - 5_000.0).abs() < f64::EPSILON);
        let labels = [0.1, 250.0, 5_000.0, 50_000.0].map(label);
        assert_eq!(labels, ["0.1", "250", "5000", "50k"]);
    }
}
