//! Limits that move, under paused time: by hand, for a while, by themselves, by advice.

use std::{convert::Infallible, sync::Arc, time::Duration};

use ax_scheduler::{
    JobHandle, JobState, Lane, LaneError, Scheduler,
    limit::{AdaptiveLimit, LimitAdvice, LimitReason},
};
use parking_lot::Mutex;
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

/// Lets every task that can run do so; virtual time moves by a millisecond.
async fn settle() {
    sleep(MS).await;
}

fn nap(ax: &Scheduler, lane: &Lane, lasting: Duration) -> JobHandle<()> {
    let job = ax.job("nap", move |_| async move {
        sleep(lasting).await;
        Ok::<_, Infallible>(())
    });
    job.lane(lane).submit().expect("room")
}

/// F24: a limit that falls holds from that moment on; one that rises is used at once; a pause begins nothing.
#[tokio::test(start_paused = true)]
async fn the_limit_moves_while_the_lane_runs() {
    let ax = Scheduler::new();
    let lane = ax.lane("resize").limit(4).open().expect("new");
    let running = || lane.counts().running;
    for _ in 0..100 {
        nap(&ax, &lane, 10 * MS);
    }
    settle().await;
    assert_eq!(running(), 4);
    lane.resize(2).expect("in range");
    assert_eq!((lane.counts().limit, running()), (2, 4));
    sleep(10 * MS).await;
    assert_eq!(running(), 2);
    lane.resize(7).expect("in range");
    settle().await;
    assert_eq!(running(), 7);
    lane.pause();
    sleep(20 * MS).await;
    assert!(lane.counts().paused);
    assert_eq!(running(), 0);
    let pending = lane.counts().pending;
    sleep(20 * MS).await;
    assert_eq!((running(), lane.counts().pending), (0, pending));
    lane.resume();
    settle().await;
    assert_eq!((running(), lane.counts().paused), (7, false));
    for given in [0, usize::MAX] {
        let refused = lane.resize(given).expect_err("out of range");
        assert!(
            matches!(refused, LaneError::InvalidLimit { .. }),
            "{refused}"
        );
    }
    let moves = lane.limit_moves();
    let moves: Vec<_> = moves
        .iter()
        .map(|step| (step.seq, step.from, step.to, step.reason))
        .collect();
    let resized = LimitReason::Resized;
    assert_eq!(moves, [(1, 4, 2, resized), (2, 2, 7, resized)]);
}

/// A lane that is paused when its last handle goes still runs what is queued.
#[tokio::test(start_paused = true)]
async fn a_pause_ends_with_the_last_handle() {
    let ax = Scheduler::new();
    let lane = ax.lane("left").limit(2).open().expect("new");
    lane.pause();
    let job = nap(&ax, &lane, MS);
    settle().await;
    assert_eq!(job.status(), JobState::Ready);
    drop((ax, lane));
    job.await.expect("success");
}

/// F37: at most 30 % more, for a while, and back by itself.
#[tokio::test(start_paused = true)]
async fn a_boost_falls_back_by_itself() {
    let ax = Scheduler::new();
    let lane = ax.lane("boost").limit(10).open().expect("new");
    for _ in 0..3_000 {
        nap(&ax, &lane, 10 * MS);
    }
    settle().await;
    assert_eq!(
        lane.boost(30, Duration::from_secs(1)).expect("in range"),
        13
    );
    settle().await;
    assert_eq!((lane.counts().limit, lane.counts().running), (13, 13));
    sleep(Duration::from_millis(990)).await;
    assert_eq!(lane.counts().running, 13);
    sleep(20 * MS).await;
    assert_eq!((lane.counts().limit, lane.counts().running), (10, 10));
    let moves = lane.limit_moves();
    let moves: Vec<_> = moves
        .iter()
        .map(|step| (step.from, step.to, step.reason))
        .collect();
    let expected = [
        (10, 13, LimitReason::Boost),
        (13, 10, LimitReason::BoostEnded),
    ];
    assert_eq!(moves, expected);
    // Nothing runs here that could notice the end.
    let idle = ax.lane("idle").limit(10).open().expect("new");
    idle.boost(30, Duration::from_secs(1)).expect("in range");
    sleep(Duration::from_secs(2)).await;
    let of_sample = idle.counts().limit_moves;
    assert_eq!(of_sample.last().expect("moved").to, 10);
    assert_eq!(idle.limit_moves(), of_sample);
    idle.boost(20, MS).expect("in range");
    let moves = idle.limit_moves();
    assert_eq!(moves[..2], of_sample);
    assert_eq!(moves.last().expect("moved").to, 12);
    let small = ax.lane("small").limit(3).open().expect("new");
    for (lane, percent, lasting) in [
        (&lane, 31, MS),
        (&lane, 0, MS),
        (&lane, 30, Duration::ZERO),
        (&small, 30, MS),
    ] {
        let refused = lane.boost(percent, lasting).expect_err("none");
        assert!(
            matches!(refused, LaneError::InvalidBoost { .. }),
            "{refused}"
        );
    }
}

/// A downstream that serves `capacity` calls in 100 ms and slows down in proportion beyond that.
struct Downstream {
    capacity: usize,
    inside: usize,
}

async fn call(downstream: Arc<Mutex<Downstream>>, fails: bool) -> Result<(), &'static str> {
    let lasting = {
        let mut downstream = downstream.lock();
        downstream.inside += 1;
        let over = downstream.inside.max(downstream.capacity) * 100;
        Duration::from_millis((over / downstream.capacity) as u64)
    };
    sleep(lasting).await;
    downstream.lock().inside -= 1;
    if fails { Err("told to") } else { Ok(()) }
}

/// F40, F42: it finds the knee of a downstream, follows it, and is moved neither by failures nor by idle time.
#[tokio::test(start_paused = true)]
async fn an_adaptive_limit_follows_the_downstream() {
    let downstream = Arc::new(Mutex::new(Downstream {
        capacity: 20,
        inside: 0,
    }));
    let ax = Scheduler::new();
    let adaptive = AdaptiveLimit::new(4..=200, Duration::from_millis(150));
    let lane = ax
        .lane("adaptive")
        .limit(8)
        .capacity(100_000)
        .adaptive(adaptive);
    let lane = lane.open().expect("new");
    let submit = |fails| {
        let downstream = Arc::clone(&downstream);
        let job = ax.job("call", move |_| call(downstream, fails));
        job.lane(&lane).submit().expect("room")
    };
    let limit = || lane.counts().limit;
    let load = async |count: usize, fails: bool| {
        let jobs: Vec<_> = (0..count).map(|_| submit(fails)).collect();
        for job in jobs {
            job.await.ok();
        }
    };
    load(6_000, false).await;
    // 150 ms are reached at 1.5 times the capacity.
    let at_knee = limit();
    assert!((24..=33).contains(&at_knee), "{at_knee}");
    downstream.lock().capacity = 8;
    load(3_000, false).await;
    let lower = limit();
    assert!((9..=15).contains(&lower), "{lower}");

    // Failures that take for ever, and failures that take no time.
    downstream.lock().capacity = 1;
    load(200, true).await;
    downstream.lock().capacity = 10_000;
    load(2_000, true).await;
    assert_eq!(limit(), lower);
    // Idle, with a slow job now and then.
    for _ in 0..100 {
        nap(&ax, &lane, Duration::from_secs(2))
            .await
            .expect("success");
    }
    assert_eq!(limit(), lower);
    let moves = lane.limit_moves();
    assert!(moves.len() <= 64 && moves.iter().any(|step| step.reason == LimitReason::Slow));
    assert!(
        lane.counts()
            .limit_moves
            .ends_with(&moves[moves.len() - 1..])
    );
    let refused = lane.resize(3).expect_err("below the floor");
    assert!(
        matches!(refused, LaneError::OutsideBounds { .. }),
        "{refused}"
    );
}

/// F20 to F22: the advice is the rate times the time that jobs took.
#[tokio::test(start_paused = true)]
async fn the_advice_comes_from_what_ran() {
    let ax = Scheduler::new();
    let lane = ax.lane("advice").limit(1_000).open().expect("new");
    let mark = lane.mark();
    assert_eq!(
        lane.advise_limit(&mark),
        LimitAdvice::NotEnoughData { missing: 20 }
    );
    for _ in 0..5_000 {
        nap(&ax, &lane, Duration::from_millis(300));
        sleep(2 * MS).await;
    }
    let advice = lane.advise_limit(&mark);
    let LimitAdvice::Measured { needed, .. } = advice else {
        panic!("{advice:?}");
    };
    assert!((149..=152).contains(&needed), "{advice:?}");
}
