//! How long something takes: a ladder of percentiles, and below it bars by a logarithmic scale; lately against a longer
//! time before.
//!
//! ```text
//!  wait          1 min   15 min     the ladder
//!  p50          1.2 ms   0.9 ms
//!  p99           31 ms    18 ms ▲
//!   ≤  1 ms ██████▏      40 %      a bar a step of 1, 2, 5: lately;
//!   ≤  2 ms ████|         25 %      the mark says how long it would be of the longer time
//! ```

use ax_wire::{LatencyHistogram, query::Compared};
use ratatui::{buffer::Buffer, layout::Rect};

use crate::{
    format::{UNKNOWN, duration},
    theme::{Theme, Tone},
};

/// The rungs of the ladder.
const LADDER: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Columns of a bar's label.
const LABEL: u16 = 10;

/// Columns of a share: ` 100 %`.
const SHARE: u16 = 6;

/// An eighth more each.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// From this factor on, lately is worse than before.
const WORSE: f64 = 1.5;

/// See the module.
pub struct HistogramView<'a> {
    /// What it is about: `wait`.
    pub title: &'a str,
    pub compared: &'a Compared,
    /// The spans, in words: `1 min`, `15 min`.
    pub spans: (&'a str, &'a str),
    pub theme: Theme,
}

impl HistogramView<'_> {
    pub fn draw(&self, area: Rect, buf: &mut Buffer) {
        let put = |row: u16, text: &str, tone: Tone, buf: &mut Buffer| {
            if row < area.height {
                let style = self.theme.style(tone);
                buf.set_stringn(area.x, area.y + row, text, usize::from(area.width), style);
            }
        };
        let (lately, all) = self.spans;
        let heading = format!("{:<7}{lately:>9}{all:>9}", self.title);
        put(0, &heading, Tone::Strong, buf);
        let Some(longer) = &self.compared.all else {
            put(1, "nothing recorded", Tone::Quiet, buf);
            return;
        };
        let lately = self.compared.lately.as_ref();
        let mut row = 1;
        for (name, quantile) in LADDER {
            let now = lately.and_then(|lately| lately.quantile_ns(quantile));
            Self::rung(name, now, longer.quantile_ns(quantile), row, &put, buf);
            row += 1;
        }
        let now = lately.and_then(LatencyHistogram::max_ns);
        Self::rung("max", now, longer.max_ns(), row, &put, buf);
        let bars = Rect {
            y: area.y + (row + 1).min(area.height),
            height: area.height.saturating_sub(row + 1),
            ..area
        };
        self.bars(lately, longer, bars, buf);
    }

    fn rung(
        name: &str,
        now: Option<u64>,
        longer: Option<u64>,
        row: u16,
        put: &impl Fn(u16, &str, Tone, &mut Buffer),
        buf: &mut Buffer,
    ) {
        let worse = match (now, longer) {
            (Some(now), Some(longer)) => now as f64 > longer as f64 * WORSE,
            _ => false,
        };
        let (sign, tone) = if worse {
            ("▲", Tone::Warning)
        } else {
            ("", Tone::Plain)
        };
        let shown = |ns: Option<u64>| ns.map_or_else(|| UNKNOWN.to_owned(), fine);
        let (now, longer) = (shown(now), shown(longer));
        put(
            row,
            &format!("{name:<7}{now:>9}{longer:>9} {sign}"),
            tone,
            buf,
        );
    }

    fn bars(
        &self,
        lately: Option<&LatencyHistogram>,
        longer: &LatencyHistogram,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let width = area.width.saturating_sub(LABEL + SHARE);
        if area.height == 0 || width == 0 {
            return;
        }
        let steps = Steps::new(lately, longer, usize::from(area.height));
        let largest = steps.rows.iter().map(|row| row.lately.max(row.longer));
        let largest = largest.fold(f64::MIN_POSITIVE, f64::max);
        for (y, row) in (area.top()..area.bottom()).zip(&steps.rows) {
            let label = format!("≤ {:>7} ", fine(row.up_to_us * 1_000));
            buf.set_stringn(
                area.x,
                y,
                label,
                usize::from(LABEL),
                self.theme.style(Tone::Quiet),
            );
            let left = area.x + LABEL;
            let eighths = (row.lately / largest * f64::from(width) * 8.0).round() as usize;
            let bar = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
            buf.set_stringn(
                left,
                y,
                bar,
                usize::from(width),
                self.theme.style(Tone::Plain),
            );
            if row.longer > 0.0 {
                let mark = (row.longer / largest * f64::from(width)).round() as u16;
                let x = left + mark.clamp(1, width) - 1;
                let style = self.theme.style(Tone::Strong);
                buf.set_stringn(x, y, "│", 1, style);
            }
            let share = format!("{:>4.0} %", row.lately * 100.0);
            let style = self.theme.style(Tone::Plain);
            buf.set_stringn(left + width, y, share, usize::from(SHARE), style);
        }
    }
}

/// A duration that may be far below a millisecond.
fn fine(ns: u64) -> String {
    if ns < 1_000_000 {
        format!("{} us", ns / 1_000)
    } else {
        duration(ns)
    }
}

/// One bar: of the recordings up to a duration, and above that of the bar before, the shares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct StepRow {
    up_to_us: u64,
    lately: f64,
    longer: f64,
}

struct Steps {
    rows: Vec<StepRow>,
}

impl Steps {
    /// From the shortest recording to the longest, as many rows as there is room for; where they are too many, the
    /// shortest ones are taken together, since what takes long matters more.
    fn new(lately: Option<&LatencyHistogram>, longer: &LatencyHistogram, room: usize) -> Self {
        let mut rows: Vec<StepRow> = Vec::new();
        let mut add = |histogram: &LatencyHistogram, pick: fn(&mut StepRow) -> &mut f64| {
            let total = histogram.count().max(1) as f64;
            for (us, count) in histogram.buckets_us() {
                let step = step_of(us);
                if rows.len() <= step {
                    rows.resize(step + 1, StepRow::default());
                }
                *pick(&mut rows[step]) += f64::from(count) / total;
            }
        };
        add(longer, |row| &mut row.longer);
        if let Some(lately) = lately {
            add(lately, |row| &mut row.lately);
        }
        for (step, row) in rows.iter_mut().enumerate() {
            row.up_to_us = upper_us(step);
        }
        let empty = |row: &&StepRow| row.lately == 0.0 && row.longer == 0.0;
        let first = rows.iter().take_while(empty).count();
        rows.drain(..first);
        let surplus = rows.len().saturating_sub(room.max(1));
        if surplus > 0 {
            let (lately, longer) = rows.drain(..surplus).fold((0.0, 0.0), |sum, row| {
                (sum.0 + row.lately, sum.1 + row.longer)
            });
            rows[0].lately += lately;
            rows[0].longer += longer;
        }
        Self { rows }
    }
}

/// The steps end at 1, 2, 5, 10, 20, 50 us and so on.
fn upper_us(step: usize) -> u64 {
    [1, 2, 5][step % 3] * 10_u64.pow((step / 3) as u32)
}

fn step_of(us: u64) -> usize {
    // 24 hours are below the 34th.
    (0..40).find(|step| us <= upper_us(*step)).unwrap_or(40)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ms: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        for ms in ms {
            histogram.record_ns(ms * 1_000_000);
        }
        histogram
    }

    #[test]
    fn steps_go_by_one_two_five() {
        let upper: Vec<_> = (0..7).map(upper_us).collect();
        assert_eq!(upper, [1, 2, 5, 10, 20, 50, 100]);
        assert_eq!(
            (step_of(1), step_of(3), step_of(100), step_of(101)),
            (0, 2, 6, 7)
        );
    }

    #[test]
    fn each_recording_is_in_one_bar_and_the_shortest_are_put_together() {
        let (lately, longer) = (of(&[1, 30, 300]), of(&[1, 1, 1, 2, 30, 400]));
        for room in [1, 3, 50] {
            let steps = Steps::new(Some(&lately), &longer, room);
            assert!(steps.rows.len() <= room);
            let sum = |of: fn(&StepRow) -> f64| steps.rows.iter().map(of).sum::<f64>();
            assert!((sum(|row| row.lately) - 1.0).abs() < 1e-9);
            assert!((sum(|row| row.longer) - 1.0).abs() < 1e-9);
            assert_eq!(steps.rows.last().map(|row| row.up_to_us), Some(500_000));
        }
    }
}
