//! What running jobs say that they wait for.

use std::{convert::Infallible, future::pending, io, time::Duration};

use ax_scheduler::{JobHandle, JobId, Lane, Scheduler, at, downstream};
use tokio::{sync::oneshot, task::yield_now};

/// What the job says, once it says something.
async fn label_of(ax: &Scheduler, job: JobId) -> String {
    loop {
        if let Some(waits_for) = waits_for(ax, job) {
            return waits_for;
        }
        yield_now().await;
    }
}

fn waits_for(ax: &Scheduler, job: JobId) -> Option<String> {
    let lanes = ax.snapshot().lanes.into_iter();
    let mut running = lanes.flat_map(|lane| lane.running);
    let found = running.find(|running| running.id == job)?;
    found.waits_for.map(|waits_for| waits_for.label)
}

fn lane(ax: &Scheduler, name: &str) -> Lane {
    ax.lane(name).limit(1).capacity(1).open().expect("opens")
}

fn forever(ax: &Scheduler, lane: &Lane) -> JobHandle<()> {
    let job = ax.job("forever", |_| pending::<Result<(), Infallible>>());
    job.lane(lane).submit().expect("room")
}

#[tokio::test(start_paused = true)]
async fn a_label_is_shown_while_its_await_lasts_and_the_outer_one_after_it() {
    let ax = Scheduler::new();
    let (end_inner, inner) = oneshot::channel::<()>();
    let (end_outer, outer) = oneshot::channel::<()>();
    let (end, last) = oneshot::channel::<()>();
    let job = ax.job("waits", |_| async move {
        at("outer", async move {
            at("inner", inner).await.expect("sent");
            outer.await.expect("sent");
        })
        .await;
        last.await
    });
    let job = job.submit().expect("room");
    assert_eq!(label_of(&ax, job.id()).await, "inner");
    tokio::time::advance(Duration::from_secs(3)).await;
    let running = &ax.snapshot().lanes[0].running[0];
    let since_ns = running.waits_for.as_ref().map(|waits| waits.since_ns);
    assert_eq!(since_ns, Some(3_000_000_000));
    end_inner.send(()).expect("awaited");
    while label_of(&ax, job.id()).await != "outer" {
        yield_now().await;
    }
    end_outer.send(()).expect("awaited");
    while waits_for(&ax, job.id()).is_some() {
        yield_now().await;
    }
    end.send(()).expect("awaited");
    job.await.expect("ends well");
}

#[tokio::test]
async fn lanes_downstreams_and_pools_need_no_label() {
    let ax = Scheduler::new();
    let (full, four) = (lane(&ax, "full"), ax.lane("four").limit(4).open());
    let four = four.expect("opens");
    let runs = forever(&ax, &full);
    while full.counts().running == 0 {
        yield_now().await;
    }
    let _queued = forever(&ax, &full);

    let (ax_inside, full_inside) = (ax.clone(), full.clone());
    let submits = ax.job("submits", |_| async move {
        let job = ax_inside.job("refused", |_| async { Ok::<_, Infallible>(()) });
        job.lane(&full_inside).submit_wait().await.map(drop)
    });
    let awaits = ax.job("awaits", |_| runs);
    let calls = ax.job("calls", |_| async {
        let ocr = downstream("ocr");
        ocr.call(pending::<Result<(), io::Error>>()).await
    });
    let pools = ax.job("pools", |_| async {
        downstream("db").wait(pending::<()>()).await;
        Ok::<_, Infallible>(())
    });
    let submits = submits.lane(&four).submit().expect("room");
    let awaits = awaits.lane(&four).submit().expect("room");
    let calls = calls.lane(&four).submit().expect("room");
    let pools = pools.lane(&four).submit().expect("room");
    assert_eq!(label_of(&ax, submits.id()).await, "lane full");
    assert_eq!(label_of(&ax, awaits.id()).await, "lane full");
    assert_eq!(label_of(&ax, calls.id()).await, "downstream ocr");
    assert_eq!(label_of(&ax, pools.id()).await, "pool db");
}

/// A label of one job is never seen on another that the same thread polls.
#[tokio::test]
async fn a_job_without_a_label_says_nothing_and_a_panic_leaves_nothing() {
    let ax = Scheduler::new();
    at("outside any job", yield_now()).await;
    let panics = ax.job("panics", |_| async {
        at("its last wait", async {
            yield_now().await;
            panic!("on purpose");
        })
        .await;
        Ok::<_, Infallible>(())
    });
    panics.submit().expect("room").await.expect_err("panics");
    let waits = ax.job("waits", |_| at("a", pending::<Result<(), Infallible>>()));
    let waits = waits.submit().expect("room");
    assert_eq!(label_of(&ax, waits.id()).await, "a");
    let silent = ax.job("silent", |_| pending::<Result<(), Infallible>>());
    let silent = silent.submit().expect("room");
    while silent.status() != ax_scheduler::JobState::Running {
        yield_now().await;
    }
    yield_now().await;
    assert_eq!(waits_for(&ax, silent.id()), None);
}
