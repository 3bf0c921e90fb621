//! What the flight recorder costs: an event, and a job with it against the same without it, in turns; and what the wrapper
//! around a poll costs. All in CPU time of one thread that does everything, which is less noisy than the clock.

use std::{convert::Infallible, hint, process::ExitCode, time::Duration};

use ax_bench::{
    Budget::{AtMost, None as Told},
    Table, median,
};
use ax_probe::{Probe, clock, recorder, slot::current_subject};
use ax_scheduler::{Lane, Scheduler};
use ax_wire::recorder::RecordedKind;
use rustix::time::{ClockId, clock_gettime};
use tokio::{runtime::Builder, task::yield_now};

const EVENTS: u64 = 1_000_000;
const JOBS: u64 = 50_000;
const POLLS: u64 = 500_000;
const ROUNDS: usize = 31;

fn main() -> ExitCode {
    let mut table = Table::new("recorder");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime without threads of its own");
    runtime.block_on(async {
        let install = |recorder_bytes| {
            let probe = Probe::builder("bench")
                .socket("/nonexistent/agent.sock")
                .recorder_bytes(recorder_bytes);
            probe.install().expect("a runtime")
        };
        let ax = Scheduler::new();
        let lane = ax.lane("bench").limit(10).capacity(100_000).open();
        let lane = lane.expect("a name and a limit in range");
        let mut rounds = Vec::new();
        for round in 0..=ROUNDS {
            let without = install(0);
            let off_ns = jobs(&ax, &lane, 100).await;
            without.shutdown();
            let with = install(recorder::DEFAULT_RECORDER_BYTES);
            let on_ns = jobs(&ax, &lane, 100).await;
            let event_ns = events(&ax, &lane).await;
            let bare_ns = per(POLLS, tokio::spawn(polls())).await;
            let wrapped_ns = per(POLLS, ax_probe::spawn("polls", polls())).await;
            with.shutdown();
            // The first round makes memory.
            if round > 0 {
                rounds.push([event_ns, off_ns, on_ns, bare_ns, wrapped_ns]);
            }
        }
        let column = |of: fn(&[f64; 5]) -> f64| median(rounds.iter().map(of).collect());
        table.row("an event with the clock, ns", column(|of| of[0]), Told);
        table.row("bursts of 100 without, ns a job", column(|of| of[1]), Told);
        table.row("bursts of 100 with it, ns a job", column(|of| of[2]), Told);
        table.row(
            "bursts of 100, % more with it",
            column(|of| 100.0 * (of[2] / of[1] - 1.0)),
            AtMost(5.0),
        );
        table.row("a poll of a plain task, ns", column(|of| of[3]), Told);
        table.row(
            "the wrapper around a poll, ns",
            column(|of| of[4] - of[3]),
            AtMost(60.0),
        );
        ax.shutdown().await;
    });
    table.finish()
}

fn cpu_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("is not negative").as_nanos() as f64
}

/// Waits for the work of `count` equal parts; ns of one.
async fn per<T>(count: u64, work: impl Future<Output = T>) -> f64 {
    let before = cpu_ns();
    work.await;
    (cpu_ns() - before) / count as f64
}

async fn jobs(ax: &Scheduler, lane: &Lane, burst: u64) -> f64 {
    per(JOBS, async {
        for _ in 0..JOBS / burst {
            let burst: Vec<_> = (0..burst)
                .map(|number| {
                    let body =
                        move |_| std::future::ready(Ok::<_, Infallible>(hint::black_box(number)));
                    ax.job("burst", body).lane(lane).submit().expect("room")
                })
                .collect();
            for job in burst {
                job.await.expect("ends well");
            }
        }
    })
    .await
}

async fn events(ax: &Scheduler, lane: &Lane) -> f64 {
    let job = ax.job("records", |_| async {
        let of = current_subject().expect("inside a job");
        let before = cpu_ns();
        for _ in 0..EVENTS {
            recorder::record(RecordedKind::Started, &of, clock::now_ns(), None);
        }
        Ok::<_, Infallible>((cpu_ns() - before) / EVENTS as f64)
    });
    let job = job.lane(lane).submit().expect("room");
    job.await.expect("ends well")
}

/// Polled so often, each time by a wake-up of its own.
async fn polls() {
    for _ in 0..POLLS {
        yield_now().await;
    }
}
