//! `ax-top config`: where the configuration is, what the defaults are, and whether a file is right.

use std::path::PathBuf;

use super::{Failure, print};
use crate::config::{ConfigError, Settings, Wishes, default_text, path};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print the defaults, as a file to begin with
    #[arg(long, group = "what")]
    print_default: bool,
    /// Say whether the file is right; without FILE, the one that would be used
    #[arg(long, value_name = "FILE", num_args = 0..=1, group = "what")]
    #[expect(
        clippy::option_option,
        reason = "the option itself, and its value, may each be left out"
    )]
    check: Option<Option<PathBuf>>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, wishes: &Wishes) -> Result<(), Failure> {
    if arguments.print_default {
        return print(&default_text());
    }
    let named = arguments
        .check
        .clone()
        .flatten()
        .or_else(|| wishes.file.clone());
    let used = named.clone().or_else(path);
    let Some(used) = used else {
        return print(
            "no home folder: there is no place for a configuration; --config FILE names one\n",
        );
    };
    let there = used.exists();
    if arguments.check.is_some() {
        let wishes = Wishes {
            file: named,
            ..Wishes::default()
        };
        let settings = Settings::load(&wishes)?;
        let what = if there {
            "is right"
        } else {
            "is not there: the defaults hold"
        };
        let keyless = settings.keymap.keyless();
        let keyless = if keyless.is_empty() {
            String::new()
        } else {
            format!("; no key is left for {}", keyless.join(", "))
        };
        return print(&format!("{} {what}{keyless}\n", used.display()));
    }
    let what = if there {
        ""
    } else {
        "  (not there: the defaults hold; --print-default prints them)"
    };
    print(&format!("{}{what}\n", used.display()))
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let text = crate::format::printable(&error.to_string());
        match error {
            ConfigError::Unreadable { .. } => Self::Usage(text),
            ConfigError::Wrong { .. } => Self::BadData(text),
        }
    }
}
