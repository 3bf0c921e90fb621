//! The process is stopped, as by a debugger or `kill -STOP`, and goes on after a time.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use rustix::process::{Signal, getpid, kill_process};

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "process-frozen",
    expect: "process-frozen",
    what: "the process is stopped for a time",
    numbers: &[Number::new("stopped_ms", 15_000, 1_000, 60_000)],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    scene.quiet()?;
    stop(scene.ms("stopped_ms"))?;
    scene.until_over();
    Ok(())
}

/// Stops this process for so long.
pub(super) fn stop(length: Duration) -> anyhow::Result<()> {
    let mut waker = waker(length)?;
    kill_process(getpid(), Signal::STOP).context("cannot stop this process")?;
    // Here it goes on.
    waker.wait().context("cannot wait for a child")?;
    Ok(())
}

/// A process that lets this one go on after so long: it cannot do so itself.
fn waker(length: Duration) -> anyhow::Result<Child> {
    let pid = getpid().as_raw_nonzero();
    let script = format!("sleep {}; kill -CONT {pid}", length.as_secs_f64());
    Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start `sh`, which would let the process go on again")
}
