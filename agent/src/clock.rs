//! The agent's own clocks. Read at the edge and handed inwards, so that what judges never asks for the time.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// One instant on both clocks of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// `CLOCK_MONOTONIC`.
    pub mono_ns: u64,
    /// `CLOCK_REALTIME`.
    pub unix_ns: u64,
}

impl Now {
    /// Reads both clocks.
    #[must_use]
    pub fn read() -> Self {
        Self {
            mono_ns: nanoseconds(clock_gettime(ClockId::Monotonic)),
            unix_ns: nanoseconds(clock_gettime(ClockId::Realtime)),
        }
    }

    /// The time since an earlier `mono_ns`; zero for a later one.
    #[must_use]
    pub fn since(self, mono_ns: u64) -> Duration {
        Duration::from_nanos(self.mono_ns.saturating_sub(mono_ns))
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}
