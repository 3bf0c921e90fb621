//! A task that was started with plain `tokio::spawn` sleeps with the thread: neither the scheduler nor the probe has given
//! it a name.

use std::thread;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "unscheduled-stall",
    expect: "blocking-call",
    what: "a task that the scheduler does not own sleeps in the kernel on a worker",
    numbers: &[
        Number::new("sleep_ms", 400, 60, 5_000),
        Number::new("every_ms", 800, 100, 5_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let length = scene.ms("sleep_ms");
    scene.quiet()?;
    while scene.pause(scene.ms("every_ms")) {
        scene.runtime.spawn(async move { thread::sleep(length) });
    }
    Ok(())
}
