//! A span of time on the command line: `500ms`, `5s`, `2m`, `1h`, `7d`.

use std::time::Duration;

/// Reads a span.
///
/// # Errors
///
/// It is not a whole number with a unit, or nothing at all, or longer than a year.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit_ms = match &text[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(24 * 3_600_000),
        _ => None,
    };
    let ms = digits
        .parse::<u64>()
        .ok()
        .zip(unit_ms)
        .and_then(|(count, unit_ms)| count.checked_mul(unit_ms))
        .filter(|ms| (1..=LONGEST_MS).contains(ms));
    ms.map(Duration::from_millis)
        .ok_or_else(|| "say how long with a unit: 500ms, 5s, 2m, 1h or 7d".to_owned())
}

const LONGEST_MS: u64 = 366 * 24 * 3_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit() {
        for (text, seconds) in [
            ("500ms", 0.5),
            ("5s", 5.0),
            ("2m", 120.0),
            ("1h", 3_600.0),
            ("7d", 604_800.0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for wrong in [
            "",
            "5",
            "s",
            "5 s",
            "-5s",
            "1.5s",
            "0s",
            "5w",
            "99999999999999999999h",
            "9999999h",
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
