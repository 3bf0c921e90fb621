//! The trace context of jobs (F72). Headers and requests are tested in the probe.

use std::{io, time::Duration};

use ax_scheduler::{
    JobContext, Scheduler,
    trace::{self, TraceContext, USER_ID, with_baggage},
};
use tokio::time::sleep;

fn context() -> TraceContext {
    trace::current().expect("inside a job")
}

fn user() -> Option<String> {
    context().baggage().get(USER_ID).map(String::from)
}

#[tokio::test(start_paused = true)]
async fn jobs_of_jobs_inherit_trace_and_baggage_with_no_argument_passed() {
    let ax = Scheduler::new();
    let inner = ax.clone();
    let outer = ax.job("outer", move |_: JobContext| async move {
        let own = context();
        let child = with_baggage([(USER_ID, "42")], async {
            sleep(Duration::from_secs(1)).await;
            let deeper = inner.clone();
            let child = inner.job("child", move |cx: JobContext| async move {
                sleep(Duration::from_secs(1)).await;
                let child = (cx.id(), context(), user());
                let grandchild = deeper.job("grandchild", |_| async {
                    Ok::<_, io::Error>((context(), user()))
                });
                Ok::<_, io::Error>((child, grandchild.submit().expect("is taken").await))
            });
            child.submit().expect("is taken").await
        });
        Ok::<_, io::Error>((own, child.await.expect("succeeds")))
    });
    let handle = outer.submit().expect("is taken");
    let trace = handle.trace();
    let (own, ((child_id, child, child_user), grandchild)) = handle.await.expect("succeeds");
    let (grandchild, grandchild_user) = grandchild.expect("succeeds");

    assert_eq!(
        (own.trace(), child.trace(), grandchild.trace()),
        (trace, trace, trace)
    );
    assert_eq!((own.parent(), own.baggage().is_empty()), (None, true));
    assert_eq!(child.parent(), Some(own.span()));
    assert_eq!(child.span(), trace::span_of_job(child_id));
    assert_eq!(grandchild.parent(), Some(child.span()));
    assert_eq!(
        (child_user.as_deref(), grandchild_user.as_deref()),
        (Some("42"), Some("42"))
    );
    ax.shutdown().await;
}

/// Many jobs in turns on the same threads: each sees its own context, on every poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_sees_the_context_of_another() {
    let ax = Scheduler::new();
    let lane = ax.lane("apart").limit(8).open().expect("opens");
    let submit = |index: usize| {
        let (ax, lane) = (ax.clone(), lane.clone());
        let id = index.to_string();
        let expected = id.clone();
        let submitting = async move {
            let baggage = [(USER_ID, &*id)];
            with_baggage(baggage, async {
                let job = ax.job("apart", move |_| async move {
                    for _ in 0..20 {
                        assert_eq!(user().as_deref(), Some(&*expected));
                        tokio::task::yield_now().await;
                    }
                    Ok::<_, io::Error>(())
                });
                job.lane(&lane).submit().expect("is taken").await
            })
            .await
        };
        ax_scheduler::probe::spawn("submitter", submitting)
    };
    let submitters: Vec<_> = (0..100).map(submit).collect();
    for submitter in submitters {
        submitter
            .await
            .expect("runs")
            .expect("saw its own context only");
    }
    assert!(trace::current().is_none());
    ax.shutdown().await;
}

/// Looks at the context while the job's future is dropped.
struct LooksOnDrop(tokio::sync::mpsc::UnboundedSender<Option<TraceContext>>);

impl Drop for LooksOnDrop {
    fn drop(&mut self) {
        self.0.send(trace::current()).expect("is listened to");
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_by_its_timeout_still_has_its_context() {
    let ax = Scheduler::new();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let guard = LooksOnDrop(tell);
    let job = ax.job("hangs", |_: JobContext| async move {
        let _guard = guard;
        std::future::pending::<Result<(), io::Error>>().await
    });
    let handle = job
        .timeout(Duration::from_secs(1))
        .submit()
        .expect("is taken");
    let (trace, span) = (handle.trace(), trace::span_of_job(handle.id()));
    assert!(handle.await.is_err());
    let seen = told.recv().await.flatten().expect("has a context");
    assert_eq!((seen.trace(), seen.span()), (trace, span));
    ax.shutdown().await;
}
