//! A mail server that answers as fast as ever, behind a pool whose connections have become few.

use std::{sync::Arc, time::Duration};

use ax_scheduler::{PoolSample, downstream};
use tokio::{sync::Semaphore, time::sleep};

use super::{Fault, Scene, number::Number};

pub(super) const FAULT: Fault = Fault {
    name: "pool-too-small",
    expect: "pool-too-small",
    what: "callers queue for one connection to a mail server that is fast",
    numbers: &[
        Number::new("mails_per_s", 60, 50, 500),
        Number::new("answer_ms", 25, 20, 100),
    ],
    run,
};

/// Connections before the fault; it leaves one.
const CONNECTIONS: u32 = 8;

fn run(scene: &Scene) -> anyhow::Result<()> {
    let lane = scene.lane("mail", 40)?;
    let answers_in: Duration = scene.ms("answer_ms");
    let connections = Arc::new(Semaphore::new(CONNECTIONS as usize));
    let open = Arc::new(std::sync::atomic::AtomicU64::new(u64::from(CONNECTIONS)));
    let server = downstream("mail-server");
    server.show_pool({
        let (connections, open) = (Arc::clone(&connections), Arc::clone(&open));
        move || {
            let idle = connections.available_permits() as u64;
            let open = open.load(std::sync::atomic::Ordering::Relaxed);
            Some(PoolSample {
                in_use: open.saturating_sub(idle),
                idle,
                waiting: None,
            })
        }
    });
    let mail = {
        let (scene, connections) = (scene.clone(), Arc::clone(&connections));
        move || {
            let connections = Arc::clone(&connections);
            let job = scene.scheduler().job("send_mail", move |_| async move {
                let _connection = server.wait(connections.acquire_owned()).await?;
                let answer = async {
                    sleep(answers_in).await;
                    anyhow::Ok(())
                };
                server.call(answer).await
            });
            job.lane(&lane).submit()
        }
    };
    scene.steadily(scene.number("mails_per_s"), mail)?;
    scene.quiet()?;
    let closed = scene
        .runtime
        .block_on(connections.acquire_many(CONNECTIONS - 1))?;
    open.store(1, std::sync::atomic::Ordering::Relaxed);
    scene.until_over();
    open.store(u64::from(CONNECTIONS), std::sync::atomic::Ordering::Relaxed);
    drop(closed);
    Ok(())
}
