//! Identifiers, each its own type so that one is never passed for another.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One start of one service process. Two instances of a service, or the old and the new one around a restart, differ
/// in it; it sorts by start time (UUID v7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct InstanceId(pub uuid::Uuid);

impl InstanceId {
    /// A new id for a process that starts now.
    #[must_use]
    pub fn new_now() -> Self {
        Self(uuid::Uuid::now_v7())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A tokio runtime inside one process, numbered from 1 in the order the probe met them. Never used again after the
/// runtime is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct RuntimeId(pub u32);

impl fmt::Display for RuntimeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job, numbered from 1 in the order of submission; unique within one [`InstanceId`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A W3C trace id: 128 bits, written as 32 lower-case hexadecimal digits. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(std::num::NonZeroU128);

impl TraceId {
    /// The id with these 128 bits, or `None` for zero, which W3C trace context forbids.
    #[must_use]
    pub const fn new(bits: u128) -> Option<Self> {
        match std::num::NonZeroU128::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// The 128 bits.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0.get()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A W3C span id: one part of a trace (a request, a job, a call), 64 bits, written as 16 lower-case hexadecimal digits.
/// Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(std::num::NonZeroU64);

impl SpanId {
    /// The id with these 64 bits, or `None` for zero, which W3C trace context forbids.
    #[must_use]
    pub const fn new(bits: u64) -> Option<Self> {
        match std::num::NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// The 64 bits.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A string that is not a span id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a span id is 16 lower-case hexadecimal digits, not all zero")]
pub struct InvalidSpanId;

impl FromStr for SpanId {
    type Err = InvalidSpanId;

    fn from_str(text: &str) -> Result<Self, InvalidSpanId> {
        if !is_lower_hex(text, 16) {
            return Err(InvalidSpanId);
        }
        let bits = u64::from_str_radix(text, 16).map_err(|_| InvalidSpanId)?;
        Self::new(bits).ok_or(InvalidSpanId)
    }
}

impl Serialize for SpanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SpanId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

fn is_lower_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A string that is not a trace id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a trace id is 32 lower-case hexadecimal digits, not all zero")]
pub struct InvalidTraceId;

impl FromStr for TraceId {
    type Err = InvalidTraceId;

    fn from_str(text: &str) -> Result<Self, InvalidTraceId> {
        if !is_lower_hex(text, 32) {
            return Err(InvalidTraceId);
        }
        let bits = u128::from_str_radix(text, 16).map_err(|_| InvalidTraceId)?;
        Self::new(bits).ok_or(InvalidTraceId)
    }
}

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_id_reads_what_it_writes_and_refuses_the_rest() {
        let id = TraceId::new(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c).expect("not zero");
        assert_eq!(id.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in [
            "",
            "0af7",
            "0AF7651916CD43DD8448EB211C80319C",
            "+af7651916cd43dd8448eb211c80319c",
            "00000000000000000000000000000000",
        ] {
            assert_eq!(bad.parse::<TraceId>(), Err(InvalidTraceId), "{bad:?}");
        }
    }

    #[test]
    fn span_id_reads_what_it_writes_and_refuses_the_rest() {
        let id = SpanId::new(0xb7ad_6b71_6920_3331).expect("not zero");
        assert_eq!(id.to_string(), "b7ad6b7169203331");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in [
            "",
            "b7ad",
            "B7AD6B7169203331",
            "+7ad6b7169203331",
            "0000000000000000",
        ] {
            assert_eq!(bad.parse::<SpanId>(), Err(InvalidSpanId), "{bad:?}");
        }
    }
}
