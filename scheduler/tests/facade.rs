//! Jobs by id: status, records, keys, payloads, pages, events, log lines; under paused time where time matters.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, mpsc},
    time::Duration,
};

use ax_scheduler::{
    Backoff, JobContext, JobEvent, JobEventKind, JobId, JobState, Lane, Scheduler, SubmitError,
    Submitted, probe,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{sync::oneshot, time::sleep};

const SECOND: Duration = Duration::from_secs(1);

fn scheduler(limit: usize) -> (Scheduler, Lane) {
    let ax = Scheduler::new();
    let lane = ax.lane("lane").limit(limit).open().expect("new");
    (ax, lane)
}

/// F9, F16, F58: by id while it lives, and by its record for a time.
#[tokio::test(start_paused = true)]
async fn a_job_is_found_by_its_id() {
    let ax = Scheduler::builder().remember(60 * SECOND, 2).build();
    let lane = ax.lane("lane").limit(1).open().expect("new");
    let submit = |ok: bool| {
        let job = ax.job("job", move |_| async move {
            sleep(SECOND).await;
            if ok { Ok(()) } else { Err("no") }
        });
        job.lane(&lane)
    };
    let running = submit(true).keep().submit().expect("room");
    let queued = submit(true).submit().expect("room");
    let waiting = submit(true).delay(9 * SECOND).submit().expect("room");
    sleep(SECOND / 2).await;
    let states = [&running, &queued, &waiting].map(|job| ax.status(job.id()));
    assert_eq!(
        states,
        [JobState::Running, JobState::Ready, JobState::Waiting].map(Some)
    );
    assert!(ax.cancel(queued.id()) && ax.cancel(waiting.id()));
    assert_eq!(queued.status(), JobState::Cancelled);
    assert_eq!(waiting.status(), JobState::Cancelled);
    let id = running.id();
    running.await.expect("success");
    assert_eq!(ax.status(id), Some(JobState::Success));
    assert!(!ax.cancel(id));
    assert_eq!(ax.status(JobId(u64::MAX)), None);
    let record = ax.record(id).expect("kept");
    assert_eq!((record.attempts, record.run.as_secs()), (1, 1));

    let failed = submit(false).submit().expect("room");
    let failed_id = failed.id();
    assert!(failed.await.is_err());
    let page = ax.records(JobState::Failed, 0, 10);
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].error.as_deref(), Some("the job failed: no"));
    // The count, then the time.
    assert!(submit(false).submit().expect("room").await.is_err());
    assert_eq!(ax.status(id), None);
    assert_eq!(ax.status(failed_id), Some(JobState::Failed));
    sleep(61 * SECOND).await;
    assert!(ax.records(JobState::Failed, 0, 10).is_empty());
    assert_eq!(lane.counts().counters.failed_total, 2);
}

/// F58: while the first lives, and for a time after; then the key is free.
#[tokio::test(start_paused = true)]
async fn a_key_runs_a_job_once() {
    let ax = Scheduler::builder().remember(60 * SECOND, 10).build();
    let lane = ax.lane("lane").open().expect("new");
    let submit = || {
        let job = ax.job("charge", |_| async {
            sleep(SECOND).await;
            Ok::<_, Infallible>(())
        });
        job.lane(&lane).submit_once("order-17").expect("room")
    };
    let Submitted::New(first) = submit() else {
        panic!("nobody has the key")
    };
    let id = first.id();
    let Submitted::Known(known) = submit() else {
        panic!("the first has it")
    };
    assert_eq!(known.id(), id);
    first.await.expect("success");
    sleep(30 * SECOND).await;
    let Submitted::Known(known) = submit() else {
        panic!("it is remembered")
    };
    assert_eq!((known.id(), known.status()), (id, JobState::Success));
    sleep(40 * SECOND).await;
    assert!(matches!(submit(), Submitted::New(_)));
    assert_eq!(lane.counts().counters.submitted_total, 2);
}

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

/// F7, F9: a job as data, with a typed payload; retried as its lane says; its output kept.
#[tokio::test(start_paused = true)]
async fn a_registered_handler_gets_its_payload() {
    let ax = Scheduler::new();
    let lane = ax.lane("mail").retry(Backoff::fixed(SECOND)).open();
    let lane = lane.expect("new");
    ax.register("send_mail", |cx: JobContext, mail: Mail| async move {
        if cx.attempt() < 3 {
            Err("greylisted")
        } else {
            Ok(format!("250 {}", mail.to))
        }
    })
    .expect("first");
    let again = ax.register("send_mail", |_, (): ()| async { Ok::<_, Infallible>(()) });
    assert!(again.is_err());
    let to = String::from("a@b.c");
    let job = ax.job_from("send_mail", &Mail { to }).expect("known");
    let job = job.lane(&lane).priority(70).submit().expect("room");
    let id = job.id();
    let expected = serde_json::json!("250 a@b.c");
    assert_eq!(job.await.expect("success"), expected);
    let record = ax.record(id).expect("kept");
    assert_eq!(
        (record.attempts, record.output.as_deref()),
        (3, Some(&expected))
    );

    let wrong = ax.job_from("send_mail", &7).expect("known").submit();
    let error = wrong.expect("room").await.expect_err("not a mail");
    assert!(error.to_string().contains("invalid type"), "{error}");
    let unknown = ax.job_from("send_fax", &7).expect_err("not registered");
    assert!(
        matches!(unknown, SubmitError::UnknownHandler { .. }),
        "{unknown}"
    );
    let unknown = ax.open_lane("fax").expect_err("not open");
    assert_eq!(
        unknown.to_string(),
        "no lane `fax` is open in this scheduler: open it first, with `Scheduler::lane`"
    );
}

type Seen = Arc<Mutex<Vec<(JobId, JobEventKind, JobState)>>>;

fn sink(seen: &Seen) -> impl Fn(&JobEvent) + Send + Sync + 'static {
    let seen = Arc::clone(seen);
    move |event| seen.lock().push((event.job, event.kind, event.to))
}

/// F6, F14, F19: every move, in order, to the sink and to each listener.
#[tokio::test(start_paused = true)]
async fn every_move_is_told_in_order() {
    use JobEventKind::{
        Cancelled, Failed, Ready, Rejected, Retried, Slow, Started, Submitted, Succeeded, TimedOut,
        Zombie,
    };
    let seen = Seen::default();
    let ax = Scheduler::builder().on_event(sink(&seen)).build();
    let mut listener = ax.subscribe();
    let lane = ax
        .lane("lane")
        .limit(1)
        .capacity(1)
        .slow_percent(50)
        .open()
        .expect("new");
    let job = ax.job("flaky", |cx: JobContext| async move {
        match cx.attempt() {
            1 => Err("no"),
            _ => Ok(()),
        }
    });
    let job = job
        .lane(&lane)
        .retry(Backoff::fixed(SECOND))
        .submit()
        .expect("room");
    let flaky = job.id();
    job.await.expect("success");
    let slow = ax.job("slow", |_| std::future::pending::<Result<(), Infallible>>());
    let slow = slow.lane(&lane).timeout(4 * SECOND).submit().expect("room");
    let zombie = ax.job("zombie", |_| {
        std::future::pending::<Result<(), Infallible>>()
    });
    sleep(SECOND).await;
    let zombie = zombie.lane(&lane).heartbeat(SECOND).submit().expect("room");
    let refused = ax.job("full", |_| async { Ok::<_, Infallible>(()) });
    assert!(refused.lane(&lane).submit().is_err());
    let (slow_id, zombie_id) = (slow.id(), zombie.id());
    assert!(slow.await.is_err() && zombie.await.is_err());
    let fails = ax.job("fails", |_| async { Err::<(), _>("no") });
    let fails = fails.lane(&lane).submit().expect("room");
    let fails_id = fails.id();
    assert!(fails.await.is_err());
    let cancelled = ax.job("gone", |_| async { Ok::<_, Infallible>(()) });
    let cancelled = cancelled.lane(&lane).submit().expect("room");
    cancelled.cancel();

    let of = |id| {
        let seen = seen.lock();
        let kinds = seen
            .iter()
            .filter(|(job, ..)| *job == id)
            .map(|(_, kind, _)| *kind)
            // Of the lane, which holds one job.
            .filter(|kind| *kind != JobEventKind::HighWater);
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(
        of(flaky),
        [Submitted, Started, Retried, Ready, Started, Succeeded]
    );
    assert_eq!(of(slow_id), [Submitted, Started, Slow, TimedOut]);
    assert_eq!(of(zombie_id), [Submitted, Started, Zombie, TimedOut]);
    assert_eq!(of(fails_id), [Submitted, Started, Failed]);
    assert_eq!(of(cancelled.id()), [Submitted, Cancelled]);
    assert!(seen.lock().iter().any(|(_, kind, _)| *kind == Rejected));
    let told = seen.lock().clone();
    for expected in told {
        let event = listener.next().await.expect("the scheduler lives");
        assert_eq!((event.job, event.kind, event.to), expected);
    }
    drop((ax, lane, cancelled));
    assert!(listener.next().await.is_none());
}

/// F14: a slow listener loses the oldest by count; a listener may submit more; one that panics costs nobody anything.
#[tokio::test(start_paused = true)]
async fn listeners_cannot_hold_up_the_scheduler() {
    let (more, mut submits) = (oneshot::channel::<Scheduler>(), 0);
    let mut given = Some(more.0);
    let scheduler = Arc::new(Mutex::new(more.1));
    let builder = Scheduler::builder().event_capacity(16);
    let ax = builder
        .on_event(move |event| {
            if event.kind == JobEventKind::Succeeded && event.job_type == "parent" {
                let ax = scheduler.lock().try_recv().expect("given");
                let job = ax.job("child", |_| async { Ok::<_, Infallible>(()) });
                drop(job.submit().expect("room"));
            }
            assert_ne!(event.job_type, "hated", "in a listener");
        })
        .build();
    given
        .take()
        .expect("once")
        .send(ax.clone())
        .expect("listens");
    let mut listener = ax.subscribe();
    let job = ax.job("parent", |_| async { Ok::<_, Infallible>(()) });
    job.submit().expect("room").await.expect("success");
    sleep(SECOND).await;
    let lane = ax.open_lane("default").expect("open");
    assert_eq!(lane.counts().counters.succeeded_total, 2);
    let hated = ax.job("hated", |_| async { Ok::<_, Infallible>(()) });
    hated.submit().expect("room").await.expect("success");
    sleep(SECOND).await;
    assert_eq!(ax.events_lost(), 3);
    for _ in 0..20 {
        let job = ax.job("job", |_| async { Ok::<_, Infallible>(()) });
        job.submit().expect("room").await.expect("success");
        submits += 1;
    }
    listener.next().await.expect("the newest are kept");
    // 3 of each job so far, of which 16 are kept.
    assert_eq!(listener.lost(), 3 * (3 + submits) - 16);
}

/// F14, bad input: the nearest number of events that can be.
#[tokio::test(start_paused = true)]
async fn absurd_event_capacities_are_bounded() {
    for (asked, kept) in [(0, 1), (usize::MAX, 3)] {
        let ax = Scheduler::builder().event_capacity(asked).build();
        let mut listener = ax.subscribe();
        let job = ax.job("job", |_| async { Ok::<_, Infallible>(()) });
        job.submit().expect("room").await.expect("success");
        sleep(SECOND).await;
        listener.next().await.expect("an event");
        assert_eq!(listener.lost(), 3 - kept);
    }
}

/// F4: pages of a large backlog, of each state, in the order of the queue. The time is a class, not a figure.
#[tokio::test]
async fn a_page_costs_the_same_however_many_there_are() {
    let ax = Scheduler::new();
    let lane = ax
        .lane("lane")
        .limit(2)
        .capacity(100_000)
        .open()
        .expect("new");
    let never = || {
        ax.job("never", |_| {
            std::future::pending::<Result<(), Infallible>>()
        })
        .lane(&lane)
    };
    let running: Vec<_> = (0..2).map(|_| never().submit().expect("room")).collect();
    while lane.counts().running < 2 {
        tokio::task::yield_now().await;
    }
    let queued: Vec<_> = (0..50_000)
        .map(|_| never().submit().expect("room"))
        .collect();
    let urgent = never().priority(90).submit().expect("room");
    let delayed = || never().delay(60 * SECOND).submit().expect("room");
    let waiting: Vec<_> = (0..50_000).map(|_| delayed()).collect();
    let ids = |state, offset, limit| {
        let page = ax.page(state, offset, limit);
        page.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(
        ids(JobState::Running, 0, 10),
        [running[0].id(), running[1].id()]
    );
    assert_eq!(ids(JobState::Running, 1, 10), [running[1].id()]);
    assert_eq!(ids(JobState::Ready, 0, 2), [urgent.id(), queued[0].id()]);
    assert_eq!(ids(JobState::Ready, 50_000, 9), [queued[49_999].id()]);
    assert_eq!(
        ids(JobState::Waiting, 49_998, 9),
        [waiting[49_998].id(), waiting[49_999].id()]
    );
    assert_eq!(
        ax.page(JobState::Ready, 0, usize::MAX).len(),
        ax_scheduler::MAX_PAGE
    );
    let times = (0..20).map(|_| {
        let begun = std::time::Instant::now();
        assert_eq!(ax.page(JobState::Ready, 49_000, 50).len(), 50);
        begun.elapsed()
    });
    let fastest = times.min().expect("some");
    assert!(
        fastest < Duration::from_millis(10),
        "{fastest:?} for 50 jobs"
    );
}

/// F43: from what was measured, once there is enough of it; a type's own timeout holds.
#[tokio::test(start_paused = true)]
async fn a_timeout_is_advised_from_measured_runs() {
    let ax = Scheduler::new();
    let lane = ax.lane("advice").limit(10).timeout(60 * SECOND);
    let lane = lane.type_timeout("capped", SECOND).open().expect("new");
    for _ in 0..ax_scheduler::RUNS_FOR_ADVICE {
        assert_eq!(lane.timeout_advice("measured"), None);
        let job = ax.job("measured", |_| async {
            sleep(SECOND).await;
            Ok::<_, Infallible>(())
        });
        job.lane(&lane)
            .submit()
            .expect("room")
            .await
            .expect("success");
    }
    let advice = lane.timeout_advice("measured").expect("enough");
    let seconds = |duration: Duration| duration.as_secs_f64();
    assert!((0.98..1.03).contains(&seconds(advice.p99)), "{advice:?}");
    assert_eq!(
        (advice.at_least, advice.at_most),
        (advice.p99 * 2, advice.p99 * 3)
    );
    let capped = ax.job("capped", |_| {
        std::future::pending::<Result<(), Infallible>>()
    });
    let error = capped.lane(&lane).submit().expect("room").await;
    assert_eq!(
        error.expect_err("too long").to_string(),
        "the job timed out after 1s"
    );
}

#[derive(Clone)]
struct Log(mpsc::Sender<String>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// F70, F71: log events of each step, and a summary of each lane, also from a runtime that does nothing.
#[test]
fn steps_and_summaries_are_logged() {
    let (sender, lines) = mpsc::channel();
    let log = Log(sender);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || log.clone())
        .finish();
    // The summary has a thread of its own; no other test of this file logs.
    tracing::subscriber::set_global_default(subscriber).expect("the first");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let builder = Scheduler::builder().runtime(runtime.handle().clone());
    let ax = builder.summary_every(Duration::from_millis(20)).build();
    let lane = ax.lane("logged").open().expect("new");
    let fails = ax.job("fails", |_| async { Err::<(), _>("disk full") });
    let fails = fails.lane(&lane).submit().expect("room");
    let (id, trace) = (fails.id(), fails.trace());
    assert!(runtime.block_on(fails).is_err());
    let mut steps = Vec::new();
    loop {
        let text = lines.recv_timeout(10 * SECOND).expect("a summary");
        if text.contains("ax::job") && text.contains("lane=\"logged\"") {
            steps.push(text);
        } else if text.contains("lane summary") && text.contains("lane=\"logged\"") {
            assert!(text.contains("failed=1"), "{text}");
            break;
        }
    }
    assert_eq!(steps.len(), 3, "{steps:#?}");
    for (line, result) in steps.iter().zip(["submitted", "started", "failed"]) {
        for part in [
            &format!("job={id}"),
            &format!("trace={trace}"),
            &format!("result=\"{result}\""),
            "duration_ms=",
        ] {
            assert!(line.contains(part), "{line}");
        }
    }
    assert!(
        steps[2].contains("WARN") && steps[2].contains("disk full"),
        "{}",
        steps[2]
    );
}

/// Told by the probe too: nothing is lost between lane and type.
#[tokio::test(start_paused = true)]
async fn waiting_jobs_are_not_queued_jobs() {
    let (ax, lane) = scheduler(1);
    let job = ax.job("counted", |_| async { Err::<(), _>("no") });
    let job = job
        .lane(&lane)
        .delay(SECOND)
        .retry(Backoff::fixed(SECOND).retries(1));
    let job = job.submit().expect("room");
    let queued = || probe::task_type::queued_in_lane("lane").expect("free");
    assert!(!queued().iter().any(|of| of.name == "counted"));
    assert!(job.await.is_err());
    assert!(!queued().iter().any(|of| of.name == "counted"));
    assert_eq!(lane.counts().counters.started_total, 2);
}
