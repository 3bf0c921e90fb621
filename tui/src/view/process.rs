//! The process: the four figures that matter, and the panel with the rest.

use ax_wire::view::{LaneView, Point, ServiceView};
use ratatui::{buffer::Buffer, layout::Rect};

use super::{Screen, workers};
use crate::{
    format::{count, megabytes, percent, time_of_day},
    headline::cpu_share,
    theme::Tone,
    widget::chart::sparkline,
};

/// Columns of the small charts, and how many of the large one each of them puts together in all.
const TREND: usize = 10;
const TREND_COLUMNS: u16 = 60;

impl Screen<'_> {
    /// The whole panel.
    pub(super) fn process(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let title = self.titled("Process", "CPU and RSS");
        let inner = self.panel(area, &title, None, buf);
        let process = &view.process;
        let lines = [
            self.cpu(view),
            self.rss(view),
            format!(
                "probe {:>4} % of a CPU",
                tenth_percent(process.probe_cpus_used)
            ),
            format!(
                "files {:>4}/{}",
                count(process.open_files),
                count(process.open_files_limit)
            ),
            format!("threads {}", count(process.threads)),
            tasks(view),
        ];
        for (row, line) in (0..).zip(&lines) {
            self.text(inner, row, &format!(" {line}"), Tone::Plain, buf);
        }
    }

    /// CPU, memory, workers and blocking pool, for the smaller screens.
    pub(super) fn four_figures(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let title = self.titled("Now", "CPU and RSS");
        let inner = self.panel(area, &title, None, buf);
        let (busy, tone) = workers::busy_words(view);
        let lines = [
            (self.cpu(view), Tone::Plain),
            (self.rss(view), Tone::Plain),
            (format!("workers {busy}"), tone),
            (workers::blocking(view), Tone::Plain),
            (tasks(view), Tone::Plain),
            (
                format!(
                    "threads {}  files {}/{}",
                    count(view.process.threads),
                    count(view.process.open_files),
                    count(view.process.open_files_limit)
                ),
                Tone::Plain,
            ),
        ];
        for (row, (line, tone)) in (0..).zip(&lines) {
            self.text(inner, row, &format!(" {line}"), *tone, buf);
        }
    }

    /// The same four in one line.
    pub(super) fn figures_line(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let (busy, tone) = workers::busy_words(view);
        let line = format!(
            " CPU {} %  RSS {} MB  workers {busy}  blocking {}",
            percent(cpu_share(view)),
            megabytes(view.process.rss_bytes),
            workers::blocking_running(view)
        );
        self.text(area, 0, &line, tone, buf);
    }

    /// The most of it in three short lines.
    pub(super) fn three_lines(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let (busy, tone) = workers::busy_words(view);
        let sum = |of: fn(&LaneView) -> u64| view.lanes.iter().map(of).sum::<u64>();
        let lines = [
            (
                format!(
                    "CPU {} %  RSS {} MB",
                    percent(cpu_share(view)),
                    megabytes(view.process.rss_bytes)
                ),
                Tone::Plain,
            ),
            (format!("workers {busy}"), tone),
            (
                format!(
                    "running {}  pending {}",
                    sum(|lane| lane.running),
                    sum(|lane| lane.pending)
                ),
                Tone::Plain,
            ),
        ];
        for (row, (line, tone)) in (0..).zip(&lines) {
            self.text(area, row, &format!(" {line}"), *tone, buf);
        }
    }

    fn cpu(&self, view: &ServiceView) -> String {
        let cpus = view.hello.cpus;
        let used = self.then_or_now(|point| point.cpus_used, view.process.cpus_used);
        let share = used.map(|used| used / f64::from(cpus.max(1)));
        let share = percent(share);
        let trend = self.trend(|point| point.cpus_used, Some(f64::from(cpus)));
        let of = format!("of {cpus}");
        format!("CPU {share:>6} % {of:<6}{trend}")
    }

    fn rss(&self, view: &ServiceView) -> String {
        let rss = megabytes(self.then_or_now(|point| point.rss_bytes, view.process.rss_bytes));
        let trend = self.trend(|point| point.rss_bytes.map(|bytes| bytes as f64), None);
        format!("RSS {rss:>6} MB      {trend}")
    }

    fn trend(&self, value: fn(&Point) -> Option<f64>, top: Option<f64>) -> String {
        let span = self.app.span(TREND_COLUMNS);
        let points = self.app.feed().map(|feed| feed.points.iter());
        let values = points.map_or_else(Vec::new, |points| span.values(points, value));
        sparkline(&values, TREND, top)
    }

    /// The title of a panel in which only some figures are those of the cursor.
    pub(super) fn titled(&self, title: &str, then: &str) -> String {
        let cursor = self.app.timeline.cursor_unix_ns;
        cursor.map_or_else(
            || title.to_owned(),
            |cursor| {
                format!(
                    "{then} at {}, rest now",
                    time_of_day(cursor, &self.app.zone)
                )
            },
        )
    }

    /// A figure as it was at the cursor, which may be unknown; where there is no cursor, as it is.
    fn then_or_now<T>(&self, then: fn(&Point) -> Option<T>, now: Option<T>) -> Option<T> {
        if self.app.timeline.cursor_unix_ns.is_none() {
            return now;
        }
        self.app.point_at_cursor().and_then(then)
    }
}

fn tasks(view: &ServiceView) -> String {
    let alive: u64 = view
        .runtimes
        .iter()
        .map(|runtime| runtime.alive_tasks)
        .sum();
    let queued: u64 = view
        .runtimes
        .iter()
        .map(|runtime| runtime.global_queue_depth)
        .sum();
    format!("tasks {alive}, global queue {queued}")
}

/// A share as per cent with a decimal: the probe's own is below one.
fn tenth_percent(share: Option<f64>) -> String {
    share.map_or_else(|| percent(None), |share| format!("{:.1}", share * 100.0))
}
