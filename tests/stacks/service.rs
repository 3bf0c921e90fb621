//! The service whose stacks are looked at.

use std::{
    convert::Infallible,
    env, io,
    path::Path,
    process,
    sync::{Arc, Barrier},
    time::Duration,
};

use ax_probe::Probe;
use ax_scheduler::Scheduler;
use tokio::{runtime::Builder, time::sleep};

use crate::kinds::{self, Kind};

/// Names what the service does; without it, it does nothing.
pub const MODE_ENV: &str = "AX_STACKS_SERVICE";

/// How long a runtime runs before it is blocked, so that the probe has met its workers.
const WARM_UP: Duration = Duration::from_millis(150);

#[derive(Clone, Copy)]
pub enum Mode {
    /// Each cell once.
    Matrix,
    /// Two kinds of jobs for ever.
    Churn,
    /// One job that blocks for long.
    Incident,
    /// As many as there are workers.
    Wedged,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Matrix => "matrix",
            Self::Churn => "churn",
            Self::Incident => "incident",
            Self::Wedged => "wedged",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Flavor {
    MultiThread,
    CurrentThread,
}

#[derive(Clone, Copy, Debug)]
pub enum Who {
    Job,
    PlainTask,
}

/// One cell of the table.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub kind: Kind,
    pub flavor: Flavor,
    pub who: Who,
}

impl Cell {
    pub fn columns() -> [(&'static str, Flavor, Who); 4] {
        [
            ("multi, job", Flavor::MultiThread, Who::Job),
            ("multi, plain task", Flavor::MultiThread, Who::PlainTask),
            ("current, job", Flavor::CurrentThread, Who::Job),
            ("current, plain task", Flavor::CurrentThread, Who::PlainTask),
        ]
    }

    /// All, in the order in which they run, and so that of their runtimes' ids, which begin at 1.
    pub fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(|kind| {
            let columns = Self::columns().into_iter();
            columns.map(move |(_, flavor, who)| Self { kind, flavor, who })
        })
    }

    /// Returns the probe, which ends with its last handle.
    fn run(self) -> Probe {
        let mut builder = match self.flavor {
            Flavor::MultiThread => Builder::new_multi_thread(),
            Flavor::CurrentThread => Builder::new_current_thread(),
        };
        builder.worker_threads(2).enable_all();
        let runtime = ax_probe::configure(&mut builder)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let probe = Probe::builder("stacks")
                .stacks(true)
                .install()
                .expect("a runtime");
            let ax = Scheduler::new();
            let lane = ax.lane("work").limit(1).open().expect("valid settings");
            sleep(WARM_UP).await;
            let kind = self.kind;
            match self.who {
                Who::Job => {
                    let job = ax.job("blocking_job", move |_| async move {
                        kind.block();
                        Ok::<_, Infallible>(())
                    });
                    let job = job.lane(&lane).submit().expect("the lane has room");
                    job.await.expect("no panic");
                }
                Who::PlainTask => tokio::spawn(async move { kind.block() })
                    .await
                    .expect("no panic"),
            }
            probe
        })
    }
}

pub fn run(mode: &str) {
    if mode == Mode::Churn.name() {
        churn();
    }
    if mode == Mode::Incident.name() {
        incident(1);
    }
    if mode == Mode::Wedged.name() {
        incident(WORKERS_OF_INCIDENT);
    }
    let probes: Vec<Probe> = Cell::all().map(Cell::run).collect();
    for probe in probes {
        probe.shutdown();
    }
    // The names of its last stacks are read while it lives.
    io::copy(&mut io::stdin(), &mut io::sink()).expect("ends with the test");
}

/// Jobs that end at about the time when they are found to stall, until the process is ended.
fn churn() -> ! {
    const WORKERS: usize = 12;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(WORKERS).enable_all();
    let runtime = ax_probe::configure(&mut builder)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let _probe = Probe::builder("stacks")
            .stall_threshold(ax_probe::MIN_STALL_THRESHOLD)
            .stacks(true)
            .install()
            .expect("a runtime");
        let ax = Scheduler::new();
        let lane = ax
            .lane("work")
            .limit(WORKERS)
            .open()
            .expect("valid settings");
        let mut number = 0_u64;
        loop {
            let time = Duration::from_micros(19_000 + number * 997 % 14_000);
            let (name, function): (&str, fn(Duration)) = if number.is_multiple_of(2) {
                ("even", kinds::even)
            } else {
                ("odd", kinds::odd)
            };
            let job = ax.job(name, move |_| async move {
                function(time);
                Ok::<_, Infallible>(())
            });
            // A full lane is waited for.
            match job.lane(&lane).submit() {
                Ok(_job) => number += 1,
                Err(_) => sleep(Duration::from_millis(1)).await,
            }
        }
    })
}

/// Of the runtime that has the incident.
pub const WORKERS_OF_INCIDENT: usize = 2;

/// Jobs at once that block until after their second stack, then nothing more, until the process is ended.
fn incident(jobs: usize) -> ! {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(WORKERS_OF_INCIDENT).enable_all();
    let runtime = ax_probe::configure(&mut builder)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        // Of a name of its own, so that no service before it has used up its snapshots.
        let name = format!("stacks-{}", process::id());
        let folder = env::var_os(kinds::FOLDER_ENV).expect("set by the test");
        let _probe = Probe::builder(name)
            .snapshot_dir(Path::new(&folder).join("snapshots"))
            .quiet_start(Duration::ZERO)
            .stacks(true)
            .install()
            .expect("a runtime");
        let ax = Scheduler::new();
        let lane = ax.lane("work").limit(jobs).open().expect("valid settings");
        // Until the agent has greeted the probe.
        sleep(Duration::from_millis(500)).await;
        let together = Arc::new(Barrier::new(jobs));
        let jobs: Vec<_> = (0..jobs)
            .map(|_| {
                let together = Arc::clone(&together);
                let job = ax.job("blocking_job", |_| async move {
                    together.wait();
                    kinds::odd(Duration::from_millis(1_200));
                    Ok::<_, Infallible>(())
                });
                job.lane(&lane).submit().expect("the lane has room")
            })
            .collect();
        for job in jobs {
            job.await.expect("no panic");
        }
        loop {
            sleep(Duration::from_secs(1)).await;
        }
    })
}
