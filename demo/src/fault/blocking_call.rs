//! A job that waits with the thread and not with the task, as a client library without `async` does.

use std::thread;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "blocking-call",
    expect: "blocking-call",
    what: "a job sleeps in the kernel on a worker",
    numbers: &[
        Number::new("sleep_ms", 300, 60, 5_000),
        Number::new("every_ms", 700, 100, 5_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("legacy", 2)?;
    let length = scene.ms("sleep_ms");
    scene.quiet()?;
    while scene.pause(scene.ms("every_ms")) {
        let ask = scene.scheduler().job("ask_legacy", move |_| async move {
            thread::sleep(length);
            anyhow::Ok(())
        });
        drop(ask.lane(&lane).submit());
    }
    Ok(())
}
