//! `ax-top open FILE`: a snapshot in the terminal, on the screens of the dashboard. Needs no agent.

use std::path::PathBuf;

use super::{Failure, block_on, dashboard::need_terminal, file};
use crate::{config::Settings, event};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The snapshot
    file: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let opened = file::open(&arguments.file)?;
    need_terminal("ax-top report, ax-top export, or jq")?;
    block_on(async { Ok(event::browse(opened, settings).await?) })
}
