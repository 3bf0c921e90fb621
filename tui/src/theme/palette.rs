//! Which colours the tones have.

use ratatui::style::Color;

use super::Tone;

/// A set of colours for one kind of screen, or of eye.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Palette {
    /// For dark backgrounds.
    #[default]
    Dark,
    /// For light backgrounds.
    Light,
    /// Nothing dim; the brightest colours.
    HighContrast,
    /// Blue, orange and vermilion, which all kinds of colour blindness tell apart.
    ColourBlind,
}

/// One colour at each depth.
#[derive(Clone, Copy)]
pub struct Colour {
    pub named: Color,
    pub indexed: u8,
    pub rgb: (u8, u8, u8),
}

const fn colour(named: Color, indexed: u8, rgb: (u8, u8, u8)) -> Colour {
    Colour {
        named,
        indexed,
        rgb,
    }
}

impl Palette {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Dark,
        Self::Light,
        Self::HighContrast,
        Self::ColourBlind,
    ];

    /// As the file and the command line call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::HighContrast => "high-contrast",
            Self::ColourBlind => "colour-blind",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|palette| palette.name() == name)
    }

    /// The colour of a tone; what has none is drawn in the terminal's own.
    #[must_use]
    pub fn colour(self, tone: Tone) -> Option<Colour> {
        let [good, warning, critical] = match self {
            Self::Dark => [
                colour(Color::Green, 114, (135, 206, 125)),
                colour(Color::Yellow, 221, (250, 205, 90)),
                colour(Color::Red, 203, (255, 100, 95)),
            ],
            Self::Light => [
                colour(Color::Green, 28, (20, 115, 45)),
                colour(Color::Magenta, 130, (155, 85, 0)),
                colour(Color::Red, 160, (190, 20, 35)),
            ],
            Self::HighContrast => [
                colour(Color::LightGreen, 46, (0, 255, 0)),
                colour(Color::LightYellow, 226, (255, 255, 0)),
                colour(Color::LightRed, 196, (255, 60, 60)),
            ],
            Self::ColourBlind => [
                colour(Color::LightBlue, 75, (86, 180, 233)),
                colour(Color::Yellow, 214, (230, 159, 0)),
                colour(Color::LightRed, 202, (213, 94, 0)),
            ],
        };
        match tone {
            Tone::Plain | Tone::Quiet | Tone::Strong => None,
            Tone::Good => Some(good),
            Tone::Warning => Some(warning),
            Tone::Critical => Some(critical),
        }
    }
}
