//! Many closures on the blocking pool, though fewer than it has threads.

use std::thread;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "blocking-pool-busy",
    expect: "blocking-pool-busy",
    what: "most threads of the blocking pool wait for files",
    numbers: &[
        Number::new("busy_percent", 75, 10, 90),
        Number::new("read_ms", 400, 50, 5_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let length = scene.ms("read_ms");
    let readers = scene.blocking_threads as u64 * scene.number("busy_percent") / 100;
    scene.quiet()?;
    let readers: Vec<_> = (0..readers)
        .map(|_| {
            let (again, curtain) = (scene.clone(), scene.curtain.clone());
            scene.spawn("read_archive", async move {
                while curtain.pause(std::time::Duration::ZERO) {
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
