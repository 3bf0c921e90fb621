//! `ax-top report FILE -o X.html`: a snapshot as one self-contained page. Needs no agent.

use std::path::PathBuf;

use super::{Failure, file};
use crate::report;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The snapshot
    file: PathBuf,
    /// Where the page goes; without it, to the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let opened = file::open(&arguments.file)?;
    file::deliver(arguments.output.as_deref(), &report::page(&opened))
}
