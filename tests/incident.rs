//! Every worker is blocked for two seconds: the snapshot file is there before the block ends, written by the agent, or by
//! the probe where there is no agent; one file an incident.

mod support;

use std::{
    convert::Infallible,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use ax_probe::Probe;
use ax_scheduler::{JobHandle, Scheduler};
use ax_wire::{
    incident::{Reason, Snapshot, Writer},
    snapshot_file,
};
use support::{
    PATIENCE, PrivateAgent,
    watched::{SERVICE, build},
};

const BLOCKED: Duration = Duration::from_secs(2);

/// When the file is to be there on a busy machine. The budgets are 500 ms with an agent and 700 ms without: the snapshot
/// threshold, and 250 or 450 ms more.
const SOON: Duration = Duration::from_millis(1_800);

/// Jobs that wait behind the two that block.
const QUEUED: u64 = 30;

#[test]
fn a_snapshot_is_on_disk_before_the_block_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let agent = PrivateAgent::start();
    let with_agent = agent.snapshots().to_owned();
    let own = folder.path().join("snapshots");
    let nobody = folder.path().join("nobody.sock");
    let cases = [
        ("agent", agent.socket(), &with_agent, Writer::Agent),
        ("probe", nobody.as_path(), &own, Writer::Probe),
    ];
    println!("written by  on disk after (threshold 250 ms)");
    for (name, socket, expected, writer) in cases {
        let (snapshot, took) = block_and_wait(socket, &own, expected);
        println!("{name:<10}  {took:?}");
        assert!(took < SOON, "{took:?}");
        assert_eq!(snapshot.writer, writer);
        check(&snapshot);
    }
    assert_eq!(
        files(&with_agent).len(),
        1,
        "one for two stalls and their lag"
    );
    assert_eq!(
        files(&own).len(),
        1,
        "the probe writes where the agent does not"
    );
}

/// Blocks both workers of a service; the first file in `folder`, and how long after the block began it was there.
fn block_and_wait(socket: &Path, own: &Path, folder: &Path) -> (Snapshot, Duration) {
    let runtime = build(Some(2), "blocked");
    let probe = Probe::builder(SERVICE)
        .socket(socket)
        .quiet_start(Duration::ZERO)
        .snapshot_dir(own)
        .install_on(runtime.handle())
        .expect("installs");
    let ax = Scheduler::builder()
        .runtime(runtime.handle().clone())
        .build();
    let lane = ax.lane("db").limit(2).open().expect("valid settings");
    // Until the agent knows the service, and there is some history.
    thread::sleep(Duration::from_millis(2_500));

    let together = Arc::new(Barrier::new(3));
    let blockers: Vec<JobHandle<()>> = (0..2)
        .map(|_| {
            let together = Arc::clone(&together);
            let job = ax.job("blocking_report", |_| async move {
                together.wait();
                thread::sleep(BLOCKED);
                Ok::<_, Infallible>(())
            });
            job.lane(&lane).submit().expect("the lane has room")
        })
        .collect();
    together.wait();
    let began = Instant::now();
    for _ in 0..QUEUED {
        let job = ax.job("small_report", |_| async { Ok::<_, Infallible>(()) });
        drop(
            job.lane(&lane)
                .priority(70)
                .submit()
                .expect("the lane has room"),
        );
    }
    let path = loop {
        if let Some(path) = files(folder).pop() {
            break path;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "no file came to {}",
            folder.display()
        );
        thread::sleep(Duration::from_millis(2));
    };
    let took = began.elapsed();
    for job in blockers {
        runtime.block_on(job).expect("ends well");
    }
    probe.shutdown();
    (snapshot_file::read(&path).expect("a snapshot"), took)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("reads").path());
    let ready = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| snapshot_file::incident_of(name).is_some())
    };
    paths.filter(ready).collect()
}

fn check(snapshot: &Snapshot) {
    assert!(
        matches!(snapshot.reason, Reason::Stall { .. }),
        "{:?}",
        snapshot.reason
    );
    assert!(!snapshot.history.is_empty());
    let incident = snapshot.incident.as_ref().expect("taken");
    assert_eq!(
        snapshot_file::culprit(incident).as_deref(),
        Some("blocking_report")
    );
    assert_eq!(incident.running_total, 2);
    for job in &incident.running {
        assert_eq!(job.task.name, "blocking_report");
        assert!(job.elapsed_ns > 200_000_000, "{job:?}");
        assert!(job.poll_age_ns > Some(200_000_000), "{job:?}");
    }
    let queue = incident.queues.iter().find(|queue| queue.lane == "db");
    let queue = queue.expect("the lane is there");
    let by_type = queue.by_type.as_ref().expect("not held");
    assert_eq!(
        (by_type[0].name.as_str(), by_type[0].count),
        ("small_report", QUEUED)
    );
    let by_priority = queue.by_priority.as_ref().expect("not held");
    assert_eq!(
        (by_priority[0].priority, by_priority[0].count),
        (70, QUEUED)
    );
    assert_eq!((queue.oldest.len(), queue.next.len()), (20, 20));
}
