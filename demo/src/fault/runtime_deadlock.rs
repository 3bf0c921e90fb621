//! Code without `async` asks a task for an answer and waits for it with the thread: once every worker waits so, nobody is
//! left to run the task.

use std::sync::mpsc;

use super::{Fault, Scene};

pub(super) const FAULT: Fault = Fault {
    name: "runtime-deadlock",
    expect: "runtime-deadlock",
    what: "every worker waits for a task that only a worker could run",
    numbers: &[],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    scene.quiet()?;
    let mut ways_out = Vec::new();
    // A worker that waits cannot take a second of these, so the idle ones steal the rest.
    for _ in 0..scene.workers {
        let (answer, asked) = mpsc::channel();
        ways_out.push(answer.clone());
        scene.spawn("ask_and_wait", async move {
            ax_probe::spawn("answer", async move { answer.send(()) });
            // It ends with an error when nobody is left to send.
            let _ = asked.recv();
        });
    }
    scene.until_over();
    for way_out in ways_out {
        // Whoever has got an answer meanwhile is gone.
        let _ = way_out.send(());
    }
    Ok(())
}
