//! Log lines that a stranger can cause as often as it likes, held to a few.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Between two lines of one kind.
const EVERY: Duration = Duration::from_secs(10);

/// Lets one line through in ten seconds, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// When the last line was let through, and how many have been held back since. Locked for a comparison.
    last: Mutex<Option<(Instant, u64)>>,
}

impl Throttle {
    /// Whether a line may be written now: then how many were held back before it.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some((at, held_back)) if now.saturating_duration_since(*at) < EVERY => {
                *held_back += 1;
                None
            }
            last => {
                let held_back = last.map_or(0, |(_, held_back)| held_back);
                *last = Some((now, 0));
                Some(held_back)
            }
        }
    }

    /// The same as what is put behind a line: `; 41 more like it in between`.
    pub(crate) fn admit_words(&self, now: Instant) -> Option<String> {
        self.admit(now).map(|held_back| match held_back {
            0 => String::new(),
            many => format!("; {many} more since the last such line"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_line_in_ten_seconds_and_is_counted() {
        let throttle = Throttle::default();
        let start = Instant::now();
        let at = |ms| throttle.admit(start + Duration::from_millis(ms));
        assert_eq!(at(0), Some(0));
        let lines = (1..10_000).filter(|ms| at(*ms).is_some());
        assert_eq!(lines.count(), 0);
        assert_eq!(at(10_000), Some(9_999));
        assert_eq!(at(30_000), Some(0));
        assert_eq!(
            throttle
                .admit_words(start + Duration::from_mins(1))
                .as_deref(),
            Some("")
        );
    }
}
