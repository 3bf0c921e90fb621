//! More jobs of an honest kind than a lane can run.

use std::time::Duration;

use tokio::time::sleep;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "lane-saturated",
    expect: "lane-saturated",
    what: "more jobs arrive than a lane can run, and each runs as long as ever",
    numbers: &[
        Number::new("run_ms", 50, 10, 500),
        Number::new("before_per_s", 10, 1, 100),
        Number::new("then_per_s", 80, 10, 1_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("labels", 2)?;
    let length: Duration = scene.ms("run_ms");
    let print = {
        let scene = scene.clone();
        move || {
            let job = scene.scheduler().job("print_label", move |_| async move {
                sleep(length).await;
                anyhow::Ok(())
            });
            job.lane(&lane).submit()
        }
    };
    scene.steadily(scene.number("before_per_s"), print.clone())?;
    scene.quiet()?;
    scene.steadily(scene.number("then_per_s"), print)?;
    scene.until_over();
    Ok(())
}
