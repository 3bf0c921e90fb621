//! What to set a limit to.

use std::time::Duration;

/// For a downstream that bears `capacity` calls at once: 80 % of it, at least 1, so that others who call it, and a
/// boost, find room.
///
/// ```
/// assert_eq!(ax_scheduler::limit::of_capacity(50), 40);
/// ```
#[must_use]
pub const fn of_capacity(capacity: usize) -> usize {
    let limit = capacity / 5 * 4 + capacity % 5 * 4 / 5;
    if limit == 0 { 1 } else { limit }
}

/// For jobs that come at `per_second` and run for `latency` each: as many as run at once on average, rounded up, at
/// least 1 (Little's law), which is also what a rate that is no number gives. What comes in bursts needs more, or a queue.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(ax_scheduler::limit::of_rate(500.0, Duration::from_millis(300)), 150);
/// ```
#[must_use]
pub fn of_rate(per_second: f64, latency: Duration) -> usize {
    // A hair less, so that what is whole but for rounding is not rounded up.
    let at_once = per_second * latency.as_secs_f64() * (1.0 - 1e-9);
    (at_once.ceil() as usize).max(1)
}

/// One step of a sweep: the throughput that was measured at a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepStep {
    /// Jobs at once.
    pub limit: usize,
    /// Jobs that ended well per second.
    pub per_second: f64,
}

/// The knee of a sweep: the lowest limit that reached 95 % of the best throughput. Beyond it more jobs at once wait in
/// the downstream instead of in the lane. `None` for a sweep without throughput.
///
/// ```
/// # use ax_scheduler::limit::{SweepStep, at_knee};
/// let sweep = [(5, 100.0), (10, 195.0), (20, 300.0), (40, 305.0)];
/// let sweep = sweep.map(|(limit, per_second)| SweepStep { limit, per_second });
/// assert_eq!(at_knee(&sweep), Some(20));
/// ```
#[must_use]
pub fn at_knee(sweep: &[SweepStep]) -> Option<usize> {
    let best = sweep.iter().map(|step| step.per_second).fold(0.0, f64::max);
    let enough = |step: &&SweepStep| best > 0.0 && step.per_second >= best * 0.95;
    sweep.iter().filter(enough).map(|step| step.limit).min()
}

/// What a lane had counted at one instant: where a measurement begins. See [`Lane::mark`](crate::Lane::mark).
#[derive(Clone, Copy, Debug)]
pub struct LaneMark {
    pub(crate) at_ns: u64,
    pub(crate) submitted: u64,
    pub(crate) finished: u64,
    pub(crate) run_ns: u64,
}

/// Jobs that must have ended for an advice.
const ENOUGH_JOBS: u64 = 20;

/// What a lane's own measurements say of its limit: [`Lane::advise_limit`](crate::Lane::advise_limit).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LimitAdvice {
    /// Too few jobs have ended to say: so many more are needed.
    NotEnoughData {
        /// Jobs.
        missing: u64,
    },
    /// What the arrivals need.
    Measured {
        /// Jobs that came per second, refused ones not counted.
        per_second: f64,
        /// How long one ran, on average.
        latency: Duration,
        /// How many of them run at once: [`of_rate`] of the two.
        needed: usize,
    },
}

impl LaneMark {
    pub(crate) fn advise(&self, now: &Self) -> LimitAdvice {
        let finished = now.finished.saturating_sub(self.finished);
        let elapsed = Duration::from_nanos(now.at_ns.saturating_sub(self.at_ns));
        if finished < ENOUGH_JOBS || elapsed.is_zero() {
            let missing = ENOUGH_JOBS.saturating_sub(finished).max(1);
            return LimitAdvice::NotEnoughData { missing };
        }
        let submitted = now.submitted.saturating_sub(self.submitted);
        let per_second = submitted as f64 / elapsed.as_secs_f64();
        let latency = Duration::from_nanos(now.run_ns.saturating_sub(self.run_ns) / finished);
        LimitAdvice::Measured {
            per_second,
            latency,
            needed: of_rate(per_second, latency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F20 to F22: the rows' own figures, and the ends of the range.
    #[test]
    fn the_rules_of_thumb() {
        assert_eq!(
            [0, 1, 2, 10, 50, 199].map(of_capacity),
            [1, 1, 1, 8, 40, 159]
        );
        assert_eq!(of_capacity(usize::MAX), usize::MAX / 5 * 4);
        assert_eq!(of_rate(500.0, Duration::from_millis(300)), 150);
        assert_eq!(of_rate(501.0, Duration::from_millis(300)), 151);
        assert_eq!(of_rate(0.0, Duration::ZERO), 1);
        assert_eq!(at_knee(&[]), None);
    }

    #[test]
    fn advice_needs_jobs_and_time() {
        let mark = LaneMark {
            at_ns: 0,
            submitted: 100,
            finished: 100,
            run_ns: 0,
        };
        let later = LaneMark {
            at_ns: 2_000_000_000,
            submitted: 1_100,
            finished: 110,
            run_ns: 3_000_000_000,
        };
        assert_eq!(
            mark.advise(&later),
            LimitAdvice::NotEnoughData { missing: 10 }
        );
        let later = LaneMark {
            finished: 1_100,
            run_ns: 300_000_000_000,
            ..later
        };
        let latency = Duration::from_millis(300);
        let expected = LimitAdvice::Measured {
            per_second: 500.0,
            latency,
            needed: 150,
        };
        assert_eq!(mark.advise(&later), expected);
    }
}
