//! `ax-top completions SHELL` and `ax-top man`: for whoever packages or installs the program.

use std::{fs, path::PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, Failure, print};

#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Of which shell
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct Man {
    /// Write one page a command into this folder, instead of the page of ax-top to the standard output
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub fn completions(arguments: &Completions) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "ax-top", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints or writes the manual.
pub fn man(arguments: &Man) -> Result<(), Failure> {
    let Some(folder) = &arguments.out else {
        let mut text = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut text)?;
        return print(&String::from_utf8_lossy(&text));
    };
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)?;
    print(&format!("{}\n", folder.display()))
}
