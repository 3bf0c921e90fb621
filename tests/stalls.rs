//! What the whole chain (job, probe, agent, viewer) says of blocked workers: one process with several runtimes, each row
//! on its own.

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use ax_scheduler::{JobHandle, Lane, Scheduler};
use ax_wire::{event::StallKind, sample::TaskKind, view::StallView};
use support::{
    PrivateAgent, full,
    watched::{on_runtime, stalls_of},
};
use tokio::time::sleep;

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
    /// `None`: a `current_thread` runtime.
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
    let agent = PrivateAgent::start();
    println!(
        "\n{:<26} {:<10} {:<16} length ms",
        "blocked 300 ms", "case", "named"
    );
    for row in &ROWS {
        let (mut found, mut blocked_for) = observe(row, &agent);
        found.sort_by_key(|view| view.stall.length_ns);
        blocked_for.sort();
        let began = || found.iter().map(|view| view.stall.began_mono_ns);
        let apart_ns = began()
            .max()
            .zip(began().min())
            .map(|(last, first)| last - first);
        assert!(
            apart_ns < Some(100_000_000),
            "{}: not at once: {found:#?}",
            row.name
        );
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
fn observe(row: &Row, agent: &PrivateAgent) -> (Vec<StallView>, Vec<Duration>) {
    on_runtime(
        row.workers,
        row.name,
        agent,
        |lane, ax| async move {
            let load = tokio::spawn(light_load());
            // Until the probe has met the workers; also the time in which nothing may be reported.
            sleep(Duration::from_millis(700)).await;
            let lengths = match row.blocked {
                Blocked::Job => block_in_jobs(&ax, &lane, row.times).await,
                Blocked::WrappedTask => {
                    let task = ax_probe::spawn("blocking_task", async { block() });
                    vec![task.await.expect("no panic")]
                }
                Blocked::PlainTask => {
                    vec![tokio::spawn(async { block() }).await.expect("no panic")]
                }
            };
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
    )
}

async fn block_in_jobs(ax: &Scheduler, lane: &Lane, times: usize) -> Vec<Duration> {
    let submit = || {
        let job = ax.job("blocking_job", |_| async {
            Ok::<_, std::convert::Infallible>(block())
        });
        job.lane(lane).submit().expect("the lane has room")
    };
    let jobs: Vec<JobHandle<Duration>> = (0..times).map(|_| submit()).collect();
    let mut lengths = Vec::new();
    for job in jobs {
        lengths.push(job.await.expect("no panic"));
    }
    lengths
}

/// Sleeps inside the poll, and returns how long the poll was held up.
fn block() -> Duration {
    let start = Instant::now();
    thread::sleep(BLOCK);
    start.elapsed()
}

async fn light_load() {
    loop {
        sleep(Duration::from_millis(1)).await;
    }
}
