//! A service that nobody here wrote, on real traffic: the mini-redis server with one added line, `redis-benchmark`
//! against it, and `ax-agent` and `ax-top` as separate processes.

mod support;

#[expect(dead_code, reason = "the example's `main` is for people")]
#[path = "../examples/observe_mini_redis.rs"]
mod observe_mini_redis;

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use support::{Guarded, ax_agent, ax_top, eventually, find_program, run_to_end};
use tokio::net::TcpListener;

/// Set in the process that is to be the server.
const BE_THE_SERVER: &str = "AX_TEST_MINI_REDIS";

#[test]
fn mini_redis_is_seen_under_redis_benchmark() {
    let Some(redis_benchmark) = find_program("redis-benchmark") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("ax/agent.sock");
    let agent = ax_agent(&socket).spawn().expect("the agent starts");
    let _agent = Guarded(agent);
    eventually("the agent's socket", || socket.exists().then_some(()));

    let (port, _server) = start_server(&socket);

    let status = Command::new(redis_benchmark)
        .args(["-h", "127.0.0.1", "-p", &port, "-t", "set,get"])
        .args(["-n", "60000", "-c", "20", "-q"])
        .status()
        .expect("redis-benchmark starts");
    assert!(status.success(), "{status}");

    let view = eventually("figures of the benchmark", || {
        let output = run_to_end(ax_top(&socket).args(["status", "--json"]), 0);
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let view = status["services"][0].clone();
        (view["lag"]["points"].as_u64() >= Some(10)).then_some(view)
    });
    assert_eq!(view["summary"]["service"], "mini-redis");
    let workers = view["runtimes"][0]["workers"].as_array().expect("workers");
    assert!(!workers.is_empty(), "{view:#}");
    assert!(
        view["process"]["rss_bytes"].as_u64() > Some(1_000_000),
        "{view:#}"
    );
    assert!(view["lag"]["p99_ns"].is_u64(), "{view:#}");
}

/// The example in a process of its own, since its one line looks the socket up in the environment, as a real service
/// does: this very test binary, told to run nothing but [`the_server`].
fn start_server(socket: &Path) -> (String, Guarded) {
    let child = Command::new(env::current_exe().expect("a path"))
        .args(["--exact", "the_server", "--nocapture"])
        .env(BE_THE_SERVER, "1")
        .env("AX_SOCKET", socket)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut child = Guarded(child);
    let mut lines = BufReader::new(child.0.stdout.take().expect("piped")).lines();
    let port = lines.find_map(|line| {
        let line = line.expect("text");
        Some(line.split_once("listening 127.0.0.1:")?.1.to_owned())
    });
    (port.expect("the server says its port"), child)
}

/// Not a test of its own: the other half of the one above, which kills it.
#[test]
fn the_server() {
    if env::var_os(BE_THE_SERVER).is_none() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        println!("listening {}", listener.local_addr().expect("bound"));
        observe_mini_redis::run(listener, std::future::pending::<()>())
            .await
            .expect("serves");
    });
}
