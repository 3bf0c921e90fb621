//! What the whole chain (job, probe, agent, viewer) says while workers are blocked, and that it says nothing while they
//! are not. One process with several runtimes, each row on its own.

mod support;

use std::{
    future::Future,
    path::Path,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use ax_probe::Probe;
use ax_scheduler::{JobHandle, Lane, Scheduler};
use ax_wire::{
    event::StallKind,
    sample::TaskKind,
    view::{ServiceView, StallView},
};
use support::{PrivateAgent, Viewer, full, take_turns};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Notify,
    time::sleep,
};

const SERVICE: &str = "stalls-test";
const BLOCK: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
enum Blocked {
    Job,
    WrappedTask,
    PlainTask,
}

struct Row {
    /// Also the runtime's name.
    name: &'static str,
    /// `None`: a current_thread runtime.
    workers: Option<usize>,
    blocked: Blocked,
    /// How many at once.
    times: usize,
}

const ROWS: [Row; 5] = [
    Row {
        name: "job, one of two workers",
        workers: Some(2),
        blocked: Blocked::Job,
        times: 1,
    },
    Row {
        name: "job, both workers",
        workers: Some(2),
        blocked: Blocked::Job,
        times: 2,
    },
    Row {
        name: "job, current_thread",
        workers: None,
        blocked: Blocked::Job,
        times: 1,
    },
    Row {
        name: "wrapped task",
        workers: Some(2),
        blocked: Blocked::WrappedTask,
        times: 1,
    },
    Row {
        name: "plain task",
        workers: Some(2),
        blocked: Blocked::PlainTask,
        times: 1,
    },
];

/// The table of the first issue: each way to block is found, with the right case, and the name where there is one.
#[test]
fn each_way_to_block_is_found_and_named() {
    let _turn = take_turns();
    let agent = PrivateAgent::start();
    let mut viewer = agent.viewer();
    println!(
        "\n{:<26} {:<10} {:<16} length ms",
        "blocked 300 ms", "case", "named"
    );
    for row in &ROWS {
        let (found, blocked_for) = observe(row, agent.socket(), &mut viewer);
        for (view, exact) in found.iter().zip(blocked_for) {
            let stall = &view.stall;
            let named = stall.task.as_ref().map(|task| task.name.as_str());
            let length_ms = stall.length_ns as f64 / 1e6;
            println!(
                "{:<26} {:<10} {:<16} {length_ms:.1} (exact {:.1})",
                row.name,
                format!("{:?}", stall.kind),
                named.unwrap_or("-"),
                exact.as_secs_f64() * 1e3,
            );
            assert_eq!(stall.kind, StallKind::Stall, "{}: {stall:?}", row.name);
            let (expected, kind) = match row.blocked {
                Blocked::Job => (Some("blocking_job"), Some(TaskKind::Job)),
                Blocked::WrappedTask => (Some("blocking_task"), Some(TaskKind::Task)),
                Blocked::PlainTask => (None, None),
            };
            assert_eq!(named, expected, "{}", row.name);
            assert_eq!(stall.task.as_ref().map(|task| task.kind), kind);
            if let Some(task) = &stall.task {
                let place = task.place.as_deref().expect("a place");
                assert!(place.contains("tests/stalls.rs:"), "{place}");
            }
            let error_ms = (length_ms - exact.as_secs_f64() * 1e3).abs();
            let bound_ms = if full() {
                f64::max(15.0, exact.as_secs_f64() * 50.0)
            } else {
                150.0
            };
            assert!(error_ms <= bound_ms, "{}: off by {error_ms} ms", row.name);
        }
    }
}

/// Blocks as the row says, under light load, and returns the ended stalls of the row's runtime and how long each block
/// really took.
fn observe(row: &Row, socket: &Path, viewer: &mut Viewer) -> (Vec<StallView>, Vec<Duration>) {
    on_runtime(
        row.workers,
        row.name,
        socket,
        |lane, ax| async move {
            let load = tokio::spawn(light_load());
            // Until the probe has met the workers; also the time in which nothing may be reported.
            sleep(Duration::from_millis(700)).await;
            let lengths = match row.blocked {
                Blocked::Job => block_in_jobs(&ax, &lane, row.times).await,
                Blocked::WrappedTask => {
                    let task = ax_probe::spawn("blocking_task", async { block(None) });
                    vec![task.await.expect("no panic")]
                }
                Blocked::PlainTask => {
                    vec![tokio::spawn(async { block(None) }).await.expect("no panic")]
                }
            };
            let view = tokio::task::spawn_blocking(|| ()).await;
            view.expect("the blocking pool works");
            load.abort();
            lengths
        },
        |view| {
            let ended = stalls_of(view, row.name)
                .filter(|stall| !stall.ongoing)
                .cloned()
                .collect::<Vec<_>>();
            (ended.len() >= row.times).then_some(ended)
        },
        viewer,
    )
}

async fn block_in_jobs(ax: &Scheduler, lane: &Lane, times: usize) -> Vec<Duration> {
    let together = (times > 1).then(|| Arc::new(Barrier::new(times)));
    let jobs: Vec<JobHandle<Duration>> = (0..times)
        .map(|_| {
            let together = together.clone();
            ax.job("blocking_job", move |_| async move {
                Ok::<_, std::convert::Infallible>(block(together.as_deref()))
            })
            .lane(lane)
            .submit()
            .expect("the lane has room")
        })
        .collect();
    let mut lengths = Vec::new();
    for job in jobs {
        lengths.push(job.await.expect("no panic"));
    }
    lengths
}

/// Sleeps inside the poll, and returns how long the poll was held up.
fn block(together: Option<&Barrier>) -> Duration {
    let start = Instant::now();
    if let Some(barrier) = together {
        barrier.wait();
    }
    thread::sleep(BLOCK);
    start.elapsed()
}

async fn light_load() {
    loop {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Runs `work` on a runtime of its own that is watched, then waits for a view that answers.
fn on_runtime<T, R, F: Future<Output = T>>(
    workers: Option<usize>,
    name: &str,
    socket: &Path,
    work: impl FnOnce(Lane, Scheduler) -> F,
    ask: impl FnMut(&ServiceView) -> Option<R>,
    viewer: &mut Viewer,
) -> (R, T) {
    let runtime = build(workers, name);
    let done = runtime.block_on(async {
        Probe::builder(SERVICE)
            .socket(socket)
            .install()
            .expect("a runtime");
        let ax = Scheduler::new();
        let lane = ax.lane("work").limit(8).open().expect("valid settings");
        work(lane, ax).await
    });
    // A current_thread runtime lives only while somebody drives it.
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let driver = thread::spawn(move || runtime.block_on(stopped.notified()));
    let answer = viewer.wait_view(SERVICE, name, ask);
    stop.notify_one();
    driver.join().expect("no panic");
    (answer, done)
}

fn build(workers: Option<usize>, name: &str) -> Runtime {
    let mut builder = match workers {
        Some(workers) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(workers);
            builder
        }
        None => Builder::new_current_thread(),
    };
    builder.name(name).enable_all().build().expect("a runtime")
}

/// The stalls of the runtime of this name.
fn stalls_of<'a>(view: &'a ServiceView, runtime: &str) -> impl Iterator<Item = &'a StallView> {
    let id = view
        .runtimes
        .iter()
        .find(|known| known.info.name.as_deref() == Some(runtime))
        .map(|known| known.info.id);
    view.stalls
        .iter()
        .filter(move |stall| Some(stall.stall.runtime) == id)
}

/// No false alarm: 20 s at 2,000 jobs a second, each with a little CPU and a little waiting.
#[test]
fn healthy_load_has_no_stall() {
    const NAME: &str = "healthy";
    let _turn = take_turns();
    let agent = PrivateAgent::start();
    let mut viewer = agent.viewer();
    let (view, finished) = on_runtime(
        Some(2),
        NAME,
        agent.socket(),
        |lane, ax| async move {
            let start = Instant::now();
            let mut submitted = 0_u32;
            let mut jobs = Vec::new();
            while start.elapsed() < Duration::from_secs(20) {
                let due = (start.elapsed().as_secs_f64() * 2_000.0) as u32;
                while submitted < due {
                    let job = ax.job("healthy_job", |_| async {
                        std::hint::black_box((0..20_000_u64).sum::<u64>());
                        sleep(Duration::from_millis(1)).await;
                        Ok::<_, std::convert::Infallible>(())
                    });
                    // A full lane turns the job away, which is healthy too.
                    jobs.extend(job.lane(&lane).submit());
                    submitted += 1;
                }
                sleep(Duration::from_millis(2)).await;
            }
            let mut finished = 0;
            for job in jobs {
                job.await.expect("no panic");
                finished += 1;
            }
            finished
        },
        |view| {
            let this = view
                .runtimes
                .iter()
                .any(|known| known.info.name.as_deref() == Some(NAME));
            this.then(|| view.clone())
        },
        &mut viewer,
    );
    let stalls: Vec<_> = stalls_of(&view, NAME)
        .filter(|stall| stall.stall.kind == StallKind::Stall)
        .collect();
    println!(
        "{finished} jobs in 20 s, lag {:?}, stalls {}",
        view.lag,
        stalls.len()
    );
    assert!(finished >= 30_000, "only {finished} jobs");
    assert!(stalls.is_empty(), "{stalls:#?}");
}

/// The probe goes on from its own threads when every worker is stuck.
#[test]
fn samples_arrive_while_all_workers_are_blocked() {
    let _turn = take_turns();
    let agent = PrivateAgent::start();
    let runtime = build(Some(2), "wedged");
    let together = Arc::new(Barrier::new(3));
    runtime.block_on(async {
        Probe::builder(SERVICE)
            .socket(agent.socket())
            .install()
            .expect("a runtime");
    });
    let mut viewer = agent.viewer();
    viewer.next_view(SERVICE);
    for _ in 0..2 {
        let together = Arc::clone(&together);
        runtime.spawn(async move {
            together.wait();
            thread::sleep(Duration::from_secs(2));
        });
    }
    together.wait();
    let start = Instant::now();
    let mut lags_ms = Vec::new();
    while start.elapsed() < Duration::from_millis(1_900) {
        let view = viewer.next_view(SERVICE);
        if start.elapsed() < Duration::from_millis(1_990) {
            lags_ms.push(view.lag.max_ns.unwrap_or(0) as f64 / 1e6);
        }
    }
    println!(
        "while both workers were blocked for 2 s: {} views, worst lag so far {lags_ms:?} ms",
        lags_ms.len()
    );
    assert!(
        !lags_ms.is_empty(),
        "no sample came while the workers were blocked"
    );
    assert!(lags_ms.iter().any(|lag| *lag > 500.0), "{lags_ms:?}");
    drop(runtime);
}
