//! The W3C header `traceparent`: `00-TRACE-SPAN-FLAGS`.

use std::{fmt, str::FromStr};

use ax_wire::{SpanId, TraceId};

/// Bytes of a version 00 header; a later version may add to them behind a dash.
const LEN: usize = 55;

/// The only flag that version 00 defines.
const SAMPLED: u8 = 1;

/// Who calls: a trace, the span of the caller, and whether the trace is recorded.
///
/// Reads any version but `ff`, as the recommendation asks, and writes version 00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The caller's span.
    pub span: SpanId,
    /// Whether the caller records the trace.
    pub sampled: bool,
}

/// Text that is no `traceparent`. A trace then begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a W3C traceparent: `00-` 32 digits `-` 16 digits `-` 2 digits, all lower-case hexadecimal, no id all zero"
)]
pub struct InvalidTraceParent;

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        // By bytes: a header may hold any text, and a cut inside a character would panic.
        let bytes = text.as_bytes();
        let (head, rest) = bytes.split_at_checked(LEN).ok_or(InvalidTraceParent)?;
        if [2, 35, 52].iter().any(|at| head[*at] != b'-') {
            return Err(InvalidTraceParent);
        }
        let version = hex_byte(&head[..2])?;
        let whole = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        if !whole {
            return Err(InvalidTraceParent);
        }
        Ok(Self {
            trace: parse_id(&head[3..35])?,
            span: parse_id(&head[36..52])?,
            sampled: hex_byte(&head[53..])? & SAMPLED != 0,
        })
    }
}

fn parse_id<T: FromStr>(bytes: &[u8]) -> Result<T, InvalidTraceParent> {
    let text = str::from_utf8(bytes).map_err(|_| InvalidTraceParent)?;
    text.parse().map_err(|_| InvalidTraceParent)
}

fn hex_byte(digits: &[u8]) -> Result<u8, InvalidTraceParent> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(InvalidTraceParent),
    };
    Ok(digit(digits[0])? << 4 | digit(digits[1])?)
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.sampled { SAMPLED } else { 0 };
        write!(f, "00-{}-{}-{flags:02x}", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_of_the_recommendation_is_read() {
        let parent: TraceParent = GOOD.parse().expect("reads");
        assert_eq!(parent.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span.to_string(), "b7ad6b7169203331");
        assert!(parent.sampled);
        let unsampled = GOOD.replace("-01", "-fe").parse::<TraceParent>();
        assert!(!unsampled.expect("reads").sampled);
    }

    #[test]
    fn later_versions_are_read_and_what_breaks_the_form_is_refused() {
        let later = GOOD.replacen("00", "cc", 1);
        for good in [later.clone(), format!("{later}-what-the-future-holds")] {
            assert!(good.parse::<TraceParent>().is_ok(), "{good}");
        }
        let bad = [
            String::new(),
            format!("{GOOD}-more"),
            format!("{GOOD} "),
            format!("{later}.more"),
            GOOD.replacen("00", "ff", 1),
            GOOD.replacen("00", "0x", 1),
            GOOD.to_uppercase(),
            GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            GOOD.replace('-', "_"),
            "é".repeat(28),
        ];
        for bad in bad {
            assert_eq!(bad.parse::<TraceParent>(), Err(InvalidTraceParent), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(trace in 1_u128.., span in 1_u64.., sampled: bool) {
            let parent = TraceParent {
                trace: TraceId::new(trace).expect("not zero"),
                span: SpanId::new(span).expect("not zero"),
                sampled,
            };
            prop_assert_eq!(parent.to_string().parse(), Ok(parent));
        }

        #[test]
        fn hostile_text_is_refused_or_has_the_form(text in "(.{0,80}|[0-9a-f-]{50,60})") {
            if let Ok(parent) = text.parse::<TraceParent>() {
                prop_assert!(text[2..].starts_with(&parent.to_string()[2..53]));
            }
        }

        #[test]
        fn one_changed_byte_never_reads_as_other_ids(at in 0_usize..55, byte: u8) {
            let mut bytes = GOOD.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(text) = String::from_utf8(bytes) && let Ok(parent) = text.parse::<TraceParent>() {
                prop_assert_eq!(&parent.to_string()[3..52], &text[3..52]);
            }
        }
    }
}
