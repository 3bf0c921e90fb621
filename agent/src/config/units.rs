//! Figures as people write them: `50ms`, `80%`, `64MiB`, `0.5/s`. What is printed here reads back as the same figure.

use std::time::Duration;

use ax_wire::alert::Unit;

/// Units of time, each in nanoseconds, the longest first.
const TIMES: [(&str, f64); 7] = [
    ("d", 86_400e9),
    ("h", 3_600e9),
    ("m", 60e9),
    ("s", 1e9),
    ("ms", 1e6),
    ("us", 1e3),
    ("ns", 1.0),
];

/// Units of size, each in bytes, the largest of each kind first.
const SIZES: [(&str, f64); 7] = [
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1_024.0),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("B", 1.0),
];

/// Units of a rate, each as things a second.
const RATES: [(&str, f64); 3] = [("/s", 1.0), ("/m", 1.0 / 60.0), ("/h", 1.0 / 3_600.0)];

/// A span longer than this is a slip of the pen, and would overflow sums.
const LONGEST: Duration = Duration::from_hours(366 * 24);

/// Reads a span of time, zero included.
///
/// # Errors
///
/// What is wrong with it, for a person.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let ns = scaled(text, &TIMES).ok_or_else(|| {
        format!("`{text}` is no span of time; write one as `500ms`, `10s` or `2m`")
    })?;
    let span = Duration::from_nanos(ns.round() as u64);
    if span > LONGEST {
        return Err(format!("`{text}` is longer than a year"));
    }
    Ok(span)
}

/// Reads a figure of this unit.
///
/// # Errors
///
/// What is wrong with it, for a person: it is no figure, or one of another unit.
pub(crate) fn figure(text: &str, unit: Unit) -> Result<f64, String> {
    let read = match unit {
        Unit::Nanoseconds => scaled(text, &TIMES),
        Unit::Bytes => scaled(text, &SIZES),
        Unit::PerSecond => scaled(text, &RATES),
        Unit::Share => scaled(text, &[("%", 0.01)]),
        Unit::Count | Unit::Other => number(text),
    };
    read.ok_or_else(|| {
        let (what, example) = kind(unit);
        match kind_of(text) {
            Some(other) if other != what => {
                format!("`{text}` is {other}, and the metric is {what}, such as {example}")
            }
            _ => {
                format!("`{text}` is no figure of this metric, which is {what}, such as {example}")
            }
        }
    })
}

/// What figures of a unit are, and how they are written.
pub(crate) fn kind(unit: Unit) -> (&'static str, &'static str) {
    match unit {
        Unit::Nanoseconds => ("a time", "`50ms`"),
        Unit::Bytes => ("a size", "`64MiB`"),
        Unit::PerSecond => ("a rate", "`0.5/s`"),
        Unit::Share => ("a share", "`80%`"),
        Unit::Count | Unit::Other => ("a count", "`100`"),
    }
}

fn kind_of(text: &str) -> Option<&'static str> {
    let units = [
        Unit::Nanoseconds,
        Unit::Bytes,
        Unit::PerSecond,
        Unit::Share,
        Unit::Count,
    ];
    let fits = |unit: &Unit| match unit {
        Unit::Nanoseconds => scaled(text, &TIMES).is_some(),
        Unit::Bytes => scaled(text, &SIZES).is_some(),
        Unit::PerSecond => scaled(text, &RATES).is_some(),
        Unit::Share => scaled(text, &[("%", 0.01)]).is_some(),
        Unit::Count | Unit::Other => number(text).is_some(),
    };
    Some(kind(units.into_iter().find(fits)?).0)
}

/// A span of time in the longest unit in which it is a whole number.
pub(crate) fn print_duration(span: Duration) -> String {
    print_scaled(span.as_nanos() as f64, &TIMES, "s")
}

/// A figure of this unit, as [`figure`] reads it.
pub(crate) fn print_figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => print_scaled(value, &TIMES, "s"),
        Unit::Bytes => print_scaled(value, &SIZES, "B"),
        Unit::PerSecond => format!("{value}/s"),
        Unit::Share => format!("{}%", round(value * 100.0)),
        Unit::Count | Unit::Other => format!("{value}"),
    }
}

/// Away with what binary fractions leave behind: 0.07 * 100 is not 7.
fn round(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

fn print_scaled(value: f64, units: &[(&str, f64)], of_zero: &str) -> String {
    if value <= 0.0 {
        return format!("0{of_zero}");
    }
    let whole = |(_, one): &&(&str, f64)| value >= *one && value % one == 0.0;
    match units.iter().find(whole) {
        Some((name, one)) => format!("{}{name}", value / one),
        None => format!("{value}{}", units.last().map_or("", |(name, _)| name)),
    }
}

/// A number and one of these units, in the smallest of them all.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (value, name) = text.split_at(end);
    let (_, one) = units
        .iter()
        .find(|(known, _)| *known == name.trim_start())?;
    Some(number(value)? * one)
}

/// Digits with at most one point among them; no sign, no exponent, no `inf`.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: f64 = text.parse().ok().filter(|_| plain)?;
    (value <= 1e18).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F82: the language of rules has units.
    #[test]
    fn what_people_write_is_read() {
        for (text, unit, value) in [
            ("50ms", Unit::Nanoseconds, 50e6),
            ("1.5 s", Unit::Nanoseconds, 1.5e9),
            ("64MiB", Unit::Bytes, 67_108_864.0),
            ("2GB", Unit::Bytes, 2e9),
            ("80%", Unit::Share, 0.8),
            ("0.5/s", Unit::PerSecond, 0.5),
            ("30/m", Unit::PerSecond, 0.5),
            ("100", Unit::Count, 100.0),
        ] {
            assert_eq!(figure(text, unit), Ok(value), "{text}");
        }
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn another_unit_is_told_from_nonsense() {
        let why = |text, unit| figure(text, unit).expect_err(text);
        assert_eq!(
            why("50ms", Unit::PerSecond),
            "`50ms` is a time, and the metric is a rate, such as `0.5/s`"
        );
        assert_eq!(
            why("50", Unit::Nanoseconds),
            "`50` is a count, and the metric is a time, such as `50ms`"
        );
        assert_eq!(
            why("fast", Unit::Nanoseconds),
            "`fast` is no figure of this metric, which is a time, such as `50ms`"
        );
        for wrong in ["", "-1s", "1e9s", "infs", "5 weeks", "1..5s", "NaN", "s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(duration("9999999h").expect_err("long").contains("a year"));
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_reads_back(ns in 0_u64..400_000_000_000_000, percent in 0_u32..1_000) {
            let span = Duration::from_nanos(ns);
            proptest::prop_assert_eq!(duration(&print_duration(span)), Ok(span));
            let value = ns as f64;
            for unit in [Unit::Nanoseconds, Unit::Bytes, Unit::PerSecond, Unit::Count] {
                proptest::prop_assert_eq!(figure(&print_figure(value, unit), unit), Ok(value));
            }
            let share = f64::from(percent) / 100.0;
            let read = figure(&print_figure(share, Unit::Share), Unit::Share);
            proptest::prop_assert!(read.is_ok_and(|read| (read - share).abs() < 1e-9));
        }
    }
}
