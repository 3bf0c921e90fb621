//! That the flight recorder makes no system call on the path of a job: `strace` watches a service that is this binary once
//! more. What an event costs is in `bench/benches/recorder.rs`.

mod support;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use ax_probe::{
    Probe, clock,
    recorder::{self, DEFAULT_RECORDER_BYTES},
    slot::current_subject,
};
use ax_scheduler::{Lane, Scheduler};
use ax_wire::recorder::RecordedKind;
use support::{find_program, full, record::Record, run_to_end};

/// Set in the service, to whether it has a recorder: `on` or `off`.
const SERVICE_ENV: &str = "AX_RECORDER_SERVICE";

/// The call that nothing else here makes, and that stands between the sections of the service's work.
const MARK: &str = "getppid";

const EVENTS: usize = 200_000;
const JOBS: usize = 20_000;

/// Not a test of its own: the service.
#[test]
fn service() {
    if env::var_os(SERVICE_ENV).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let on = env::var_os(SERVICE_ENV).is_some_and(|value| value == "on");
        let bytes = if on { DEFAULT_RECORDER_BYTES } else { 0 };
        let probe = Probe::builder("recorded").recorder_bytes(bytes);
        let probe = probe.install().expect("a runtime");
        let ax = Scheduler::new();
        let lane = ax.lane("work").limit(10).capacity(1_000).open();
        let lane = lane.expect("valid settings");
        // All memory of the recorder is made, and that of the jobs.
        record_events(&ax, &lane).await;
        run_jobs(&ax, &lane).await;
        mark();
        record_events(&ax, &lane).await;
        mark();
        run_jobs(&ax, &lane).await;
        mark();
        if on {
            let held = probe.recorded().expect("nobody else reads");
            assert_eq!(held.unrecorded_total, 0);
            assert!(held.events.len() > 10_000, "{}", held.events.len());
        }
    });
}

fn mark() {
    // What it answers is of no interest.
    let _ = rustix::process::getppid();
}

/// Events of one job without a pause, of both kinds of rings.
async fn record_events(ax: &Scheduler, lane: &Lane) {
    let job = ax.job("records", |_| async {
        let of = current_subject().expect("inside a job");
        mark();
        for number in 0..EVENTS {
            let kind = if number % 10 == 0 {
                RecordedKind::Retried
            } else {
                RecordedKind::Started
            };
            recorder::record(kind, &of, clock::now_ns(), None);
        }
        mark();
        Ok::<_, Infallible>(())
    });
    let job = job.lane(lane).submit().expect("room");
    job.await.expect("ends well");
}

async fn run_jobs(ax: &Scheduler, lane: &Lane) {
    for _ in 0..JOBS / 100 {
        let jobs: Vec<_> = (0..100)
            .map(|_| {
                let job = ax.job("noop", |_| std::future::ready(Ok::<_, Infallible>(())));
                job.lane(lane).submit().expect("room")
            })
            .collect();
        for job in jobs {
            job.await.expect("ends well");
        }
    }
}

/// The calls of the thread that marks, by name, section by section: what stands between two marks.
fn sections(trace: &str) -> Vec<BTreeMap<String, usize>> {
    let calls = || {
        trace.lines().filter_map(|line| {
            let (thread, call) = line.trim_start().split_once(' ')?;
            // `<... futex resumed>` belongs to a call that is counted already, and a signal is none.
            let (name, _) = call.trim_start().split_once('(')?;
            name.chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_')
                .then_some((thread, name))
        })
    };
    let marking = calls().find(|(_, name)| *name == MARK);
    let (marking, _) = marking.expect("the service marks");
    let mut sections = vec![BTreeMap::new()];
    for (_, name) in calls().filter(|(thread, _)| *thread == marking) {
        if name == MARK {
            sections.push(BTreeMap::new());
        } else if let Some(last) = sections.last_mut() {
            *last.entry(name.to_owned()).or_default() += 1;
        }
    }
    sections
}

/// The calls while events were recorded, and while jobs ran.
fn calls_of_service(strace: &Path, recorder: &str) -> [BTreeMap<String, usize>; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("calls");
    let mut command = Command::new(strace);
    command
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .arg(env::current_exe().expect("known"))
        .args(["--exact", "service"])
        .env(SERVICE_ENV, recorder)
        .env("AX_SOCKET", Path::new("/nonexistent/agent.sock"))
        .env_remove("AX_DISABLE")
        .stdin(Stdio::null());
    run_to_end(&mut command, 0);
    let sections = sections(&fs::read_to_string(&trace).expect("strace writes it"));
    // Before all, its events, between, its jobs, between: see `service`.
    assert_eq!(sections.len(), 8, "{sections:?}");
    [sections[4].clone(), sections[6].clone()]
}

#[test]
fn recording_makes_no_system_call() {
    if !full() {
        return;
    }
    let Some(strace) = find_program("strace") else {
        return;
    };
    let mut record = Record::new(
        "recorder-calls.txt",
        "AX_FULL=1 AX_BLESS=1 cargo test --release -p ax --test recorder -- --nocapture",
    );
    record.line("System calls of the thread that runs the jobs, counted by strace. The runtime makes its own: it looks at its");
    record.line("driver (epoll_wait) every 61 polls, and wakes it (write) for an earlier timer.");
    for recorder in ["on", "off"] {
        let [events, jobs] = calls_of_service(&strace, recorder);
        record.line(format!(
            "recorder {recorder:<3}  {EVENTS} events: {events:?}  {JOBS} jobs in bursts of 100: {jobs:?}"
        ));
        assert!(events.is_empty(), "{events:?}");
        let few = |name: &str| jobs.get(name).is_none_or(|calls| *calls < JOBS / 1_000);
        let foreign = jobs
            .keys()
            .find(|name| !["epoll_wait", "write"].contains(&name.as_str()));
        assert!(foreign.is_none() && few("write"), "{jobs:?}");
    }
    record.finish();
}
