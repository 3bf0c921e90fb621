//! Bad input: a job whose poll does not return. Nothing can stop it, and everything else has a defined outcome. On a real
//! runtime, because it is the worker itself that is taken.

use std::{
    convert::Infallible,
    hint,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ax_probe::Probe;
use ax_scheduler::{JobError, JobState, Lane, Scheduler};
use ax_wire::{
    ToAgent, ToService,
    event::{Event, Stall},
    frame::{self, Ack},
    hello::PROTOCOL,
};
use tokio::runtime::{Builder, Runtime};

const PATIENCE: Duration = Duration::from_mins(1);

fn two_workers() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.build().expect("builds")
}

/// Lets the job go, also when the test fails.
struct Release(Arc<AtomicBool>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn submit(ax: &Scheduler, lane: &Lane) -> ax_scheduler::JobHandle<u32> {
    let job = ax.job("ordinary", |_| async { Ok::<_, Infallible>(7) });
    job.lane(lane).submit().expect("room")
}

/// Takes the hello of the probe, and returns the first stall of a job of this type.
fn stall_of(agent: &UnixListener, job_type: &str) -> Stall {
    let (mut stream, _) = agent.accept().expect("a probe comes");
    stream.set_read_timeout(Some(PATIENCE)).expect("is taken");
    let lines = BufReader::new(UnixStream::try_clone(&stream).expect("a second handle"));
    for line in lines.split(b'\n') {
        match frame::decode(&line.expect("a line in time")).expect("a frame") {
            ToAgent::Hello(_) => {
                let mut ack = Vec::new();
                let taken = ToService::Ack(Ack {
                    protocol: PROTOCOL,
                    agent_version: "test".to_owned(),
                    agent_pid: process::id(),
                    embedded: false,
                });
                frame::encode(&taken, &mut ack).expect("encodes");
                stream.write_all(&ack).expect("the probe reads");
            }
            ToAgent::Events(events) => {
                for event in events.events {
                    if let Event::StallBegan(stall) = event
                        && stall
                            .task
                            .as_ref()
                            .is_some_and(|task| task.name == job_type)
                    {
                        return stall;
                    }
                }
            }
            _ => {}
        }
    }
    panic!("the probe went away")
}

/// A timeout and a cancellation are the runner dropping the future between two polls: they wait for the poll. It keeps its
/// slot; the lane's other slots and other lanes go on, and the probe says that it is a stall and whose.
#[test]
fn a_job_that_never_yields_keeps_its_slot_and_nothing_else() {
    let runtime = two_workers();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("agent.sock");
    let agent = UnixListener::bind(&socket).expect("binds");
    let probe = Probe::builder("never-yields").socket(&socket);
    let _probe = probe.install_on(runtime.handle()).expect("installs");
    let ax = Scheduler::builder().runtime(runtime.handle().clone());
    let ax = ax.build();
    let timeout = Duration::from_millis(20);
    let lane = ax.lane("shared").limit(2).timeout(timeout);
    let lane = lane.open().expect("new");
    let other = ax.lane("other").limit(1).open().expect("new");

    let release = Release(Arc::default());
    let go = Arc::clone(&release.0);
    let stuck = ax.job("spins", move |_| async move {
        while !go.load(Relaxed) {
            hint::spin_loop();
        }
        Ok::<_, Infallible>(1)
    });
    let stuck = stuck.lane(&lane).submit().expect("room");
    eventually("it to run", || stuck.status() == JobState::Running);

    // Jobs of the same lane have its other slot, jobs of other lanes all of theirs.
    for _ in 0..20 {
        let jobs = [submit(&ax, &lane), submit(&ax, &other)];
        for job in jobs {
            assert_eq!(runtime.block_on(job).expect("goes on"), 7);
        }
    }
    // Neither its timeout, long over, nor a cancellation ends it.
    let stall = stall_of(&agent, "spins");
    assert!(stall.length_ns > 2 * 20_000_000, "its timeout is over");
    let task = stall.task.expect("is named");
    assert_eq!(task.job, Some(stuck.id()));
    stuck.cancel();
    assert_eq!(stuck.status(), JobState::Running);
    assert_eq!(lane.counts().running, 1);
    let shown = ax.snapshot();
    let running = shown.lanes.iter().flat_map(|lane| &lane.running);
    assert_eq!(
        running.map(|job| job.job_type).collect::<Vec<_>>(),
        ["spins"]
    );

    // Its poll returns a value at last: that is how it ended, for the attempt was never dropped.
    drop(release);
    assert_eq!(runtime.block_on(stuck).expect("the poll was ready"), 1);
    eventually("its slot", || lane.counts().running == 0);
    assert_eq!(lane.counts().counters.timed_out_total, 0);

    // One whose poll returns pending after its timeout ends by that, at once.
    let tardy = ax.job("late", move |_| async move {
        thread::sleep(timeout * 2);
        std::future::pending::<Result<(), Infallible>>().await
    });
    let tardy = tardy.lane(&lane).submit().expect("room");
    let outcome = runtime.block_on(tardy);
    assert!(
        matches!(outcome, Err(JobError::TimedOut { .. })),
        "{outcome:?}"
    );
}
