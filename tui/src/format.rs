//! Figures as text. A column's unit stands in its heading and never changes; a sentence carries its own units.
//! Unknown is `-`.

use ax_agent::is_safe;
use jiff::{Timestamp, tz::TimeZone};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What is shown for a figure that is not known.
pub const UNKNOWN: &str = "-";

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds as milliseconds, without the unit: for a column headed `ms`.
pub fn ms(ns: Option<u64>) -> String {
    known(ns, |ns| {
        let ms = ns as f64 / NS_PER_MS;
        if ms < 9_999.95 {
            format!("{ms:.1}")
        } else {
            format!("{ms:.0}")
        }
    })
}

/// A duration with the unit that suits it: for sentences, never for columns.
pub fn duration(ns: u64) -> String {
    let ms = ns as f64 / NS_PER_MS;
    let seconds = ns.saturating_add(NS_PER_S / 2) / NS_PER_S;
    if ms < 9.95 {
        format!("{ms:.1} ms")
    } else if ms < 999.5 {
        format!("{ms:.0} ms")
    } else if ms < 9_950.0 {
        format!("{:.1} s", ms / 1_000.0)
    } else if seconds < 120 {
        format!("{seconds} s")
    } else if seconds < 7_200 {
        format!("{} min", seconds / 60)
    } else {
        format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60)
    }
}

/// How long ago, or for how long: in whole seconds, so that it does not flicker.
pub fn age(ns: u64) -> String {
    let s = ns / NS_PER_S;
    if s < 120 {
        format!("{s} s")
    } else {
        duration(s * NS_PER_S)
    }
}

/// Like [`duration`], `-` when it is not known.
pub fn maybe_duration(ns: Option<u64>) -> String {
    known(ns, duration)
}

/// A span in whole seconds and more, short: `45s`, `12m05s`, `2h13m`, `3d04h`.
pub fn uptime(ns: u64) -> String {
    let s = ns / NS_PER_S;
    let (minutes, hours, days) = (s / 60, s / 3_600, s / 86_400);
    if minutes == 0 {
        format!("{s}s")
    } else if hours == 0 {
        format!("{minutes}m{:02}s", s % 60)
    } else if days == 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else if days > 999 {
        // A start time is the service's own word.
        ">999d".to_owned()
    } else {
        format!("{days}d{:02}h", hours % 24)
    }
}

/// Bytes as megabytes (10^6), without the unit.
pub fn megabytes(bytes: Option<u64>) -> String {
    known(bytes, |bytes| format!("{:.0}", bytes as f64 / 1e6))
}

/// A share of 0 to 1 as per cent, without the sign.
pub fn percent(share: Option<f64>) -> String {
    known(share, |share| format!("{:.0}", unsigned(share * 100.0)))
}

/// A count.
pub fn count(count: Option<u64>) -> String {
    known(count, |count| count.to_string())
}

/// Something per second: a decimal below ten, so that a slow trickle does not read as nothing.
pub fn rate(per_s: Option<f64>) -> String {
    known(per_s, |per_s| {
        let per_s = unsigned(per_s);
        if per_s == 0.0 || per_s >= 9.95 {
            format!("{per_s:.0}")
        } else {
            format!("{per_s:.1}")
        }
    })
}

/// Nothing that is shown is below zero, and the sum of no rates is `-0.0`.
fn unsigned(value: f64) -> f64 {
    if value > 0.0 { value } else { 0.0 }
}

fn known<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), text)
}

/// Wall-clock time of day, `14:03:27`.
pub fn time_of_day(unix_ns: u64, zone: &TimeZone) -> String {
    Timestamp::from_nanosecond(i128::from(unix_ns)).map_or_else(
        |_| UNKNOWN.to_owned(),
        |at| zone.to_datetime(at).strftime("%H:%M:%S").to_string(),
    )
}

/// Like [`time_of_day`], `-` when it is not known.
pub fn maybe_time_of_day(unix_ns: Option<u64>, zone: &TimeZone) -> String {
    known(unix_ns, |unix_ns| time_of_day(unix_ns, zone))
}

/// A name as it may be printed: names come from the services and from files, and a control character in one would reach
/// the terminal as a command, one that reorders text would let it pass for another.
pub fn printable(name: &str) -> String {
    name.chars()
        .map(|c| if is_safe(c) { c } else { '?' })
        .collect()
}

/// Columns that a text takes on the terminal: a wide character takes two, a combining one none.
pub fn width(text: &str) -> usize {
    text.width()
}

/// A name cut in its middle to `width` columns, because names of one family differ at their ends.
pub fn middle_cut(name: &str, width: usize) -> String {
    let name = printable(name);
    if name.width() <= width {
        return name;
    }
    if width == 0 {
        return String::new();
    }
    let kept = width - 1;
    let tail = kept / 2;
    let start: String = fitting(name.chars(), kept - tail).collect();
    let end: Vec<char> = fitting(name.chars().rev(), tail).collect();
    let end: String = end.into_iter().rev().collect();
    format!("{start}…{end}")
}

/// A sentence cut at its end to `width` columns, with a mark where something is missing.
pub fn end_cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let kept: String = fitting(text.chars(), width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A text in lines of at most `width` columns, cut at spaces; a word that is longer than a line is cut where the line ends.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut left = width;
    for word in printable(text).split_whitespace() {
        let space = usize::from(left < width);
        if word.width() + space > left && left < width {
            lines.push(String::new());
            left = width;
        }
        if left < width
            && let Some(line) = lines.last_mut()
        {
            line.push(' ');
            left -= 1;
        }
        for c in word.chars() {
            let columns = c.width().unwrap_or(0);
            if columns > left {
                lines.push(String::new());
                left = width;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
            left = left.saturating_sub(columns);
        }
    }
    lines
}

/// The characters that fit into so many columns.
fn fitting(chars: impl Iterator<Item = char>, width: usize) -> impl Iterator<Item = char> {
    chars.scan(width, |left, c| {
        *left = left.checked_sub(c.width().unwrap_or(0))?;
        Some(c)
    })
}

/// Like [`middle_cut`], filled up with spaces: a cell of a table that is printed. `format!` would count characters.
pub fn cell(name: &str, width: usize) -> String {
    let name = middle_cut(name, width);
    let spare = width.saturating_sub(name.width());
    format!("{name}{}", " ".repeat(spare))
}

/// The name of a service, which may be empty.
pub fn service_name(name: &str) -> &str {
    if name.trim().is_empty() {
        "(unnamed)"
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_columns_unit_never_changes() {
        let shown: Vec<_> = [
            0,
            40_000,
            100_000,
            2 * MS,
            412 * MS,
            9_999 * MS,
            60_000 * MS,
        ]
        .map(|ns| ms(Some(ns)))
        .into();
        assert_eq!(
            shown,
            ["0.0", "0.0", "0.1", "2.0", "412.0", "9999.0", "60000"]
        );
        assert_eq!(ms(None), "-");
        assert_eq!(megabytes(Some(212_400_000)), "212");
        assert_eq!(percent(Some(0.614)), "61");
        assert_eq!(percent(None), "-");
    }

    #[test]
    fn a_sentence_carries_its_unit() {
        let shown: Vec<_> = [
            300_000,
            31 * MS,
            412 * MS,
            2_300 * MS,
            60_000 * MS,
            900_000 * MS,
        ]
        .map(duration)
        .into();
        assert_eq!(
            shown,
            ["0.3 ms", "31 ms", "412 ms", "2.3 s", "60 s", "15 min"]
        );
        assert_eq!(duration(7_980 * NS_PER_S), "2 h 13 min");
    }

    #[test]
    fn rounding_never_shows_a_thousand_of_the_smaller_unit() {
        assert_eq!(duration(9_960_000), "10 ms");
        assert_eq!(duration(999_600_000), "1.0 s");
        assert_eq!(duration(9_960 * MS), "10 s");
    }

    #[test]
    fn an_age_is_in_whole_seconds() {
        let shown: Vec<_> = [400 * MS, 8_900 * MS, 119_000 * MS, 130_000 * MS]
            .map(age)
            .into();
        assert_eq!(shown, ["0 s", "8 s", "119 s", "2 min"]);
    }

    #[test]
    fn rates_keep_a_decimal_while_they_are_small() {
        let shown: Vec<_> = [0.0, 0.3, 9.9, 9.96, 812.4]
            .map(|per_s| rate(Some(per_s)))
            .into();
        assert_eq!(shown, ["0", "0.3", "9.9", "10", "812"]);
    }

    #[test]
    fn uptime_is_short() {
        let shown: Vec<_> = [45, 725, 7_980, 273_600]
            .map(|s| uptime(s * NS_PER_S))
            .into();
        assert_eq!(shown, ["45s", "12m05s", "2h13m", "3d04h"]);
        assert_eq!(uptime(u64::MAX), ">999d");
    }

    #[test]
    fn a_text_is_cut_into_lines_at_its_spaces() {
        assert_eq!(wrapped("a bc  def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("a /long/path b", 6), ["a", "/long/", "path b"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("日本 b", 3), ["日", "本", "b"]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }

    #[test]
    fn a_long_name_loses_its_middle() {
        assert_eq!(middle_cut("render_pdf", 10), "render_pdf");
        assert_eq!(middle_cut("render_invoice_pdf", 10), "rende…_pdf");
        assert_eq!(middle_cut("render", 1), "…");
        assert_eq!(middle_cut("render", 0), "");
        assert_eq!(middle_cut("a\x1b[2Jb", 10), "a?[2Jb");
    }

    #[test]
    fn a_wide_character_takes_two_columns() {
        assert_eq!(middle_cut("支払い", 6), "支払い");
        assert_eq!(middle_cut("支払いサービス", 6), "支…ス");
        assert_eq!(cell("支払い", 8), "支払い  ");
        assert_eq!(cell("支払いサービス", 7), "支…ス  ");
        assert_eq!(width(&cell(&"決".repeat(10_000), 30)), 30);
        assert_eq!(
            middle_cut("e\u{301}e\u{301}e\u{301}", 3),
            "e\u{301}e\u{301}e\u{301}"
        );
    }

    #[test]
    fn nothing_is_below_zero() {
        assert_eq!(rate(Some(std::iter::empty::<f64>().sum())), "0");
        assert_eq!(rate(Some(-0.0)), "0");
        assert_eq!(percent(Some(-0.001)), "0");
    }

    #[test]
    fn an_empty_name_is_said_to_be_one() {
        assert_eq!(service_name("  "), "(unnamed)");
        assert_eq!(service_name("checkout"), "checkout");
    }

    #[test]
    fn time_of_day_follows_the_zone() {
        assert_eq!(time_of_day(50_607 * NS_PER_S, &TimeZone::UTC), "14:03:27");
    }

    /// A file from elsewhere may hold any figure.
    #[test]
    fn no_figure_is_too_large_to_be_told() {
        for ns in [u64::MAX, u64::MAX - 1, u64::MAX / 2] {
            assert!(duration(ns).contains(" h "), "{}", duration(ns));
            assert!(!age(ns).is_empty());
            assert!(!ms(Some(ns)).is_empty());
        }
    }
}
