//! The context of spawned tasks. Requests are tested in `tests/requests.rs`, jobs in the scheduler.

use proptest::prelude::*;
use tokio::task::yield_now;

use super::*;
use crate::{spawn, spawn_blocking};

#[test]
fn the_job_of_a_span_is_found_and_other_spans_have_none() {
    for job in (1..10_000).chain([1 << 39, u64::MAX - 2]).map(JobId) {
        let span = span_of_job(job);
        assert_eq!(job_of_span(span, JobId(u64::MAX)), Some(job));
        assert_eq!(job_of_span(span, job), None, "not before itself");
    }
    let strangers = (0..10_000).filter_map(|_| job_of_span(new_span(), JobId(1 << 30)));
    assert_eq!(strangers.count(), 0);
}

fn user() -> Option<String> {
    let context = current()?;
    context.baggage().get(USER_ID).map(String::from)
}

#[tokio::test]
async fn children_know_their_parent_and_its_baggage_across_awaits_and_spawns() {
    let family = spawn("t-family", async {
        let outer = current().expect("in a task");
        with_baggage([(USER_ID, "42")], async {
            yield_now().await;
            let child = spawn("t-family", async {
                yield_now().await;
                let grandchild = spawn_blocking("t-family", || (current(), user()));
                (current(), user(), grandchild.await.expect("runs"))
            });
            (
                outer,
                current().expect("in a task"),
                user(),
                child.await.expect("runs"),
            )
        })
        .await
    });
    let (outer, inner, own_user, child) = family.await.expect("runs");
    let (child, child_user, (grandchild, grandchild_user)) = child;
    let (child, grandchild) = (child.expect("has one"), grandchild.expect("has one"));
    assert_eq!((outer.parent(), inner.span()), (None, outer.span()));
    assert_eq!(child.parent(), Some(outer.span()));
    assert_eq!(grandchild.parent(), Some(child.span()));
    assert!(
        [&inner, &child, &grandchild]
            .iter()
            .all(|context| context.trace() == outer.trace())
    );
    for user in [own_user, child_user, grandchild_user] {
        assert_eq!(user.as_deref(), Some("42"));
    }
    assert!(outer.baggage().is_empty());
}

#[tokio::test]
async fn no_task_sees_the_context_of_another() {
    let task = |id: &'static str| {
        spawn(
            "t-apart",
            with_baggage([(USER_ID, id)], async move {
                for _ in 0..50 {
                    assert_eq!(user().as_deref(), Some(id));
                    yield_now().await;
                }
                // Not wrapped: it has no context, rather than somebody else's.
                tokio::spawn(async { current().is_none() })
                    .await
                    .expect("runs")
            }),
        )
    };
    let tasks = ["1", "2", "3"].map(task);
    for task in tasks {
        assert!(task.await.expect("runs"));
    }
    assert!(current().is_none());
}

#[tokio::test]
async fn a_poll_that_panics_leaves_no_context_behind() {
    let panicked = spawn(
        "t-panic",
        with_baggage([(USER_ID, "9")], async { panic!("wanted") }),
    );
    assert!(panicked.await.is_err());
    assert!(current().is_none());
    let (_, next) = inherit();
    assert_eq!((next.parent(), next.carried.is_none()), (None, true));
}

#[tokio::test]
async fn baggage_that_is_added_replaces_and_what_does_not_fit_is_counted() {
    let before = baggage_dropped_total();
    let long = "x".repeat(MAX_BAGGAGE_BYTES);
    let added = with_baggage([(USER_ID, "2"), ("long", &long)], async {
        let context = current().expect("in a task");
        context.baggage().to_string()
    });
    let seen = spawn("t-replace", async move {
        with_baggage([(USER_ID, "1")], added).await
    });
    assert_eq!(seen.await.expect("runs"), "user.id=2");
    assert!(baggage_dropped_total() > before);
}

proptest! {
    #[test]
    fn jobs_never_share_a_span_id(first in 1_u64.., second in 1_u64..) {
        prop_assume!(first != second);
        prop_assert_ne!(span_of_job(JobId(first)), span_of_job(JobId(second)));
    }
}
