//! The partner is slow, and at the same moment one job computes for a short while: the burst is loud and over, the partner
//! stays slow.

use std::time::Duration;

use super::{Fault, Scene, number::Number, scene::compute};

pub(super) const FAULT: Fault = Fault {
    name: "slow-downstream-cpu-burst",
    expect: "downstream-slow",
    what: "the partner's API answers late, and begins to with one short burst of CPU",
    numbers: &[
        Number::new("slower_by_ms", 1_200, 100, 5_000),
        Number::new("burst_ms", 100, 10, 400),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let burst = scene.ms("burst_ms");
    scene.quiet()?;
    scene.partner.set(scene.ms("slower_by_ms"));
    scene.spawn("rebuild_index", async move { compute(burst) });
    scene.until_over();
    scene.partner.set(Duration::ZERO);
    Ok(())
}
