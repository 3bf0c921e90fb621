//! The trace context of jobs (F72), and their spans in `tracing`. Headers and requests are tested in the probe.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

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

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("whole").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_a_job_logs_names_the_job_and_its_trace() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let _subscribed = tracing::subscriber::set_default(subscriber);
    let ax = Scheduler::new();
    let job = ax.job("logs", |_: JobContext| async {
        tokio::task::yield_now().await;
        tracing::info!("inside");
        Ok::<_, io::Error>(())
    });
    let handle = job.submit().expect("is taken");
    let (id, trace) = (handle.id(), handle.trace());
    handle.await.expect("succeeds");
    tracing::info!("outside");
    ax.shutdown().await;
    let text = String::from_utf8(log.0.lock().expect("whole").clone()).expect("text");
    let line = |word: &str| {
        text.lines()
            .find(|line| line.contains(word))
            .map(str::to_owned)
    };
    let inside = line("inside").expect("was logged");
    for part in ["job_type", "logs", &id.to_string(), &trace.to_string()] {
        assert!(inside.contains(part), "{inside}");
    }
    assert!(!line("outside").expect("was logged").contains("logs"));
}
