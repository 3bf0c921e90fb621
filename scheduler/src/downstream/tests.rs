//! Under paused time: every duration is exact. What jobs make of it is in `tests/downstream.rs`.

use std::{convert::Infallible, future::pending, time::Duration};

use ax_probe::trace;
use tokio::time::{Instant, sleep, timeout};

use super::*;

const CALL: Duration = Duration::from_millis(20);

/// What the probe is told of this one, and takes.
fn sample(of: Downstream) -> DownstreamSample {
    let all = registry::sample_all();
    let found = all.into_iter().find(|sample| sample.name == of.name());
    found.expect("is there")
}

async fn succeed() -> Result<(), Infallible> {
    sleep(CALL).await;
    Ok(())
}

// The one test that takes the histograms: it would take those of the others too.
#[tokio::test(start_paused = true)]
async fn calls_waits_and_their_ends_are_counted_and_timed() {
    let ours = downstream("d-counts");
    assert!(ours.call(succeed()).await.is_ok());
    assert_eq!(ours.call(async { Err::<(), _>("no") }).await, Err("no"));
    assert!(
        timeout(CALL, ours.call(pending::<Result<(), ()>>()))
            .await
            .is_err()
    );
    let panicked = tokio::spawn(async move {
        ours.call(async { panic!("wanted") as Result<(), ()> })
            .await
    });
    assert!(panicked.await.is_err());
    assert!(timeout(CALL, ours.wait(pending::<()>())).await.is_err());
    ours.wait(sleep(CALL)).await;

    let sampled = sample(ours);
    assert_eq!(
        (
            sampled.calls_total,
            sampled.errors_total,
            sampled.cancelled_total
        ),
        (4, 2, 1)
    );
    assert_eq!((sampled.in_flight, sampled.waiting), (0, 0));
    let latency = sampled.latency.expect("recorded");
    assert_eq!((latency.count(), latency.max_ns()), (4, Some(20_000_000)));
    let wait = sampled.wait.expect("recorded");
    assert_eq!((wait.count(), wait.max_ns()), (2, Some(20_000_000)));
    assert_eq!(sample(ours).latency, None);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_charged_to_the_task_that_awaits_it_and_is_a_span_of_its_trace() {
    let ours = downstream("d-callers");
    let caller = ax_probe::spawn("d-caller", async move {
        let outer = trace::current().expect("in a task");
        let call = ours.call(async {
            sleep(CALL).await;
            let during = ours.counts();
            Ok::<_, Infallible>((trace::current().expect("in a call"), during))
        });
        (outer, call.await.expect("succeeds"))
    });
    let (outer, (inner, during)) = caller.await.expect("runs");
    assert_eq!(
        (inner.trace(), inner.parent()),
        (outer.trace(), Some(outer.span()))
    );
    assert_ne!(inner.span(), outer.span());
    let oldest = during.oldest.first().expect("under way");
    assert_eq!(oldest.caller.as_deref(), Some("d-caller"));
    assert_eq!(
        (oldest.age_ns, oldest.trace),
        (20_000_000, Some(outer.trace()))
    );
    assert_eq!((during.in_flight, during.callers[0].in_flight), (1, 1));
    let caller = &ours.counts().callers[0];
    assert_eq!(
        (&*caller.name, caller.in_flight, caller.calls_total),
        ("d-caller", 0, 1)
    );
    assert_eq!(caller.time_ns_total, 20_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_added_only_where_it_is_allowed() {
    let ours = downstream("d-delay");
    let delay = Duration::from_millis(500);
    let refused = ours.inject_delay(delay).expect_err("not allowed yet");
    assert!(refused.to_string().contains("`d-delay`"));
    ours.allow_injection();
    ours.inject_delay(delay).expect("is allowed");
    assert_eq!(ours.counts().injected_delay_ns, Some(500_000_000));
    let began = Instant::now();
    assert!(ours.call(succeed()).await.is_ok());
    assert_eq!(began.elapsed(), CALL + delay);
    ours.inject_delay(Duration::ZERO).expect("is allowed");
    let began = Instant::now();
    assert!(ours.call(succeed()).await.is_ok());
    assert_eq!(
        (began.elapsed(), ours.counts().injected_delay_ns),
        (CALL, None)
    );
}

/// F97: by an order, and only for a while.
#[tokio::test(start_paused = true)]
async fn a_delay_that_was_ordered_ends_by_itself() {
    let ours = downstream("d-ordered");
    let (delay, lasting) = (Duration::from_millis(500), Duration::from_secs(10));
    let order = super::registry::inject;
    assert!(order("d-missing", delay, lasting).is_err());
    let why = order("d-ordered", delay, lasting).expect_err("not allowed yet");
    assert!(why.contains("allow_injection"), "{why}");
    ours.allow_injection();
    let why = order("d-ordered", Duration::from_secs(61), lasting).expect_err("too long");
    assert!(why.contains("at most"), "{why}");
    assert!(order("d-ordered", delay, Duration::from_hours(2)).is_err());
    let told = order("d-ordered", delay, lasting).expect("allowed");
    assert_eq!(
        told,
        "downstream d-ordered: each call takes 500ms longer for 10s"
    );
    let took = async || {
        let began = Instant::now();
        assert!(ours.call(succeed()).await.is_ok());
        began.elapsed()
    };
    assert_eq!(took().await, CALL + delay);
    tokio::time::sleep(lasting).await;
    assert_eq!(took().await, CALL);
    assert_eq!(ours.counts().injected_delay_ns, None);
    order("d-ordered", delay, lasting).expect("allowed");
    order("d-ordered", Duration::ZERO, lasting).expect("ends it");
    assert_eq!(took().await, CALL);
}

#[tokio::test]
async fn a_pool_is_a_gauge_and_one_that_panics_is_unknown() {
    let ours = downstream("d-pool");
    assert_eq!(ours.counts().pool, None);
    let gauge = PoolSample {
        in_use: 3,
        idle: 1,
        waiting: Some(2),
    };
    ours.show_pool(move || Some(gauge));
    assert_eq!(
        (ours.counts().pool, ours.counts().pool),
        (Some(gauge), Some(gauge))
    );
    ours.show_pool(|| panic!("wanted"));
    assert_eq!(ours.counts().pool, None);
    // The user's gauge runs under no lock of ours.
    ours.show_pool(move || {
        ours.show_pool(move || Some(gauge));
        ours.counts().pool
    });
    assert_eq!(ours.counts().pool, Some(gauge));
}

#[test]
fn the_same_name_is_the_same_downstream() {
    assert!(std::ptr::eq(
        downstream("d-same").state,
        downstream("d-same").state
    ));
    assert!(!std::ptr::eq(
        downstream("d-same").state,
        downstream("d-other").state
    ));
}
