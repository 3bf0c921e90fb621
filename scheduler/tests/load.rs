//! Stepped load (F20-F22, F83), under paused time, so that what a step shows is exact.

use std::{io, time::Duration};

use ax_scheduler::{Lane, Scheduler, limit, load::Load};
use tokio::time::{Instant, sleep};

const RUN: Duration = Duration::from_millis(20);

fn lane(ax: &Scheduler, limit: usize, capacity: usize) -> Lane {
    let lane = ax.lane("driven").limit(limit).capacity(capacity);
    lane.open().expect("new")
}

async fn work() -> Result<(), io::Error> {
    sleep(RUN).await;
    Ok(())
}

/// A lane of limit 4 with jobs of 20 ms does 200 a second: up to there it keeps up, and beyond its queue grows by what is
/// too much.
#[tokio::test(start_paused = true)]
async fn the_knee_is_where_the_lane_is_full() {
    let ax = Scheduler::new();
    let lane = lane(&ax, 4, 100_000);
    let load = Load::steps([50.0, 100.0, 200.0, 250.0, 380.0]);
    let load = load.step_for(Duration::from_secs(10));
    let began = Instant::now();
    let report = load.drive(&ax, &lane, "driven", |_| work()).await;
    for step in &report.steps {
        println!("{step}");
    }
    let [low, _, full, over, far] = &report.steps[..] else {
        panic!("{report:?}");
    };
    assert_eq!(report.knee(), Some(full));
    assert_eq!(
        (low.submitted, low.rejected, low.failed, low.unfinished),
        (500, 0, 0, 0)
    );
    assert!((low.achieved_per_s - 50.0).abs() < 1.0, "{low}");
    assert_eq!((low.wait.count, low.run.count, low.pending), (500, 500, 0));
    assert!(low.wait.max <= Duration::from_millis(1), "{low}");
    let near = |found: Duration, wanted: Duration| found.abs_diff(wanted) <= wanted / 50;
    assert!(near(low.run.p50, RUN) && near(low.run.p99, RUN), "{low}");

    for (step, rate) in [(over, 250.0), (far, 380.0)] {
        assert!(!step.is_good());
        assert!((step.achieved_per_s - 200.0).abs() < 2.0, "{step}");
        let too_much = rate - 200.0;
        assert!(
            (step.pending_slope_per_s - too_much).abs() < too_much / 20.0,
            "{step}"
        );
        assert!(
            (step.pending as f64 - too_much * 10.0).abs() < 10.0,
            "{step}"
        );
        // Who comes last waits for all that is queued.
        let last = Duration::from_secs_f64(too_much * 10.0 / 200.0);
        assert!(
            near(step.wait.max, last),
            "{step}: {:?} of {last:?}",
            step.wait.max
        );
        assert_eq!(step.unfinished, 0, "drained before the next step");
    }
    // Five steps, and the time in which the last two were drained.
    let drained = Duration::from_secs_f64(2.5 + 9.0);
    assert!(near(began.elapsed(), Duration::from_secs(50) + drained));
    // What the knee needed is what the helper says.
    let needed = limit::of_rate(full.offered_per_s, full.run.p50);
    assert_eq!(needed, 4);
}

/// The load is open loop: a lane that refuses is offered the next job on time all the same.
#[tokio::test(start_paused = true)]
async fn what_a_full_lane_refuses_is_told_and_slows_nothing() {
    let ax = Scheduler::new();
    let lane = lane(&ax, 1, 5);
    let load = Load::steps([100.0]).step_for(Duration::from_secs(4));
    let report = load.drive(&ax, &lane, "refused", |_| work()).await;
    let step = &report.steps[0];
    assert_eq!(step.submitted + step.rejected, 400);
    assert!((190..=200).contains(&step.rejected), "{step}");
    assert!((step.achieved_per_s - 50.0).abs() < 2.0, "{step}");
    assert_eq!(report.knee(), None);
    // They are no failures: they have not run.
    assert_eq!((step.failed, step.unfinished), (0, 0));
}

/// Errors, timeouts and jobs that never end are counted, and hold up nothing.
#[tokio::test(start_paused = true)]
async fn jobs_that_fail_or_never_end_are_counted() {
    let ax = Scheduler::new();
    let timed = ax
        .lane("timed")
        .limit(50)
        .timeout(RUN * 2)
        .open()
        .expect("new");
    let load = Load::steps([100.0]).step_for(Duration::from_secs(2));
    let load = load.warm_up(Duration::from_secs(1));
    let hang = load.drive(&ax, &timed, "hangs", |_| async {
        std::future::pending::<Result<(), io::Error>>().await
    });
    let hang = hang.await;
    let step = &hang.steps[0];
    assert_eq!(
        (step.submitted, step.failed, step.achieved_per_s),
        (200, 200, 0.0)
    );
    assert_eq!(
        timed.counts().counters.timed_out_total,
        300,
        "with the warm-up"
    );

    let lane = lane(&ax, 1_000, 1_000);
    let fails = load.drive(&ax, &lane, "fails", |_| async {
        Err::<(), _>(io::Error::other("no"))
    });
    assert_eq!(fails.await.steps[0].failed, 200);
    let ends = load.drive(&ax, &lane, "never", |_| async {
        std::future::pending::<Result<(), io::Error>>().await
    });
    let began = Instant::now();
    let ends = ends.await;
    assert_eq!(ends.steps[0].unfinished, 200);
    assert!(began.elapsed() < Duration::from_secs(7));
}

/// Absurd loads end, and say so.
#[tokio::test(start_paused = true)]
async fn absurd_loads_are_defined() {
    let ax = Scheduler::new();
    let lane = lane(&ax, 1, 10);
    let load = Load::steps([0.0, -1.0, f64::NAN]).step_for(Duration::from_secs(1));
    let report = load.drive(&ax, &lane, "none", |_| work()).await;
    assert!(
        report
            .steps
            .iter()
            .all(|step| step.submitted + step.rejected == 0)
    );
    let load = Load::steps([100.0]).step_for(Duration::ZERO);
    let report = load.drive(&ax, &lane, "none", |_| work()).await;
    assert_eq!(report.steps[0].submitted, 0);
    let load = Load::steps(Vec::new());
    assert!(
        load.drive(&ax, &lane, "none", |_| work())
            .await
            .steps
            .is_empty()
    );
}
