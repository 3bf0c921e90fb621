//! What the probe's flight recorder holds of jobs: one test of the whole way, since a process has one probe.

use std::{convert::Infallible, io, time::Duration};

use ax_scheduler::{Backoff, JobId, Scheduler};
use ax_wire::recorder::{RecordedEvent, RecordedKind, RecorderDump};

fn of_job(dump: &RecorderDump, job: JobId) -> Vec<RecordedEvent> {
    let events = dump.events.iter().filter(|event| event.job == Some(job));
    events.copied().collect()
}

fn kinds(events: &[RecordedEvent]) -> Vec<RecordedKind> {
    events.iter().map(|event| event.kind).collect()
}

#[tokio::test]
async fn each_transition_of_a_job_is_recorded() {
    use RecordedKind::{Cancelled, Failed, LongPoll, Ready, Rejected, Retried, Started, Submitted};

    let probe = ax_probe::Probe::builder("recorded")
        .socket("/nonexistent/agent.sock")
        .install()
        .expect("a runtime");
    let ax = Scheduler::new();
    let lane = ax.lane("recorded").limit(1).capacity(1).open();
    let lane = lane.expect("valid settings");

    let well = ax.job("well", |_| async {
        tokio::task::yield_now().await;
        Ok::<_, Infallible>(())
    });
    let well = well.lane(&lane).submit().expect("room");
    let (well_id, well_trace) = (well.id(), well.trace());
    well.await.expect("ends well");

    let fails = ax.job("fails", |_| async {
        std::thread::sleep(Duration::from_millis(6));
        Err::<(), _>(io::Error::other("no"))
    });
    let backoff = Backoff::fixed(Duration::from_millis(20)).retries(1);
    let fails = fails.retry(backoff).lane(&lane).submit().expect("room");
    let fails_id = fails.id();
    fails.await.expect_err("fails twice");

    let delayed = ax.job("late", |_| async { Ok::<_, Infallible>(()) });
    let delayed = delayed
        .delay(Duration::from_mins(1))
        .submit()
        .expect("waits");
    delayed.cancel();

    let holds = ax.job("holds", |_| {
        std::future::pending::<Result<(), Infallible>>()
    });
    let holds = holds.timeout(Duration::from_millis(30)).lane(&lane);
    let holds = holds.submit().expect("room");
    while lane.counts().running == 0 {
        tokio::task::yield_now().await;
    }
    let queued = ax.job("queued", |_| async { Ok::<_, Infallible>(()) });
    let queued = queued.lane(&lane).submit().expect("room for one");
    let refused = ax.job("refused", |_| async { Ok::<_, Infallible>(()) });
    refused.lane(&lane).submit().expect_err("no room for two");
    queued.cancel();
    let holds_id = holds.id();
    holds.await.expect_err("times out");

    let at_once = ax.job("at_once", |_| async { Ok::<_, Infallible>(()) });
    let at_once = at_once.lane(&lane).submit().expect("room");
    let at_once_id = at_once.id();
    at_once.await.expect("ends well");

    let dump = probe.recorded().expect("nobody else reads");
    let of_at_once = kinds(&of_job(&dump, at_once_id));
    assert_eq!(of_at_once, [Ready, RecordedKind::Succeeded]);
    let events = of_job(&dump, well_id);
    assert_eq!(
        kinds(&events),
        [Ready, Started, RecordedKind::Succeeded],
        "{events:?}"
    );
    assert!(events.iter().all(|event| event.trace == Some(well_trace)));
    let name = &dump.names[events[0].of.expect("a type") as usize];
    assert_eq!(
        (name.name.as_str(), name.lane.as_deref()),
        ("well", Some("recorded"))
    );
    // What is of one instant comes in no order.
    let mut of_fails = kinds(&of_job(&dump, fails_id));
    assert_eq!(of_fails[..2], [Ready, Started]);
    of_fails.sort_unstable_by_key(|kind| *kind as u8);
    let expected = [
        Ready, Ready, Started, Started, Failed, Retried, LongPoll, LongPoll,
    ];
    assert_eq!(of_fails, expected);
    let retried = of_job(&dump, fails_id).into_iter();
    let retried = retried.filter(|event| event.kind == Retried);
    let backoffs: Vec<_> = retried.map(|event| event.length_ns).collect();
    assert_eq!(backoffs, [Some(20_000_000)]);
    assert_eq!(kinds(&of_job(&dump, delayed.id())), [Submitted, Cancelled]);
    assert_eq!(kinds(&of_job(&dump, queued.id())), [Ready, Cancelled]);
    let held = of_job(&dump, holds_id);
    assert_eq!(kinds(&held), [Ready, Started, RecordedKind::TimedOut]);
    assert!(held[2].length_ns >= Some(30_000_000), "{held:?}");
    let refused = dump.events.iter().filter(|event| event.kind == Rejected);
    assert_eq!(refused.count(), 1);
    probe.shutdown();
}
