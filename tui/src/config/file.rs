//! The text of the file, read and written.

use std::{collections::HashMap, fmt::Write as _};

use serde::{Deserialize, de::Error as _};
use toml::Spanned;

use crate::{
    glyphs::Glyphs,
    keys::{Chord, Keymap},
    theme::{Depth, Palette},
};

/// What the file says, the defaults where it says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub theme: Palette,
    pub colours: Colours,
    pub glyphs: GlyphSet,
    pub mouse: bool,
    pub readonly: bool,
    pub keymap: Keymap,
}

/// How many colours to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Colours {
    /// As many as the terminal says that it has.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "none")]
    None,
    #[serde(rename = "16")]
    Sixteen,
    #[serde(rename = "256")]
    Cube,
    #[serde(rename = "truecolour")]
    True,
}

impl Colours {
    /// The one that was chosen.
    pub fn depth(self) -> Option<Depth> {
        match self {
            Self::Auto => None,
            Self::None => Some(Depth::None),
            Self::Sixteen => Some(Depth::Sixteen),
            Self::Cube => Some(Depth::Cube),
            Self::True => Some(Depth::True),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Sixteen => "16",
            Self::Cube => "256",
            Self::True => "truecolour",
        }
    }
}

/// Which characters to draw with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GlyphSet {
    /// As the locale says.
    #[default]
    Auto,
    Unicode,
    Ascii,
}

impl GlyphSet {
    /// Those that were chosen.
    pub fn fixed(self) -> Option<Glyphs> {
        match self {
            Self::Auto => None,
            Self::Unicode => Some(Glyphs::Unicode),
            Self::Ascii => Some(Glyphs::Ascii),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Unicode => "unicode",
            Self::Ascii => "ascii",
        }
    }
}

/// What has no meaning, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// From 1 on.
    pub line: usize,
    pub why: String,
}

/// As it stands in the text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    theme: Palette,
    colours: Colours,
    glyphs: GlyphSet,
    mouse: bool,
    readonly: bool,
    keys: HashMap<Spanned<String>, Vec<Key>>,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            theme: Palette::default(),
            colours: Colours::default(),
            glyphs: GlyphSet::default(),
            mouse: true,
            readonly: false,
            keys: HashMap::new(),
        }
    }
}

/// A key or a sequence of keys, as it is written.
struct Key(Chord);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl Default for File {
    fn default() -> Self {
        let Raw {
            theme,
            colours,
            glyphs,
            mouse,
            readonly,
            keys: _,
        } = Raw::default();
        Self {
            theme,
            colours,
            glyphs,
            mouse,
            readonly,
            keymap: Keymap::default(),
        }
    }
}

impl File {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// What has no meaning, and in which line.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let raw: Raw = toml::from_str(text).map_err(|error| Wrong {
            line: error.span().map_or(1, |span| line(text, span.start)),
            why: error.message().to_owned(),
        })?;
        let lines: HashMap<String, usize> = raw
            .keys
            .keys()
            .map(|name| (name.get_ref().clone(), line(text, name.span().start)))
            .collect();
        let keys = raw.keys.into_iter().map(|(name, keys)| {
            let chords = keys.into_iter().map(|Key(chord)| chord).collect();
            (name.into_inner(), chords)
        });
        let keymap = Keymap::with(&keys.collect()).map_err(|why| {
            let why = why.to_string();
            // The error names the action that it is about; where it names two, the later line is the newer wish.
            let named = lines
                .iter()
                .filter(|(name, _)| why.contains(&format!("`{name}`")));
            let line = named.map(|(_, line)| *line).max().unwrap_or(1);
            Wrong { line, why }
        })?;
        Ok(Self {
            theme: raw.theme,
            colours: raw.colours,
            glyphs: raw.glyphs,
            mouse: raw.mouse,
            readonly: raw.readonly,
            keymap,
        })
    }

    /// The text that reads as this.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# ax-top. Every line is optional; these are the defaults.\n\
             \n\
             # dark, light, high-contrast, colour-blind\n\
             theme = \"{}\"\n\
             # auto: as many as the terminal says; none, 16, 256, truecolour. NO_COLOR wins.\n\
             colours = \"{}\"\n\
             # auto: as the locale says; unicode, ascii\n\
             glyphs = \"{}\"\n\
             mouse = {}\n\
             # Ask nothing of a service: no snapshot, no control\n\
             readonly = {}\n\
             \n\
             # A key is a character, or enter, esc, tab, space, up, down, left, right, home, end, pageup, pagedown, delete,\n\
             # insert, backspace, f1 to f12, with ctrl-, alt- or shift- before it; \"g g\" is one after the other.\n\
             [keys]\n",
            self.theme.name(),
            self.colours.name(),
            self.glyphs.name(),
            self.mouse,
            self.readonly
        );
        for binding in self.keymap.bindings() {
            let chords: Vec<String> = binding.chords.iter().map(quoted).collect();
            let line = format!("{} = [{}]", binding.name, chords.join(", "));
            // A String takes everything.
            let _ = writeln!(text, "{line:<36} # {}", binding.help);
        }
        text
    }
}

/// A sequence as a string of TOML, its keys apart from each other.
fn quoted(chord: &Chord) -> String {
    let keys: Vec<String> = chord.0.iter().map(ToString::to_string).collect();
    format!(
        "\"{}\"",
        keys.join(" ").replace('\\', "\\\\").replace('"', "\\\"")
    )
}

/// The line in which a byte of a text lies, from 1 on.
fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}
