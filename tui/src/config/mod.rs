//! The configuration of the dashboard: `ax/ax-top.toml` in the XDG folder for configurations.
//!
//! The file says what differs from the defaults; command line and environment have the last word where they say
//! something. An unknown key is refused with its line, since a setting that is silently ignored is looked for for long.

mod file;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use etcetera::BaseStrategy as _;

use self::file::File;
use crate::{
    glyphs::Glyphs,
    keys::Keymap,
    theme::{Depth, Theme},
};

/// Where the file is, below the folder for configurations.
const FILE: &str = "ax/ax-top.toml";

/// A file that is larger was not written for us.
const MAX_BYTES: u64 = 1024 * 1024;

/// What holds in the end.
#[derive(Clone, Debug)]
pub struct Settings {
    pub theme: Theme,
    pub glyphs: Glyphs,
    pub mouse: bool,
    pub readonly: bool,
    pub keymap: Arc<Keymap>,
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// The file to read, in place of the one in the XDG folder.
    pub file: Option<PathBuf>,
    pub ascii: bool,
    pub no_mouse: bool,
    pub readonly: bool,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file that was named, or is there, cannot be read.
    #[error("cannot read the configuration {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    /// The file says something that has no meaning.
    #[error("{}:{line}: {why}", path.display())]
    Wrong {
        path: PathBuf,
        line: usize,
        why: String,
    },
}

impl Settings {
    /// What file, command line and environment come to.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or says something that has no meaning. No file is no error, unless one was named.
    pub fn load(wishes: &Wishes) -> Result<Self, ConfigError> {
        let file = match read(wishes.file.as_deref())? {
            Some((path, text)) => File::parse(&text).map_err(|wrong| ConfigError::Wrong {
                path,
                line: wrong.line,
                why: wrong.why,
            })?,
            None => File::default(),
        };
        Ok(Self::of(file, wishes))
    }

    fn of(file: File, wishes: &Wishes) -> Self {
        let depth = match (file.colours.depth(), Depth::from_env()) {
            // NO_COLOR and a terminal without colours have the last word.
            (_, Depth::None) => Depth::None,
            (Some(depth), _) | (None, depth) => depth,
        };
        Self {
            theme: Theme::new(file.theme, depth),
            glyphs: match file.glyphs.fixed() {
                _ if wishes.ascii => Glyphs::Ascii,
                Some(glyphs) => glyphs,
                None => Glyphs::from_env(false),
            },
            mouse: file.mouse && !wishes.no_mouse,
            readonly: file.readonly || wishes.readonly,
            keymap: Arc::new(file.keymap),
        }
    }
}

/// Where the file is looked for; `None` where the user has no home.
pub fn path() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.config_dir().join(FILE))
}

/// The file that is used, and its text.
fn read(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let Some(path) = named.map(Path::to_owned).or_else(path) else {
        return Ok(None);
    };
    let text = fs::metadata(&path).and_then(|facts| {
        if facts.len() > MAX_BYTES {
            return Err(io::Error::other("it is larger than 1 MiB"));
        }
        fs::read_to_string(&path)
    });
    match text {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(None),
        Err(error) => Err(ConfigError::Unreadable { path, error }),
    }
}

/// The text of a file that says what holds without one.
pub fn default_text() -> String {
    File::default().text()
}

#[cfg(test)]
mod tests;
