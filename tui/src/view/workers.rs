//! What each worker does.

use ax_wire::{
    sample::WorkerState,
    view::{RuntimeView, ServiceView, WorkerView},
};
use ratatui::{buffer::Buffer, layout::Rect};

use super::Screen;
use crate::{
    app::App,
    format::{duration, maybe_duration, middle_cut, percent},
    screens::Panel,
    theme::Tone,
};

/// Cells of a busy bar.
const BAR: usize = 10;

/// Rows below the workers: blocking pool, CPU shares.
const SUMMARY_ROWS: u16 = 2;

/// A share as a bar of [`BAR`] cells.
pub fn bar(share: Option<f64>) -> String {
    let filled = (share.unwrap_or(0.0).clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(filled), "·".repeat(BAR - filled))
}

impl Screen<'_> {
    pub(super) fn workers(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let title = self.titled("Workers", "busy");
        let inner = self.panel(area, &title, Some(Panel::Workers), buf);
        let lines: Vec<_> = view
            .runtimes
            .iter()
            .flat_map(|runtime| runtime.workers.iter().map(move |worker| (runtime, worker)))
            .enumerate()
            .map(|(place, (runtime, worker))| {
                let several = view.runtimes.len() > 1;
                let mut worker = worker.clone();
                if self.app.timeline.cursor_unix_ns.is_some() {
                    let then = self.app.point_at_cursor();
                    let shares = then.map(|point| &point.busy_shares);
                    worker.busy_share = shares.and_then(|shares| *shares.get(place)?);
                    // What it polls now is nothing that it did then.
                    (worker.poll, worker.state) = (None, WorkerState::Other);
                }
                worker_line(runtime, &worker, several)
            })
            .collect();
        let room = usize::from(inner.height.saturating_sub(SUMMARY_ROWS));
        let first = self.app.first_line(Panel::Workers, room);
        let mut shown: Vec<_> = lines.into_iter().skip(first).collect();
        if shown.len() > room && room > 0 {
            let more = shown.len() - (room - 1);
            shown.truncate(room - 1);
            shown.push((format!("{more} more workers below"), Tone::Quiet));
        }
        shown.push((blocking(view), Tone::Plain));
        shown.push((cpu_shares(view), Tone::Plain));
        for (row, (line, tone)) in (0..).zip(&shown) {
            self.text(inner, row, &format!(" {line}"), *tone, buf);
        }
    }
}

fn worker_line(runtime: &RuntimeView, worker: &WorkerView, many: bool) -> (String, Tone) {
    let name = if many {
        format!("r{} w{}", runtime.info.id, worker.index)
    } else {
        format!("w{}", worker.index)
    };
    let (what, tone) = match (&worker.poll, worker.state) {
        (Some(poll), WorkerState::Stalled) => (
            format!(
                "STALL {} {}",
                duration(poll.age_ns),
                middle_cut(&poll.task.name, 20)
            ),
            Tone::Critical,
        ),
        (None, WorkerState::Stalled) => ("STALL".to_owned(), Tone::Critical),
        (Some(poll), _) => (
            format!(
                "{:>3} % {}",
                percent(worker.busy_share),
                middle_cut(&poll.task.name, 20)
            ),
            Tone::Plain,
        ),
        (None, _) => (
            format!("{:>3} % busy", percent(worker.busy_share)),
            Tone::Plain,
        ),
    };
    (format!("{name:<3}{} {what}", bar(worker.busy_share)), tone)
}

/// Blocking closures that run now, as far as the probe started them.
pub fn blocking_running(view: &ServiceView) -> u64 {
    let pools = view.runtimes.iter().map(|runtime| runtime.blocking);
    pools.map(|pool| pool.watched_running).sum()
}

/// `blocking 3, wait 0.1 ms`.
pub fn blocking(view: &ServiceView) -> String {
    let pools = || view.runtimes.iter().map(|runtime| runtime.blocking);
    let running = blocking_running(view);
    let wait = pools().filter_map(|pool| pool.lag_ns).max();
    // Only known under tokio_unstable; no sample has come while there are no runtimes.
    let threads: Option<u64> = pools().map(|pool| pool.threads).sum();
    let of = threads
        .filter(|threads| *threads > 0)
        .map_or_else(String::new, |threads| format!(" of {threads} threads"));
    format!("blocking {running}{of}, wait {}", maybe_duration(wait))
}

fn cpu_shares(view: &ServiceView) -> String {
    let on_cpu = mean(App::workers(view).map(|worker| worker.on_cpu_share));
    let waiting = mean(App::workers(view).map(|worker| worker.run_queue_share));
    format!(
        "on-CPU {} %  wait CPU {} %",
        percent(on_cpu),
        percent(waiting)
    )
}

/// `56 % busy`, and how many are stalled.
pub fn busy_words(view: &ServiceView) -> (String, Tone) {
    let busy = mean(App::workers(view).map(|worker| worker.busy_share));
    let stalled = App::workers(view)
        .filter(|worker| worker.state == WorkerState::Stalled)
        .count();
    let words = format!("{} % busy", percent(busy));
    if stalled == 0 {
        (words, Tone::Plain)
    } else {
        (format!("{words}, {stalled} STALL"), Tone::Critical)
    }
}

/// The mean of those that are known.
fn mean(shares: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = shares.flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_one_length() {
        assert_eq!(bar(Some(0.82)), "████████··");
        assert_eq!(bar(Some(7.0)), "██████████");
        assert_eq!(bar(None), "··········");
    }

    #[test]
    fn unknown_shares_are_left_out_of_the_mean() {
        assert_eq!(mean([Some(0.5), None].into_iter()), Some(0.5));
        assert_eq!(mean([None, None].into_iter()), None);
    }
}
