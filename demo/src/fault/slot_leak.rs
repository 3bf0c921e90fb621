//! Jobs that wait for a message that nobody will ever send, and hold their slots.

use std::{future::pending, time::Duration};

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "slot-leak",
    expect: "slot-leak",
    what: "jobs hold the slots of a lane and make no progress",
    numbers: &[
        Number::new("uploads_per_s", 5, 1, 50),
        Number::new("run_ms", 20, 1, 200),
    ],
    run,
};

const SLOTS: usize = 4;

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("uploads", SLOTS)?;
    let length: Duration = scene.ms("run_ms");
    let upload = {
        let (scene, lane) = (scene.clone(), lane.clone());
        move || {
            let job = scene.scheduler().job("upload", move |_| async move {
                tokio::time::sleep(length).await;
                anyhow::Ok(())
            });
            job.lane(&lane).submit()
        }
    };
    scene.steadily(scene.number("uploads_per_s"), upload)?;
    scene.quiet()?;
    let lost = (0..SLOTS)
        .map(|_| {
            let upload = scene
                .scheduler()
                .job("upload", |_| pending::<anyhow::Result<()>>());
            upload.lane(&lane).submit()
        })
        .collect::<Result<Vec<_>, _>>()?;
    scene.until_over();
    for job in lost {
        job.cancel();
    }
    Ok(())
}
