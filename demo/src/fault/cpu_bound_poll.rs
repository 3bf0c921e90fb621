//! A job that resizes a picture on a worker, instead of on a thread of its own.

use super::{Fault, Scene, number::Number, scene::compute};

pub(super) const FAULT: Fault = Fault {
    name: "cpu-bound-poll",
    expect: "cpu-bound-poll",
    what: "a job computes for long without giving its worker back",
    numbers: &[
        Number::new("compute_ms", 300, 60, 2_000),
        Number::new("every_ms", 700, 100, 5_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("pictures", 2)?;
    let length = scene.ms("compute_ms");
    scene.quiet()?;
    while scene.pause(scene.ms("every_ms")) {
        let resize = scene
            .scheduler()
            .job("resize_picture", move |_| async move {
                compute(length);
                anyhow::Ok(())
            });
        drop(resize.lane(&lane).submit());
    }
    Ok(())
}
