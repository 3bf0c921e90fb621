//! Colour. It only ever repeats what a word or a sign on the screen says already, so `NO_COLOR` loses nothing.
//!
//! A [`Palette`] says which colours the tones have, a [`Depth`] how many colours the terminal can show.

mod palette;

use ratatui::style::{Color, Modifier, Style};

use self::palette::Colour;
pub use self::palette::Palette;

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// Headings, axes, hints.
    Quiet,
    /// The name of what is looked at.
    Strong,
    Good,
    Warning,
    Critical,
}

/// How many colours there are to draw with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Black and white alone.
    None,
    /// The sixteen that the terminal itself gives their looks.
    Sixteen,
    /// The fixed cube of 256.
    Cube,
    /// Any.
    True,
}

/// Turns a [`Tone`] into a terminal style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    palette: Palette,
    depth: Depth,
}

impl Depth {
    /// What the environment says: none where `NO_COLOR` is set to something or the terminal has none, else as many as
    /// `COLORTERM` and `TERM` tell.
    #[must_use]
    pub fn from_env() -> Self {
        let variable = |name| {
            let value = std::env::var_os(name).unwrap_or_default();
            value.to_string_lossy().into_owned()
        };
        if variable("NO_COLOR").is_empty() {
            Self::of_terminal(&variable("TERM"), &variable("COLORTERM"))
        } else {
            Self::None
        }
    }

    fn of_terminal(term: &str, colorterm: &str) -> Self {
        if !has_colour(term) {
            Self::None
        } else if matches!(colorterm, "truecolor" | "24bit") || term.ends_with("-direct") {
            Self::True
        } else if term.contains("256color") {
            Self::Cube
        } else {
            Self::Sixteen
        }
    }
}

impl Theme {
    pub fn new(palette: Palette, depth: Depth) -> Self {
        Self { palette, depth }
    }

    /// The dark one in sixteen colours, or in none.
    #[cfg(test)]
    pub fn with_colour(colour: bool) -> Self {
        let depth = if colour { Depth::Sixteen } else { Depth::None };
        Self::new(Palette::Dark, depth)
    }

    /// The palette.
    pub fn palette(self) -> Palette {
        self.palette
    }

    /// The same with another palette.
    pub fn with_palette(self, palette: Palette) -> Self {
        Self { palette, ..self }
    }

    pub fn style(self, tone: Tone) -> Style {
        let style = match tone {
            Tone::Plain | Tone::Good => Style::new(),
            // Dim text is the first to be lost on a bad screen.
            Tone::Quiet if self.palette == Palette::HighContrast => Style::new(),
            Tone::Quiet => Style::new().add_modifier(Modifier::DIM),
            Tone::Strong | Tone::Warning | Tone::Critical => {
                Style::new().add_modifier(Modifier::BOLD)
            }
        };
        match self.palette.colour(tone) {
            Some(colour) => self.coloured(style, colour),
            None => style,
        }
    }

    fn coloured(self, style: Style, colour: Colour) -> Style {
        match self.depth {
            Depth::None => style,
            Depth::Sixteen => style.fg(colour.named),
            Depth::Cube => style.fg(Color::Indexed(colour.indexed)),
            Depth::True => {
                let (red, green, blue) = colour.rgb;
                style.fg(Color::Rgb(red, green, blue))
            }
        }
    }

    /// Laid over figures that are not those of now.
    pub fn faded() -> Style {
        Style::new()
            .fg(Color::Reset)
            .add_modifier(Modifier::DIM)
            .remove_modifier(Modifier::BOLD)
    }

    /// The row that the keys act on, and the cursor of the charts.
    pub fn selection() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// Whether a terminal of this name has colours: the old ones that are still named, and those that end in `-m` or `-mono`,
/// have none. One that names nothing is left to be what nearly all are.
fn has_colour(term: &str) -> bool {
    let without = ["dumb", "vt52", "vt100", "vt102", "vt220"];
    !without.contains(&term) && !term.ends_with("-m") && !term.ends_with("-mono")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TONES: [Tone; 6] = [
        Tone::Plain,
        Tone::Quiet,
        Tone::Strong,
        Tone::Good,
        Tone::Warning,
        Tone::Critical,
    ];

    #[test]
    fn the_terminal_says_how_many_colours_it_has() {
        for term in ["dumb", "vt100", "vt100-mono", "xterm-mono", "linux-m"] {
            assert_eq!(Depth::of_terminal(term, "truecolor"), Depth::None, "{term}");
        }
        for term in ["", "xterm", "screen", "linux"] {
            assert_eq!(Depth::of_terminal(term, ""), Depth::Sixteen, "{term}");
        }
        assert_eq!(Depth::of_terminal("xterm-256color", ""), Depth::Cube);
        for (term, colorterm) in [
            ("xterm", "24bit"),
            ("tmux-256color", "truecolor"),
            ("xterm-direct", ""),
        ] {
            assert_eq!(Depth::of_terminal(term, colorterm), Depth::True, "{term}");
        }
    }

    #[test]
    fn without_colour_no_style_has_one() {
        for palette in Palette::ALL {
            let theme = Theme::new(palette, Depth::None);
            for tone in TONES {
                let style = theme.style(tone);
                assert_eq!((style.fg, style.bg), (None, None), "{palette:?} {tone:?}");
            }
        }
    }

    /// Whoever cannot tell two of the colours apart still sees bold, and reads the word.
    #[test]
    fn at_any_depth_good_bad_and_worse_differ() {
        for palette in Palette::ALL {
            for depth in [Depth::Sixteen, Depth::Cube, Depth::True] {
                let theme = Theme::new(palette, depth);
                let colours =
                    [Tone::Good, Tone::Warning, Tone::Critical].map(|tone| theme.style(tone).fg);
                assert!(colours.iter().all(Option::is_some), "{palette:?} {depth:?}");
                assert_ne!(colours[0], colours[1], "{palette:?} {depth:?}");
                assert_ne!(colours[1], colours[2], "{palette:?} {depth:?}");
                assert_ne!(colours[0], colours[2], "{palette:?} {depth:?}");
            }
        }
    }
}
