//! The histograms of the last minute.

use std::collections::VecDeque;

use super::{SparseHistogram, Tally, WINDOW_NS};

/// Samples are added up in slots of 10 s: six make a minute. Shorter ones would forget more evenly, and cost memory
/// in proportion.
const SLOT_NS: u64 = 10_000_000_000;

/// One kind of histogram of one type over the last 50 to 60 s: at most 7 slots of 4 KiB, a few hundred bytes each
/// where the buckets filled are few.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// When each slot began, and what it holds; oldest first. A slot without recordings is not made.
    slots: VecDeque<(u64, SparseHistogram)>,
}

impl Recent {
    /// Adds what a sample brought, and forgets what is older than the window.
    pub(crate) fn add(&mut self, at_mono_ns: u64, sparse: SparseHistogram) {
        self.forget_before(at_mono_ns.saturating_sub(WINDOW_NS));
        if sparse.is_empty() {
            return;
        }
        match self.slots.back_mut() {
            Some((began, slot)) if at_mono_ns.saturating_sub(*began) < SLOT_NS => slot.add(&sparse),
            _ => self.slots.push_back((at_mono_ns, sparse)),
        }
    }

    /// Forgets the slots that began at `mono_ns` or earlier.
    pub(crate) fn forget_before(&mut self, mono_ns: u64) {
        while self
            .slots
            .front()
            .is_some_and(|(began, _)| *began <= mono_ns)
        {
            self.slots.pop_front();
        }
    }

    /// Adds everything to a tally.
    pub(crate) fn add_to(&self, tally: &mut Tally) {
        for (_, slot) in &self.slots {
            tally.add(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_wire::LatencyHistogram;

    #[test]
    fn keeps_the_last_minute_and_nothing_older() {
        let mut one = LatencyHistogram::new();
        one.record_ns(3_000_000);
        let mut recent = Recent::default();
        let mut tally = Tally::default();
        for second in 1..=600 {
            recent.add(second * 1_000_000_000, SparseHistogram::from(&one));
            recent.add_to(&mut tally);
            let count = tally.take().count;
            if second <= 50 {
                assert_eq!(count, second);
            } else {
                assert!((50..=60).contains(&count), "{count} after {second} s");
            }
        }
        recent.add(700 * 1_000_000_000, SparseHistogram::default());
        recent.add_to(&mut tally);
        assert_eq!(tally.take().count, 0);
    }
}
