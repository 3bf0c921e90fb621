//! What the agent costs: 10 services of 50 types with three histograms each.
//!
//! The agent runs in a process of its own: this test program started again, with only [`serve_until_stdin_ends`]. The
//! long run (`AX_FULL=1`, meant for `--release`) fills 15 minutes of history first and asserts the budget of CPU and
//! memory; the short one only asserts the memory, and that every sample arrived.

use std::{
    env, fs,
    io::Read as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use ax_agent::{Agent, CancellationToken, Config};
use ax_wire::{LatencyHistogram, ToAgent, ToService, ToViewer, sample::Sample};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::common::{Peer, SECOND, done, hello, job_type, lane, sample, subscribe};

const CHILD: &str = "AX_TEST_BUDGET_SOCKET";
const SERVICES: usize = 10;
const TYPES: usize = 50;
const MAX_RSS_BYTES: u64 = 64 << 20;
const MAX_CPU_SHARE: f64 = 0.02;

/// With a viewer, each view is made and encoded besides.
const MAX_CPU_SHARE_WATCHED: f64 = 0.04;

/// The child's part: an agent, until the parent closes its stdin.
#[test]
#[ignore = "the other half of what_ten_services_cost, which starts it"]
fn serve_until_stdin_ends() {
    let Some(socket) = env::var_os(CHILD) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut config = Config::at(&socket);
        config.snapshots.folder = Some(Path::new(&socket).with_file_name("snapshots"));
        let agent = Agent::bind(config).expect("binds");
        let stop = CancellationToken::new();
        let stopper = stop.clone();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read(&mut [0]);
            stopper.cancel();
        });
        agent.run(stop).await;
    });
}

#[tokio::test]
async fn what_ten_services_cost() {
    let full = env::var_os("AX_FULL").is_some();
    let (past, measured) = if full {
        (900, Duration::from_secs(20))
    } else {
        (20, Duration::ZERO)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("agent.sock");
    let mut child = start(&socket);
    let pid = child.id();
    let idle_bytes = rss_bytes(pid);

    let mut services = Vec::new();
    for index in 0..SERVICES {
        let mut peer = Peer::connect(&socket).await;
        peer.send(&ToAgent::Hello(Box::new(hello(&format!(
            "service-{index}"
        )))))
        .await;
        assert!(matches!(peer.next().await, ToService::Ack(_)));
        services.push(peer);
    }
    for second in 1..=past {
        let sample = busy(second);
        for service in &mut services {
            service.send_sample(sample.clone()).await;
        }
    }
    assert_eq!(seen_points(&socket).await, past as usize * SERVICES);
    let full_bytes = rss_bytes(pid);
    println!(
        "rss  idle {:.1} MiB  {SERVICES} services of {TYPES} types, {past} s: {:.1} MiB  budget {} MiB",
        mib(idle_bytes),
        mib(full_bytes),
        MAX_RSS_BYTES >> 20
    );
    if full {
        let alone = cpu_share(pid, &mut services, past, measured).await;
        let _viewer = tokio::spawn(read_for_ever(viewer(&socket).await));
        let watched = cpu_share(pid, &mut services, past + 100, measured).await;
        println!(
            "cpu  no viewer {:.2} % of {:.0} %  one viewer {:.2} % of {:.0} %  rss {:.1} MiB",
            alone * 100.0,
            MAX_CPU_SHARE * 100.0,
            watched * 100.0,
            MAX_CPU_SHARE_WATCHED * 100.0,
            mib(rss_bytes(pid)),
        );
        assert!(alone < MAX_CPU_SHARE && watched < MAX_CPU_SHARE_WATCHED);
        assert!(rss_bytes(pid) < MAX_RSS_BYTES);
    }
    drop(child.stdin.take());
    assert!(child.wait().expect("ends").success());
    assert!(full_bytes < MAX_RSS_BYTES);
}

pub fn start(socket: &Path) -> Child {
    let child = Command::new(env::current_exe().expect("has a path"))
        .args(["--ignored", "--exact", "budget::serve_until_stdin_ends"])
        .env(CHILD, socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// A second of 50 types in 4 lanes, each with 100 jobs whose durations fill some 50 buckets.
fn busy(second: u64) -> Sample {
    let histogram = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut histogram = LatencyHistogram::new();
        for _ in 0..100 {
            // The product of three uniform numbers has the long tail of real latencies.
            let spread: f64 = random.f64() * random.f64() * random.f64();
            histogram.record_ns(500_000 + (spread * 100e6) as u64);
        }
        Some(histogram)
    };
    let types = (0..TYPES as u64).map(|index| {
        let name = format!("job_type_{index}");
        let mut own = job_type(
            &name,
            &format!("lane-{}", index % 4),
            done(second * 100),
            &[],
        );
        own.queue_wait = histogram(second * 1_000 + index);
        own.run = histogram(second * 2_000 + index);
        own.poll = histogram(second * 3_000 + index);
        own
    });
    Sample {
        types: types.collect(),
        lanes: (0..4)
            .map(|n| lane(&format!("lane-{n}"), done(second * 1_250)))
            .collect(),
        ..sample(second)
    }
}

async fn viewer(socket: &Path) -> Peer {
    let mut viewer = Peer::connect(socket).await;
    viewer.send(&subscribe()).await;
    assert!(matches!(viewer.next().await, ToViewer::Ack(_)));
    viewer
}

async fn read_for_ever(mut viewer: Peer) {
    while viewer.skip().await {}
}

/// Chart points of all services, once the agent has stopped reading.
async fn seen_points(socket: &Path) -> usize {
    let mut before = None;
    loop {
        let mut viewer = viewer(socket).await;
        let mut points = Vec::new();
        while points.len() < SERVICES {
            if let ToViewer::Backfill(backfill) = viewer.next().await {
                points.push(backfill.points.len());
            }
        }
        let sum = points.iter().sum();
        if before == Some(sum) {
            return sum;
        }
        before = Some(sum);
        // More than the pause of a paced connection.
        sleep(Duration::from_millis(1_100)).await;
    }
}

/// The share of a core that a process takes while each service sends a sample a second.
async fn cpu_share(pid: u32, services: &mut [Peer], past: u64, measured: Duration) -> f64 {
    let mut tick = interval(Duration::from_secs(1) / SERVICES as u32);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (began, before) = (Instant::now(), cpu_seconds(pid));
    let mut second = past;
    while began.elapsed() < measured {
        second += 1;
        let sample = busy(second);
        for service in &mut *services {
            tick.tick().await;
            service.send_sample(sample.clone()).await;
        }
    }
    (cpu_seconds(pid) - before) / began.elapsed().as_secs_f64()
}

/// The time that all threads of a process have been on a CPU.
fn cpu_seconds(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("is alive");
    let on_cpu_ns = threads.map(|thread| {
        let path = thread.expect("is listed").path().join("schedstat");
        let schedstat = fs::read_to_string(path).expect("is alive");
        let ns = schedstat
            .split(' ')
            .next()
            .and_then(|ns| ns.parse::<u64>().ok());
        ns.expect("the time on a CPU comes first")
    });
    on_cpu_ns.sum::<u64>() as f64 / SECOND as f64
}

pub fn rss_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("is alive");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("is told")
        * 1_024
}

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
