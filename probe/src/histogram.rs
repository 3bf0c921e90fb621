//! A histogram that one or many threads fill while another empties it, without a lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ax_wire::{LatencyHistogram, histogram::MAX_US};

/// Sub-buckets of each power of two: what `HdrHistogram` keeps at two significant digits.
const SUB_BITS: u32 = 7;
const SUB: usize = 1 << SUB_BITS;

/// Buckets up to [`MAX_US`]: the first `2 * SUB` are one microsecond wide, each further power of two has `SUB`.
const BUCKETS: usize = bucket(MAX_US) + 1;

/// Counts of durations in microseconds, up to 24 hours, within 1 %: about 15 KiB.
///
/// Recording is two relaxed atomic operations (about 10 ns). Relaxed is enough: a reader that drains meanwhile takes a
/// recording now or the next time, never twice.
pub struct AtomicHistogram {
    counts: Box<[AtomicU32]>,
    max_ns: AtomicU64,
}

/// The bucket of a value: exact below `2 * SUB`, then the `SUB` leading bits of the value choose.
const fn bucket(us: u64) -> usize {
    let significant = 64 - (us | 1).leading_zeros();
    let shift = significant.saturating_sub(SUB_BITS + 1);
    ((shift as usize) << SUB_BITS) + (us >> shift) as usize
}

/// The smallest value of a bucket: the inverse of [`bucket`].
const fn lowest(bucket: usize) -> u64 {
    if bucket < 2 * SUB {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    ((bucket - (shift << SUB_BITS)) as u64) << shift
}

impl Default for AtomicHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl AtomicHistogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU32::new(0)).collect(),
            max_ns: AtomicU64::new(0),
        }
    }

    /// Adds one duration. Never blocks, never allocates.
    #[inline]
    pub fn record_ns(&self, ns: u64) {
        let us = (ns / 1_000).min(MAX_US);
        // The maximum first: whoever sees the count then finds a maximum that covers it.
        if ns > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(ns, Relaxed);
        }
        self.counts[bucket(us)].fetch_add(1, Relaxed);
    }

    /// Moves everything recorded so far into `into`.
    pub fn drain_into(&self, into: &mut LatencyHistogram) {
        let mut any = false;
        for (index, count) in self.counts.iter().enumerate() {
            // Most buckets are empty: a plain load leaves their cache line shared.
            if count.load(Relaxed) != 0 {
                into.record_bucket_us(lowest(index), count.swap(0, Relaxed));
                any = true;
            }
        }
        if any {
            into.raise_max_ns(self.max_ns.swap(0, Relaxed));
        }
    }

    /// Adds everything recorded so far to `into`, and leaves it here.
    pub fn copy_into(&self, into: &mut LatencyHistogram) {
        let mut any = false;
        for (index, count) in self.counts.iter().enumerate() {
            let count = count.load(Relaxed);
            if count != 0 {
                into.record_bucket_us(lowest(index), count);
                any = true;
            }
        }
        if any {
            into.raise_max_ns(self.max_ns.load(Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_begins_where_the_one_before_ends() {
        for index in 1..BUCKETS {
            assert_eq!(bucket(lowest(index)), index);
            assert_eq!(bucket(lowest(index) - 1), index - 1);
        }
    }

    #[test]
    fn draining_gives_each_recording_once() {
        let shard = AtomicHistogram::new();
        for us in [0, 1, 255, 256, 300, 1_000_000, MAX_US, MAX_US * 2] {
            shard.record_ns(us * 1_000);
        }
        let mut copied = LatencyHistogram::new();
        shard.copy_into(&mut copied);
        let mut drained = LatencyHistogram::new();
        shard.drain_into(&mut drained);
        assert_eq!(copied, drained);
        assert_eq!(drained.count(), 8);
        assert_eq!(drained.max_ns(), Some(MAX_US * 2_000));
        drained.clear();
        shard.drain_into(&mut drained);
        assert_eq!(drained.count(), 0);
    }

    #[test]
    fn quantiles_stay_within_one_percent() {
        let shard = AtomicHistogram::new();
        for us in 1..=100_000 {
            shard.record_ns(us * 1_000);
        }
        let mut drained = LatencyHistogram::new();
        shard.drain_into(&mut drained);
        let p99 = drained.quantile_ns(0.99).expect("not empty") as f64;
        assert!((p99 / 99e6 - 1.0).abs() < 0.01, "{p99}");
    }
}
