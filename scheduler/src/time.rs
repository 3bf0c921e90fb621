//! The one clock of jobs.
//!
//! Every time of a job (ready, started, ended, the beginning of a poll) is one reading of tokio's clock, expressed in
//! nanoseconds of `CLOCK_MONOTONIC`. In a running service the two are the same clock, so the reading serves the
//! probe's slots as it is, and a transition costs one reading (25 ns). Under paused time the reading is virtual: a
//! test then sees the waits that it caused by advancing time, and the probe, which would misread them, stands down.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use ax_probe::clock::{self, duration_ns};

/// One instant on both clocks.
static ANCHOR: LazyLock<(Instant, u64)> = LazyLock::new(|| (Instant::now(), clock::now_ns()));

/// Now.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let (anchor, anchor_ns) = *ANCHOR;
    let now = tokio::time::Instant::now().into_std();
    match now.checked_duration_since(anchor) {
        Some(since) => anchor_ns.saturating_add(duration_ns(since)),
        // A paused clock may stand at an instant before the anchor.
        None => anchor_ns.saturating_sub(duration_ns(anchor.duration_since(now))),
    }
}

/// The duration between two readings; zero where threads read them in the other order.
pub(crate) fn between(earlier_ns: u64, later_ns: u64) -> Duration {
    Duration::from_nanos(later_ns.saturating_sub(earlier_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn follows_virtual_time_exactly() {
        let before = now_ns();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(between(before, now_ns()), Duration::from_secs(7));
    }

    #[test]
    fn is_the_clock_of_the_probe_in_real_time() {
        let raw = clock::now_ns();
        let ours = now_ns();
        assert!(ours >= raw.saturating_sub(100_000), "{raw} {ours}");
        assert!(ours < raw + 1_000_000_000, "{raw} {ours}");
    }
}
