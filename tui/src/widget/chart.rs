//! One chart: a bar a column, newest at the right, with threshold lines behind them and a cursor over them. And its
//! one-row form as text, for a table's cell.

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    widgets::Widget,
};

use crate::theme::{Theme, Tone};

/// An eighth more each.
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Columns taken by the labels of the axis.
pub const AXIS_WIDTH: u16 = 5;

/// How a value becomes a height.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// By the logarithm between the two: both 0.1 ms and 400 ms can be read on it.
    Log { floor: f64, top: f64 },
    /// From zero.
    Linear { top: f64 },
}

impl Scale {
    /// Where a value stands: 0 at the bottom, 1 at the top.
    pub fn height(self, value: f64) -> f64 {
        let height = match self {
            Self::Log { floor, top } => (value.max(floor) / floor).ln() / (top / floor).ln(),
            Self::Linear { top } => value / top,
        };
        height.clamp(0.0, 1.0)
    }
}

/// A labelled height; with a line where it is a threshold.
#[derive(Clone, Debug)]
pub struct Tick {
    pub value: f64,
    pub label: String,
    pub line: bool,
    /// The tone of bars that reach it.
    pub tone: Tone,
}

/// See the module. Values that are `None` leave a gap, since unknown is not zero.
pub struct Chart<'a> {
    /// Oldest first; those that find no room at the left are not drawn.
    pub values: &'a [Option<f64>],
    pub scale: Scale,
    /// Lowest first.
    pub ticks: &'a [Tick],
    /// The columns that are pointed at, counted from the left: one for a cursor, several for a drag.
    pub pointed: Option<(u16, u16)>,
    pub theme: Theme,
}

impl Chart<'_> {
    /// Columns that a chart of this width has for values.
    pub fn columns(width: u16) -> u16 {
        width.saturating_sub(AXIS_WIDTH)
    }

    fn tone(&self, value: f64) -> Tone {
        self.ticks
            .iter()
            .rev()
            .find(|tick| value >= tick.value)
            .map_or(Tone::Plain, |tick| tick.tone)
    }

    /// The row of a height, counted from the top.
    fn row(&self, value: f64, rows: u16) -> u16 {
        let from_bottom = (self.scale.height(value) * f64::from(rows)).floor() as u16;
        rows - 1 - from_bottom.min(rows - 1)
    }
}

impl Widget for &Chart<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        if area.height == 0 || area.width <= AXIS_WIDTH {
            return;
        }
        let columns = Chart::columns(area.width);
        let left = area.x + AXIS_WIDTH;
        for tick in self.ticks {
            let y = area.y + self.row(tick.value, area.height);
            let quiet = self.theme.style(Tone::Quiet);
            buf.set_string(area.x, y, format!("{:>4} ", tick.label), quiet);
            if tick.line {
                buf.set_string(left, y, "╌".repeat(usize::from(columns)), quiet);
            }
        }
        let newest_first = self.values.iter().rev().take(usize::from(columns));
        for (back, value) in (0..columns).zip(newest_first) {
            let Some(value) = *value else { continue };
            let style = self.theme.style(self.tone(value));
            let height = self.scale.height(value) * f64::from(area.height);
            let x = left + columns - 1 - back;
            for (row, y) in (area.top()..area.bottom()).rev().enumerate() {
                let eighths = eighths(height - row as f64, row == 0);
                if eighths > 0
                    && let Some(cell) = buf.cell_mut(Position::new(x, y))
                {
                    cell.set_symbol(EIGHTHS[eighths]);
                    cell.set_style(style.remove_modifier(ratatui::style::Modifier::DIM));
                }
            }
        }
        if let Some((from, to)) = self.pointed {
            let last = columns - 1;
            let (from, to) = (from.min(to).min(last), from.max(to).min(last));
            let pointed = Rect {
                x: left + from,
                width: to - from + 1,
                ..area
            };
            // Above the bars: a bar that is turned into its opposite would look like none.
            for position in pointed.positions() {
                if let Some(cell) = buf.cell_mut(position)
                    && !EIGHTHS[1..].contains(&cell.symbol())
                {
                    cell.set_style(Theme::selection());
                }
            }
        }
    }
}

/// How much of a cell a bar fills that reaches `height` cells above its bottom; a known value always shows.
fn eighths(height: f64, at_least_one: bool) -> usize {
    let filled = (height.clamp(0.0, 1.0) * 8.0).round() as usize;
    filled.max(usize::from(at_least_one))
}

/// The values as one row of bars, `width` columns, newest at the right. More values than columns are put together,
/// each column showing the largest of its own; unknown is a space. `top`: the value of a full bar, else the largest.
pub fn sparkline(values: &[Option<f64>], width: usize, top: Option<f64>) -> String {
    let together = values.len().div_ceil(width.max(1)).max(1);
    let columns = values.rchunks(together).map(|chunk| {
        let known = chunk.iter().copied().flatten();
        known.reduce(f64::max)
    });
    let newest_first: Vec<Option<f64>> = columns.take(width).collect();
    let largest = newest_first.iter().copied().flatten().fold(0.0, f64::max);
    let scale = Scale::Linear {
        top: top.unwrap_or(largest).max(f64::MIN_POSITIVE),
    };
    let bars: String = newest_first
        .iter()
        .rev()
        .map(|value| value.map_or(" ", |value| EIGHTHS[eighths(scale.height(value), true)]))
        .collect();
    format!("{bars:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[Option<f64>], ticks: &[Tick], width: u16, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        let chart = Chart {
            values,
            scale: Scale::Log {
                floor: 0.1,
                top: 1_000.0,
            },
            ticks,
            pointed: None,
            theme: Theme::with_colour(true),
        };
        chart.render(area, &mut buf);
        (0..height)
            .map(|y| (0..width).map(|x| buf[(x, y)].symbol()).collect())
            .collect()
    }

    #[test]
    fn small_and_large_values_both_read() {
        let tick = Tick {
            value: 50.0,
            label: "50".to_owned(),
            line: true,
            tone: Tone::Warning,
        };
        let rows = drawn(&[Some(0.1), None, Some(1.0), Some(400.0)], &[tick], 10, 4);
        assert_eq!(
            rows,
            ["         ▅", "  50 ╌╌╌╌█", "         █", "      ▁ ██"]
        );
    }

    #[test]
    fn newest_stands_at_the_right_and_the_oldest_fall_off() {
        let values: Vec<_> = (0..20)
            .map(|n| Some(if n == 19 { 1_000.0 } else { 0.1 }))
            .collect();
        let rows = drawn(&values, &[], 9, 1);
        assert_eq!(rows, ["     ▁▁▁█"]);
    }

    #[test]
    fn a_sparkline_keeps_the_largest_of_what_it_puts_together() {
        let values = [Some(8.0), Some(0.0), None, None, Some(4.0), Some(1.0)];
        assert_eq!(sparkline(&values, 3, None), "█ ▄");
        assert_eq!(sparkline(&values, 6, Some(16.0)), "▄▁  ▂▁");
        assert_eq!(sparkline(&[Some(0.0)], 3, None), "  ▁");
        assert_eq!(sparkline(&[], 3, None), "   ");
    }
}
