//! How long a job waits before it is tried again, and how often.

use std::time::Duration;

/// Retries of a job that sets no number of them, beyond its first run.
pub const DEFAULT_RETRIES: u32 = 3;

/// Most of the random time that is added to each wait of an exponential backoff, unless set.
pub const DEFAULT_JITTER: Duration = Duration::from_millis(500);

/// The longest wait before a retry, unless set.
pub const DEFAULT_BACKOFF_CAP: Duration = Duration::from_secs(30);

/// The longest wait that may be asked for, as a backoff or a delay: a longer one is shortened to it.
pub const MAX_DELAY: Duration = Duration::from_hours(365 * 24);

/// How long to wait before each retry.
///
/// ```
/// # use std::time::Duration;
/// use ax_scheduler::Backoff;
///
/// let backoff = Backoff::exponential().jitter(Duration::ZERO);
/// let waits: Vec<_> = (1..=7).map(|retry| backoff.wait(retry, 0).as_secs()).collect();
/// assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    factor: u32,
    cap: Duration,
    jitter: Duration,
}

impl Backoff {
    /// The same wait each time, without jitter unless set.
    #[must_use]
    pub const fn fixed(wait: Duration) -> Self {
        Self {
            first: wait,
            factor: 1,
            cap: MAX_DELAY,
            jitter: Duration::ZERO,
        }
    }

    /// 1 s, 2 s, 4 s and so on, at most [`DEFAULT_BACKOFF_CAP`], with up to [`DEFAULT_JITTER`] added.
    #[must_use]
    pub const fn exponential() -> Self {
        Self {
            first: Duration::from_secs(1),
            factor: 2,
            cap: DEFAULT_BACKOFF_CAP,
            jitter: DEFAULT_JITTER,
        }
    }

    /// The wait before the first retry.
    #[must_use]
    pub const fn first(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// The longest wait, before jitter is added.
    #[must_use]
    pub const fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// The most that is added to each wait, evenly spread from zero, so that jobs that failed together are not tried
    /// together.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// With so many retries, beyond the first run.
    #[must_use]
    pub const fn retries(self, retries: u32) -> Retry {
        Retry {
            backoff: self,
            retries,
            manual: false,
        }
    }

    /// The wait before a retry, counted from 1. The jitter comes from `seed` (each job has its own) and the number of
    /// the retry alone, so that a run can be repeated.
    #[must_use]
    pub fn wait(&self, retry: u32, seed: u64) -> Duration {
        // A factor of 1 or 2 to a power: beyond 2^40 the cap holds in any case.
        let factor = self.factor.saturating_pow(retry.saturating_sub(1).min(30));
        let wait = self.first.saturating_mul(factor).min(self.cap);
        let jitter_ns = self.jitter.min(MAX_DELAY).as_nanos() as u64;
        let random = fastrand::Rng::with_seed(seed ^ (u64::from(retry) << 48)).u64(..=jitter_ns);
        wait.saturating_add(Duration::from_nanos(random))
            .min(MAX_DELAY)
    }
}

/// Whether and how a job is tried again after an error, a panic, a timeout or a lost heartbeat. A cancelled job is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub(crate) backoff: Backoff,
    pub(crate) retries: u32,
    pub(crate) manual: bool,
}

impl Retry {
    /// No retry by itself.
    pub const NONE: Self = Backoff::fixed(Duration::ZERO).retries(0);

    /// Once all retries have failed, the job waits in the manual list until a person retries or drops it
    /// ([`Scheduler::retry`](crate::Scheduler::retry), [`Scheduler::drop_job`](crate::Scheduler::drop_job)). Its handle
    /// resolves then.
    #[must_use]
    pub const fn or_manual(mut self) -> Self {
        self.manual = true;
        self
    }

    /// Retries beyond the first run.
    #[must_use]
    pub const fn retries(&self) -> u32 {
        self.retries
    }
}

impl From<Backoff> for Retry {
    /// With [`DEFAULT_RETRIES`].
    fn from(backoff: Backoff) -> Self {
        backoff.retries(DEFAULT_RETRIES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F47, F53: spread evenly over the jitter by each job's own seed, the same for the same seed.
    #[test]
    fn jitter_spreads_jobs_and_repeats_by_seed() {
        let backoff = Backoff::exponential();
        let waits: Vec<_> = (0..1000).map(|seed| backoff.wait(1, seed)).collect();
        for tenth in 0..10 {
            let from = Duration::from_millis(1_000 + tenth * 50);
            let to = from + Duration::from_millis(50);
            let count = waits
                .iter()
                .filter(|wait| (from..to).contains(wait))
                .count();
            assert!((50..150).contains(&count), "{count} of 1000 in {from:?}");
        }
        assert_eq!(backoff.wait(1, 7), waits[7]);
        assert_ne!(backoff.wait(2, 7), waits[7] + Duration::from_secs(1));
    }

    #[test]
    fn absurd_numbers_stay_within_the_bounds() {
        let backoff = Backoff::exponential()
            .first(Duration::MAX)
            .cap(Duration::MAX);
        assert_eq!(backoff.jitter(Duration::MAX).wait(u32::MAX, 1), MAX_DELAY);
        assert_eq!(Backoff::fixed(Duration::ZERO).wait(3, 1), Duration::ZERO);
    }
}
