//! Logging to a pipe whose reader does not keep up: each line waits in `write`, on a worker.

use std::io::{Read as _, Write as _};

use anyhow::Context as _;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "blocked-log-pipe",
    expect: "blocking-call",
    what: "a job logs to a pipe that is full, and waits in the kernel on a worker",
    numbers: &[
        Number::new("blocked_ms", 400, 60, 5_000),
        Number::new("every_ms", 800, 100, 5_000),
    ],
    run,
};

/// More than a pipe holds.
const LINE_BYTES: usize = 128 * 1024;

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("audit", 2)?;
    scene.quiet()?;
    while scene.pause(scene.ms("every_ms")) {
        let (mut reader, mut log) = std::io::pipe().context("cannot make a pipe")?;
        let job = scene.scheduler().job("write_audit", move |_| async move {
            anyhow::Ok(log.write_all(&vec![b'x'; LINE_BYTES])?)
        });
        drop(job.lane(&lane).submit());
        scene.pause(scene.ms("blocked_ms"));
        // To its end, which is where the writer has let go of it.
        let mut written = Vec::new();
        reader
            .read_to_end(&mut written)
            .context("cannot read a pipe")?;
    }
    Ok(())
}
