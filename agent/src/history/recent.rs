//! The histograms of the last minute, and coarser in time those of the 14 minutes before.

use std::collections::VecDeque;

use super::{HISTORY_NS, SparseHistogram, Tally, WINDOW_NS};

/// Samples are added up in slots of 10 s: six make a minute. Shorter ones would forget more evenly, and cost memory
/// in proportion.
const SLOT_NS: u64 = 10_000_000_000;

/// Samples of one slot at most: a probe sends ten.
const MAX_FRESH: usize = 16;

/// Slots kept at most: six are full, one leaves.
const MAX_SLOTS: usize = 7;

/// Slots older than the window are added up by so much, which tells now from before and costs little.
const OLDER_SLOT_NS: u64 = 3 * WINDOW_NS;

/// Of these, at most so many: with the window, 15 minutes.
const MAX_OLDER: usize = 5;

/// One kind of histogram of one type over the last 50 to 60 s: at most 7 slots of 4 KiB and their sum, a few hundred
/// bytes each where the buckets filled are few.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// When each slot began, and what it holds; oldest first.
    slots: VecDeque<(u64, SparseHistogram)>,
    /// What has left the window: when each slot began, and what it holds; oldest first.
    older: VecDeque<(u64, SparseHistogram)>,
    /// All slots together: they change every 10 s and are read every second.
    closed: SparseHistogram,
    /// When the newest recordings began, which are not yet a slot.
    fresh_since: u64,
    /// The newest recordings, sample by sample: adding them up once a slot costs a third of doing so each second.
    fresh: Vec<SparseHistogram>,
    /// When the newest of them was taken.
    newest_mono_ns: u64,
}

impl Recent {
    /// Adds what a sample brought, and forgets what is older than the window. `tally` is working memory, empty before
    /// and after.
    pub(crate) fn add(&mut self, at_mono_ns: u64, sparse: SparseHistogram, tally: &mut Tally) {
        self.forget_before(at_mono_ns.saturating_sub(WINDOW_NS), tally);
        if sparse.is_empty() {
            return;
        }
        let full =
            at_mono_ns.saturating_sub(self.fresh_since) >= SLOT_NS || self.fresh.len() >= MAX_FRESH;
        if full && !self.fresh.is_empty() {
            self.fresh.drain(..).for_each(|part| tally.add(&part));
            self.slots
                .push_back((self.fresh_since, tally.take_sparse()));
            // A service that samples in a flood must not fill a minute with slots.
            if self.slots.len() > MAX_SLOTS
                && let Some((began, slot)) = self.slots.pop_front()
            {
                self.retire(began, slot, tally);
            }
            self.close(tally);
        }
        if self.fresh.is_empty() {
            self.fresh_since = at_mono_ns;
        }
        self.fresh.push(sparse);
        self.newest_mono_ns = at_mono_ns;
    }

    /// What the sample of this instant brought, where that is the newest one and brought something.
    pub(crate) fn newest(&self, at_mono_ns: u64) -> Option<&SparseHistogram> {
        let newest = self.fresh.last()?;
        (self.newest_mono_ns == at_mono_ns).then_some(newest)
    }

    /// Forgets the slots that began at `mono_ns` or earlier. `tally` as in [`Self::add`].
    pub(crate) fn forget_before(&mut self, mono_ns: u64, tally: &mut Tally) {
        let kept = self.slots.len();
        while let Some((began, slot)) = self.slots.pop_front_if(|(began, _)| *began <= mono_ns) {
            self.retire(began, slot, tally);
        }
        if self.slots.len() < kept {
            self.close(tally);
        }
        if self.fresh_since <= mono_ns && !self.fresh.is_empty() {
            self.fresh.drain(..).for_each(|part| tally.add(&part));
            self.retire(self.fresh_since, tally.take_sparse(), tally);
        }
        let oldest = mono_ns.saturating_sub(HISTORY_NS - WINDOW_NS);
        while self
            .older
            .pop_front_if(|(began, _)| *began <= oldest)
            .is_some()
        {}
    }

    /// Keeps a slot that has left the window, added to those of its three minutes.
    fn retire(&mut self, began: u64, slot: SparseHistogram, tally: &mut Tally) {
        match self.older.back_mut() {
            Some((since, sum)) if began.saturating_sub(*since) < OLDER_SLOT_NS => {
                tally.add(sum);
                tally.add(&slot);
                *sum = tally.take_sparse();
            }
            _ => self.older.push_back((began, slot)),
        }
        if self.older.len() > MAX_OLDER {
            self.older.pop_front();
        }
    }

    /// Forgets all slots; what is fresh stays.
    pub(crate) fn forget_slots(&mut self) {
        self.slots.clear();
        self.older.clear();
        self.closed = SparseHistogram::default();
    }

    /// What its histograms take in memory.
    pub(crate) fn bytes(&self) -> usize {
        let slots = self.slots.iter().chain(&self.older).map(|(_, slot)| slot);
        let all = slots.chain(&self.fresh).chain([&self.closed]);
        all.map(SparseHistogram::bytes).sum()
    }

    fn close(&mut self, tally: &mut Tally) {
        self.slots.iter().for_each(|(_, slot)| tally.add(slot));
        self.closed = tally.take_sparse();
    }

    /// Adds the last 15 minutes to a tally.
    pub(crate) fn add_all_to(&self, tally: &mut Tally) {
        self.older.iter().for_each(|(_, slot)| tally.add(slot));
        self.add_to(tally);
    }

    /// Adds the window to a tally.
    pub(crate) fn add_to(&self, tally: &mut Tally) {
        tally.add(&self.closed);
        self.fresh.iter().for_each(|part| tally.add(part));
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
            recent.add(
                second * 1_000_000_000,
                SparseHistogram::from(&one),
                &mut tally,
            );
            recent.add_to(&mut tally);
            let count = tally.take().count;
            if second <= 50 {
                assert_eq!(count, second);
            } else {
                assert!((50..=60).contains(&count), "{count} after {second} s");
            }
        }
        recent.add(700 * 1_000_000_000, SparseHistogram::default(), &mut tally);
        recent.add_to(&mut tally);
        assert_eq!(tally.take().count, 0);
        recent.add_all_to(&mut tally);
        assert_eq!(tally.take().count, 600, "what left the window is kept");
    }

    #[test]
    fn the_fifteen_minutes_are_kept_in_few_slots() {
        let mut one = LatencyHistogram::new();
        one.record_ns(3_000_000);
        let mut recent = Recent::default();
        let mut tally = Tally::default();
        for second in 1..=3_000 {
            let at = second * 1_000_000_000;
            recent.add(at, SparseHistogram::from(&one), &mut tally);
        }
        recent.add_all_to(&mut tally);
        let count = tally.take().count;
        assert!((700..=901).contains(&count), "{count} of the last 900 s");
        assert!(recent.older.len() <= MAX_OLDER && recent.slots.len() <= MAX_SLOTS);
    }
}
