//! More closures on the blocking pool than it has threads.

use std::thread;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "blocking-pool-exhausted",
    expect: "blocking-pool-exhausted",
    what: "blocking work waits for a thread, for more is asked for than the pool has",
    numbers: &[
        Number::new("asked_percent", 300, 110, 1_000),
        Number::new("read_ms", 1_000, 100, 5_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let length = scene.ms("read_ms");
    let readers = scene.blocking_threads as u64 * scene.number("asked_percent") / 100;
    scene.quiet()?;
    let readers: Vec<_> = (0..readers)
        .map(|_| {
            let again = scene.clone();
            scene.spawn("read_archive", async move {
                while again.pause(std::time::Duration::ZERO) {
                    // A closure that panics has said so.
                    let _ = again
                        .spawn_blocking("read_file", move || thread::sleep(length))
                        .await;
                }
            })
        })
        .collect();
    scene.until_over();
    for reader in readers {
        reader.abort();
    }
    Ok(())
}
