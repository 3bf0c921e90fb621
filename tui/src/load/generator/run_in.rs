//! The part of a phase before its counted one.
//!
//! Nothing is under way when a phase begins, so answers come at the full rate only once the first requests have been
//! answered. Counted from the beginning on, a healthy service whose answers take long would seem to achieve less than was
//! offered; so the run-in lasts until answers to its first requests have come.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Which requests are waited for: those of this share of the shortest run-in, but no more than so many, so that a backlog
/// which only grows does not make it long.
const FIRST_SHARE: u32 = 10;
const FIRST_COUNT: u64 = 20;

/// The share of them that must have ended: one that hangs is no reason to wait until it times out.
const ENDED_SHARE: f64 = 0.95;

/// One run-in, shared by the threads of a phase.
pub struct RunIn {
    begin: Instant,
    shortest: Duration,
    sent: AtomicU64,
    ended: AtomicU64,
    over: OnceLock<Instant>,
}

impl RunIn {
    /// One that lasts at least so long.
    pub fn new(begin: Instant, shortest: Duration) -> Arc<Self> {
        Arc::new(Self {
            begin,
            shortest,
            sent: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            over: OnceLock::new(),
        })
    }

    /// When the counted part begins. `None`: not yet known.
    pub fn over(&self) -> Option<Instant> {
        self.over.get().copied()
    }

    /// Before this there is nothing to look at.
    pub fn earliest(&self) -> Instant {
        self.begin + self.shortest
    }

    /// A request is sent. Whether its end is waited for, and is to be told with [`ended`](Self::ended).
    pub fn sends(&self, intended: Instant) -> bool {
        let early = intended < self.begin + self.shortest / FIRST_SHARE;
        let waited_for = match self.sent.load(Relaxed) {
            0 => true,
            sent => early && sent < FIRST_COUNT,
        };
        self.sent.fetch_add(u64::from(waited_for), Relaxed);
        waited_for
    }

    /// One of those that are waited for has ended.
    pub fn ended(&self) {
        self.ended.fetch_add(1, Relaxed);
    }

    /// Ends it, where it has lasted long enough.
    pub fn look(&self, now: Instant) {
        if self.over.get().is_some() || now < self.earliest() {
            return;
        }
        let (sent, ended) = (self.sent.load(Relaxed), self.ended.load(Relaxed));
        if sent > 0 && ended as f64 >= ENDED_SHARE * sent as f64 {
            self.end(now);
        }
    }

    /// Ends it now, unless it has ended.
    pub fn end(&self, now: Instant) {
        // Another thread was first, and both mean the same moment.
        let _ = self.over.set(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_lasts_until_the_first_requests_are_answered_and_no_shorter() {
        let begin = Instant::now();
        let run_in = RunIn::new(begin, 1_000 * MS);
        let waited_for = (0..40).filter(|number| run_in.sends(begin + 4 * number * MS));
        assert_eq!(waited_for.count(), 20, "a hundred milliseconds have 25");
        run_in.look(begin + 2_000 * MS);
        assert_eq!(run_in.over(), None, "nothing has been answered");
        for _ in 0..19 {
            run_in.ended();
        }
        run_in.look(begin + 999 * MS);
        assert_eq!(run_in.over(), None, "it is too early");
        run_in.look(begin + 2_500 * MS);
        assert_eq!(run_in.over(), Some(begin + 2_500 * MS), "one may hang");
        run_in.end(begin + 9_000 * MS);
        assert_eq!(run_in.over(), Some(begin + 2_500 * MS));
    }

    /// Two requests a second: the first one alone is waited for, however late it is due.
    #[test]
    fn a_slow_schedule_waits_for_its_first_request() {
        let begin = Instant::now();
        let run_in = RunIn::new(begin, 100 * MS);
        assert!(run_in.sends(begin + 300 * MS));
        assert!(!run_in.sends(begin + 800 * MS));
        run_in.look(begin + 900 * MS);
        assert_eq!(run_in.over(), None);
        run_in.ended();
        run_in.look(begin + 950 * MS);
        assert_eq!(run_in.over(), Some(begin + 950 * MS));
    }
}
