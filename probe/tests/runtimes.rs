//! Runtimes of every sort: several, short-lived, without a timer, with a paused clock, with hooks.

mod common;

use std::{
    collections::BTreeSet,
    env,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use ax_probe::Probe;
use ax_wire::{RuntimeId, ToAgent, event::Event, sample::Sample};
use common::{FakeAgent, turn};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.build().expect("builds")
}

fn ids(sample: &Sample) -> BTreeSet<RuntimeId> {
    sample.runtimes.iter().map(|of| of.info.id).collect()
}

/// A sample that was taken after this call.
fn sample(agent: &FakeAgent) -> Sample {
    let seq_of = |frame: &ToAgent| match frame {
        ToAgent::Sample(sample) => Some(sample.seq),
        _ => None,
    };
    let last = agent.frames().iter().filter_map(seq_of).max();
    agent.wait_for(|frame| match frame {
        ToAgent::Sample(sample) if Some(sample.seq) > last => Some(sample.as_ref().clone()),
        _ => None,
    })
}

#[test]
fn runtimes_come_and_go_under_numbers_of_their_own() {
    let _turn = turn();
    let (agent, first) = (FakeAgent::start(), runtime());
    let probe = agent.observe(&first);
    let add = |runtime: &Runtime| {
        let added = Probe::builder("test").install_on(runtime.handle());
        // One guard of several: the probe stays.
        drop(added.expect("installs"));
    };
    let second = Builder::new_current_thread().build().expect("builds");
    add(&second);
    add(&first);
    let two = ids(&sample(&agent));
    assert_eq!(two.len(), 2);
    drop(second);
    thread::sleep(Duration::from_millis(300));
    let one = ids(&sample(&agent));
    assert_eq!(one.len(), 1);
    let third = runtime();
    add(&third);
    let again = ids(&sample(&agent));
    assert_eq!(again.len(), 2);
    assert!(again.last() > two.last());
    probe.shutdown();
}

#[test]
fn a_runtime_without_a_timer_is_left_alone() {
    let _turn = turn();
    let agent = FakeAgent::start();
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).build().expect("builds");
    let probe = agent.observe(&runtime);
    let sample = sample(&agent);
    assert!(sample.lag.iter().any(|point| point.schedule_ns.is_some()));
    assert!(sample.lag.iter().all(|point| point.timer_ns.is_none()));
    assert_eq!(probe.panicked_threads(), 0);
    probe.shutdown();
}

/// Whether a runtime has a timer shows by a panic, and a panic hook takes the time that it takes.
#[test]
fn a_slow_panic_hook_does_not_make_the_watchdog_late() {
    let _turn = turn();
    let (hooked, calls) = std::sync::mpsc::channel();
    let hooked = std::sync::Mutex::new(hooked);
    let usual_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = thread::current();
        thread::sleep(Duration::from_millis(200));
        let told = (thread.name().map(str::to_owned), panic.to_string());
        hooked.lock().expect("whole").send(told).expect("wanted");
    }));
    let agent = FakeAgent::start();
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).build().expect("builds");
    // A busy machine may hold the watchdog up too, but not each time.
    let late = (0..3).all(|_| {
        let probe = agent.observe(&runtime);
        let (thread, message) = calls
            .recv_timeout(Duration::from_secs(10))
            .expect("it tries");
        assert_eq!(thread.as_deref(), Some("ax-timer-check"), "{message}");
        let shown = agent.frames().len();
        sample(&agent);
        probe.shutdown();
        let frames = agent.frames();
        let goodbye = |frame: &ToAgent| matches!(frame, ToAgent::Goodbye);
        let before = frames[..shown].iter().rposition(goodbye);
        let from = before.map_or(0, |at| at + 1);
        let events = frames[from..].iter().flat_map(|frame| match frame {
            ToAgent::Events(of) => of.events.as_slice(),
            _ => &[],
        });
        let gaps = events.filter_map(|event| match event {
            Event::ObserverNotScheduled(gap) => Some(gap.late_ns),
            _ => None,
        });
        gaps.max() > Some(100_000_000)
    });
    std::panic::set_hook(usual_hook);
    assert!(!late, "the watchdog waited for the panic hook");
}

#[test]
fn outside_a_runtime_there_is_nothing_to_observe() {
    let error = Probe::builder("test").install().err().expect("refused");
    assert!(error.to_string().contains("install_on"), "{error}");
}

/// A sleep of ours in a runtime whose clock is paused would let virtual time run on at full speed.
#[test]
fn a_paused_clock_is_not_driven_away() {
    let _turn = turn();
    let agent = FakeAgent::start();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("builds");
    let probe = Probe::builder("test").socket(agent.socket());
    let (probe, passed) = runtime.block_on(async {
        let probe = probe.install().expect("installs");
        let real = |length| async move {
            // On another thread, since here time is not what it seems.
            let (done, wait) = tokio::sync::oneshot::channel();
            thread::spawn(move || {
                thread::sleep(length);
                let _ = done.send(());
            });
            wait.await.expect("sent");
        };
        // Until the probe sleeps in its task.
        real(Duration::from_millis(350)).await;
        tokio::time::pause();
        let before = tokio::time::Instant::now();
        real(Duration::from_millis(1_500)).await;
        (probe, before.elapsed())
    });
    assert!(passed <= Duration::from_millis(2), "{passed:?}");
    probe.shutdown();
    let timed = agent.frames().iter().any(|frame| {
        matches!(frame, ToAgent::Sample(sample) if sample.lag.iter().any(|point| point.timer_ns.is_some()))
    });
    assert!(timed, "the probe had not slept before the pause");
}

/// A pool whose threads are all taken shows in the wait of the probe's own closure, and no longer than it lasts.
#[test]
fn a_full_blocking_pool_shows_as_its_lag() {
    let _turn = turn();
    let agent = FakeAgent::start();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).max_blocking_threads(1);
    let runtime = builder.enable_all().build().expect("builds");
    let probe = agent.observe(&runtime);
    let lag_ns = |sample: &Sample| sample.runtimes[0].blocking.lag_ns;
    let reaches = |from, wanted: fn(u64) -> bool| {
        agent.wait_from(from, |frame| match frame {
            ToAgent::Sample(sample) => lag_ns(sample).filter(|ns| wanted(*ns)),
            _ => None,
        })
    };
    let before = reaches(0, |ns| ns < 500_000_000);
    let (free, wait) = std::sync::mpsc::channel::<()>();
    // Held until the other end is dropped.
    runtime.spawn_blocking(move || wait.recv());
    let full = reaches(agent.frames().len(), |ns| ns > 1_000_000_000);
    drop(free);
    let after = reaches(agent.frames().len(), |ns| ns < 500_000_000);
    println!("lag of the blocking pool: {before} ns, full {full} ns, free again {after} ns");
    probe.shutdown();
}

/// With its hooks the probe knows each worker's thread as soon as it parks, though none has run a task.
#[test]
fn a_configured_runtime_shows_all_of_its_threads_at_once() {
    let _turn = turn();
    let agent = FakeAgent::start();
    let mut builder = Builder::new_multi_thread();
    let runtime = ax_probe::configure(builder.worker_threads(4).enable_all()).build();
    let runtime = runtime.expect("builds");
    let probe = agent.observe(&runtime);
    // One wake-up for each: the runtime was not watched yet when they first parked.
    let began = Instant::now();
    loop {
        let tasks: Vec<_> = (0..8)
            .map(|_| runtime.spawn(tokio::task::yield_now()))
            .collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.expect("runs");
            }
        });
        let sample = sample(&agent);
        let tids: BTreeSet<_> = sample.runtimes[0]
            .workers
            .iter()
            .filter_map(|of| of.tid)
            .collect();
        if tids.len() == 4 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{tids:?}");
    }
    probe.shutdown();
}

/// Run once more as a child, since the environment of this process belongs to all of its tests.
#[test]
fn a_probe_that_is_switched_off_observes_nothing() {
    if env::var_os(ax_probe::DISABLE_ENV).is_none() {
        let child = Command::new(env::current_exe().expect("known"))
            .args(["--exact", "a_probe_that_is_switched_off_observes_nothing"])
            .env(ax_probe::DISABLE_ENV, "1")
            .output()
            .expect("runs");
        assert!(
            child.status.success(),
            "{}",
            String::from_utf8_lossy(&child.stdout)
        );
        return;
    }
    let runtime = runtime();
    let probe = Probe::builder("test").install_on(runtime.handle());
    let probe = probe.expect("is no error");
    assert!(!probe.is_enabled());
    let threads = std::fs::read_dir("/proc/self/task").expect("reads");
    let ours = threads.filter(|thread| {
        let name = thread.as_ref().expect("reads").path().join("comm");
        std::fs::read_to_string(name).is_ok_and(|name| name.starts_with("ax-"))
    });
    assert_eq!(ours.count(), 0);
    runtime.block_on(async { ax_probe::spawn("goes on", async {}).await.expect("runs") });
    probe.shutdown();
}
