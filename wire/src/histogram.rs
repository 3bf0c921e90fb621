//! Latency histograms and their form on the wire.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD as BASE64};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer as _, V2Serializer},
};
use serde::{Deserialize, Serialize, de, ser};

/// The longest duration that is told from longer ones: 24 hours, in microseconds.
pub const MAX_US: u64 = 24 * 60 * 60 * 1_000_000;

/// A histogram of durations: microseconds from 1 to 24 hours at two significant digits (an error below 1 %), and the
/// exact maximum in nanoseconds.
///
/// Takes about 15 KiB in memory once it is recorded into; as read off the wire, 16 bytes a filled bucket. On the wire it
/// is the base64 of `HdrHistogram`'s raw V2 encoding, some hundred bytes where few buckets are filled (the deflated form
/// saves half of that and costs fifty times more).
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: Counts,
    max_ns: u64,
}

#[derive(Clone, Debug)]
enum Counts {
    /// Ready to be recorded into.
    Dense(Histogram<u32>),
    /// As read: the filled buckets in order, by index. A reader of thousands a second mostly passes them on, and making each
    /// dense would be most of its work.
    Sparse(Vec<(u16, u32)>),
}

/// Equal when the same buckets hold the same counts, in whichever form.
impl PartialEq for LatencyHistogram {
    fn eq(&self, other: &Self) -> bool {
        self.max_ns == other.max_ns && self.buckets_us().eq(other.buckets_us())
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: Counts::Dense(empty()),
            max_ns: 0,
        }
    }

    /// The histogram of what [`Self::buckets_us`] gave, in its order, and of a maximum.
    #[must_use]
    pub fn from_buckets_us(filled: Vec<(u64, u32)>, max_ns: u64) -> Self {
        Self {
            counts: Counts::Sparse(
                filled
                    .into_iter()
                    .map(|(us, count)| (bucket_index(us.clamp(1, MAX_US)) as u16, count))
                    .collect(),
            ),
            max_ns,
        }
    }

    fn dense_mut(&mut self) -> &mut Histogram<u32> {
        if let Counts::Sparse(filled) = &self.counts {
            self.counts = Counts::Dense(densify(filled));
        }
        match &mut self.counts {
            Counts::Dense(dense) => dense,
            Counts::Sparse(_) => unreachable!("made dense above"),
        }
    }

    fn dense(&self) -> Cow<'_, Histogram<u32>> {
        match &self.counts {
            Counts::Dense(dense) => Cow::Borrowed(dense),
            Counts::Sparse(filled) => Cow::Owned(densify(filled)),
        }
    }

    /// Adds one duration. One below a microsecond counts as one, one above 24 hours as 24 hours (the maximum stays
    /// exact).
    pub fn record_ns(&mut self, ns: u64) {
        self.record_many_ns(ns, 1);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds `count` durations that share a bucket, without touching the maximum: see [`Self::raise_max_ns`].
    pub fn record_many_ns(&mut self, ns: u64, count: u32) {
        self.record_many_us(ns / 1_000, count);
    }

    fn record_many_us(&mut self, us: u64, count: u32) {
        self.dense_mut()
            .saturating_record_n(us.clamp(1, MAX_US), count);
    }

    /// Raises the exact maximum.
    pub fn raise_max_ns(&mut self, ns: u64) {
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        // Both have the bounds of `new`, the one case in which the crate cannot refuse; counts saturate.
        for (us, count) in other.buckets_us() {
            self.record_many_us(us, count);
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The filled buckets: a value in microseconds inside the bucket, and its count. Few even where many values were
    /// recorded, so it is the form to keep history in; [`Self::record_bucket_us`] takes it back.
    pub fn buckets_us(&self) -> impl Iterator<Item = (u64, u32)> {
        let (dense, sparse) = match &self.counts {
            Counts::Dense(dense) => (Some(dense), &[][..]),
            Counts::Sparse(filled) => (None, filled.as_slice()),
        };
        dense
            .into_iter()
            .flat_map(Histogram::iter_recorded)
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
            .chain(
                sparse
                    .iter()
                    .map(|(index, count)| (highest_us(*index), *count)),
            )
    }

    /// Takes back what [`Self::buckets_us`] gave.
    pub fn record_bucket_us(&mut self, us: u64, count: u32) {
        self.record_many_us(us, count);
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.dense_mut().reset();
        self.max_ns = 0;
    }

    /// How many durations were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        match &self.counts {
            Counts::Dense(dense) => dense.len(),
            Counts::Sparse(filled) => filled.iter().map(|(_, count)| u64::from(*count)).sum(),
        }
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The duration that a share `quantile` (0 to 1) of the recorded ones do not exceed, within 1 % and never above
    /// the exact maximum. `None` when empty.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let ns = self
            .dense()
            .value_at_quantile(quantile)
            .saturating_mul(1_000);
        (!self.is_empty()).then(|| ns.min(self.max_ns))
    }

    /// The exact maximum. `None` when empty.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The mean, within 1 %. `None` when empty.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.dense().mean() * 1_000.0)
    }
}

/// Durations in microseconds from 1 to 24 hours at two significant digits.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Encoded {
    /// Base64 without padding of raw V2.
    v2: String,
    /// The exact maximum.
    max_ns: u64,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for LatencyHistogram {
    fn schema_name() -> Cow<'static, str> {
        "LatencyHistogram".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Encoded::json_schema(generator)
    }
}

impl Serialize for LatencyHistogram {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut raw = Vec::new();
        V2Serializer::new()
            .serialize(&self.dense(), &mut raw)
            .map_err(|error| ser::Error::custom(format!("{error:?}")))?;
        let encoded = Encoded {
            v2: BASE64.encode(raw),
            max_ns: self.max_ns,
        };
        encoded.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let encoded = Encoded::deserialize(deserializer)?;
        let raw = BASE64
            .decode(encoded.v2.as_bytes())
            .map_err(|error| de::Error::custom(format_args!("histogram is not base64: {error}")))?;
        check_header(&raw).map_err(de::Error::custom)?;
        let filled = read_counts(&raw[HEADER_BYTES..]).map_err(de::Error::custom)?;
        Ok(Self {
            counts: Counts::Sparse(filled),
            max_ns: encoded.max_ns,
        })
    }
}

fn empty() -> Histogram<u32> {
    let counts = Histogram::new_with_bounds(1, MAX_US, 2);
    counts.expect("the bounds are constants that the crate accepts")
}

fn densify(filled: &[(u16, u32)]) -> Histogram<u32> {
    let mut dense = empty();
    for (index, count) in filled {
        dense.saturating_record_n(highest_us(*index).max(1), *count);
    }
    dense
}

/// Cookie, payload length, offset, digits, lowest, highest, ratio.
const HEADER_BYTES: usize = 40;

/// "Raw V2" in the first four bytes.
const COOKIE: u32 = 0x1c84_9313;

/// A stranger chooses the bounds, and the bounds say what each count means: accept only what [`LatencyHistogram::new`]
/// would have written.
fn check_header(raw: &[u8]) -> Result<(), &'static str> {
    const DIGITS: usize = 12;
    const LOWEST: usize = 16;
    const HIGHEST: usize = 24;
    let header = raw
        .get(..HEADER_BYTES)
        .ok_or("histogram is shorter than its header")?;
    let number = |at: usize, bytes: usize| {
        let digits = header[at..at + bytes].iter();
        digits.fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    if number(0, 4) != u64::from(COOKIE) {
        return Err("histogram is not raw V2");
    }
    let bounds = (number(DIGITS, 4), number(LOWEST, 8), number(HIGHEST, 8));
    match bounds {
        (2, 1, highest) if highest <= MAX_US.next_power_of_two() => Ok(()),
        _ => Err("histogram has bounds other than 1 us to 24 h at 2 digits"),
    }
}

/// The filled buckets of a raw V2 payload: each number is a count, or, negative, how many empty buckets follow.
fn read_counts(mut payload: &[u8]) -> Result<Vec<(u16, u32)>, &'static str> {
    const END: u64 = bucket_index(MAX_US) + 1;
    // A bucket takes a byte or more, and most have a gap before them: the list seldom grows, and is seldom much too long.
    let mut filled = Vec::with_capacity((payload.len() / 2).min(END as usize));
    let mut index = 0_u64;
    while !payload.is_empty() {
        let number = read_zigzag(&mut payload).ok_or("histogram ends inside a number")?;
        if number < 0 {
            index = index.saturating_add(number.unsigned_abs());
            continue;
        }
        if number > 0 {
            let count =
                u32::try_from(number).map_err(|_| "histogram has a count beyond 32 bits")?;
            if index >= END {
                return Err("histogram has a bucket beyond 24 h");
            }
            filled.push((index as u16, count));
        }
        index = index.saturating_add(1);
    }
    Ok(filled)
}

/// Seven bits a byte, lowest first, a ninth byte whole; the sign in the lowest bit.
fn read_zigzag(payload: &mut &[u8]) -> Option<i64> {
    let mut bits = 0_u64;
    for position in 0..9 {
        let (byte, rest) = payload.split_first()?;
        *payload = rest;
        let last = position == 8 || byte & 0x80 == 0;
        let value = if position == 8 { *byte } else { byte & 0x7f };
        bits |= u64::from(value) << (7 * position);
        if last {
            break;
        }
    }
    Some((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
}

/// The buckets of two significant digits: one a microsecond up to 255, then 128 an octave.
const fn bucket_index(us: u64) -> u64 {
    let shift = (u64::BITS - us.leading_zeros()).saturating_sub(8);
    ((shift as u64) << 7) + (us >> shift)
}

/// The longest duration of a bucket; our bounds end inside the last one.
fn highest_us(index: u16) -> u64 {
    bucket_highest_us(index.into()).min(MAX_US)
}

/// The longest duration of a bucket, whatever the bounds.
const fn bucket_highest_us(index: u64) -> u64 {
    if index < 256 {
        return index;
    }
    let shift = (index >> 7) - 1;
    ((index - (shift << 7) + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        for ms in 1..=1_000_u64 {
            histogram.record_ns(ms * 1_000_000 + 7);
        }
        histogram
    }

    #[test]
    fn quantiles_are_within_one_percent_and_the_maximum_is_exact() {
        let histogram = sample();
        for (quantile, expected_ms) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0)] {
            let ns = histogram.quantile_ns(quantile).expect("not empty") as f64;
            let error = (ns / (expected_ms * 1e6) - 1.0).abs();
            assert!(error < 0.01, "{quantile}: {ns} ns");
        }
        assert_eq!(histogram.max_ns(), Some(1_000_000_007));
        assert_eq!(histogram.count(), 1_000);
    }

    #[test]
    fn empty_is_unknown_not_zero() {
        let empty = LatencyHistogram::new();
        assert_eq!(empty.quantile_ns(0.99), None);
        assert_eq!(empty.max_ns(), None);
        assert_eq!(empty.mean_ns(), None);
    }

    #[test]
    fn extremes_are_clamped_and_their_maximum_kept() {
        let mut histogram = LatencyHistogram::new();
        histogram.record_ns(0);
        histogram.record_ns(u64::MAX);
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.max_ns(), Some(u64::MAX));
    }

    #[test]
    fn survives_the_wire_and_stays_small() {
        let histogram = sample();
        let text = serde_json::to_string(&histogram).expect("serializes");
        let back: LatencyHistogram = serde_json::from_str(&text).expect("deserializes");
        assert_eq!(back.count(), histogram.count());
        assert_eq!(back.max_ns(), histogram.max_ns());
        assert_eq!(back.quantile_ns(0.9), histogram.quantile_ns(0.9));
        assert!(text.len() < 2_000, "{} bytes", text.len());
    }

    #[test]
    fn what_was_read_can_be_recorded_into_and_written_again() {
        let text = serde_json::to_string(&sample()).expect("serializes");
        let mut back: LatencyHistogram = serde_json::from_str(&text).expect("deserializes");
        assert_eq!(back, sample());
        assert_eq!(serde_json::to_string(&back).expect("serializes"), text);
        assert_eq!(back.mean_ns(), sample().mean_ns());
        back.record_ns(5_000_000_000);
        assert_eq!(back.count(), 1_001);
        assert_ne!(back, sample());
        back.clear();
        assert_eq!(back, LatencyHistogram::new());
    }

    #[test]
    fn every_bucket_and_count_survives_the_wire() {
        let mut histogram = LatencyHistogram::new();
        for shift in 0..40 {
            for near in [0, 1, 77] {
                histogram.record_many_ns(((1_u64 << shift) + near) * 1_000, 1 << (shift % 16));
            }
        }
        histogram.record_many_ns(1_000, u32::MAX - 9);
        histogram.record_ns(u64::MAX);
        let text = serde_json::to_string(&histogram).expect("serializes");
        let back: LatencyHistogram = serde_json::from_str(&text).expect("deserializes");
        assert_eq!(back.count(), histogram.count());
        assert_eq!(serde_json::to_string(&back).expect("serializes"), text);
        for quantile in [0.0, 0.3, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(back.quantile_ns(quantile), histogram.quantile_ns(quantile));
        }
    }

    #[test]
    fn merging_adds_counts_and_keeps_the_larger_maximum() {
        let mut sum = sample();
        sum.merge(&sample());
        assert_eq!(sum.count(), 2_000);
        assert_eq!(sum.max_ns(), Some(1_000_000_007));
        assert_eq!(sum.quantile_ns(0.5), sample().quantile_ns(0.5));
    }

    #[test]
    fn hostile_histograms_are_refused() {
        let huge: Histogram<u32> = Histogram::new_with_bounds(1, u64::MAX / 2, 5).expect("valid");
        let mut raw = Vec::new();
        V2Serializer::new()
            .serialize(&huge, &mut raw)
            .expect("serializes");
        let mut good = Vec::new();
        V2Serializer::new()
            .serialize(&sample().dense(), &mut good)
            .expect("serializes");
        let with = |payload: &[u8]| BASE64.encode([&good[..HEADER_BYTES], payload].concat());
        let mut cookie = good.clone();
        cookie[3] ^= 1;
        for v2 in [
            BASE64.encode(&raw),
            BASE64.encode(&raw[..9]),
            "*".into(),
            BASE64.encode(&cookie),
            // Inside a number; a count beyond 32 bits; a skip beyond the last bucket, then a count.
            with(&[0x80]),
            with(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0x01]),
            with(&[0xff, 0xff, 0xff, 0x7f, 0x02]),
        ] {
            let text = serde_json::json!({"v2": v2, "max_ns": 1}).to_string();
            assert!(serde_json::from_str::<LatencyHistogram>(&text).is_err());
        }
    }
}
