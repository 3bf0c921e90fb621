//! Which characters the screen is drawn with: block elements and lines, or where the locale knows no UTF-8, ASCII.

use ratatui::{buffer::Buffer, layout::Rect};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    Unicode,
    Ascii,
}

impl Glyphs {
    /// ASCII where it is asked for, else what the locale says: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set.
    /// Where none is, as in many a container, the terminal knows UTF-8 as nearly all do.
    pub fn from_env(ascii: bool) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .map(|name| std::env::var_os(name).unwrap_or_default())
            .into_iter()
            .find(|value| !value.is_empty());
        match locale {
            _ if ascii => Self::Ascii,
            Some(locale) => Self::of_locale(&locale.to_string_lossy()),
            None => Self::Unicode,
        }
    }

    fn of_locale(locale: &str) -> Self {
        let locale = locale.to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") {
            Self::Unicode
        } else {
            Self::Ascii
        }
    }
}

/// Replaces what is no ASCII, cell by cell: the screen keeps its shape.
pub fn to_ascii(buf: &mut Buffer, area: Rect) {
    for position in area.positions() {
        if let Some(cell) = buf.cell_mut(position)
            && !cell.symbol().is_ascii()
        {
            let ascii = ascii(cell.symbol());
            cell.set_symbol(ascii);
        }
    }
}

fn ascii(symbol: &str) -> &'static str {
    match symbol {
        "─" | "╌" => "-",
        "━" | "▒" => "=",
        "▁" => "_",
        "▂" | "▃" | "·" | "░" | "▏" | "▎" | "▍" => ".",
        "▄" | "▅" | "▌" | "▋" => ":",
        "▆" | "▇" | "▊" | "▉" | "│" | "├" | "╎" => "|",
        "▓" => "!",
        "└" => "`",
        "≤" => "<",
        "█" => "#",
        "…" => "~",
        "▲" => "^",
        "▼" => "v",
        "→" => ">",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides() {
        for locale in ["C.UTF-8", "de_CH.utf8", "en_US.UTF-8@euro"] {
            assert_eq!(Glyphs::of_locale(locale), Glyphs::Unicode, "{locale}");
        }
        for locale in ["C", "POSIX", "de_CH.ISO-8859-1"] {
            assert_eq!(Glyphs::of_locale(locale), Glyphs::Ascii, "{locale}");
        }
        assert_eq!(Glyphs::from_env(true), Glyphs::Ascii);
    }
}
