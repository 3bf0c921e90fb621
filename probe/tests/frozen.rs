//! A service that is stopped as a whole, by SIGSTOP for 5 s: a gap of its observer, and neither a stall, nor lag, nor an
//! incident.

mod common;

use std::{
    env, io,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread,
    time::Duration,
};

use ax_probe::Probe;
use ax_wire::{
    ToAgent,
    event::{Event, StallKind},
};
use common::{FakeAgent, Manners};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Builder;

/// Set in the process that is to be the service: the agent's socket.
const BE_THE_SERVICE: &str = "AX_TEST_FROZEN";

const STOPPED: Duration = Duration::from_secs(5);

/// What a run may show as lag, on a busy machine: the service's own polls, and no part of the gap.
const MOST_LAG_NS: u64 = 2_000_000_000;

struct Service(Child);

impl Service {
    fn start(agent: &FakeAgent) -> Self {
        let child = Command::new(env::current_exe().expect("a path"))
            .args(["--exact", "the_service", "--nocapture"])
            .env(BE_THE_SERVICE, agent.socket())
            .stdin(Stdio::piped())
            // Its own group: the kernel continues the stopped members of a group whose shell goes away.
            .process_group(0)
            .spawn();
        Self(child.expect("starts"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("ours");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Both fail where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_service_that_is_stopped_for_five_seconds_shows_a_gap_and_no_stall() {
    let runs = if env::var_os("AX_FULL").is_some() {
        20
    } else {
        2
    };
    let agent = FakeAgent::start_as(Manners::Acks);
    let service = Service::start(&agent);
    println!("run  gap of the observer ms  worst lag ms  stalls  incidents");
    let mut good = 0;
    for run in 1..=runs {
        // The stop falls into another part of the service's work each time.
        wait_for_samples(&agent, 0, 1);
        let from = agent.frames().len();
        thread::sleep(Duration::from_millis(37 * run % 200));
        service.signal(Signal::STOP);
        thread::sleep(STOPPED);
        service.signal(Signal::CONT);
        let gap_ns = agent.wait_from(from, longest_gap);
        wait_for_samples(&agent, agent.frames().len(), 2);
        let frames = &agent.frames()[from..];
        let lag_ns = frames.iter().filter_map(worst_lag).max().unwrap_or(0);
        let stalls: usize = frames.iter().map(stalls).sum();
        let incidents = frames
            .iter()
            .filter(|frame| matches!(frame, ToAgent::Incident(_)))
            .count();
        println!(
            "{run:>3}  {:>22.0}  {:>12.1}  {stalls:>6}  {incidents:>9}",
            gap_ns as f64 / 1e6,
            lag_ns as f64 / 1e6
        );
        let shown = gap_ns.abs_diff(STOPPED.as_nanos() as u64) < 1_000_000_000;
        good += u64::from(shown && stalls == 0 && incidents == 0 && lag_ns < MOST_LAG_NS);
    }
    assert_eq!(good, runs);
}

/// Waits for so many samples from frame `from` on.
fn wait_for_samples(agent: &FakeAgent, from: usize, count: usize) {
    let mut seen = 0;
    agent.wait_from(from, |frame| {
        seen += usize::from(matches!(frame, ToAgent::Sample(_)));
        (seen == count).then_some(())
    });
}

fn events(frame: &ToAgent) -> &[Event] {
    match frame {
        ToAgent::Events(events) => &events.events,
        _ => &[],
    }
}

/// A gap that is no hiccup of a busy machine.
fn longest_gap(frame: &ToAgent) -> Option<u64> {
    let gaps = events(frame).iter().filter_map(|event| match event {
        Event::ObserverNotScheduled(gap) => Some(gap.late_ns),
        _ => None,
    });
    gaps.max().filter(|late_ns| *late_ns > 1_000_000_000)
}

fn stalls(frame: &ToAgent) -> usize {
    let began = events(frame).iter().filter(
        |event| matches!(event, Event::StallBegan(stall) if stall.kind == StallKind::Stall),
    );
    began.count()
}

fn worst_lag(frame: &ToAgent) -> Option<u64> {
    match frame {
        ToAgent::Sample(sample) => sample
            .lag
            .iter()
            .filter_map(ax_wire::sample::LagPoint::lag_ns)
            .max(),
        _ => None,
    }
}

/// Not a test of its own: the process that the one above stops and kills.
#[test]
fn the_service() {
    let Some(socket) = env::var_os(BE_THE_SERVICE).map(PathBuf::from) else {
        return;
    };
    // It does not outlive the test, however that ends: its standard input closes then.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(1);
    });
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    let runtime = runtime.expect("builds");
    let probe = Probe::builder("frozen")
        .socket(socket)
        .quiet_start(Duration::ZERO)
        .snapshot_cooldown(Duration::ZERO);
    let _probe = probe.install_on(runtime.handle()).expect("installs");
    runtime.block_on(async {
        loop {
            let named = ax_probe::spawn("short", async {
                thread::sleep(Duration::from_millis(3));
            });
            let plain = tokio::spawn(async { thread::sleep(Duration::from_millis(2)) });
            named.await.expect("runs");
            plain.await.expect("runs");
        }
    });
}
