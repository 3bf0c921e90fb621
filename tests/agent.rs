//! Bad input, on the real `ax-agent`: each a clear refusal, counted, and nothing else disturbed.

mod support;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Stdio,
};

use ax_wire::{
    ToViewer,
    frame::{MAX_FRAME_BYTES, decode},
    view::Services,
};
use support::{Guarded, PATIENCE, Viewer, ax_agent, ax_top, eventually, run_to_end};

struct Running {
    socket: PathBuf,
    _agent: Guarded,
    _folder: tempfile::TempDir,
}

fn start() -> Running {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("ax/agent.sock");
    let agent = ax_agent(&socket)
        .stderr(Stdio::null())
        .spawn()
        .expect("the agent starts");
    let agent = Guarded(agent);
    eventually("the agent's socket", || socket.exists().then_some(()));
    Running {
        socket,
        _agent: agent,
        _folder: folder,
    }
}

/// Sends raw bytes and returns what comes back until the agent closes the connection.
fn exchange(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).expect("the agent listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket takes a timeout");
    // The agent may close before it has read everything, which is what some of these are about.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn services(viewer: &mut Viewer) -> Services {
    loop {
        if let ToViewer::Services(services) = viewer.next_frame() {
            return services;
        }
    }
}

#[test]
fn wrong_frames_are_refused_and_counted() {
    let running = start();
    let major = br#"{"frame":"subscribe","protocol":{"major":99,"minor":0}}"#;
    let refused = exchange(&running.socket, &[major.as_slice(), b"\n"].concat());
    assert!(refused.contains("refused"), "{refused}");
    assert!(refused.contains("99"), "{refused}");

    for wrong in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"{\"frame\":\"hello\"}\n",
        b"[]\n",
        b"\xff\xfe\n",
    ] {
        exchange(&running.socket, wrong);
    }
    // Truncated: the peer goes away in the middle of a line.
    drop({
        let mut stream = UnixStream::connect(&running.socket).expect("the agent listens");
        stream.write_all(b"{\"frame\":\"subscr").expect("writes");
        stream
    });
    exchange(&running.socket, &vec![b'x'; MAX_FRAME_BYTES + 1024]);

    let counted = eventually("the refusals to be counted", || {
        let dropped = services(&mut Viewer::connect(&running.socket)).agent_dropped;
        (dropped.bad_frames_total >= 4
            && dropped.oversized_frames_total >= 1
            && dropped.refused_connections_total >= 1)
            .then_some(dropped)
    });
    println!("{counted:?}");
}

#[test]
fn a_second_agent_is_refused_with_a_reason() {
    let running = start();
    let second = run_to_end(
        &mut ax_agent(&running.socket),
        ax_agent::EXIT_ALREADY_RUNNING.into(),
    );
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("agent.lock"), "{said}");
    // The first one still answers.
    services(&mut Viewer::connect(&running.socket));
}

#[test]
fn headless_commands_say_what_to_do_without_a_service() {
    let running = start();
    for command in ["services", "status"] {
        let output = run_to_end(ax_top(&running.socket).arg(command), 3);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("demo"), "{command}: {said}");
    }
    let output = run_to_end(ax_top(&running.socket).args(["status", "--jsno"]), 64);
    assert!(output.stdout.is_empty());
}

#[test]
fn the_dashboard_without_a_terminal_names_the_headless_commands() {
    let running = start();
    let output = run_to_end(&mut ax_top(&running.socket), 64);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("status"), "{said}");
}

/// What the agent answers to a hello of another major version can be read by a service.
#[test]
fn a_service_of_another_major_version_is_refused() {
    let running = start();
    let mut hello: serde_json::Value = serde_json::json!({
        "frame": "hello", "service": "old", "instance": "01890000-0000-7000-8000-000000000000", "pid": 1,
        "process_start_unix_ns": 1, "service_version": null, "build_id": null, "probe_version": "0",
        "cpus": 1, "runtimes": [], "features": [], "clock": {"mono_ns": 1, "unix_ns": 1},
        "stall_threshold_ns": 1, "snapshot_threshold_ns": 1,
    });
    hello["protocol"] = serde_json::json!({"major": 7, "minor": 1});
    let mut stream = UnixStream::connect(&running.socket).expect("the agent listens");
    writeln!(stream, "{hello}").expect("the agent reads");
    let mut line = Vec::new();
    BufReader::new(stream)
        .read_until(b'\n', &mut line)
        .expect("an answer");
    match decode::<ax_wire::ToService>(&line).expect("a frame") {
        ax_wire::ToService::Refused(refused) => {
            assert!(refused.reason.contains("7.1"), "{}", refused.reason);
        }
        other => panic!("{other:?}"),
    }
}
