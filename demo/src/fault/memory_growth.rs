//! A cache that is never emptied. It stops at a bound, and goes when the fault does.

use std::time::Duration;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "memory-growth",
    expect: "memory-growth",
    what: "memory grows steadily, up to a bound",
    numbers: &[
        Number::new("mib_per_s", 20, 1, 200),
        Number::new("at_most_mib", 600, 10, 4_000),
    ],
    run,
};

const MIB: usize = 1024 * 1024;

fn run(scene: &Scene) -> anyhow::Result<()> {
    let interval = Duration::from_secs(1) / u32::try_from(scene.number("mib_per_s"))?;
    let at_most = usize::try_from(scene.number("at_most_mib"))?;
    scene.quiet()?;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    while kept.len() < at_most && scene.pause(interval) {
        // Not zero, for pages of zeros are not made until they are written.
        kept.push(vec![1; MIB]);
    }
    scene.until_over();
    Ok(())
}
