//! The service is moved into a control group with a small quota of CPU time, and out again at the end.

use super::{Fault, Scene, number::Number};
use crate::cgroup::Quota;

pub(super) const FAULT: Fault = Fault {
    name: "cpu-throttled",
    expect: "cpu-throttled",
    what: "the control group's quota of CPU time is too small (needs root)",
    numbers: &[Number::new("quota_percent", 5, 1, 100)],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    // Made before it is needed, so that a machine that does not let us says so at once.
    let quota = Quota::new(scene.number("quota_percent"))?;
    scene.quiet()?;
    quota.enter()?;
    scene.until_over();
    drop(quota);
    Ok(())
}
