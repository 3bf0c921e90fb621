//! Other processes want every CPU, several times over.

use super::{Fault, Scene, neighbour::Neighbour, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "cpu-starvation",
    expect: "cpu-starvation",
    what: "another process computes on many threads, and the workers wait for a CPU",
    numbers: &[Number::new("threads", 12, 2, 64)],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    scene.quiet()?;
    let neighbour = Neighbour::start(scene.number("threads"))?;
    scene.until_over();
    drop(neighbour);
    Ok(())
}
