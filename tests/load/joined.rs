//! Whose inside stands beside what the load tool sees, and what is judged of it: a program without a probe, answers that
//! all fail, answers that take long, a lane that is not there, traffic that is not the load's.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{
    alone, json,
    service::Service,
    support::{ax_top, find_program, http, run_to_end},
};

/// A server without a probe: its answers take a while, and fail under `/no`.
fn plain_server(after: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("has one").to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(&stream, after));
        }
    });
    address
}

fn answer(stream: &TcpStream, after: Duration) {
    let mut status = "200 OK";
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        if line.starts_with("GET /no") {
            status = "404 Not Found";
        }
        if line.is_empty() {
            thread::sleep(after);
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
            let mut stream = stream;
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn said(socket: &Path, arguments: &[&str], code: i32) -> String {
    let mut command = ax_top(socket);
    command.args(["load", "--quiet"]).args(arguments);
    let output = run_to_end(&mut command, code);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The service that is connected does not listen there, so nothing of it may stand in the session; and secrets in the URL
/// do not either. Its answers take longer than the part of a step that is not counted, which is no fault of it.
#[test]
fn a_program_without_a_probe_is_not_judged_by_another_service() {
    let _alone = alone();
    let service = Service::start();
    let url = format!(
        "http://{}/?token=geheim&n=1",
        plain_server(Duration::from_millis(600))
    );
    let mut command = ax_top(service.agent.socket());
    command.args([
        "load",
        "--quiet",
        "--json",
        "--url",
        &url,
        "--warm-up",
        "100ms",
    ]);
    command.args(["--steps", "20", "--step-for", "2s", "--no-search"]);
    let report = json(&run_to_end(&mut command, 0));
    let session = &report["session"];
    assert!(session["service"].is_null() && session["steps"][0]["service"] == Value::Array(vec![]));
    let warnings = session["warnings"].to_string();
    assert!(
        warnings.contains("listens at") && warnings.contains("load-test"),
        "{warnings}"
    );
    assert!(!session.to_string().contains("geheim"), "{session}");
    let step = &report["analysis"]["steps"][0];
    let judged = &step["judgement"];
    // On a machine that is busy the generator may say that it told nothing; that it fell behind would be wrong.
    assert!(judged == "good" || judged["unsure"].is_string(), "{step}");

    // What is to be counted or stopped by the service cannot do without.
    for more in [
        &["--abort", "lag_p99>1s"][..],
        &["--inject", "database:+1s"],
    ] {
        let said = said(
            service.agent.socket(),
            &[&["--url", &url], more].concat(),
            64,
        );
        assert!(
            said.contains("none of the connected services listens"),
            "{said}"
        );
    }
    let said = said(service.agent.socket(), &["--", "true", &url], 64);
    assert!(
        said.contains("none of the connected services listens"),
        "{said}"
    );
}

#[test]
fn what_would_be_loaded_in_vain_is_refused_with_the_reason() {
    let _alone = alone();
    let service = Service::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("refused.json");
    let url = format!("http://{}/no", plain_server(Duration::ZERO));
    let path = file.to_str().expect("is text");
    let socket = service.agent.socket();
    let told = said(socket, &["--url", &url, "--output", path], 69);
    assert!(
        told.contains("status 404") && told.contains("--errors 100%"),
        "{told}"
    );
    let session: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("is kept")).expect("whole");
    assert_eq!(session["end"]["kind"], "refused");
    let told = said(socket, &["--lane", "nope", "--", "true"], 64);
    assert!(
        told.contains("no lane `nope`; there are: ") && told.contains("work"),
        "{told}"
    );
    let told = said(socket, &["--url", &url, "--output", path], 64);
    assert!(told.contains("is not overwritten"), "{told}");
}

/// Requests that somebody else makes are not what a wrapped tool achieves.
#[test]
fn other_traffic_is_taken_off_what_a_wrapped_tool_achieves() {
    let _alone = alone();
    if find_program("wrk").is_none() {
        return;
    }
    let service = Service::start();
    let over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..4)
        .map(|_| {
            let (over, address) = (Arc::clone(&over), service.address.clone());
            thread::spawn(move || {
                while !over.load(Relaxed) {
                    http(&address, "GET", "/work?us=20000");
                }
            })
        })
        .collect();
    let mut command = ax_top(service.agent.socket());
    command.args([
        "load",
        "--quiet",
        "--json",
        "--background",
        "4s",
        "--no-search",
    ]);
    command.args([
        "--steps",
        "8",
        "--step-for",
        "4s",
        "--lane",
        "work",
        "--",
        "wrk",
        "-t1",
    ]);
    command.args(["-c{connections}", "-d{seconds}s"]);
    command.arg(service.url("/work?us=20000"));
    let report = json(&run_to_end(&mut command, 0));
    over.store(true, Relaxed);
    for other in others {
        other.join().expect("ends");
    }
    let figure = |value: &Value| {
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{:#}", report["analysis"]))
    };
    let other = figure(&report["analysis"]["throughput"]["background"]["per_s"]);
    let own = figure(&report["analysis"]["steps"][0]["achieved_per_s"]);
    println!("4 other connections {other:.0}/s, 8 of the tool {own:.0}/s");
    // Eight connections bring twice what four do; with the others' counted in it would be thrice.
    let ratio = own / other;
    assert!((1.5..2.6).contains(&ratio), "{own} {other}");
}
