//! A cache behind a lock of the standard library, which a thread of its own holds for as long as it fills it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "lock-contention",
    expect: "lock-contention",
    what: "jobs wait on their workers for a lock that another thread holds",
    numbers: &[
        Number::new("hold_ms", 300, 60, 2_000),
        Number::new("every_ms", 700, 100, 5_000),
    ],
    run,
};

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("cache", 4)?;
    let cache = Arc::new(Mutex::new(0_u64));
    let held = scene.ms("hold_ms");
    scene.quiet()?;
    while scene.pause(scene.ms("every_ms")) {
        let mut filling = cache.lock().unwrap_or_else(PoisonError::into_inner);
        *filling += 1;
        let cache = Arc::clone(&cache);
        let read = scene.scheduler().job("read_cache", move |_| async move {
            anyhow::Ok(*cache.lock().unwrap_or_else(PoisonError::into_inner))
        });
        drop(read.lane(&lane).submit());
        thread::sleep(held);
    }
    Ok(())
}
