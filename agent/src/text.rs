//! Text that came from a service, made safe for a terminal.

use crate::config::MAX_TEXT_CHARS;

/// Stands for a character that a terminal might obey, and for text that was cut.
const REPLACEMENT: char = '\u{FFFD}';

/// Replaces control characters (and with them terminal escapes) and characters that reorder or hide text, and cuts
/// after [`MAX_TEXT_CHARS`].
pub(crate) fn clean(text: &mut String) {
    // A string of at most that many bytes has at most that many characters: most names end here, unread twice.
    let plain =
        text.len() <= MAX_TEXT_CHARS && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !plain {
        let mut rest = text
            .chars()
            .map(|c| if is_safe(c) { c } else { REPLACEMENT });
        let mut cleaned: String = rest.by_ref().take(MAX_TEXT_CHARS).collect();
        if rest.next().is_some() {
            cleaned.push(REPLACEMENT);
        }
        *text = cleaned;
    }
}

/// [`clean`], where there is a text.
pub(crate) fn clean_some(text: &mut Option<String>) {
    text.iter_mut().for_each(clean);
}

/// A duration for a sentence, such as `1.2 s`.
pub(crate) fn duration(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match ns {
        0..10_000_000 => format!("{:.1} ms", seconds * 1e3),
        10_000_000..1_000_000_000 => format!("{:.0} ms", seconds * 1e3),
        1_000_000_000..10_000_000_000 => format!("{seconds:.1} s"),
        10_000_000_000..120_000_000_000 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}

/// Whether a character may be shown as it is: it is no control character, and neither reorders nor hides text.
#[must_use]
pub fn is_safe(c: char) -> bool {
    let reorders_or_hides = matches!(
        c,
        '\u{061C}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}'
    );
    !c.is_control() && !reorders_or_hides
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cleaned(text: &str) -> String {
        let mut text = text.to_owned();
        clean(&mut text);
        text
    }

    #[test]
    fn escapes_and_reordering_are_replaced_and_letters_are_kept() {
        assert_eq!(cleaned("\u{1b}[31mred\u{7}"), "\u{FFFD}[31mred\u{FFFD}");
        assert_eq!(cleaned("a\u{9b}2Jb\nc"), "a\u{FFFD}2Jb\u{FFFD}c");
        assert_eq!(cleaned("abc\u{202e}txt"), "abc\u{FFFD}txt");
        assert_eq!(cleaned("Überweisung 送金"), "Überweisung 送金");
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        let long = cleaned(&"ä".repeat(MAX_TEXT_CHARS + 1));
        assert_eq!(long.chars().count(), MAX_TEXT_CHARS + 1);
        assert!(long.ends_with(REPLACEMENT));
        let fits = "ä".repeat(MAX_TEXT_CHARS);
        assert_eq!(cleaned(&fits), fits);
    }

    proptest! {
        #[test]
        fn what_is_clean_is_short_printable_and_stays(text in "\\PC{0,30}|.{0,300}|[\\x00-\\x7f]{0,300}") {
            let once = cleaned(&text);
            prop_assert!(once.chars().all(is_safe));
            prop_assert!(once.chars().count() <= MAX_TEXT_CHARS + 1);
            if once.chars().count() <= MAX_TEXT_CHARS {
                prop_assert_eq!(cleaned(&once), once);
            }
        }
    }
}
