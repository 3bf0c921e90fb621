//! A limit that finds itself: up by one while jobs are fast, down by a tenth when they are slow.

use std::{ops::RangeInclusive, time::Duration};

use ax_wire::sample::LimitReason;

/// Jobs that a decision is made of, at least: below that one slow job would weigh too much.
const MIN_WINDOW: usize = 10;

/// What is left of the limit after a slow window, in tenths.
const KEPT_TENTHS: usize = 9;

/// Moves a lane's limit by what its jobs show: additive increase, multiplicative decrease.
///
/// Each decision is made over as many jobs as the limit, at least 10, all begun since the last one. Where at least half
/// of them ran longer than the target, the limit falls by a tenth (at least by one); where fewer did and the limit
/// held jobs back meanwhile, it rises by one. It stays within the bounds.
///
/// Jobs that fail, panic or are cancelled say nothing of the latency and count for nothing; a timeout counts as a run
/// of its length. A lane that is idle, or uses less than half of its limit, decides nothing: its limit stays where it
/// was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveLimit {
    pub(crate) floor: usize,
    pub(crate) ceiling: usize,
    pub(crate) target: Duration,
}

impl AdaptiveLimit {
    /// Between the bounds (inclusive), aiming at jobs that run for at most `target`: twice the run time of a downstream
    /// at ease is a good one. The lane begins at its [`limit`](crate::LaneBuilder::limit), which must be within the
    /// bounds.
    #[must_use]
    pub const fn new(bounds: RangeInclusive<usize>, target: Duration) -> Self {
        Self {
            floor: *bounds.start(),
            ceiling: *bounds.end(),
            target,
        }
    }

    pub(crate) fn allows(&self, limit: usize) -> bool {
        (self.floor..=self.ceiling).contains(&limit)
    }
}

/// A job that has ended, as far as the limit is concerned.
pub(crate) struct Run {
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    /// Jobs that ran when it ended, itself included.
    pub(crate) running: usize,
    /// Whether others were queued then, for want of a slot.
    pub(crate) others_wait: bool,
}

#[derive(Debug)]
pub(crate) struct Adaptive {
    settings: AdaptiveLimit,
    /// Jobs that began before it tell of the limit before.
    since_ns: u64,
    jobs: usize,
    slow: usize,
    most_running: usize,
    held_back: bool,
}

impl Adaptive {
    pub(crate) fn new(settings: AdaptiveLimit) -> Self {
        Self {
            settings,
            since_ns: 0,
            jobs: 0,
            slow: 0,
            most_running: 0,
            held_back: false,
        }
    }

    pub(crate) fn settings(&self) -> AdaptiveLimit {
        self.settings
    }

    /// The new limit, where this job completes a window that moves it.
    pub(crate) fn job_ended(
        &mut self,
        limit: usize,
        run: &Run,
        now_ns: u64,
    ) -> Option<(usize, LimitReason)> {
        if run.started_ns < self.since_ns {
            return None;
        }
        self.jobs += 1;
        let run_ns = run.ended_ns.saturating_sub(run.started_ns);
        self.slow += usize::from(u128::from(run_ns) > self.settings.target.as_nanos());
        self.most_running = self.most_running.max(run.running);
        self.held_back |= run.others_wait && run.running >= limit;
        if self.jobs < limit.max(MIN_WINDOW) {
            return None;
        }
        let slow = self.slow * 2 >= self.jobs;
        let (in_use, held_back) = (self.most_running * 2 >= limit, self.held_back);
        *self = Self {
            since_ns: now_ns,
            ..Self::new(self.settings)
        };
        let AdaptiveLimit { floor, ceiling, .. } = self.settings;
        let moved = match (slow, in_use, held_back) {
            (true, true, _) => {
                let lower = (limit * KEPT_TENTHS / 10).min(limit - 1);
                (lower.max(floor), LimitReason::Slow)
            }
            (false, _, true) => ((limit + 1).min(ceiling), LimitReason::Fast),
            _ => return None,
        };
        (moved.0 != limit).then_some(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A downstream whose latency grows with what is sent to it beyond `capacity`.
    struct Downstream {
        capacity: usize,
        now_ns: u64,
    }

    impl Downstream {
        /// Runs `limit` jobs side by side and gives them to the limit.
        fn round(&mut self, adaptive: &mut Adaptive, limit: usize, others_wait: bool) -> usize {
            let run_ms = 100 * limit.max(self.capacity) / self.capacity;
            let started_ns = self.now_ns;
            self.now_ns += run_ms as u64 * MS;
            let mut moved = limit;
            for _ in 0..limit {
                let run = Run {
                    started_ns,
                    ended_ns: self.now_ns,
                    running: limit,
                    others_wait,
                };
                if let Some((to, _)) = adaptive.job_ended(moved, &run, self.now_ns) {
                    moved = to;
                }
            }
            moved
        }
    }

    /// F40: it rises one by one to where the target lies, turns there, and follows when the downstream changes.
    #[test]
    fn it_finds_the_knee_from_both_sides() {
        let settings = AdaptiveLimit::new(2..=200, Duration::from_millis(150));
        let mut adaptive = Adaptive::new(settings);
        let mut downstream = Downstream {
            capacity: 40,
            now_ns: 1,
        };
        let mut limit = 10;
        for capacity in [40, 20, 80] {
            downstream.capacity = capacity;
            for _ in 0..400 {
                limit = downstream.round(&mut adaptive, limit, true);
            }
            // The target of 150 ms lies at 1.5 times the capacity.
            let knee = capacity * 3 / 2;
            assert!(
                (knee * 85 / 100..=knee + 2).contains(&limit),
                "{limit} for {knee}"
            );
        }
    }

    /// F42: what does not use its limit does not move it, slow or fast; the bounds hold.
    #[test]
    fn idle_time_does_not_move_it_and_the_bounds_hold() {
        let settings = AdaptiveLimit::new(5..=30, Duration::from_millis(150));
        let mut adaptive = Adaptive::new(settings);
        let run = |run_ms: u64, running, others_wait| Run {
            started_ns: 1_000_000 * MS,
            ended_ns: (1_000_000 + run_ms) * MS,
            running,
            others_wait,
        };
        for run_ms in [1, 10_000] {
            for _ in 0..1_000 {
                assert_eq!(adaptive.job_ended(20, &run(run_ms, 3, false), 0), None);
            }
        }
        let mut limit = 20;
        for (run_ms, end) in [(10_000, 5), (1, 30)] {
            for _ in 0..2_000 {
                if let Some((to, _)) = adaptive.job_ended(limit, &run(run_ms, limit, true), 0) {
                    limit = to;
                }
            }
            assert_eq!(limit, end);
        }
    }
}
