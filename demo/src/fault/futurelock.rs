//! A `select!` between a future that is next in line for an async lock and a timer. The timer wins, its arm wants the same
//! lock, and the future, which is handed the lock meanwhile, is not polled any more and never lets go of it.

use std::{pin::pin, sync::Arc, time::Duration};

use ax_scheduler::at;
use tokio::{sync::Mutex, time::sleep};

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "futurelock",
    expect: "async-deadlock",
    what: "a `select!` stops polling the future that is handed the lock, and waits for that lock itself",
    numbers: &[Number::new("readers_per_s", 2, 1, 20)],
    run,
};

const LABEL: &str = "session cache";

/// How long the lock is held before, so that the future queues for it.
const HELD: Duration = Duration::from_millis(200);

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("sessions", 20)?;
    let cache = Arc::new(Mutex::new(0_u64));
    let read = {
        let (scene, lane, cache) = (scene.clone(), lane.clone(), Arc::clone(&cache));
        move || {
            let cache = Arc::clone(&cache);
            let job = scene.scheduler().job("read_session", move |_| async move {
                anyhow::Ok(*at(LABEL, cache.lock()).await)
            });
            job.lane(&lane).submit()
        }
    };
    scene.steadily(scene.number("readers_per_s"), read)?;
    scene.quiet()?;
    let refresh = scene.scheduler().job("refresh_session", {
        let cache = Arc::clone(&cache);
        move |_| async move {
            let holder = tokio::spawn({
                let cache = Arc::clone(&cache);
                async move {
                    let _held = cache.lock().await;
                    sleep(HELD).await;
                }
            });
            sleep(HELD / 4).await;
            let mut queued = pin!(async { *cache.lock().await += 1 });
            tokio::select! {
                () = &mut queued => {}
                () = sleep(HELD / 4) => *at(LABEL, cache.lock()).await += 1,
            }
            holder.await?;
            anyhow::Ok(())
        }
    });
    refresh.lane(&lane).submit()?;
    scene.until_over();
    Ok(())
}
