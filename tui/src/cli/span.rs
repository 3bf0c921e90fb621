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
    let is_count = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let unit_ms = unit_ms
        .filter(|_| is_count)
        .ok_or_else(|| "say how long with a unit: 500ms, 5s, 2m, 1h or 7d".to_owned())?;
    // More digits than a count has are too long in any unit.
    let ms = digits
        .parse::<u64>()
        .unwrap_or(u64::MAX)
        .saturating_mul(unit_ms);
    match ms {
        0 => Err("that is no time at all: say 1ms or more".to_owned()),
        1..=LONGEST_MS => Ok(Duration::from_millis(ms)),
        _ => Err("longer than a year: say 366d or less".to_owned()),
    }
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
        let why = |text| parse(text).expect_err("wrong");
        assert!(why("5").contains("with a unit"));
        assert!(why("0s").contains("no time at all"));
        assert!(why("99999999999999999999h").contains("longer than a year"));
    }
}
