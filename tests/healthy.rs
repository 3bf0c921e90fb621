//! That nothing is said where nothing is wrong.

mod support;

use std::time::{Duration, Instant};

use ax_wire::event::StallKind;
use support::{
    PrivateAgent,
    watched::{on_runtime, stalls_of},
};
use tokio::time::sleep;

/// No false alarm: 20 s at 2,000 jobs a second, each with a little CPU and a little waiting.
#[test]
fn healthy_load_has_no_stall() {
    const NAME: &str = "healthy";
    let agent = PrivateAgent::start();
    let (view, finished) = on_runtime(
        Some(2),
        NAME,
        &agent,
        |lane, ax| async move {
            let start = Instant::now();
            let mut submitted = 0_u32;
            let mut jobs = Vec::new();
            while start.elapsed() < Duration::from_secs(20) {
                let due = (start.elapsed().as_secs_f64() * 2_000.0) as u32;
                while submitted < due {
                    let job = ax.job("healthy_job", |_| async {
                        std::hint::black_box((0..20_000_u64).sum::<u64>());
                        sleep(Duration::from_millis(1)).await;
                        Ok::<_, std::convert::Infallible>(())
                    });
                    // A full lane turns the job away, which is healthy too.
                    jobs.extend(job.lane(&lane).submit());
                    submitted += 1;
                }
                sleep(Duration::from_millis(2)).await;
            }
            let mut finished = 0;
            for job in jobs {
                job.await.expect("no panic");
                finished += 1;
            }
            finished
        },
        |view| {
            // One that covers all of the load.
            let covers = view.window_ns >= 20_000_000_000;
            covers.then(|| view.clone())
        },
    );
    let stalls: Vec<_> = stalls_of(&view, NAME)
        .filter(|stall| stall.stall.kind == StallKind::Stall)
        .collect();
    println!(
        "{finished} jobs in 20 s, lag {:?}, stalls {}",
        view.lag,
        stalls.len()
    );
    assert!(finished >= 30_000, "only {finished} jobs");
    assert!(stalls.is_empty(), "{stalls:#?}");
}
