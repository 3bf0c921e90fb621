//! `ax-top export FILE --format F`: a snapshot in the format of another tool. Needs no agent.

use std::path::PathBuf;

use super::{Failure, file};
use crate::{
    export::{Format, export},
    format::printable,
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The snapshot
    file: PathBuf,
    /// In which format
    #[arg(long, value_enum)]
    format: Format,
    /// Where it goes; without it, to the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let opened = file::open(&arguments.file)?;
    let text = export(&opened, arguments.format)
        .map_err(|none| Failure::Unknown(format!("{}: {none}", printable(&opened.name))))?;
    file::deliver(arguments.output.as_deref(), &text)
}
