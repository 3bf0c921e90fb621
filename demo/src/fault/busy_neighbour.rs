//! Jobs that compute for a while, which does no harm, until another process wants the CPUs too: the same polls then take
//! many times as long, and look as if they computed too much or waited for something.

use super::{Fault, Scene, neighbour::Neighbour, number::Number, scene::compute};

pub(super) const FAULT: Fault = Fault {
    name: "busy-neighbour",
    expect: "cpu-starvation",
    what: "another process takes the CPUs, and harmless polls grow long",
    numbers: &[
        Number::new("threads", 12, 2, 64),
        Number::new("compute_ms", 10, 1, 30),
        Number::new("jobs_per_s", 10, 1, 20),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("thumbnails", 2)?;
    let length = scene.ms("compute_ms");
    let thumbnail = {
        let scene = scene.clone();
        move || {
            let job = scene
                .scheduler()
                .job("make_thumbnail", move |_| async move {
                    compute(length);
                    anyhow::Ok(())
                });
            job.lane(&lane).submit()
        }
    };
    scene.steadily(scene.number("jobs_per_s"), thumbnail)?;
    scene.quiet()?;
    let neighbour = Neighbour::start(scene.number("threads"))?;
    scene.until_over();
    drop(neighbour);
    Ok(())
}
