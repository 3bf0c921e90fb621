//! Urgent jobs that take every turn of a lane, so that the others never begin. No more of them come than the lane runs.

use std::time::Duration;

use tokio::time::sleep;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "priority-starvation",
    expect: "priority-starvation",
    what: "jobs of high priority take every turn, and low ones are not begun",
    numbers: &[
        Number::new("run_ms", 20, 5, 200),
        Number::new("low_per_s", 4, 1, 50),
    ],
    run,
};

const SLOTS: usize = 2;
const HIGH: u8 = 90;
const LOW: u8 = 10;

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("exports", SLOTS)?;
    let length: Duration = scene.ms("run_ms");
    let export = {
        let scene = scene.clone();
        move |name: &str, priority: u8| {
            let job = scene.scheduler().job(name, move |_| async move {
                sleep(length).await;
                anyhow::Ok(())
            });
            job.lane(&lane).priority(priority).submit()
        }
    };
    let low = export.clone();
    scene.steadily(scene.number("low_per_s"), move || {
        low("export_archive", LOW)
    })?;
    scene.quiet()?;
    // Twice as many customers as slots, each of whom asks again once he is served: the queue is never empty and does
    // not grow.
    let customers: Vec<_> = (0..SLOTS * 2)
        .map(|_| {
            let (again, export) = (scene.clone(), export.clone());
            scene.spawn("customer", async move {
                while again.pause(Duration::ZERO) {
                    let Ok(job) = export("export_invoice", HIGH) else {
                        return;
                    };
                    // It cannot fail; it is cancelled when the service ends.
                    let _ = job.await;
                }
            })
        })
        .collect();
    scene.until_over();
    for customer in customers {
        customer.abort();
    }
    Ok(())
}
