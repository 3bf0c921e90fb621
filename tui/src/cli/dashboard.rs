//! `ax-top`: the dashboard.

use std::io::{self, IsTerminal as _};

use super::{Failure, block_on};
use crate::{client::Sockets, config::Settings, event};

/// Runs the command.
pub fn run(settings: &Settings) -> Result<(), Failure> {
    need_terminal("ax-top status, ax-top watch or ax-top services, each also with --json")?;
    block_on(async { Ok(event::run(Sockets::from_env(), None, settings).await?) })
}

/// The dashboard draws on a terminal and reads its keys.
///
/// # Errors
///
/// There is none; `instead` says what to use.
pub fn need_terminal(instead: &str) -> Result<(), Failure> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "the dashboard needs a terminal; without one use {instead}"
    )))
}
