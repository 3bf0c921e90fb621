//! Settings for lanes of usual kinds, and what measured run times advise.

use std::time::Duration;

use crate::backoff::{Backoff, Retry};

/// Settings of a lane: [`LaneBuilder::preset`](crate::LaneBuilder::preset). A start, to be corrected by what is
/// measured.
///
/// | | limit | priority | timeout | retries |
/// | --- | --- | --- | --- | --- |
/// | [`PUSH`](Self::PUSH) | 20 | 80 | 3 s | 2, after 1 s each, without jitter |
/// | [`DATABASE_SYNC`](Self::DATABASE_SYNC) | 40 | 60 | 10 s | 3, exponential with jitter |
/// | [`LARGE_FILE`](Self::LARGE_FILE) | 5 | 30 | 60 s | none, to the manual list |
/// | [`EXTERNAL_API`](Self::EXTERNAL_API) | 10 | 70 | 8 s | 3, exponential with jitter |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Jobs at once.
    pub limit: usize,
    /// Of its jobs.
    pub priority: u8,
    /// Of each attempt.
    pub timeout: Duration,
    /// Of registered handlers by themselves; of closures that ask for it: `.retry(Preset::PUSH.retry)`.
    pub retry: Retry,
}

impl Preset {
    /// Notifications: many, quick, of use only now.
    pub const PUSH: Self = Self {
        limit: 20,
        priority: 80,
        timeout: Duration::from_secs(3),
        retry: Backoff::fixed(Duration::from_secs(1)).retries(2),
    };

    /// Writes to a database of one's own.
    pub const DATABASE_SYNC: Self = Self {
        limit: 40,
        priority: 60,
        timeout: Duration::from_secs(10),
        retry: Backoff::exponential().retries(3),
    };

    /// Uploads and conversions: too dear to be repeated unseen.
    pub const LARGE_FILE: Self = Self {
        limit: 5,
        priority: 30,
        timeout: Duration::from_mins(1),
        retry: Retry::NONE.or_manual(),
    };

    /// A service of somebody else.
    pub const EXTERNAL_API: Self = Self {
        limit: 10,
        priority: 70,
        timeout: Duration::from_secs(8),
        retry: Backoff::exponential().retries(3),
    };
}

/// Runs that must have been measured before a timeout is advised.
pub const RUNS_FOR_ADVICE: u64 = 100;

/// A timeout for a job type: between two and three times the time within which 99 of 100 runs end. Shorter ends healthy
/// runs, longer keeps slots with runs that will not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutAdvice {
    /// Runs measured.
    pub runs: u64,
    /// 99 of 100 ended within this time.
    pub p99: Duration,
    /// The least that is advised.
    pub at_least: Duration,
    /// The most that is advised.
    pub at_most: Duration,
}

impl TimeoutAdvice {
    pub(crate) fn new(runs: u64, p99: Duration) -> Option<Self> {
        (runs >= RUNS_FOR_ADVICE).then(|| Self {
            runs,
            p99,
            at_least: p99.saturating_mul(2),
            at_most: p99.saturating_mul(3),
        })
    }
}
