//! Downstreams as jobs use them (F79, F79b). Counting and timing are tested beside the code.

use std::{io, sync::Arc, time::Duration};

use ax_scheduler::{DownstreamSample, JobContext, PoolSample, Scheduler, downstream};
use tokio::{sync::Semaphore, time::sleep};

const CALL: Duration = Duration::from_millis(20);

/// A pool of two connections under a lane of five jobs: the pool is the queue, and the gauge says so.
#[tokio::test(start_paused = true)]
async fn a_downstream_says_which_jobs_call_it_and_that_its_pool_is_the_queue() {
    let ax = Scheduler::new();
    let lane = ax.lane("db").limit(5).open().expect("opens");
    let db = downstream("db");
    let pool = Arc::new(Semaphore::new(2));
    let shown = Arc::downgrade(&pool);
    db.show_pool(move || {
        let idle = shown.upgrade()?.available_permits() as u64;
        Some(PoolSample {
            in_use: 2 - idle,
            idle,
            waiting: None,
        })
    });
    let query = |index: u32| {
        let pool = Arc::clone(&pool);
        ax.job("query", move |_: JobContext| async move {
            let _connection = db.wait(pool.acquire()).await;
            let call = async {
                sleep(CALL).await;
                if index == 0 {
                    Err(io::Error::other("no"))
                } else {
                    Ok(())
                }
            };
            db.call(call).await
        })
    };
    let handles: Vec<_> = (0..5)
        .map(|index| query(index).lane(&lane).submit().expect("is taken"))
        .collect();
    sleep(CALL / 2).await;
    let DownstreamSample {
        in_flight,
        waiting,
        pool: gauge,
        oldest,
        ..
    } = db.counts();
    assert_eq!((in_flight, waiting), (2, 3));
    let full = PoolSample {
        in_use: 2,
        idle: 0,
        waiting: None,
    };
    assert_eq!(gauge, Some(full));
    let calling: Vec<_> = oldest.iter().map(|call| call.job).collect();
    assert_eq!(calling, [Some(handles[0].id()), Some(handles[1].id())]);
    assert_eq!(oldest[0].trace, Some(handles[0].trace()));

    let mut failed = 0;
    for handle in handles {
        failed += u32::from(handle.await.is_err());
    }
    let after = db.counts();
    assert_eq!((failed, after.errors_total, after.in_flight), (1, 1, 0));
    let caller = &after.callers[0];
    assert_eq!(
        (&*caller.name, caller.lane.as_deref()),
        ("query", Some("db"))
    );
    assert_eq!((caller.calls_total, caller.errors_total), (5, 1));
    assert_eq!(caller.time_ns_total, 5 * 20_000_000);
    drop(pool);
    assert_eq!(db.counts().pool, None);
    ax.shutdown().await;
}
