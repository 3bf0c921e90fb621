//! Colour. It only ever repeats what a word or a sign on the screen says already, so `NO_COLOR` loses nothing.

use ratatui::style::{Color, Modifier, Style};

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

/// Turns a [`Tone`] into a terminal style.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    colour: bool,
}

impl Theme {
    /// With colour, unless `NO_COLOR` is set to something or the terminal has none.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var_os(name).unwrap_or_default();
        let term = variable("TERM");
        Self::with_colour(variable("NO_COLOR").is_empty() && has_colour(&term.to_string_lossy()))
    }

    pub fn with_colour(colour: bool) -> Self {
        Self { colour }
    }

    pub fn style(self, tone: Tone) -> Style {
        let style = match tone {
            Tone::Plain | Tone::Good => Style::new(),
            Tone::Quiet => Style::new().add_modifier(Modifier::DIM),
            Tone::Strong | Tone::Warning | Tone::Critical => {
                Style::new().add_modifier(Modifier::BOLD)
            }
        };
        match tone {
            Tone::Good if self.colour => style.fg(Color::Green),
            Tone::Warning if self.colour => style.fg(Color::Yellow),
            Tone::Critical if self.colour => style.fg(Color::Red),
            _ => style,
        }
    }

    /// Laid over figures that are not those of now.
    pub fn faded() -> Style {
        Style::new()
            .fg(Color::Reset)
            .add_modifier(Modifier::DIM)
            .remove_modifier(Modifier::BOLD)
    }

    /// The row that the keys act on.
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

    #[test]
    fn a_terminal_without_colours_gets_none() {
        for term in ["dumb", "vt100", "vt100-mono", "xterm-mono", "linux-m"] {
            assert!(!has_colour(term), "{term}");
        }
        for term in ["", "xterm", "xterm-256color", "screen", "linux"] {
            assert!(has_colour(term), "{term}");
        }
    }

    #[test]
    fn without_colour_no_style_has_one() {
        let theme = Theme::with_colour(false);
        for tone in [
            Tone::Plain,
            Tone::Quiet,
            Tone::Strong,
            Tone::Good,
            Tone::Warning,
            Tone::Critical,
        ] {
            assert_eq!(theme.style(tone).fg, None, "{tone:?}");
        }
        assert_eq!(
            Theme::with_colour(true).style(Tone::Critical).fg,
            Some(Color::Red)
        );
    }
}
