//! Threads that the runtime knows nothing of compute all the time.

use std::time::Duration;

use super::{Fault, Scene, number::Number, scene::compute};

pub(super) const FAULT: Fault = Fault {
    name: "cpu-outside-runtime",
    expect: "cpu-outside-runtime",
    what: "a thread that is no worker uses a whole CPU",
    numbers: &[Number::new("threads", 1, 1, 64)],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    scene.quiet()?;
    let compressors = (0..scene.number("threads"))
        .map(|_| {
            scene.thread("compressor", |scene| {
                while scene.pause(Duration::ZERO) {
                    compute(Duration::from_millis(100));
                }
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    scene.until_over();
    for compressor in compressors {
        // It does not panic, and if it did the hook has said so.
        let _ = compressor.join();
    }
    Ok(())
}
