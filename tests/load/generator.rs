//! Whether the generator sends when it should, and whether its latency is what the schedule says.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    process::Command,
    thread,
    time::Duration,
};

use ax_wire::LatencyHistogram;
use serde_json::Value;

use crate::{
    alone, json, result,
    service::Service,
    support::{ax_top, find_program, full, run_to_end},
};

const STALL_EVERY: u64 = 500;
const STALL: Duration = Duration::from_millis(80);
const RATE: f64 = 400.0;

/// A server that answers one request after the other, and stands still at every 500th.
fn stalling_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("has one").to_string();
    let (hand, requests) = std::sync::mpsc::channel::<std::sync::mpsc::Sender<()>>();
    thread::spawn(move || {
        for (number, answered) in (1_u64..).zip(requests) {
            if number % STALL_EVERY == 0 {
                thread::sleep(STALL);
            }
            let _ = answered.send(());
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (hand, mut stream) = (hand.clone(), stream.expect("a connection"));
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().expect("clones")).lines();
                while let Some(Ok(line)) = lines.next() {
                    if !line.is_empty() {
                        continue;
                    }
                    let (answer, answered) = std::sync::mpsc::channel();
                    hand.send(answer).expect("it serves");
                    answered.recv().expect("it answers");
                    let sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// The 95th percentile that the schedule and the stalls alone make: of 500 requests, those that were to be sent while the
/// server stood still wait for the rest of it.
fn scheduled_p95_ms() -> f64 {
    let distance_ms = 1_000.0 / RATE;
    let stall_ms = STALL.as_secs_f64() * 1e3;
    let mut waits: Vec<f64> = (0..STALL_EVERY)
        .map(|after| (stall_ms - after as f64 * distance_ms).max(0.0))
        .collect();
    waits.sort_by(f64::total_cmp);
    waits[(STALL_EVERY as f64 * 0.95).ceil() as usize - 1]
}

/// Coordinated omission: a server that stands still makes all wait who would have come meanwhile, and a tool that does not
/// send meanwhile does not see them.
#[test]
fn latency_is_counted_from_the_intended_send_time() {
    let _alone = alone();
    let address = stalling_server();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("http://{address}/");
    // 5 s are counted: four stalls of 500 requests.
    let mut command = ax_top(&folder.path().join("ax/agent.sock"));
    command.args([
        "load",
        "--quiet",
        "--json",
        "--url",
        &url,
        "--steps",
        "400",
        "--no-search",
    ]);
    command.args(["--step-for", "5556ms", "--warm-up", "500ms"]);
    let report = json(&run_to_end(&mut command, 0));
    let figures = &report["analysis"]["steps"][0];
    let seen = figures["p95_ns"].as_f64().expect("measured") / 1e6;
    let computed = scheduled_p95_ms();
    let hey =
        hey_p95_ms(&url).map_or_else(|| "not installed".to_owned(), |ms| format!("{ms:.1} ms"));
    result(
        "coordinated omission, p95",
        &format!("schedule {computed:.1} ms, ax {seen:.1} ms, hey (waits for answers) {hey}"),
    );
    let off = seen / computed - 1.0;
    if full() {
        assert!(off.abs() <= 0.10, "{seen} instead of {computed}");
    } else {
        // On a busy machine a wait can only be longer, never the fraction of it that a closed loop sees.
        assert!(off >= -0.10, "{seen} instead of {computed}");
    }
}

fn quantile_ms(histogram: &Value, quantile: f64) -> f64 {
    let histogram: LatencyHistogram =
        serde_json::from_value(histogram.clone()).expect("a histogram");
    histogram
        .quantile_ns(quantile)
        .map_or(f64::NAN, |ns| ns as f64 / 1e6)
}

fn hey_p95_ms(url: &str) -> Option<f64> {
    let hey = find_program("hey")?;
    let output = Command::new(hey)
        .args(["-z", "5s", "-c", "1", "-q", "400", url])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("95%"))?;
    let seconds: f64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
    Some(seconds * 1e3)
}

/// How late requests leave, at three rates. A generator that cannot keep up says so.
#[test]
fn the_generator_keeps_to_its_schedule_or_says_so() {
    let _alone = alone();
    let service = Service::start();
    for rate in [1_000, 5_000, 10_000] {
        let mut command = ax_top(service.agent.socket());
        command.args([
            "load",
            "--quiet",
            "--json",
            "--url",
            &service.url("/"),
            "--no-search",
        ]);
        command.args(["--steps", &rate.to_string(), "--warm-up", "500ms"]);
        command.args(["--step-for", if full() { "10s" } else { "1s" }]);
        let report = json(&run_to_end(&mut command, 0));
        let client = &report["session"]["steps"][0]["client"];
        let late = |quantile| quantile_ms(&client["send_error"], quantile);
        let count = |name: &str| client[name].as_u64().expect("a count");
        let starved = client["starved_share"].as_f64().unwrap_or(f64::NAN);
        result(
            &format!("send-time error at {rate:>5}/s"),
            &format!(
                "p50 {:.3} ms, p99 {:.3} ms, max {:.1} ms; {} of {} sent; waited for a CPU {:.1} % of the time",
                late(0.5),
                late(0.99),
                late(1.0),
                count("sent_total"),
                count("scheduled_total"),
                starved * 100.0
            ),
        );
        assert_eq!(
            count("sent_total") + count("dropped_total"),
            count("scheduled_total")
        );
        let warned = report["session"]["warnings"].to_string();
        if late(0.99) > 5.0 {
            assert!(warned.contains("could not keep up"), "{warned}");
        }
        if starved > 0.05 {
            assert!(warned.contains("waited for a CPU"), "{warned}");
        }
        if rate == 1_000 {
            assert!(
                late(0.5) < 5.0,
                "half of the requests leave in time: {}",
                late(0.5)
            );
        }
    }
}
