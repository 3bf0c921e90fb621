//! Jobs that depend on others, under paused time.

use std::{convert::Infallible, sync::Arc, time::Duration};

use ax_scheduler::{
    Dependency, JobContext, JobError, JobHandle, JobState, LONG_WAIT, Lane, MAX_PATH, Scheduler,
    SubmitError, WaitKind,
};
use parking_lot::Mutex;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// The order in which jobs ran.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<&'static str>>>);

impl Order {
    async fn note(self, name: &'static str, ok: bool) -> Result<(), &'static str> {
        sleep(SECOND).await;
        self.0.lock().push(name);
        if ok { Ok(()) } else { Err("no") }
    }
}

struct Report {
    ax: Scheduler,
    lane: Lane,
    order: Order,
}

impl Report {
    fn new() -> Self {
        let ax = Scheduler::new();
        let lane = ax.lane("report").limit(3).open().expect("new");
        Self {
            ax,
            lane,
            order: Order::default(),
        }
    }

    fn job(&self, name: &'static str, after: &[&'static str], ok: bool) -> JobHandle<()> {
        let order = self.order.clone();
        let job = self.ax.job(name, move |_| order.note(name, ok));
        let job = job.lane(&self.lane).named(name);
        job.after(after.iter().copied()).submit().expect("room")
    }
}

/// F59: whatever the order of registration, and with names that do not exist yet, each runs after what it needs.
#[tokio::test(start_paused = true)]
async fn the_weekly_report_runs_in_order_however_it_is_registered() {
    let jobs: [(&str, &[&str]); 5] = [
        ("sales", &[]),
        ("stock", &[]),
        ("ads", &[]),
        ("calc", &["sales", "stock", "ads"]),
        ("mail", &["calc"]),
    ];
    for rotation in 0..jobs.len() {
        for reversed in [false, true] {
            let report = Report::new();
            let mut order = jobs;
            order.rotate_left(rotation);
            if reversed {
                order.reverse();
            }
            let handles = order.map(|(name, after)| report.job(name, after, true));
            for handle in handles {
                handle.await.expect("success");
            }
            let ran = report.order.0.lock().clone();
            let mut first: Vec<_> = ran[..3].to_vec();
            first.sort_unstable();
            assert_eq!(first, ["ads", "sales", "stock"]);
            assert_eq!(ran[3..], ["calc", "mail"]);
        }
    }
}

/// F61: a failure cancels all that depends on it, however far, each with the path of the reason; the rest goes on.
#[tokio::test(start_paused = true)]
async fn a_failure_cascades_with_its_path() {
    let report = Report::new();
    let sales = report.job("sales", &[], false);
    let stock = report.job("stock", &[], true);
    let calc = report.job("calc", &["sales", "stock"], true);
    let mail = report.job("mail", &["calc"], true);
    let file = report.job("file", &["stock"], true);
    let id = sales.id();
    assert!(sales.await.is_err());
    let text = |error: JobError| error.to_string();
    let failed =
        format!("the job was cancelled: `sales` (job {id}) did not succeed: the job failed: no");
    assert_eq!(text(calc.await.expect_err("cancelled")), failed);
    assert_eq!(
        text(mail.await.expect_err("cancelled")),
        format!("{failed} -> `calc`")
    );
    stock.await.expect("not concerned");
    file.await.expect("not concerned");
    // Who comes later, and names what failed, is told at once.
    let late = report.job("late", &["mail"], true);
    let JobError::Dependency(failure) = late.await.expect_err("cancelled") else {
        panic!("another error");
    };
    let names = failure.path.iter().map(|step| &*step.name);
    assert_eq!(names.collect::<Vec<_>>(), ["sales", "calc", "mail"]);
    let counts = report.lane.counts();
    assert_eq!(
        (
            counts.counters.failed_total,
            counts.counters.cancelled_total
        ),
        (1, 3)
    );
    assert_eq!((counts.waiting, counts.counters.succeeded_total), (0, 2));
}

/// F60: `any` needs one success, and is cancelled only when all have failed.
#[tokio::test(start_paused = true)]
async fn any_needs_one_success() {
    let report = Report::new();
    let Report { ax, lane, .. } = &report;
    let after_any = |names: [&'static str; 2]| {
        let job = ax.job("any", |_| async { Ok::<_, Infallible>(()) });
        job.lane(lane).after_any(names).submit().expect("room")
    };
    let one = after_any(["bad", "good"]);
    let none = after_any(["bad", "worse"]);
    report.job("bad", &[], false);
    sleep(2 * SECOND).await;
    assert_eq!(
        (one.status(), none.status()),
        (JobState::Waiting, JobState::Waiting)
    );
    report.job("good", &[], true);
    one.await.expect("one has succeeded");
    report.job("worse", &[], false);
    assert!(matches!(none.await, Err(JobError::Dependency(_))));
    // All outcomes known before.
    after_any(["bad", "good"]).await.expect("one has succeeded");
    assert!(matches!(
        after_any(["bad", "worse"]).await,
        Err(JobError::Dependency(_))
    ));
}

/// F62 and bad input: a job that would wait for itself, at once or by way of others, is refused with the way.
#[tokio::test(start_paused = true)]
async fn cycles_are_refused_with_the_cycle() {
    let report = Report::new();
    let submit = |name: &str, after: &[&'static str]| {
        let job = report.ax.job("job", |_| async { Ok::<_, Infallible>(()) });
        let job = job.lane(&report.lane).named(name);
        job.after(after.iter().copied()).submit()
    };
    let error = submit("self", &["self"]).expect_err("waits for itself");
    assert_eq!(
        error.to_string(),
        "the job would wait for itself: self -> self"
    );
    let a = submit("a", &["b"]).expect("b may come");
    let b = submit("b", &["other", "c"]).expect("c may come");
    let error = submit("c", &["d", "a"]).expect_err("closes the circle");
    assert_eq!(
        error.to_string(),
        "the job would wait for itself: c -> a -> b -> c"
    );
    // The refused job has left no trace: the name is free.
    submit("c", &[]).expect("free").await.expect("success");
    submit("other", &[]).expect("free").await.expect("success");
    a.await.expect("success");
    b.await.expect("success");
}

/// Bad input: a name in use, another scheduler's job.
#[tokio::test(start_paused = true)]
async fn names_in_use_and_foreign_jobs_are_refused() {
    let report = Report::new();
    let first = report.job("name", &[], true);
    let submit = |after: Vec<Dependency>| {
        let job = report.ax.job("job", |_| async { Ok::<_, Infallible>(()) });
        job.lane(&report.lane).named("name").after(after).submit()
    };
    let error = submit(Vec::new()).expect_err("in use");
    let (name, job) = (Box::from("name"), first.id());
    assert_eq!(error, SubmitError::DuplicateName { name, job });
    first.await.expect("success");
    let elsewhere = Scheduler::new();
    let foreign = elsewhere.job("job", |_| async { Ok::<_, Infallible>(()) });
    let foreign = foreign.submit().expect("room");
    let error = submit(vec![Dependency::from(&foreign)]).expect_err("foreign");
    assert_eq!(error, SubmitError::ForeignDependency { job: foreign.id() });
    submit(Vec::new())
        .expect("free again")
        .await
        .expect("success");
    assert_eq!(report.lane.counts().counters.submitted_total, 2);
}

/// By handle: what has ended before, what runs, and what of another lane.
#[tokio::test(start_paused = true)]
async fn handles_are_dependencies_whatever_their_state() {
    let report = Report::new();
    let Report { ax, lane, .. } = &report;
    let other = ax.lane("other").limit(1).open().expect("new");
    let job = |ok: bool| {
        let job = ax.job("plain", move |_: JobContext| async move {
            sleep(SECOND).await;
            if ok { Ok(()) } else { Err("no") }
        });
        job.lane(&other).submit().expect("room")
    };
    let after = |handles: [&JobHandle<()>; 2]| {
        let job = ax.job("after", |_| async { Ok::<_, Infallible>(()) });
        job.lane(lane).after(handles).submit().expect("room")
    };
    let (mut ended, mut failed) = (job(true), job(false));
    (&mut ended).await.expect("success");
    assert!((&mut failed).await.is_err());
    let running = job(true);
    after([&ended, &running]).await.expect("success");
    let error = after([&ended, &failed])
        .await
        .expect_err("one failed before");
    assert!(
        error
            .to_string()
            .ends_with("did not succeed: the job failed: no"),
        "{error}"
    );
    // A queued job that is cancelled takes its dependents along.
    let (blocks, queued) = (job(true), job(true));
    let doomed = after([&blocks, &queued]);
    queued.cancel();
    let error = doomed.await.expect_err("what it needs was cancelled");
    assert!(error.to_string().contains("was cancelled"), "{error}");
}

/// A chain that is longer than the stack is deep, and than the path that is kept.
#[tokio::test(start_paused = true)]
async fn a_long_chain_fails_as_a_whole() {
    const LENGTH: usize = 20_000;
    let ax = Scheduler::new();
    let lane = ax.lane("chain").capacity(LENGTH + 1).open().expect("new");
    let first = ax.job("first", |_| async {
        sleep(SECOND).await;
        Err::<(), _>("no")
    });
    let mut last = first.lane(&lane).submit().expect("room");
    for _ in 0..LENGTH {
        let job = ax.job("link", |_| async { Ok::<_, Infallible>(()) });
        last = job.lane(&lane).after([&last]).submit().expect("room");
    }
    let JobError::Dependency(failure) = last.await.expect_err("cancelled") else {
        panic!("another error");
    };
    assert_eq!(failure.path.len(), MAX_PATH);
    assert_eq!(failure.left_out, LENGTH - MAX_PATH);
    assert_eq!(&*failure.path[0].name, "first");
    assert_eq!(lane.counts().counters.cancelled_total, LENGTH as u64);
}

/// F63: who waits for what is told, and who has waited long is listed.
#[tokio::test(start_paused = true)]
async fn what_waits_says_for_what() {
    let report = Report::new();
    let stuck = report.job("mail", &["calc", "missing"], true);
    let calc = report.job("calc", &["sales"], true);
    assert!(report.ax.long_waiting().is_empty());
    let page = report.ax.page(JobState::Waiting, 0, 10);
    let wait = page[0].wait.as_ref().expect("waits");
    assert_eq!(
        (page[0].id, wait.kind),
        (stuck.id(), WaitKind::Dependencies)
    );
    assert_eq!(wait.jobs, [calc.id()]);
    assert_eq!(
        wait.names.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["missing"]
    );
    sleep(LONG_WAIT).await;
    let ids = report.ax.long_waiting().into_iter().map(|job| job.id);
    assert_eq!(ids.collect::<Vec<_>>(), [stuck.id(), calc.id()]);
    assert_eq!(report.ax.page(JobState::Waiting, 1, 10).len(), 1);
}

/// A delay and dependencies: both must hold.
#[tokio::test(start_paused = true)]
async fn a_delay_counts_beside_dependencies() {
    let report = Report::new();
    let begun = tokio::time::Instant::now();
    let job = |delay: Duration| {
        let job = report.ax.job("job", move |_| async move {
            Ok::<_, Infallible>(begun.elapsed())
        });
        job.lane(&report.lane)
            .after(["first"])
            .delay(delay)
            .submit()
            .expect("room")
    };
    let (soon, late) = (job(SECOND / 2), job(5 * SECOND));
    report.job("first", &[], true);
    assert_eq!(soon.await.expect("success").as_secs(), 1);
    assert_eq!(late.await.expect("success").as_secs(), 5);
    // Met before it is submitted: only the time is left.
    let begun = begun.elapsed();
    let later = job(SECOND).await.expect("success");
    assert!(later >= begun + SECOND && later < begun + 2 * SECOND);
}

/// When nobody can submit any more, waiting for a name that is not there is in vain; all else still runs.
#[tokio::test(start_paused = true)]
async fn a_dropped_scheduler_lets_waiting_jobs_run_if_they_can() {
    let report = Report::new();
    let delayed = report.ax.job("late", |_| async { Ok::<_, Infallible>(1) });
    let delayed = delayed
        .lane(&report.lane)
        .delay(10 * SECOND)
        .submit()
        .expect("room");
    let first = report.job("first", &[], true);
    let second = report.job("second", &["first"], true);
    let vain = report.job("vain", &["nobody"], true);
    drop(report);
    let error = vain.await.expect_err("in vain");
    assert!(error.to_string().contains("no job of this name"), "{error}");
    first.await.expect("success");
    second.await.expect("success");
    assert_eq!(delayed.await.expect("success"), 1);
}

/// The shutdown cancels what waits.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_what_waits() {
    let report = Report::new();
    let waits = report.job("waits", &["nobody"], true);
    let late = report.job("late", &["waits"], true);
    report.ax.shutdown().await;
    assert!(matches!(
        waits.await,
        Err(JobError::Cancelled | JobError::Dependency(_))
    ));
    assert!(matches!(
        late.await,
        Err(JobError::Cancelled | JobError::Dependency(_))
    ));
    assert_eq!(report.lane.counts().waiting, 0);
}

/// The runtime's end cancels what waits.
#[test]
fn a_runtime_that_ends_ends_what_waits() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let (report, jobs) = runtime.block_on(async {
        let report = Report::new();
        let job = report.ax.job("late", |_| async { Ok::<_, Infallible>(()) });
        let late = job.lane(&report.lane).delay(SECOND).submit().expect("room");
        let jobs = [report.job("waits", &["nobody"], true), late_ok(late)];
        tokio::task::yield_now().await;
        (report, jobs)
    });
    drop(runtime);
    for job in jobs {
        assert_eq!(job.status(), JobState::Cancelled);
    }
    assert_eq!(report.lane.counts().waiting, 0);
}

fn late_ok(handle: JobHandle<()>) -> JobHandle<()> {
    handle
}
