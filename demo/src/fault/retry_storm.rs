//! Jobs that begin to fail and are tried again at once, again and again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_scheduler::Backoff;
use tokio::time::sleep;

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "retry-storm",
    expect: "retry-storm",
    what: "jobs fail, and most of the load is their retries",
    numbers: &[
        Number::new("jobs_per_s", 8, 1, 50),
        Number::new("retries", 10, 2, 50),
        Number::new("backoff_ms", 50, 1, 1_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("stock", 40)?;
    let fails = Arc::new(AtomicBool::new(false));
    let backoff = Backoff::fixed(scene.ms("backoff_ms"));
    let retry = backoff.retries(u32::try_from(scene.number("retries"))?);
    let sync = {
        let (scene, fails) = (scene.clone(), Arc::clone(&fails));
        move || {
            let fails = Arc::clone(&fails);
            let job = scene.scheduler().job("sync_stock", move |_| {
                let fails = Arc::clone(&fails);
                async move {
                    sleep(Duration::from_millis(10)).await;
                    anyhow::ensure!(!fails.load(Relaxed), "the warehouse refuses the token");
                    anyhow::Ok(())
                }
            });
            job.lane(&lane).retry(retry).submit()
        }
    };
    scene.steadily(scene.number("jobs_per_s"), sync)?;
    scene.quiet()?;
    fails.store(true, Relaxed);
    scene.until_over();
    fails.store(false, Relaxed);
    Ok(())
}
