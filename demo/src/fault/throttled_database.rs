//! Many orders and a small quota of CPU time: the connections are held for longer, callers queue for them, and the pool
//! looks too small for the load.

use super::{Fault, Scene, number::Number};
use crate::cgroup::Quota;

pub(super) const FAULT: Fault = Fault {
    name: "throttled-database",
    expect: "cpu-throttled",
    what: "throttling that looks like an exhausted database pool (needs root)",
    numbers: &[
        Number::new("quota_percent", 5, 1, 100),
        Number::new("orders_per_s", 100, 1, 1_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let quota = Quota::new(scene.number("quota_percent"))?;
    let lanes = scene.lanes.clone();
    scene.steadily(scene.number("orders_per_s"), move || lanes.save_order())?;
    scene.quiet()?;
    quota.enter()?;
    scene.until_over();
    drop(quota);
    Ok(())
}
