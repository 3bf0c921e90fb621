//! The agent is killed with -9 and started again, again and again: the service pays the same CPU for a job, loses none,
//! and is back on the agent within two seconds.

mod support;

use std::{
    convert::Infallible,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ax_probe::Probe;
use ax_scheduler::Scheduler;
use ax_wire::{
    InstanceId, ToViewer,
    view::{ServiceState, Services},
};
use rustix::time::{ClockId, clock_gettime};
use support::{
    Guarded, Viewer, ax_agent, eventually, full,
    watched::{SERVICE, build},
};

/// Over which CPU is measured, with the agent and without.
const SPAN: Duration = Duration::from_millis(1_500);

#[test]
fn the_service_does_not_notice_that_its_agent_is_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("ax/agent.sock");
    let mut agent = start_agent(&socket);
    let runtime = build(Some(2), "killed");
    let (work, probe) = runtime.block_on(async {
        let probe = Probe::builder(SERVICE)
            .socket(&socket)
            .snapshot_dir(folder.path().join("snapshots"))
            .install()
            .expect("a runtime");
        (Work::start(), probe)
    });
    let instance = attached(&socket, Instant::now()).1;

    let (mut with_agent, mut without) = (Vec::new(), Vec::new());
    println!("round  CPU us a job: agent  killed  attached again after");
    for round in 1..=if full() { 20 } else { 3 } {
        with_agent.push(work.cpu_us_per_job());
        // SIGKILL, then its end is waited for.
        drop(agent);
        without.push(work.cpu_us_per_job());
        let started = Instant::now();
        agent = start_agent(&socket);
        let (took, again) = attached(&socket, started);
        println!(
            "{round:>5}  {:>19.1}  {:>6.1}  {took:?}",
            with_agent.last().expect("measured"),
            without.last().expect("measured"),
        );
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!(again, instance, "the same start of the same service");
    }
    let (with_agent, without) = (median(with_agent), median(without));
    let ratio = without / with_agent;
    println!("median: {with_agent:.1} us with the agent, {without:.1} us without: {ratio:.3}");
    assert!((0.75..1.25).contains(&ratio), "{ratio}");
    assert_eq!(work.failed(), 0);
    assert_eq!(probe.panicked_threads(), 0);
    work.stop();
}

fn start_agent(socket: &Path) -> Guarded {
    let agent = ax_agent(socket).stderr(Stdio::null()).spawn();
    Guarded(agent.expect("the agent starts"))
}

/// Waits until the agent shows the service alive; how long that took since `since`.
fn attached(socket: &Path, since: Instant) -> (Duration, InstanceId) {
    eventually("the agent's socket", || {
        std::os::unix::net::UnixStream::connect(socket).ok()
    });
    let mut viewer = Viewer::connect(socket);
    loop {
        let ToViewer::Services(Services { services, .. }) = viewer.next_frame() else {
            continue;
        };
        let live = services
            .iter()
            .find(|of| of.service == SERVICE && of.state == ServiceState::Live);
        if let Some(live) = live {
            return (since.elapsed(), live.instance);
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Jobs of equal work, a few at a time, for ever.
struct Work {
    done: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Work {
    /// Inside a runtime.
    fn start() -> Self {
        let work = Self {
            done: Arc::default(),
            failed: Arc::default(),
            stop: Arc::default(),
        };
        let (done, failed) = (Arc::clone(&work.done), Arc::clone(&work.failed));
        let stop = Arc::clone(&work.stop);
        tokio::spawn(async move {
            let ax = Scheduler::new();
            let lane = ax.lane("work").limit(4).open().expect("valid settings");
            while !stop.load(Relaxed) {
                let jobs: Vec<_> = (0..4)
                    .map(|_| {
                        let job = ax.job("spin", |_| async {
                            Ok::<_, Infallible>(
                                (0..20_000_u64)
                                    .fold(1, |a, b| std::hint::black_box(a ^ b.wrapping_mul(31))),
                            )
                        });
                        job.lane(&lane).submit().expect("the lane has room")
                    })
                    .collect();
                for job in jobs {
                    let ended = if job.await.is_ok() { &done } else { &failed };
                    ended.fetch_add(1, Relaxed);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        work
    }

    /// CPU of the whole process over [`SPAN`], for each job that ended in it.
    fn cpu_us_per_job(&self) -> f64 {
        let cpu = || {
            let time = clock_gettime(ClockId::ProcessCPUTime);
            time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
        };
        let (before, jobs) = (cpu(), self.done.load(Relaxed));
        thread::sleep(SPAN);
        let jobs = self.done.load(Relaxed) - jobs;
        assert!(jobs > 100, "the service stands still: {jobs} jobs");
        (cpu() - before) / jobs as f64
    }

    fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    fn stop(&self) {
        self.stop.store(true, Relaxed);
    }
}
