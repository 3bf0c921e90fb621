//! Histograms small enough to keep many of.

use ax_wire::{LatencyHistogram, histogram::MAX_US, view::Quantiles};

/// Values below this have a bucket each; above, each octave has half as many buckets, which keeps the error below 1 %.
const LINEAR: u64 = 256;

/// Buckets in one octave, as a power of two.
const OCTAVE_BITS: u32 = 7;

/// All buckets that there are.
const BUCKETS: usize = Bucket::of_us(MAX_US).0 as usize + 1;

/// Filled buckets kept in one [`SparseHistogram`]: 4 KiB. Real ones fill some tens; one that fills more is made
/// coarser, to an error of at most 7 %.
const MAX_FILLED: usize = 512;

/// A duration in two bytes: microseconds up to 24 hours, within 1 %. The same buckets as [`LatencyHistogram`]'s, so
/// that nothing is lost on the way from one to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket(u16);

impl Bucket {
    /// The bucket of a duration; one above 24 hours counts as 24 hours.
    #[must_use]
    pub const fn of_us(us: u64) -> Self {
        let us = if us > MAX_US { MAX_US } else { us };
        let shift = (u64::BITS - us.leading_zeros()).saturating_sub(LINEAR.trailing_zeros());
        // 24 hours end in octave 29, so the sum stays below 4,096.
        Self(((shift << OCTAVE_BITS) as u64 + (us >> shift)) as u16)
    }

    /// The bucket of a duration in nanoseconds.
    #[must_use]
    pub const fn of_ns(ns: u64) -> Self {
        Self::of_us(ns / 1_000)
    }

    /// The longest duration of the bucket.
    #[must_use]
    pub const fn highest_ns(self) -> u64 {
        let index = self.0 as u64;
        let us = if index < LINEAR {
            index
        } else {
            let shift = (index >> OCTAVE_BITS) - 1;
            let top = index - (shift << OCTAVE_BITS);
            ((top + 1) << shift) - 1
        };
        us * 1_000
    }

    /// The last of the `2^bits` neighbours that are taken together at a coarser resolution.
    const fn coarser(self, bits: u32) -> Self {
        Self(self.0 | ((1 << bits) - 1))
    }
}

/// The filled buckets of a histogram, packed: two bytes each where neighbours are near and counts are small, at most
/// 4 KiB in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparseHistogram {
    /// For each bucket in order its distance from the one before, then its count, both in LEB128.
    packed: Box<[u8]>,
    max_ns: u64,
}

impl From<&LatencyHistogram> for SparseHistogram {
    fn from(dense: &LatencyHistogram) -> Self {
        let filled = dense.buckets_us();
        let filled = filled.map(|(us, count)| (Bucket::of_us(us), count));
        Self::pack(filled.collect(), dense.max_ns().unwrap_or(0))
    }
}

impl SparseHistogram {
    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.packed.len()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The figures of this histogram alone.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        let filled = self.filled();
        let count = filled.clone().map(|(_, count)| u64::from(count)).sum();
        let mut search = Search::new(count);
        filled.for_each(|(bucket, count)| search.pass(bucket, count.into()));
        search.figures(self.max_ns)
    }

    /// Packs buckets in order, made coarser until they are few enough.
    fn pack(mut filled: Vec<(Bucket, u32)>, max_ns: u64) -> Self {
        let mut bits = 0;
        // Three rounds at most: an eighth of all buckets is fewer than are kept.
        while filled.len() > MAX_FILLED {
            bits += 1;
            for (bucket, _) in &mut filled {
                *bucket = bucket.coarser(bits);
            }
            join_equals(&mut filled);
        }
        let mut packed = Vec::with_capacity(2 * filled.len());
        let mut before = 0;
        for (bucket, count) in filled {
            put_leb128(&mut packed, u32::from(bucket.0 - before));
            put_leb128(&mut packed, count);
            before = bucket.0;
        }
        Self {
            packed: packed.into_boxed_slice(),
            max_ns,
        }
    }

    fn filled(&self) -> impl Iterator<Item = (Bucket, u32)> + Clone {
        let mut rest = self.packed.iter();
        let mut bucket = 0;
        std::iter::from_fn(move || {
            bucket += take_leb128(&mut rest)? as u16;
            Some((Bucket(bucket), take_leb128(&mut rest)?))
        })
    }
}

fn join_equals(filled: &mut Vec<(Bucket, u32)>) {
    filled.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(later.1);
        }
        same
    });
}

fn put_leb128(packed: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        packed.push(number as u8 | 0x80);
        number >>= 7;
    }
    packed.push(number as u8);
}

fn take_leb128<'a>(packed: &mut impl Iterator<Item = &'a u8>) -> Option<u32> {
    let mut number = 0;
    let mut shift = 0;
    loop {
        let byte = packed.next()?;
        number |= u32::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
}

/// Adds up many sparse histograms. 31 KiB, made once and used again; reading and clearing cost only what was filled.
#[derive(Debug)]
pub struct Tally {
    counts: Box<[u64]>,
    /// A bit for each count that is not zero: real histograms fill few buckets, far apart.
    filled: [u64; WORDS],
    total: u64,
    max_ns: u64,
}

/// A bucket made coarser may lie up to seven above the last.
const WORDS: usize = (BUCKETS + 8).div_ceil(u64::BITS as usize);

impl Default for Tally {
    fn default() -> Self {
        Self {
            counts: vec![0; WORDS * u64::BITS as usize].into_boxed_slice(),
            filled: [0; WORDS],
            total: 0,
            max_ns: 0,
        }
    }
}

impl Tally {
    /// Adds all of a histogram.
    pub fn add(&mut self, sparse: &SparseHistogram) {
        let mut bucket = 0;
        let mut rest = &*sparse.packed;
        loop {
            let (distance, count);
            // Nearly all are of a byte each, and this is where most of a view's time goes.
            match *rest {
                [near, few, ref after @ ..] if (near | few) < 0x80 => {
                    (distance, count) = (u16::from(near), u32::from(few));
                    rest = after;
                }
                [] => break,
                _ => {
                    let mut bytes = rest.iter();
                    let (Some(far), Some(many)) =
                        (take_leb128(&mut bytes), take_leb128(&mut bytes))
                    else {
                        break;
                    };
                    (distance, count) = (far as u16, many);
                    rest = bytes.as_slice();
                }
            }
            bucket += distance;
            let index = usize::from(bucket);
            self.counts[index] += u64::from(count);
            self.filled[index / 64] |= 1 << (index % 64);
            self.total += u64::from(count);
        }
        self.max_ns = self.max_ns.max(sparse.max_ns);
    }

    /// Adds all of another tally: cheaper than the many histograms that it is the sum of.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for index in indices(&other.filled) {
            self.counts[index] += other.counts[index];
        }
        for (word, other) in self.filled.iter_mut().zip(&other.filled) {
            *word |= other;
        }
        self.total += other.total;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The figures of all that was added, which is then forgotten.
    pub fn take(&mut self) -> Quantiles {
        // Most types of most services did nothing lately.
        if self.total == 0 {
            self.max_ns = 0;
            return Quantiles::default();
        }
        let mut search = Search::new(self.total);
        let words = self.filled.iter().enumerate();
        for (position, word) in words.filter(|(_, word)| **word != 0) {
            let first = position * 64;
            let together = self.counts[first..first + 64].iter().sum();
            if search.reaches_within(together) {
                for bit in bits(*word) {
                    search.pass(Bucket((first + bit) as u16), self.counts[first + bit]);
                }
            } else {
                search.below += together;
            }
        }
        let figures = search.figures(self.max_ns);
        self.clear();
        figures
    }

    /// The sum of all that was added, which is then forgotten; counts saturate.
    pub(crate) fn take_sparse(&mut self) -> SparseHistogram {
        let narrow =
            |(bucket, count): (Bucket, u64)| (bucket, count.try_into().unwrap_or(u32::MAX));
        let sum = SparseHistogram::pack(self.filled().map(narrow).collect(), self.max_ns);
        self.clear();
        sum
    }

    /// The sum as it travels and is kept in files; `None` where nothing was added. What was added is then forgotten.
    pub(crate) fn take_histogram(&mut self) -> Option<LatencyHistogram> {
        let filled = self.filled().map(|(bucket, count)| {
            let us = bucket.highest_ns() / 1_000;
            (us, count.try_into().unwrap_or(u32::MAX))
        });
        let sum = LatencyHistogram::from_buckets_us(filled.collect(), self.max_ns);
        self.clear();
        Some(sum).filter(|sum| !sum.is_empty())
    }

    fn filled(&self) -> impl Iterator<Item = (Bucket, u64)> {
        indices(&self.filled).map(|index| (Bucket(index as u16), self.counts[index]))
    }

    fn clear(&mut self) {
        for (position, word) in self.filled.iter_mut().enumerate() {
            if *word != 0 {
                self.counts[position * 64..][..64].fill(0);
                *word = 0;
            }
        }
        self.total = 0;
        self.max_ns = 0;
    }
}

/// The bits that are set, lowest first.
fn indices(words: &[u64; WORDS]) -> impl Iterator<Item = usize> {
    let words = words.iter().enumerate();
    words.flat_map(|(position, word)| bits(*word).map(move |bit| position * 64 + bit))
}

fn bits(word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let bit = rest.trailing_zeros();
        (rest != 0).then(|| {
            rest &= rest - 1;
            bit as usize
        })
    })
}

/// Looks for the quantiles of `count` recordings, which pass by in the order of their buckets. A quantile is the highest
/// value of its bucket, and never above the exact maximum.
struct Search {
    count: u64,
    /// Those that have passed.
    below: u64,
    ranks: [u64; 3],
    found: [Bucket; 3],
    next: usize,
}

impl Search {
    fn new(count: u64) -> Self {
        let rank = |quantile: f64| ((quantile * count as f64).ceil() as u64).max(1);
        Self {
            count,
            below: 0,
            ranks: [rank(0.5), rank(0.9), rank(0.99)].map(|rank| rank.min(count)),
            found: [Bucket::default(); 3],
            next: 0,
        }
    }

    /// Whether a quantile is among the next so many.
    fn reaches_within(&self, many: u64) -> bool {
        let rank = self.ranks.get(self.next);
        rank.is_some_and(|rank| self.below + many >= *rank)
    }

    fn pass(&mut self, bucket: Bucket, many: u64) {
        while self.reaches_within(many) {
            self.found[self.next] = bucket;
            self.next += 1;
        }
        self.below += many;
    }

    fn figures(&self, max_ns: u64) -> Quantiles {
        if self.count == 0 {
            return Quantiles::default();
        }
        let [p50_ns, p90_ns, p99_ns] = self
            .found
            .map(|bucket| Some(bucket.highest_ns().min(max_ns)));
        Quantiles {
            count: self.count,
            p50_ns,
            p90_ns,
            p99_ns,
            max_ns: Some(max_ns),
        }
    }
}

/// The figures of one second in 10 bytes, each within 1 %: the count is kept as if it were microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    count: Bucket,
    p50: Bucket,
    p90: Bucket,
    p99: Bucket,
    max: Bucket,
}

impl From<Quantiles> for Brief {
    fn from(figures: Quantiles) -> Self {
        let bucket = |ns: Option<u64>| ns.map(Bucket::of_ns).unwrap_or_default();
        Self {
            count: Bucket::of_us(figures.count),
            p50: bucket(figures.p50_ns),
            p90: bucket(figures.p90_ns),
            p99: bucket(figures.p99_ns),
            max: bucket(figures.max_ns),
        }
    }
}

impl Brief {
    /// How many were recorded.
    #[must_use]
    pub fn count(self) -> u64 {
        self.count.highest_ns() / 1_000
    }

    /// The median; `None` where nothing was recorded.
    #[must_use]
    pub fn p50_ns(self) -> Option<u64> {
        self.known(self.p50)
    }

    /// The 99th percentile; `None` where nothing was recorded.
    #[must_use]
    pub fn p99_ns(self) -> Option<u64> {
        self.known(self.p99)
    }

    /// The maximum; `None` where nothing was recorded.
    #[must_use]
    pub fn max_ns(self) -> Option<u64> {
        self.known(self.max)
    }

    fn known(self, bucket: Bucket) -> Option<u64> {
        (self.count() > 0).then(|| bucket.highest_ns())
    }
}

impl From<Brief> for Quantiles {
    fn from(brief: Brief) -> Self {
        Self {
            count: brief.count(),
            p50_ns: brief.p50_ns(),
            p90_ns: brief.known(brief.p90),
            p99_ns: brief.p99_ns(),
            max_ns: brief.max_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dense(values_ns: &[u64]) -> LatencyHistogram {
        let mut dense = LatencyHistogram::new();
        for ns in values_ns {
            dense.record_ns(*ns);
        }
        dense
    }

    fn expected(dense: &LatencyHistogram) -> Quantiles {
        Quantiles {
            count: dense.count(),
            p50_ns: dense.quantile_ns(0.5),
            p90_ns: dense.quantile_ns(0.9),
            p99_ns: dense.quantile_ns(0.99),
            max_ns: dense.max_ns(),
        }
    }

    #[test]
    fn empty_is_unknown() {
        assert_eq!(SparseHistogram::default().quantiles(), Quantiles::default());
        assert_eq!(Tally::default().take(), Quantiles::default());
        assert_eq!(
            Quantiles::from(Brief::from(Quantiles::default())),
            Quantiles::default()
        );
    }

    #[test]
    fn a_full_histogram_is_made_coarser_and_stays_within_seven_percent() {
        let values: Vec<u64> = (1_000..4_000_000)
            .step_by(97)
            .map(|us| us * 1_000)
            .collect();
        let dense = dense(&values);
        let sparse = SparseHistogram::from(&dense);
        assert!(sparse.filled().count() <= MAX_FILLED);
        let (exact, coarse) = (expected(&dense), sparse.quantiles());
        assert_eq!(coarse.count, exact.count);
        for (exact, coarse) in [(exact.p50_ns, coarse.p50_ns), (exact.p99_ns, coarse.p99_ns)] {
            let (exact, coarse) = (exact.expect("known"), coarse.expect("known"));
            let error = coarse as f64 / exact as f64 - 1.0;
            assert!((0.0..0.07).contains(&error), "{error}");
        }
    }

    #[test]
    fn the_longest_durations_have_a_bucket() {
        let sparse = SparseHistogram::from(&dense(&[u64::MAX, 1]));
        let mut tally = Tally::default();
        tally.add(&sparse);
        assert_eq!(tally.take().max_ns, Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_duration_within_one_percent(us in 1..=MAX_US) {
            let highest = Bucket::of_us(us).highest_ns() / 1_000;
            prop_assert!(highest >= us);
            prop_assert!((highest - us) as f64 <= us as f64 * 0.01);
            prop_assert_eq!(Bucket::of_us(highest), Bucket::of_us(us));
            prop_assert!(Bucket::of_us(us + 1) >= Bucket::of_us(us));
        }

        #[test]
        fn sums_of_sparse_ones_say_what_the_dense_sum_says(
            parts in prop::collection::vec(prop::collection::vec(1..40_000_000_u64, 0..40), 0..8)
        ) {
            let mut total = Tally::default();
            let mut tally = Tally::default();
            // Used before, so that what an earlier use left behind would show.
            tally.add(&SparseHistogram::from(&dense(&[5_000, 7_000_000_000])));
            tally.take();
            for part in &parts {
                let sparse = SparseHistogram::from(&dense(part));
                total.add(&sparse);
                tally.add(&sparse);
            }
            let exact = expected(&dense(&parts.concat()));
            prop_assert_eq!(total.take_sparse().quantiles(), exact);
            prop_assert_eq!(tally.take(), exact);
        }
    }
}
