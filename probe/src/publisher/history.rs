//! The last five minutes of the service, a point a second, for a snapshot that the probe writes itself.

use std::collections::VecDeque;

use ax_wire::view::Point;

use crate::{
    clock::{self, duration_ns},
    runtime,
    shared::Shared,
    source, threads,
};
use rustix::time::ClockId;

/// Points that are kept: five minutes. Each has 150 bytes and 16 more for each worker, 54 KiB in all with two workers.
pub const HISTORY_POINTS: usize = 300;

const SECOND_NS: u64 = 1_000_000_000;

/// Totals at the last point.
struct Totals {
    at_ns: u64,
    cpu_ns: u64,
    /// Of each worker, runtime by runtime.
    busy_ns: Vec<u64>,
    finished: u64,
}

/// Makes a point a second, whether an agent is there or not. About 50 us each.
pub(super) struct History {
    points: VecDeque<Point>,
    before: Option<Totals>,
    due_ns: u64,
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            points: VecDeque::new(),
            before: None,
            due_ns: 0,
        }
    }

    /// Oldest first.
    pub(super) fn points(&self) -> Vec<Point> {
        self.points.iter().cloned().collect()
    }

    /// Makes a point, where a second has passed since the last.
    pub(super) fn tick(&mut self, now_ns: u64, shared: &Shared) {
        if now_ns < self.due_ns {
            return;
        }
        self.due_ns = (self.due_ns + SECOND_NS).max(now_ns);
        let mut lag = shared.outbox.lock().take_lag_of_second();
        lag.sort_unstable();
        let lanes = source::sample_all();
        let now = Totals {
            at_ns: now_ns,
            cpu_ns: clock::read_ns(ClockId::ProcessCPUTime),
            busy_ns: busy_ns(),
            finished: lanes.iter().map(|of| of.counters.finished_total()).sum(),
        };
        let point = Point {
            at_unix_ns: clock::unix_ns(),
            lag_p50_ns: lag.get(lag.len() / 2).copied(),
            lag_max_ns: lag.last().copied(),
            cpus_used: self.rate(&now, |totals| totals.cpu_ns).map(per_ns),
            rss_bytes: threads::rss_bytes(),
            busy_shares: self.busy_shares(&now),
            running: lanes.iter().map(|of| of.running).sum(),
            pending: lanes.iter().map(|of| of.pending).sum(),
            finished_per_s: self.rate(&now, |totals| totals.finished),
        };
        if self.points.len() == HISTORY_POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
        self.before = Some(now);
    }

    /// How much a total has grown per second. `None` for the first point, and where it fell: a scheduler has gone.
    fn rate(&self, now: &Totals, total: impl Fn(&Totals) -> u64) -> Option<f64> {
        let before = self.before.as_ref()?;
        let grown = total(now).checked_sub(total(before))?;
        let passed_ns = now.at_ns.saturating_sub(before.at_ns);
        (passed_ns > 0).then(|| grown as f64 * 1e9 / passed_ns as f64)
    }

    fn busy_shares(&self, now: &Totals) -> Vec<Option<f64>> {
        let before = self.before.as_ref().map(|before| before.busy_ns.len());
        if before != Some(now.busy_ns.len()) {
            // While runtimes come and go, a worker cannot be told by its place in the list.
            return vec![None; now.busy_ns.len()];
        }
        let share = |worker: usize| self.rate(now, |totals| totals.busy_ns[worker]).map(per_ns);
        (0..now.busy_ns.len())
            .map(|worker| share(worker).map(|share| share.min(1.0)))
            .collect()
    }
}

/// Nanoseconds a second as a share.
fn per_ns(rate: f64) -> f64 {
    rate / 1e9
}

fn busy_ns() -> Vec<u64> {
    let watched = runtime::all();
    let workers = watched.iter().flat_map(|of| {
        let metrics = of.handle.metrics();
        (0..of.info.workers as usize)
            .map(move |worker| duration_ns(metrics.worker_total_busy_duration(worker)))
    });
    workers.collect()
}

#[cfg(test)]
mod tests {
    use ax_wire::{RuntimeId, sample::LagPoint};

    use super::*;
    use crate::probe::Probe;

    #[test]
    fn a_point_a_second_and_no_more_than_five_minutes() {
        let shared = Shared::new(Probe::builder("test").into_settings());
        let mut history = History::new();
        for at_mono_ns in 1..=3 {
            shared.outbox.lock().push_lag(LagPoint {
                runtime: RuntimeId(1),
                at_mono_ns,
                schedule_ns: Some(at_mono_ns * 1_000),
                timer_ns: None,
                stall_ns: None,
            });
        }
        let start_ns = clock::now_ns();
        for half in 0..2 * (HISTORY_POINTS as u64 + 5) {
            history.tick(start_ns + half * SECOND_NS / 2, &shared);
            if half == 0 {
                let first = &history.points()[0];
                assert_eq!(first.lag_p50_ns, Some(2_000));
                assert_eq!(first.lag_max_ns, Some(3_000));
                assert_eq!(first.cpus_used, None);
                assert!(first.rss_bytes > Some(100_000));
            }
        }
        let points = history.points();
        assert_eq!(points.len(), HISTORY_POINTS);
        let last = points.last().expect("many");
        assert_eq!(last.lag_max_ns, None);
        // Virtual seconds, in which next to no time is used.
        assert!(last.cpus_used.is_some_and(|used| used < 0.5));
    }
}
