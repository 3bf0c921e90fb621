//! `ax-top open FILE`: a snapshot, or a load session, in the terminal, on the screens of the dashboard. Needs no agent.

use std::path::PathBuf;

use super::{Failure, block_on, dashboard::need_terminal, file};
use crate::{config::Settings, event, load::shown::Shown};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The snapshot, or the load session
    file: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    if let Ok(shown) = Shown::read(&arguments.file) {
        need_terminal("ax-top load show, or jq")?;
        return block_on(async { Ok(event::browse_session(shown, settings).await?) });
    }
    let opened = file::open(&arguments.file)?;
    need_terminal("ax-top report, ax-top export, or jq")?;
    block_on(async { Ok(event::browse(opened, settings).await?) })
}
