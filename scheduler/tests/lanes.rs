//! Opening a lane: found by name, and refused where its settings make no sense.

use std::{convert::Infallible, future::pending, time::Duration};

use ax_scheduler::{Ageing, Lane, LaneError, Scheduler, SubmitError, limit::AdaptiveLimit};
use tokio::time::{Instant, sleep};

async fn never() -> Result<(), Infallible> {
    pending().await
}

/// F35, F38: lanes are found by name; equal settings give the same lane, others an error that says both.
#[tokio::test(start_paused = true)]
async fn lanes_are_found_by_name() {
    let ax = Scheduler::new();
    let lane = ax.lane("lane").limit(1).open().expect("new");
    let again = ax.lane("lane").limit(1).open().expect("the same");
    drop(
        ax.job("job", |_| never())
            .lane(&again)
            .submit()
            .expect("room"),
    );
    assert_eq!(lane.counts().counters.submitted_total, 1);
    let error = ax.lane("lane").limit(2).open().expect_err("another limit");
    assert_eq!(
        error.to_string(),
        "lane `lane` is open with other settings: limit 1, capacity 10000, priority 50, no timeout, cancel grace 1s; \
         asked for: limit 2, capacity 10000, priority 50, no timeout, cancel grace 1s. Use another name, or the same \
         settings"
    );
    let elsewhere = Scheduler::new();
    let foreign = elsewhere.job("job", |_| never()).lane(&lane).submit();
    assert!(matches!(foreign, Err(SubmitError::ForeignLane { .. })));

    let own = ax.lane("default").limit(3).open().expect("not used yet");
    drop(ax.job("job", |_| never()).submit().expect("room"));
    assert_eq!(own.counts().counters.submitted_total, 1);
}

#[tokio::test(start_paused = true)]
async fn absurd_settings_are_refused() {
    let ax = Scheduler::new();
    let refused = |error: Result<Lane, LaneError>, words: &str| {
        let text = error.expect_err("absurd").to_string();
        assert!(text.contains(words), "{text}");
    };
    refused(ax.lane("").open(), "needs a name");
    refused(ax.lane("a").limit(0).open(), "limit of 0");
    refused(ax.lane("a").limit(usize::MAX).open(), "out of range");
    refused(ax.lane("a").capacity(0).open(), "capacity of 0");
    refused(ax.lane("a").capacity(usize::MAX).open(), "out of range");
    refused(ax.lane("a").priority(0).open(), "priority 0");
    refused(ax.lane("a").priority(101).open(), "priority 101");
    refused(
        ax.lane("a").timeout(Duration::ZERO).open(),
        "timeout of zero",
    );
    assert!(ax.snapshot().lanes.is_empty());

    let invalid = ax.job("job", |_| never()).priority(101).submit();
    assert_eq!(
        invalid.expect_err("invalid"),
        SubmitError::InvalidPriority { given: 101 }
    );
    let zero = ax.job("job", |_| never()).timeout(Duration::ZERO).submit();
    assert_eq!(zero.expect_err("zero"), SubmitError::ZeroTimeout);
    let forever = ax.job("job", |_| async {
        sleep(Duration::from_secs(1)).await;
        Ok::<_, Infallible>(())
    });
    let forever = forever.timeout(Duration::MAX).submit().expect("room");
    forever.await.expect("no timeout in sight");
}

/// Bad input: every setting that makes no sense is refused, with what was given.
#[tokio::test(start_paused = true)]
async fn settings_that_make_no_sense_are_refused() {
    let ax = Scheduler::new();
    let adaptive =
        |floor, ceiling, ms| AdaptiveLimit::new(floor..=ceiling, Duration::from_millis(ms));
    let lane = || ax.lane("bad");
    let second = Duration::from_secs(1);
    let refused = [
        lane().capacity_bytes(0).open(),
        lane().high_water_percent(0).open(),
        lane().high_water_percent(101).open(),
        lane().turn_every(1).open(),
        lane().ageing(Ageing::step(Duration::ZERO)).open(),
        lane().ageing(Ageing::slope(0, second)).open(),
        lane().ageing(Ageing::step(second).ceiling(101)).open(),
        lane().adaptive(adaptive(0, 10, 1)).limit(5).open(),
        lane().adaptive(adaptive(10, 9, 1)).limit(10).open(),
        lane().adaptive(adaptive(1, 10, 0)).limit(5).open(),
        lane().adaptive(adaptive(1, 10, 1)).limit(11).open(),
    ];
    for lane in refused {
        let refused = lane.expect_err("makes no sense").to_string();
        assert!(refused.starts_with("lane `bad`"), "{refused}");
    }
    let started = Instant::now();
    lane().open().expect("makes sense");
    assert_eq!(started.elapsed(), Duration::ZERO);
}
