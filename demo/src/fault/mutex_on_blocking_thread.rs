//! A lock of the standard library that is held across work on the blocking pool. Moving the work there was right, and did
//! not help: the workers wait for the lock.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Fault, Scene, number::Number, scene::compute};

pub(super) const FAULT: Fault = Fault {
    name: "mutex-on-blocking-thread",
    expect: "lock-contention",
    what: "blocking work holds a lock that jobs wait for on their workers",
    numbers: &[
        Number::new("work_ms", 300, 60, 2_000),
        Number::new("every_ms", 800, 100, 5_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("prices", 4)?;
    let prices = Arc::new(Mutex::new(0_u64));
    let length = scene.ms("work_ms");
    scene.quiet()?;
    while scene.pause(scene.ms("every_ms")) {
        let (filled, read) = (Arc::clone(&prices), Arc::clone(&prices));
        let job = scene.scheduler().job("read_price", move |_| async move {
            anyhow::Ok(*read.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let (scheduled, waits) = (job.lane(&lane), std::sync::mpsc::channel());
        scene.spawn_blocking("load_prices", move || {
            let mut prices = filled.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody waits for it only when the fault is over.
            let _ = waits.0.send(());
            compute(length);
            *prices += 1;
        });
        // The job comes once the lock is held; the blocking pool may be slow to begin.
        if waits.1.recv().is_ok() {
            drop(scheduled.submit());
        }
    }
    Ok(())
}
