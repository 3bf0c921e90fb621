//! Agents of every sort: there, absent, late, refusing, deaf, and things that are no agent. The service goes on.

mod common;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ax_probe::{DEFAULT_STALL_THRESHOLD, Probe};
use ax_wire::{
    ToAgent, ToService,
    frame::{self, Ack, Refused},
    hello::{Hello, PROTOCOL, RuntimeFlavor},
    sample::{Sample, TaskKind},
};
use common::{FakeAgent, turn};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.build().expect("builds")
}

fn install(runtime: &Runtime, socket: &Path) -> Probe {
    let probe = Probe::builder("test").socket(socket);
    probe.install_on(runtime.handle()).expect("installs")
}

fn ack() -> ToService {
    ToService::Ack(Ack {
        protocol: PROTOCOL,
        agent_version: "test".into(),
        embedded: false,
        agent_pid: 1,
    })
}

fn answer(stream: &mut UnixStream, frame: &ToService) {
    let mut line = Vec::new();
    frame::encode(frame, &mut line).expect("encodes");
    stream.write_all(&line).expect("writes");
}

fn lines_until_closed(stream: &mut UnixStream) -> usize {
    let mut sent = String::new();
    stream.read_to_string(&mut sent).expect("closes");
    sent.lines().count()
}

fn samples(agent: &FakeAgent) -> Vec<Sample> {
    let frames = agent.frames().into_iter();
    frames
        .filter_map(|frame| match frame {
            ToAgent::Sample(sample) => Some(*sample),
            _ => None,
        })
        .collect()
}

/// Waits for a sample more than there are.
fn samples_after_now(agent: &FakeAgent) {
    let shown = agent.frames().len();
    agent.wait_from(shown, |frame| {
        matches!(frame, ToAgent::Sample(_)).then_some(())
    });
}

/// The service does its work in its usual time.
fn assert_service_goes_on(runtime: &Runtime, name: &str) {
    let began = Instant::now();
    runtime.block_on(async {
        for _ in 0..100 {
            ax_probe::spawn(name, tokio::task::yield_now())
                .await
                .expect("runs");
        }
    });
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

/// What `let _probe = ..` in `main` does.
#[test]
fn the_last_guard_to_be_dropped_says_goodbye() {
    let _turn = turn();
    let (agent, first, second) = (FakeAgent::start(), runtime(), runtime());
    let probe = agent.observe(&first);
    let of_second = install(&second, &agent.socket());
    let goodbyes = || {
        let frames = agent.frames();
        frames.iter().filter(|of| **of == ToAgent::Goodbye).count()
    };
    drop(probe.clone());
    drop(probe);
    samples_after_now(&agent);
    assert_eq!(goodbyes(), 0, "one guard is left");
    let began = Instant::now();
    drop(of_second);
    assert!(began.elapsed() < ax_probe::SHUTDOWN_TIMEOUT);
    agent.wait_for(|frame| (*frame == ToAgent::Goodbye).then_some(()));

    // What has ended can begin anew, and old guards do nothing to the new one.
    let (third, old) = (agent.observe(&first), install(&second, &agent.socket()));
    third.shutdown();
    let fourth = agent.observe(&first);
    drop((third, old));
    let before = goodbyes();
    samples_after_now(&agent);
    assert_eq!(goodbyes(), before, "the fourth is there");
    drop(fourth);
    agent.wait_for(|_| (goodbyes() == before + 1).then_some(()));
}

#[test]
fn the_first_agent_gets_the_charts_from_before_it_came() {
    let _turn = turn();
    let (agent, runtime) = (FakeAgent::start(), runtime());
    let hidden = agent.socket().with_extension("hidden");
    std::fs::rename(agent.socket(), &hidden).expect("renames");
    let probe = install(&runtime, &agent.socket());
    std::thread::sleep(Duration::from_millis(2_500));
    std::fs::rename(&hidden, agent.socket()).expect("renames");
    samples_after_now(&agent);
    probe.shutdown();
    let frames = agent.frames();
    // Before any sample, so that viewers get it with the first one.
    let [ToAgent::Hello(hello), ToAgent::Backfill(charts), later @ ..] = frames.as_slice() else {
        panic!("{frames:?}");
    };
    let again = |frame: &ToAgent| matches!(frame, ToAgent::Backfill(_));
    assert!(!later.iter().any(again), "once for each connection");
    assert_eq!(charts.instance, hello.instance);
    assert!(charts.points.len() >= 2, "{charts:?}");
    assert!(
        charts
            .points
            .iter()
            .map(|point| point.at_unix_ns)
            .is_sorted()
    );
    let last = charts.points.last().expect("some");
    assert!(last.lag_max_ns.is_some() && last.cpus_used.is_some());
}

#[test]
fn an_agent_gets_hello_then_samples_then_goodbye() {
    let _turn = turn();
    let (agent, runtime) = (FakeAgent::start(), runtime());
    let probe = Probe::builder("checkout")
        .service_version("1.2.3")
        .socket(agent.socket())
        .install_on(runtime.handle())
        .expect("installs");
    assert_service_goes_on(&runtime, "work");
    let lag = agent.wait_for(|frame| match frame {
        ToAgent::Sample(sample) if sample.seq == 1 => Some(sample.lag.clone()),
        _ => None,
    });
    let began = Instant::now();
    probe.shutdown();
    assert!(began.elapsed() < ax_probe::SHUTDOWN_TIMEOUT);
    agent.wait_for(|frame| (*frame == ToAgent::Goodbye).then_some(()));

    let frames = agent.frames();
    let ToAgent::Hello(hello) = &frames[0] else {
        panic!("no hello first: {:?}", frames[0]);
    };
    check_hello(hello);
    assert_eq!(frames.last(), Some(&ToAgent::Goodbye));
    assert!(
        (8..=11).contains(&lag.len()),
        "{} lag points a second",
        lag.len()
    );
    assert!(lag.iter().all(|point| point.schedule_ns.is_some()));
    assert!(lag.iter().filter(|point| point.timer_ns.is_some()).count() > 5);

    let samples = samples(&agent);
    for (index, sample) in samples.iter().enumerate() {
        assert_eq!(sample.seq, index as u64);
        assert!(!sample.dropped.any(), "{:?}", sample.dropped);
    }
    let last = samples.last().expect("some");
    let workers = &last.runtimes[0].workers;
    assert!(workers.iter().any(|worker| worker.thread.is_some()));
    assert!(last.process.cpu_ns_total > last.process.probe_cpu_ns_total);
    assert!(last.runtimes[0].blocking.lag_ns.is_some());
    let polls = |sample: &Sample| {
        let of = sample.types.iter().find(|of| of.name == "work");
        of.and_then(|of| of.poll.as_ref())
            .map_or(0, ax_wire::LatencyHistogram::count)
    };
    assert_eq!(samples.iter().map(polls).sum::<u64>(), 200);
    let work = last
        .types
        .iter()
        .find(|of| of.name == "work")
        .expect("seen");
    assert_eq!(
        (work.kind, work.counters.succeeded_total),
        (TaskKind::Task, 100)
    );
}

fn check_hello(hello: &Hello) {
    assert_eq!(hello.protocol, PROTOCOL);
    assert_eq!(
        (hello.service.as_str(), hello.pid),
        ("checkout", std::process::id())
    );
    assert_eq!(hello.service_version.as_deref(), Some("1.2.3"));
    assert_eq!(
        hello.stall_threshold_ns,
        DEFAULT_STALL_THRESHOLD.as_nanos() as u64
    );
    assert_eq!(hello.runtimes[0].flavor, RuntimeFlavor::MultiThread);
    assert_eq!(hello.runtimes[0].workers, 2);
    assert!(hello.clock.unix_ns > hello.process_start_unix_ns);
}

#[test]
fn after_a_shutdown_a_probe_may_be_installed_anew() {
    let _turn = turn();
    let (agent, runtime) = (FakeAgent::start(), runtime());
    let instances: Vec<_> = (0..2)
        .map(|_| {
            agent.observe(&runtime).shutdown();
            let frames = agent.frames().into_iter();
            frames.filter_map(|frame| match frame {
                ToAgent::Hello(hello) => Some(hello.instance),
                _ => None,
            })
        })
        .map(|mut hellos| hellos.next_back())
        .collect();
    assert!(instances[0] < instances[1], "{instances:?}");
}

/// An agent of another minor version says things that this probe does not know, and is an agent all the same.
#[test]
fn an_upgraded_agent_is_an_agent() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, runtime) = (folder.path().join("agent.sock"), runtime());
    let listener = UnixListener::bind(&socket).expect("binds");
    let probe = install(&runtime, &socket);
    let (mut stream, _) = listener.accept().expect("comes");
    let newer = format!(
        r#"{{"frame":"telepathy","strength":9}}
{{"frame":"ack","protocol":{{"major":{},"minor":{}}},"agent_version":"9.9","agent_pid":1,"mood":"good"}}
"#,
        PROTOCOL.major,
        PROTOCOL.minor + 7
    );
    stream.write_all(newer.as_bytes()).expect("writes");
    let mut lines = BufReader::new(stream).split(b'\n');
    let sample = lines.find_map(|line| match frame::decode(&line.expect("reads")) {
        Ok(ToAgent::Sample(sample)) => Some(sample.seq),
        _ => None,
    });
    assert_eq!(sample, Some(0));
    probe.shutdown();
}

/// A program that the service starts gets none of the probe's descriptors, so that it neither writes to the agent nor
/// keeps the connection open when the service has gone.
#[test]
fn a_child_process_does_not_hold_the_connection() {
    let _turn = turn();
    let (agent, runtime) = (FakeAgent::start(), runtime());
    let probe = agent.observe(&runtime);
    let sockets = |pid: u32| {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("reads");
        let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    assert!(sockets(std::process::id()) > 0);
    let mut child = std::process::Command::new("sleep");
    let child = child.arg("60").stdin(std::process::Stdio::null());
    let child = child.stdout(std::process::Stdio::null());
    let mut child = child
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let held = sockets(child.id());
    child.kill().expect("ours");
    child.wait().expect("ours");
    assert_eq!(held, 0);
    probe.shutdown();
}

#[test]
fn a_late_agent_gets_what_was_counted_before() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, runtime) = (folder.path().join("agent.sock"), runtime());
    let probe = install(&runtime, &socket);
    assert_service_goes_on(&runtime, "late");
    thread::sleep(Duration::from_millis(300));
    let listener = UnixListener::bind(&socket).expect("binds");
    let (mut stream, _) = listener.accept().expect("comes");
    answer(&mut stream, &ack());
    let mut lines = BufReader::new(stream).split(b'\n');
    let sample = lines.find_map(|line| match frame::decode(&line.expect("reads")) {
        Ok(ToAgent::Sample(sample)) => Some(sample),
        _ => None,
    });
    let sample = sample.expect("came");
    assert!(
        sample
            .types
            .iter()
            .any(|of| of.name == "late" && of.poll.is_some())
    );
    assert!(sample.lag.len() >= 2);
    assert!(!sample.dropped.any(), "{:?}", sample.dropped);
    // It goes again, and the probe finds the next one.
    drop(lines);
    drop(listener);
    std::fs::remove_file(&socket).expect("there");
    let listener = UnixListener::bind(&socket).expect("binds");
    listener.accept().expect("comes again");
    probe.shutdown();
}

#[test]
fn a_refusal_is_taken_for_half_a_minute() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, runtime) = (folder.path().join("agent.sock"), runtime());
    let listener = UnixListener::bind(&socket).expect("binds");
    let probe = install(&runtime, &socket);
    let (mut stream, _) = listener.accept().expect("comes");
    answer(
        &mut stream,
        &ToService::Refused(Refused {
            reason: "protocol 9 is not spoken here".into(),
            protocol: PROTOCOL,
        }),
    );
    assert_eq!(lines_until_closed(&mut stream), 1, "the hello alone");
    listener.set_nonblocking(true).expect("is set");
    thread::sleep(Duration::from_millis(1_500));
    assert!(listener.accept().is_err(), "came again at once");
    assert_service_goes_on(&runtime, "refused");
    probe.shutdown();
}

#[test]
fn what_is_no_agent_gets_no_sample() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, runtime) = (folder.path().join("agent.sock"), runtime());
    let listener = UnixListener::bind(&socket).expect("binds");
    let probe = install(&runtime, &socket);
    for _ in 0..2 {
        let (mut stream, _) = listener.accept().expect("comes");
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .expect("writes");
        assert_eq!(lines_until_closed(&mut stream), 1);
    }
    assert_service_goes_on(&runtime, "no-agent");
    probe.shutdown();
}

/// An agent that takes the hello and then reads nothing: samples fill the socket and the buffer, then are dropped and
/// counted, their histograms kept.
#[test]
fn a_deaf_agent_costs_counted_samples_and_the_service_nothing() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, runtime) = (folder.path().join("agent.sock"), runtime());
    let listener = UnixListener::bind(&socket).expect("binds");
    // Many full histograms make samples large, so that the buffer is full within seconds.
    let names: Vec<_> = (0..120).map(|index| format!("t{index}")).collect();
    let fill = || {
        for name in &names {
            let task = ax_probe::task_type::task_type(
                TaskKind::Task,
                None,
                name,
                std::panic::Location::caller(),
            );
            (0..1_000_u64).for_each(|step| task.polled(step * step * 1_000));
        }
    };
    let probe = install(&runtime, &socket);
    let (mut stream, _) = listener.accept().expect("comes");
    answer(&mut stream, &ack());
    for _ in 0..40 {
        fill();
        thread::sleep(Duration::from_millis(100));
    }
    assert_service_goes_on(&runtime, "deaf");
    let mut lines = BufReader::new(stream).split(b'\n');
    let dropped = lines.find_map(|line| match frame::decode(&line.expect("reads")) {
        Ok(ToAgent::Sample(sample)) => Some(sample.dropped.frames_total).filter(|count| *count > 0),
        _ => None,
    });
    assert!(dropped.is_some());
    probe.shutdown();
}
