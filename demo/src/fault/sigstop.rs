//! The process is stopped for some seconds, again and again. Each time that it goes on, everything in it is seconds late,
//! which looks like a stall.

use super::{Fault, Scene, number::Number, process_frozen::stop};

pub(super) const FAULT: Fault = Fault {
    name: "sigstop",
    expect: "process-frozen",
    what: "the process is stopped for some seconds, again and again, which looks like stalls",
    numbers: &[
        Number::new("stopped_ms", 5_000, 1_000, 60_000),
        Number::new("between_ms", 2_000, 100, 60_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    scene.quiet()?;
    while scene.pause(scene.ms("between_ms")) {
        stop(scene.ms("stopped_ms"))?;
    }
    Ok(())
}
