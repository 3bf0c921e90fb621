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
    /// With colour, unless `NO_COLOR` is set to something.
    pub fn from_env() -> Self {
        Self {
            colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    #[cfg(test)]
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

    /// The row that the keys act on.
    pub fn selection() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
