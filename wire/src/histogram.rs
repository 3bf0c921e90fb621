//! Latency histograms and their form on the wire.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD as BASE64};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer as _, V2Serializer},
};
use serde::{Deserialize, Serialize, de, ser};

/// The longest duration that is told from longer ones: 24 hours, in microseconds.
pub const MAX_US: u64 = 24 * 60 * 60 * 1_000_000;

/// A histogram of durations: microseconds from 1 to 24 hours at two significant digits (an error below 1 %), and the
/// exact maximum in nanoseconds.
///
/// Takes about 15 KiB in memory. On the wire it is the base64 of `HdrHistogram`'s raw V2 encoding, some hundred bytes
/// where few buckets are filled (the deflated form saves half of that and costs fifty times more).
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyHistogram {
    counts: Histogram<u32>,
    max_ns: u64,
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
        let Ok(counts) = Histogram::new_with_bounds(1, MAX_US, 2) else {
            unreachable!("the bounds are constants that the crate accepts")
        };
        Self { counts, max_ns: 0 }
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
        self.counts.saturating_record_n(us.clamp(1, MAX_US), count);
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
        self.counts
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }

    /// Takes back what [`Self::buckets_us`] gave.
    pub fn record_bucket_us(&mut self, us: u64, count: u32) {
        self.record_many_us(us, count);
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.counts.reset();
        self.max_ns = 0;
    }

    /// How many durations were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The duration that a share `quantile` (0 to 1) of the recorded ones do not exceed, within 1 % and never above
    /// the exact maximum. `None` when empty.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let ns = self
            .counts
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
        (!self.is_empty()).then(|| self.counts.mean() * 1_000.0)
    }
}

#[derive(Serialize, Deserialize)]
struct Encoded {
    /// Base64 without padding of raw V2.
    v2: String,
    max_ns: u64,
}

impl Serialize for LatencyHistogram {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut raw = Vec::new();
        V2Serializer::new()
            .serialize(&self.counts, &mut raw)
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
        let counts: Histogram<u32> = Deserializer::new()
            .deserialize(&mut raw.as_slice())
            .map_err(|error| {
                de::Error::custom(format_args!("histogram is not raw V2: {error:?}"))
            })?;
        let mut own = Self::new();
        // Through our own bounds: a stranger's histogram may have others, and a merge must not refuse.
        for bucket in counts.iter_recorded() {
            own.record_many_us(bucket.value_iterated_to(), bucket.count_at_value());
        }
        own.max_ns = encoded.max_ns;
        Ok(own)
    }
}

/// A stranger chooses the bounds, and the bounds choose how much memory the decoder takes: accept only what
/// [`LatencyHistogram::new`] would have written.
fn check_header(raw: &[u8]) -> Result<(), &'static str> {
    const DIGITS: usize = 12;
    const LOWEST: usize = 16;
    const HIGHEST: usize = 24;
    let word = |at: usize| -> Option<u64> {
        let bytes = raw.get(at..at + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    let digits = raw
        .get(DIGITS..DIGITS + 4)
        .and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?)));
    match (digits, word(LOWEST), word(HIGHEST)) {
        (Some(2), Some(1), Some(highest)) if highest <= MAX_US.next_power_of_two() => Ok(()),
        (Some(_), Some(_), Some(_)) => {
            Err("histogram has bounds other than 1 us to 24 h at 2 digits")
        }
        _ => Err("histogram is shorter than its header"),
    }
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
        for v2 in [BASE64.encode(&raw), BASE64.encode(&raw[..9]), "*".into()] {
            let text = serde_json::json!({"v2": v2, "max_ns": 1}).to_string();
            assert!(serde_json::from_str::<LatencyHistogram>(&text).is_err());
        }
    }
}
