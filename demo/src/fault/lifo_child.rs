//! A task starts a child and then sleeps with the thread. The child stands in the worker's LIFO slot, which no other
//! worker takes from, and waits for as long as its parent sleeps, though another worker is idle.

use std::thread;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "lifo-child",
    expect: "blocking-call",
    what: "a task waits behind its parent, which sleeps in the kernel on their worker",
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
        scene.spawn("parent", async move {
            ax_probe::spawn("child", async {});
            thread::sleep(length);
        });
    }
    Ok(())
}
