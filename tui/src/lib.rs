//! `ax-top`: the terminal dashboard, and the same figures without a terminal.
//!
//! ```text
//!  agent --frames--> client --> World --clone--> App --> Screen (view, widget)
//!                       |                         ^
//!                       |       keys --Action-----+
//!                       +--> cli: services, status, watch, demo --headless
//! ```
//!
//! Judgement is not made here but in the agent; what is drawn is an immutable clone of what it told.

mod answers;
mod app;
mod cli;
mod client;
mod config;
mod demo;
mod drawn;
mod event;
pub mod exit;
mod export;
#[cfg(any(test, feature = "stage"))]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the stage uses a part of it, the tests all")
)]
mod fixture;
mod format;
mod glyphs;
mod headline;
mod keys;
mod list;
mod lives;
mod load;
mod opened;
mod query;
mod record;
mod report;
mod screens;
#[cfg(feature = "stage")]
pub mod stage;
mod theme;
mod timeline;
mod verdict;
mod view;
mod waterfall;
mod widget;
mod words;
mod world;

use std::{ffi::OsString, process::ExitCode};

/// What the program that calls [`main`] hands in, so that this crate need not know it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hooks {
    /// Runs the demo service with these arguments until its standard input ends. It prints
    /// `listening http://127.0.0.1:PORT` as its first line.
    pub demo: Option<fn(Vec<OsString>) -> ExitCode>,
}

/// Reads the command line and does what it says; returns one of the codes of [`exit`].
#[must_use]
pub fn main(hooks: Hooks) -> ExitCode {
    // The panic has been printed by its hook.
    std::panic::catch_unwind(|| cli::main(hooks)).unwrap_or(ExitCode::from(exit::INTERNAL))
}
