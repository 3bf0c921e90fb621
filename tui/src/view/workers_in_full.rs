//! Workers: for each what it polls now, its busy share over the last minutes with its stalls drawn over it, and how the
//! thread's time is split; below them the blocking pools.
//!
//! ```text
//!  w0 ████████··  82 % busy  polls render_pdf #12 for 412 ms  src/pdf.rs:88
//!     ▁▂▂▁▁▁▂▁▁▁▁▁▁█render_pdf██▁▁▂▂▁
//!     on-CPU 41 %  waits for a CPU 2 %  off-CPU 57 %   tid 4122 S, a read
//! ```

use std::fmt::Write as _;

use ax_wire::{
    sample::{BlockingPoolSample, ThreadSample, WorkerState},
    view::{RuntimeView, ServiceView, StallView, WorkerView},
};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
};

use super::{Screen, workers::bar};
use crate::{
    format::{UNKNOWN, count, duration, maybe_duration, percent, printable},
    headline::task_words,
    screens::Panel,
    theme::Tone,
    widget::heat::{Block, HeatStrip},
};

/// Lines of one worker, and an empty one.
const WORKER_ROWS: u16 = 4;

/// Columns before a strip.
const INDENT: u16 = 4;

/// Seconds that a strip covers at least.
const STRIP_S: usize = 300;

/// A worker and where it stands.
struct Placed<'a> {
    runtime: &'a RuntimeView,
    worker: &'a WorkerView,
    /// Among all workers, which is its place in [`ax_wire::view::Point::busy_shares`].
    index: usize,
}

impl Screen<'_> {
    pub fn workers_in_full(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let pools = (view.runtimes.len() as u16).clamp(1, 4) + 1;
        let [workers, pools] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(pools)]).areas(area);
        let cells = usize::from(workers.width.saturating_sub(INDENT + 2)).max(1);
        let seconds = STRIP_S.div_ceil(cells).max(1);
        let rows_each = if workers.height < 2 * WORKER_ROWS {
            WORKER_ROWS - 1
        } else {
            WORKER_ROWS
        };
        let room = usize::from(workers.height.saturating_sub(1) / rows_each).max(1);
        let first = self.app.first_line(Panel::WorkersInFull, room);
        let all = all_workers(view);
        let part = if all.len() > room {
            format!(
                "  {}-{} of {}",
                first + 1,
                (first + room).min(all.len()),
                all.len()
            )
        } else {
            String::new()
        };
        let title = format!(
            "Workers: busy share, {} a cell, now at the right{part}",
            unit(seconds)
        );
        let inner = self.panel(workers, &title, Some(Panel::WorkersInFull), buf);
        let shown = all.iter().skip(first).take(room);
        for (place, worker) in (0..).zip(shown) {
            let y = inner.y + place * rows_each;
            let height = (WORKER_ROWS - 1).min(inner.bottom().saturating_sub(y));
            self.one_worker(view, worker, seconds, Rect { y, height, ..inner }, buf);
        }
        if all.is_empty() {
            self.text(inner, 0, " no worker is known", Tone::Quiet, buf);
        }
        let inner = self.panel(pools, "Blocking pool", None, buf);
        for (row, runtime) in (0..inner.height).zip(&view.runtimes) {
            let (text, tone) = pool(&runtime.blocking);
            let name = if view.runtimes.len() > 1 {
                format!("runtime {}  ", runtime.info.id)
            } else {
                String::new()
            };
            self.text(inner, row, &format!(" {name}{text}"), tone, buf);
        }
    }

    fn one_worker(
        &self,
        view: &ServiceView,
        placed: &Placed<'_>,
        seconds: usize,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let (line, tone) = now_line(view, placed);
        self.text(area, 0, &line, tone, buf);
        if area.height > 1 {
            let strip = Rect {
                x: area.x + INDENT,
                y: area.y + 1,
                width: area.width.saturating_sub(INDENT),
                height: 1,
            };
            let points = self.app.feed().map(|feed| &feed.points);
            let shares: Vec<Option<f64>> = points
                .into_iter()
                .flat_map(|points| points.iter())
                .map(|point| point.busy_shares.get(placed.index).copied().flatten())
                .collect();
            let blocks = blocks(view, placed, self.app.world.now_unix_ns);
            HeatStrip {
                shares: &shares,
                seconds,
                blocks: &blocks,
                theme: self.theme,
            }
            .draw(strip, buf);
        }
        let text = format!("    {}", split_line(placed.worker));
        self.text(area, 2, &text, Tone::Plain, buf);
    }
}

fn all_workers(view: &ServiceView) -> Vec<Placed<'_>> {
    let workers = view
        .runtimes
        .iter()
        .flat_map(|runtime| runtime.workers.iter().map(move |worker| (runtime, worker)));
    let placed = workers
        .enumerate()
        .map(|(index, (runtime, worker))| Placed {
            runtime,
            worker,
            index,
        });
    placed.collect()
}

fn unit(seconds: usize) -> String {
    match seconds {
        1 => "a second".to_owned(),
        seconds => format!("{seconds} s"),
    }
}

/// What it does now.
fn now_line(view: &ServiceView, placed: &Placed<'_>) -> (String, Tone) {
    let worker = placed.worker;
    let name = if view.runtimes.len() > 1 {
        format!("r{}w{}", placed.runtime.info.id, worker.index)
    } else {
        format!("w{}", worker.index)
    };
    let stall = ongoing(view, placed).map(|stall| stall.stall.length_ns);
    let (what, tone) = match (&worker.poll, worker.state) {
        (Some(poll), WorkerState::Stalled) => {
            let age = stall.unwrap_or(0).max(poll.age_ns);
            (
                format!("STALL {} in {}", duration(age), task_words(&poll.task)),
                Tone::Critical,
            )
        }
        (None, WorkerState::Stalled) => {
            let age = stall.map_or_else(String::new, |age| format!(" {}", duration(age)));
            (
                format!("STALL{age}, in what has no name: see its stack in a snapshot"),
                Tone::Critical,
            )
        }
        (Some(poll), _) => (
            format!(
                "polls {} for {}",
                task_words(&poll.task),
                duration(poll.age_ns)
            ),
            Tone::Plain,
        ),
        (None, WorkerState::Parked) => ("parked".to_owned(), Tone::Quiet),
        (None, WorkerState::Busy) => (
            "between two polls, or in one without a name".to_owned(),
            Tone::Plain,
        ),
        (None, WorkerState::Other) => (UNKNOWN.to_owned(), Tone::Plain),
    };
    let busy = percent(worker.busy_share);
    let text = format!(
        " {name:<3}{} {busy:>3} % busy  {what}",
        bar(worker.busy_share)
    );
    (printable(&text), tone)
}

fn ongoing<'a>(view: &'a ServiceView, placed: &Placed<'_>) -> Option<&'a StallView> {
    view.stalls
        .iter()
        .find(|stall| stall.ongoing && is_of(stall, placed))
}

fn is_of(stall: &StallView, placed: &Placed<'_>) -> bool {
    stall.stall.runtime == placed.runtime.info.id && stall.stall.worker == Some(placed.worker.index)
}

/// Its stalls, with the name of what held it.
fn blocks(view: &ServiceView, placed: &Placed<'_>, now_unix_ns: u64) -> Vec<Block> {
    let of_worker = view.stalls.iter().filter(|stall| is_of(stall, placed));
    let s_ago = |unix_ns: u64| now_unix_ns.saturating_sub(unix_ns) as f64 / 1e9;
    let blocks = of_worker.map(|stall| {
        let end = stall.began_unix_ns.saturating_add(stall.stall.length_ns);
        let name = stall.stall.task.as_ref().map(|task| printable(&task.name));
        Block {
            from_s_ago: s_ago(stall.began_unix_ns),
            to_s_ago: if stall.ongoing { 0.0 } else { s_ago(end) },
            name: name.unwrap_or_else(|| "stall".to_owned()),
        }
    });
    blocks.collect()
}

/// How its time is split, and what the kernel says of it.
fn split_line(worker: &WorkerView) -> String {
    let off = worker
        .on_cpu_share
        .zip(worker.run_queue_share)
        .map(|(on, queue)| (1.0 - on - queue).max(0.0));
    let mut text = format!(
        "on-CPU {:>3} %  waits for a CPU {:>3} %  off-CPU {:>3} %",
        percent(worker.on_cpu_share),
        percent(worker.run_queue_share),
        percent(off)
    );
    let _ = write!(text, "   tid {}", count(worker.tid.map(u64::from)));
    if let Some(thread) = &worker.thread {
        text.push_str(&kernel_words(thread));
    }
    printable(&text)
}

/// ` S, waits for a lock or a condition (futex); switches 12 by itself, 3 taken`.
fn kernel_words(thread: &ThreadSample) -> String {
    let mut text = thread
        .state
        .map_or_else(String::new, |state| format!(" {state}"));
    if let Some(wait) = thread.waits_in {
        let _ = write!(text, ", waits for {}", wait.label());
    }
    if let (Some(own), Some(taken)) = (
        thread.voluntary_switches_total,
        thread.involuntary_switches_total,
    ) {
        let _ = write!(text, "; switches: {own} own, {taken} forced");
    }
    text
}

fn pool(pool: &BlockingPoolSample) -> (String, Tone) {
    let threads = match (pool.threads, pool.idle_threads) {
        (Some(threads), Some(idle)) => format!("{threads} threads, {idle} idle"),
        _ => "threads and queue unknown without tokio_unstable".to_owned(),
    };
    let queue = pool
        .queue_depth
        .map_or_else(String::new, |depth| format!(", {depth} queued"));
    let text = format!(
        "{} running of what ax started; a no-op waited {}; {threads}{queue}",
        pool.watched_running,
        maybe_duration(pool.lag_ns)
    );
    let late = pool.lag_ns.is_some_and(|lag| lag >= 50_000_000);
    (text, if late { Tone::Warning } else { Tone::Plain })
}
