//! Another process that computes: this program again, as a child that ends with its standard input.

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context as _;

use super::scene::compute;
use crate::SUBCOMMAND;

/// A process that computes on some threads until this is dropped.
pub(super) struct Neighbour(Child);

impl Neighbour {
    /// Starts it.
    pub(super) fn start(threads: u64) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let child = Command::new(program)
            .args([SUBCOMMAND, "--neighbour", &threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start a neighbour process")?;
        Ok(Self(child))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // Both fail only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Is the neighbour: computes on so many threads until standard input ends.
pub(crate) fn be_one(threads: u16) {
    for _ in 0..threads {
        thread::spawn(|| {
            loop {
                compute(Duration::from_mins(1));
            }
        });
    }
    let mut scratch = [0; 64];
    while matches!(std::io::stdin().read(&mut scratch), Ok(read) if read > 0) {}
}
