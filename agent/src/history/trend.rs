//! How a figure of one type went over the whole history, in a few numbers.

use std::collections::VecDeque;

use super::Bucket;

/// The time that one figure stands for. A figure a second would make the view of 50 types half a megabyte.
const STEP_NS: u64 = 30_000_000_000;

/// Figures kept: 15 minutes.
const MAX_STEPS: usize = 30;

/// The worst second of each half minute.
#[derive(Debug, Default)]
pub(crate) struct Trend {
    /// The half minute of the newest figure, counted from the start of the clock.
    newest: u64,
    /// Oldest first; `None` where nothing was recorded.
    worst: VecDeque<Option<Bucket>>,
}

impl Trend {
    /// Takes the figure of a second. Seconds come in the order of their time.
    pub(crate) fn add(&mut self, at_mono_ns: u64, ns: Option<u64>) {
        let step = at_mono_ns / STEP_NS;
        let passed = if self.worst.is_empty() {
            1
        } else {
            step.saturating_sub(self.newest)
        };
        for _ in 0..passed.min(MAX_STEPS as u64) {
            if self.worst.len() >= MAX_STEPS {
                self.worst.pop_front();
            }
            self.worst.push_back(None);
        }
        self.newest = step;
        if let Some(newest) = self.worst.back_mut() {
            *newest = (*newest).max(ns.map(Bucket::of_ns));
        }
    }

    /// The figures, oldest first; the newest one still grows.
    pub(crate) fn ns(&self) -> Vec<Option<u64>> {
        let worst = self.worst.iter();
        worst.map(|ns| ns.map(Bucket::highest_ns)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_worst_of_each_half_minute_stays_for_fifteen_minutes() {
        let mut trend = Trend::default();
        let add = |trend: &mut Trend, second: u64, ms: Option<u64>| {
            trend.add(second * 1_000_000_000, ms.map(|ms| ms * MS));
            let ms = trend.ns().into_iter().map(|ns| ns.map(|ns| ns / MS));
            ms.collect::<Vec<_>>()
        };
        assert_eq!(add(&mut trend, 7, None), [None]);
        assert_eq!(add(&mut trend, 8, Some(5)), [Some(5)]);
        assert_eq!(add(&mut trend, 29, Some(3)), [Some(5)]);
        assert_eq!(add(&mut trend, 30, Some(1)), [Some(5), Some(1)]);
        // A minute without a word leaves a hole.
        let holed = [Some(5), Some(1), None, Some(2)];
        assert_eq!(add(&mut trend, 119, Some(2)), holed);
        let long_after = add(&mut trend, 1_000_000, Some(9));
        assert_eq!(long_after.len(), MAX_STEPS);
        assert_eq!(long_after.iter().flatten().collect::<Vec<_>>(), [&9]);
    }
}
