//! What the probe says of workers that are blocked, starved, or only look so. On real runtimes, through a real socket.

mod common;

use std::{
    env,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ax_wire::{
    ToAgent,
    event::{Event, Stall, StallKind},
};
use common::{FakeAgent, turn};
use tokio::runtime::{Builder, Runtime};

const BLOCKED: Duration = Duration::from_millis(300);

fn two_workers() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.build().expect("builds")
}

/// Blocks its thread; returns for how long it really was.
fn block(length: Duration) -> u64 {
    let began = Instant::now();
    thread::sleep(length);
    began.elapsed().as_nanos() as u64
}

fn events(agent: &FakeAgent) -> Vec<Event> {
    let frames = agent.frames().into_iter();
    frames
        .filter_map(|frame| match frame {
            ToAgent::Events(events) => Some(events.events),
            _ => None,
        })
        .flatten()
        .collect()
}

/// The ends of stalls so far, with the age that each had when it was found.
fn ended(agent: &FakeAgent) -> Vec<(Stall, u64)> {
    let events = events(agent);
    let found_at = |id| {
        events.iter().find_map(|event| match event {
            Event::StallBegan(stall) if stall.id == id => Some(stall.length_ns),
            _ => None,
        })
    };
    events
        .iter()
        .filter_map(|event| match event {
            Event::StallEnded(stall) => Some((stall.clone(), found_at(stall.id).expect("began"))),
            _ => None,
        })
        .collect()
}

fn wait_for_ends(agent: &FakeAgent, count: usize) -> Vec<(Stall, u64)> {
    let mut seen = 0;
    agent.wait_for(|frame| {
        if let ToAgent::Events(events) = frame {
            let ends = events
                .events
                .iter()
                .filter(|event| matches!(event, Event::StallEnded(_)));
            seen += ends.count();
        }
        (seen >= count).then_some(())
    });
    ended(agent)
}

/// One row of the table.
struct Row {
    case: &'static str,
    stalls: Vec<(Stall, u64)>,
    real_ns: u64,
    name: Option<&'static str>,
}

impl Row {
    fn print(&self) {
        for (stall, found_ns) in &self.stalls {
            println!(
                "{:<44} {:<6} {:<10} {:>9.1} {:>9.1} {:>9.1}",
                self.case,
                stall.kind.label(),
                stall.task.as_ref().map_or("-", |task| &task.name),
                self.real_ns as f64 / 1e6,
                stall.length_ns as f64 / 1e6,
                *found_ns as f64 / 1e6,
            );
        }
    }

    fn check(&self) {
        let exact = env::var_os("AX_FULL").is_some();
        for (stall, _) in &self.stalls {
            assert_eq!(stall.kind, StallKind::Stall, "{}: {stall:?}", self.case);
            let name = stall.task.as_ref().map(|task| task.name.as_str());
            assert_eq!(name, self.name, "{}", self.case);
            let allowed = if exact {
                15_000_000.max(self.real_ns / 20)
            } else {
                200_000_000
            };
            let error = stall.length_ns.abs_diff(self.real_ns);
            assert!(
                error <= allowed,
                "{}: off by {error} ns: {stall:?}",
                self.case
            );
        }
    }
}

/// Rows of "Must show": the right case, the name where there is one, and the length.
#[test]
fn a_table_of_blocked_workers() {
    let _turn = turn();
    let rows = [
        one_wrapped(),
        both_wrapped(),
        current_thread(),
        wrapped_under_load(),
        plain(),
    ];
    println!(
        "{:<44} {:<6} {:<10} {:>9} {:>9} {:>9}",
        "300 ms blocked", "kind", "name", "real ms", "told ms", "seen at"
    );
    rows.iter().for_each(Row::print);
    rows.iter().for_each(Row::check);
}

fn one_wrapped() -> Row {
    let (agent, runtime) = (FakeAgent::start(), two_workers());
    let probe = agent.observe(&runtime);
    let task =
        runtime.block_on(async { ax_probe::spawn("blocker", async { block(BLOCKED) }).await });
    let stalls = wait_for_ends(&agent, 1);
    probe.shutdown();
    assert_eq!(stalls.len(), 1);
    Row {
        case: "in a wrapped task on one of two workers",
        stalls,
        real_ns: task.expect("runs"),
        name: Some("blocker"),
    }
}

fn both_wrapped() -> Row {
    let (agent, runtime) = (FakeAgent::start(), two_workers());
    let probe = agent.observe(&runtime);
    let real_ns = runtime.block_on(async {
        let tasks = [0; 2].map(|_| ax_probe::spawn("blocker", async { block(BLOCKED) }));
        let [one, other] = tasks;
        one.await.expect("runs").max(other.await.expect("runs"))
    });
    let stalls = wait_for_ends(&agent, 2);
    probe.shutdown();
    let workers: Vec<_> = stalls.iter().map(|(stall, _)| stall.worker).collect();
    assert!(
        workers.contains(&Some(0)) && workers.contains(&Some(1)),
        "{workers:?}"
    );
    Row {
        case: "in wrapped tasks on both workers",
        stalls,
        real_ns,
        name: Some("blocker"),
    }
}

fn current_thread() -> Row {
    let agent = FakeAgent::start();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("builds");
    let probe = ax_probe::Probe::builder("test").socket(agent.socket());
    let (probe, real_ns) = runtime.block_on(async {
        let probe = probe.install().expect("installs");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let real = ax_probe::spawn("blocker", async { block(BLOCKED) }).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        (probe, real.expect("runs"))
    });
    probe.shutdown();
    let mut stalls = wait_for_ends(&agent, 1);
    stalls.truncate(1);
    Row {
        case: "in a wrapped task on current_thread",
        stalls,
        real_ns,
        name: Some("blocker"),
    }
}

fn wrapped_under_load() -> Row {
    let (agent, runtime) = (FakeAgent::start(), two_workers());
    let probe = agent.observe(&runtime);
    let real_ns = runtime.block_on(async {
        let load: Vec<_> = (0..20)
            .map(|_| {
                ax_probe::spawn("load", async {
                    loop {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        std::hint::black_box((0..2_000_u64).sum::<u64>());
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let real = ax_probe::spawn("blocker", async { block(BLOCKED) }).await;
        load.iter().for_each(tokio::task::JoinHandle::abort);
        real.expect("runs")
    });
    let stalls = wait_for_ends(&agent, 1);
    probe.shutdown();
    Row {
        case: "in a wrapped task, with other load",
        stalls,
        real_ns,
        name: Some("blocker"),
    }
}

fn plain() -> Row {
    let (agent, runtime) = (FakeAgent::start(), two_workers());
    let probe = agent.observe(&runtime);
    // Without a name it is told by its thread, which the probe has to have met.
    agent.wait_for(|frame| match frame {
        ToAgent::Sample(sample) => {
            let mut workers = sample.runtimes.iter().flat_map(|of| &of.workers);
            workers.all(|worker| worker.tid.is_some()).then_some(())
        }
        _ => None,
    });
    let task = runtime.block_on(async { tokio::spawn(async { block(BLOCKED) }).await });
    let stalls = wait_for_ends(&agent, 1);
    probe.shutdown();
    Row {
        case: "in a plain task",
        stalls,
        real_ns: task.expect("runs"),
        name: None,
    }
}

/// The body of `block_on` on a multi-thread runtime is no worker, and is seen where it is watched.
#[test]
fn a_watched_body_of_block_on_stalls_under_its_name() {
    let _turn = turn();
    let (agent, runtime) = (FakeAgent::start(), two_workers());
    let probe = agent.observe(&runtime);
    let real_ns = runtime.block_on(probe.watch("main", async { block(BLOCKED) }));
    let stalls = wait_for_ends(&agent, 1);
    probe.shutdown();
    assert_eq!(stalls[0].0.worker, None);
    Row {
        case: "in a watched block_on",
        stalls,
        real_ns,
        name: Some("main"),
    }
    .check();
}

/// A service that computes, blocks in place and blocks on the blocking pool, all as it should.
#[test]
fn healthy_work_is_no_stall() {
    let _turn = turn();
    let (agent, runtime) = (FakeAgent::start(), two_workers());
    let probe = agent.observe(&runtime);
    runtime.block_on(async {
        let in_place = ax_probe::spawn("in-place", async {
            tokio::task::block_in_place(|| block(BLOCKED));
        });
        let on_pool = ax_probe::spawn_blocking("on-pool", || block(BLOCKED));
        let ticker = ax_probe::spawn("ticker", async {
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        in_place.await.expect("runs");
        on_pool.await.expect("runs");
        ticker.await.expect("runs");
    });
    thread::sleep(Duration::from_millis(150));
    probe.shutdown();
    let stalls: Vec<_> = ended(&agent)
        .into_iter()
        .filter(|(stall, _)| stall.kind == StallKind::Stall)
        .collect();
    assert!(stalls.is_empty(), "{stalls:?}");
}

/// Back-to-back short polls freeze tokio's counters: with a name they are nothing, without one never a `stall`.
#[test]
fn back_to_back_short_polls_are_no_stall() {
    let _turn = turn();
    for named in [true, false] {
        let (agent, runtime) = (FakeAgent::start(), two_workers());
        let probe = agent.observe(&runtime);
        let stop = Arc::new(AtomicBool::new(false));
        let polls = Arc::new(AtomicU64::new(0));
        let compute = |stop: Arc<AtomicBool>, polls: Arc<AtomicU64>| async move {
            while !stop.load(Relaxed) {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(2) {
                    std::hint::spin_loop();
                }
                polls.fetch_add(1, Relaxed);
                tokio::task::yield_now().await;
            }
        };
        for _ in 0..2 {
            let task = compute(Arc::clone(&stop), Arc::clone(&polls));
            let _inside = runtime.enter();
            if named {
                ax_probe::spawn("short", task);
            } else {
                tokio::spawn(task);
            }
        }
        thread::sleep(Duration::from_millis(600));
        stop.store(true, Relaxed);
        thread::sleep(Duration::from_millis(150));
        probe.shutdown();
        assert!(polls.load(Relaxed) > 20);
        let kinds: Vec<_> = ended(&agent).iter().map(|(stall, _)| stall.kind).collect();
        assert!(
            !kinds.contains(&StallKind::Stall),
            "named {named}: {kinds:?}"
        );
    }
}

/// A process that is stopped from outside has no stall: its watchdog was stopped too, and says so.
#[test]
fn a_stopped_process_is_a_gap_of_the_observer() {
    let _turn = turn();
    let (agent, runtime) = (FakeAgent::start(), two_workers());
    let probe = agent.observe(&runtime);
    // Short polls all the while, so that the stop falls into one of them.
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    runtime.spawn(async move {
        while !stopped.load(Relaxed) {
            ax_probe::spawn("short", async { block(Duration::from_millis(3)) })
                .await
                .expect("runs");
        }
    });
    let script = "kill -STOP $PPID; sleep 0.4; kill -CONT $PPID";
    let status = Command::new("sh").args(["-c", script]).status();
    assert!(status.expect("sh runs").success());
    let gap = agent.wait_for(|frame| match frame {
        ToAgent::Events(events) => events.events.iter().find_map(|event| match event {
            Event::ObserverNotScheduled(gap) if gap.late_ns > 200_000_000 => Some(*gap),
            _ => None,
        }),
        _ => None,
    });
    stop.store(true, Relaxed);
    thread::sleep(Duration::from_millis(150));
    probe.shutdown();
    let stalls: Vec<_> = ended(&agent)
        .into_iter()
        .filter(|(stall, _)| stall.kind == StallKind::Stall)
        .collect();
    assert!(stalls.is_empty(), "{stalls:?}");
    assert!(gap.late_ns < 5_000_000_000, "{gap:?}");
}
