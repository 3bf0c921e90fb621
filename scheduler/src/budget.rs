//! A bound on retries in any window of time, so that a downstream that comes back is not met by all of them at once.

use std::{collections::VecDeque, time::Duration};

use ax_probe::clock::duration_ns;
use parking_lot::Mutex;

/// At most `retries` of them begin within any `window`; the rest is deferred, in the order in which it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// 1 to [`MAX_BUDGET`]: out of range it is taken as the nearest bound.
    pub retries: u32,
    /// The window, which slides. One of no length bounds nothing.
    pub window: Duration,
}

/// The largest budget: 8 bytes are kept for each retry of a window.
pub const MAX_BUDGET: u32 = 1_000_000;

impl RetryBudget {
    /// So many a minute.
    #[must_use]
    pub const fn per_minute(retries: u32) -> Self {
        Self {
            retries,
            window: Duration::from_mins(1),
        }
    }
}

/// The grants of a budget.
pub(crate) struct Grants {
    most: usize,
    window_ns: u64,
    /// The newest `most` grants, which are in order of time since the askers are.
    granted_ns: Mutex<VecDeque<u64>>,
}

impl Grants {
    pub(crate) fn new(budget: RetryBudget) -> Self {
        Self {
            most: budget.retries.clamp(1, MAX_BUDGET) as usize,
            window_ns: duration_ns(budget.window),
            granted_ns: Mutex::default(),
        }
    }

    /// When the next retry may begin: now, or later. The grant is used up by asking. To be asked in the order of time.
    pub(crate) fn reserve(&self, now_ns: u64) -> u64 {
        let mut granted_ns = self.granted_ns.lock();
        let at_ns = if granted_ns.len() < self.most {
            now_ns
        } else {
            let oldest = granted_ns.pop_front().unwrap_or(0);
            now_ns.max(oldest.saturating_add(self.window_ns))
        };
        granted_ns.push_back(at_ns);
        at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F54: no window of the length, wherever it begins, holds more than the budget.
    #[test]
    fn no_window_holds_more_than_the_budget() {
        let window_ns = 1_000;
        let grants = Grants::new(RetryBudget {
            retries: 10,
            window: Duration::from_nanos(window_ns),
        });
        let asks = (0..50).chain([900; 30]).chain(1_000..3_000);
        let granted: Vec<_> = asks.map(|at| (at, grants.reserve(at))).collect();
        for pair in granted.windows(11) {
            assert!(pair[10].1 >= pair[0].1 + window_ns);
        }
        assert!(granted.iter().all(|(asked, at)| at >= asked));
        assert!(granted[..10].iter().all(|(asked, at)| at == asked));
    }
}
