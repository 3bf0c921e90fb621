//! The partner's service takes much longer than it used to.

use std::time::Duration;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "downstream-slow",
    expect: "downstream-slow",
    what: "the partner's API answers late, and lane api fills",
    numbers: &[Number::new("slower_by_ms", 1_200, 100, 5_000)],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    scene.quiet()?;
    scene.partner.set(scene.ms("slower_by_ms"));
    scene.until_over();
    scene.partner.set(Duration::ZERO);
    Ok(())
}
