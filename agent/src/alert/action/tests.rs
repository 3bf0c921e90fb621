//! Actions on real programs and real sockets. A program here sleeps for longer than the test would wait.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};

use ax_wire::{
    InstanceId,
    alert::{Alert, AlertState, Severity, Unit},
};
use rustix::process::{Pid, test_kill_process};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Action, Exec, Template, Webhook, exec,
    facts::{Facts, NAMES, Subject},
    runner::{Occasion, Runner},
    webhook::{self, Url},
};

fn occasion(service: &str) -> Occasion {
    Occasion {
        subject: Subject {
            service: service.to_owned(),
            instance: InstanceId::new_now(),
            pid: 42,
            uid: 1_000,
        },
        alert: Alert {
            rule: "lag-page".to_owned(),
            subject: None,
            severity: Severity::Page,
            state: AlertState::Firing,
            began_unix_ns: 1_700_000_000_000_000_000,
            fired_unix_ns: Some(1_700_000_001_500_000_000),
            resolved_unix_ns: None,
            value: 6e9,
            peak: 6e9,
            threshold: 5e9,
            unit: Unit::Nanoseconds,
            sentence: "the event loop is 6.0 s late".to_owned(),
            silenced: None,
            bell: false,
        },
    }
}

pub(super) fn facts(service: &str) -> Facts {
    let occasion = occasion(service);
    Facts::new(&occasion.subject, &occasion.alert)
}

fn sh(script: &str, timeout: Duration) -> Exec {
    Exec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        timeout,
        body: None,
        resolved: true,
    }
}

const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn every_fact_has_a_value_and_a_name_in_the_environment() {
    let facts = facts("shop");
    assert_eq!(facts.get("severity"), Some("page"));
    assert_eq!(facts.get("pager_severity"), Some("critical"));
    assert_eq!(facts.get("value"), Some("6.0 s"));
    assert_eq!(facts.get("fired"), Some("2023-11-14T22:13:21.5Z"));
    assert_eq!(facts.get("resolved"), Some(""));
    let environment: Vec<_> = facts.environment().collect();
    assert_eq!(environment.len(), NAMES.len());
    assert!(environment.contains(&("AX_SERVICE".to_owned(), "shop")));
}

/// F82: the alert comes as JSON on standard input and as environment; no shell reads the arguments.
#[tokio::test]
async fn a_program_gets_the_alert_on_its_input_and_in_its_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let mut exec = sh(
        "cat > \"$1\"; printf '\\n%s|%s' \"$AX_RULE\" \"$2\" >> \"$1\"",
        PATIENCE,
    );
    exec.argv.extend([
        "sh".to_owned(),
        out.display().to_string(),
        "$(id); `id`".to_owned(),
    ]);
    exec::run(&exec, &facts("shop")).await.expect("ends well");
    let written = fs::read_to_string(&out).expect("was written");
    let (json, rest) = written.split_once('\n').expect("two lines");
    let json: serde_json::Value = serde_json::from_str(json).expect("is JSON");
    assert_eq!(json["alert"]["rule"], "lag-page");
    assert_eq!(json["service"]["name"], "shop");
    assert_eq!(json["action"], "trigger");
    assert_eq!(rest, "lag-page|$(id); `id`");
}

#[tokio::test]
async fn a_program_that_fails_is_told_with_its_first_complaint() {
    let run = async |exec: &Exec| exec::run(exec, &facts("shop")).await.expect_err("fails");
    let told = run(&sh("echo; echo 'no route\u{7}' >&2; exit 7", PATIENCE)).await;
    assert!(
        told.starts_with("sh failed: exit status: 7: no route"),
        "{told}"
    );
    assert!(!told.contains('\u{7}'), "{told:?}");
    let mut missing = sh("", PATIENCE);
    missing.argv = vec!["/nonexistent/pager".to_owned()];
    let told = run(&missing).await;
    assert!(
        told.starts_with("cannot run /nonexistent/pager: No such file"),
        "{told}"
    );
}

/// F82: a hanging program is killed after its timeout, and what it has started with it.
#[tokio::test]
async fn a_program_that_hangs_is_killed_with_its_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let pids = folder.path().join("pids");
    let script = format!(
        "sleep 600 & echo $! > {0}.part; mv {0}.part {0}; sleep 600",
        pids.display()
    );
    let exec = sh(&script, Duration::from_millis(300));
    let mut told = exec::run(&exec, &facts("shop")).await.expect_err("hangs");
    // On a loaded machine the shell may not have got so far before it was killed.
    let mut longer = exec;
    while !pids.exists() {
        longer.timeout *= 2;
        told = exec::run(&longer, &facts("shop")).await.expect_err("hangs");
    }
    assert!(
        told.starts_with("sh was killed: it had not ended after"),
        "{told}"
    );
    let child: i32 = fs::read_to_string(&pids)
        .expect("written")
        .trim()
        .parse()
        .expect("a pid");
    let child = Pid::from_raw(child).expect("a pid");
    let start = Instant::now();
    while is_running(child) {
        assert!(start.elapsed() < PATIENCE, "its child lives on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_running(pid: Pid) -> bool {
    test_kill_process(pid).is_ok() && crate::access::is_alive(pid.as_raw_nonzero().get() as u32)
}

/// F82: one that hangs holds up no other, and stopping ends it.
#[tokio::test]
async fn others_go_on_beside_one_that_hangs_and_stopping_ends_it() {
    let runner = Runner::new();
    let (heard, mut told) = mpsc::channel(8);
    let start = |action: &Action| {
        let heard = heard.clone();
        runner.run(action, occasion("shop"), async move |taken| {
            heard.send(taken).await.expect("is listened to");
        });
    };
    start(&Action::Exec(Arc::new(sh("sleep 600", PATIENCE * 10))));
    start(&Action::Exec(Arc::new(sh("exit 3", PATIENCE))));
    start(&Action::Exec(Arc::new(sh("true", PATIENCE))));
    let mut done = [told.recv().await, told.recv().await].map(|taken| taken.expect("is told").done);
    done.sort_unstable();
    assert_eq!(done, [false, true]);
    tokio::time::timeout(PATIENCE, runner.stop())
        .await
        .expect("stops");
    drop(heard);
    assert!(
        told.recv().await.is_none(),
        "what was ended has nothing to say"
    );
}

#[tokio::test]
async fn no_more_than_a_few_wait() {
    let runner = Runner::new();
    let (heard, mut told) = mpsc::channel(128);
    for _ in 0..70 {
        let heard = heard.clone();
        let hang = Action::Exec(Arc::new(sh("sleep 600", PATIENCE * 10)));
        runner.run(&hang, occasion("shop"), async move |taken| {
            heard.send(taken).await.expect("is listened to");
        });
    }
    for _ in 0..6 {
        let taken = told.recv().await.expect("is told");
        assert_eq!(taken.outcome, "not done: 64 others run or wait");
    }
    runner.stop().await;
}

/// A server on loopback that answers each request in turn, and hands out what it was sent.
fn server(answers: &'static [&'static str]) -> (u16, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = listener.local_addr().expect("an address").port();
    let serve = move || {
        let requests = answers.iter().map(|answer| {
            let (stream, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(&stream);
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                if line.trim().is_empty() {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("the body");
            (&stream).write_all(answer.as_bytes()).expect("answers");
            let _ = stream.shutdown(Shutdown::Write);
            head + &String::from_utf8(body).expect("text")
        });
        requests.collect()
    };
    (port, thread::spawn(serve))
}

fn hook(url: &str) -> Webhook {
    Webhook {
        url: Url::parse(url).expect("a URL"),
        timeout: PATIENCE,
        retries: 0,
        headers: vec![("X-Key".to_owned(), "k".to_owned())],
        body: Some(Template::parse(r#"{"text": "{{service}} is ill"}"#).expect("a template")),
        resolved: true,
    }
}

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
const WRONG: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_url_is_called_with_the_body_of_its_template() {
    let (port, served) = server(&[OK]);
    let webhook = hook(&format!("http://127.0.0.1:{port}/page?a=b"));
    let told = webhook::call(&webhook, &facts("shop"))
        .await
        .expect("is taken");
    assert_eq!(told, format!("127.0.0.1:{port} answered 204 No Content"));
    let request = &served.join().expect("served")[0];
    assert!(
        request.starts_with("POST /page?a=b HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.to_lowercase().contains("x-key: k\r\n"), "{request}");
    assert!(request.ends_with(r#"{"text":"shop is ill"}"#), "{request}");
}

#[tokio::test]
async fn a_busy_url_is_tried_again_and_one_that_says_no_is_not() {
    let (port, served) = server(&[BUSY, OK]);
    let webhook = Webhook {
        retries: 2,
        ..hook(&format!("http://127.0.0.1:{port}"))
    };
    let told = webhook::call(&webhook, &facts("shop")).await;
    assert!(told.expect("is taken").ends_with("204 No Content"));
    assert_eq!(served.join().expect("served").len(), 2);
    let (port, served) = server(&[WRONG]);
    let webhook = Webhook {
        retries: 5,
        ..hook(&format!("http://127.0.0.1:{port}"))
    };
    let told = webhook::call(&webhook, &facts("shop"))
        .await
        .expect_err("no");
    assert!(
        told.ends_with("was not told in 1 try: it answered 400 Bad Request"),
        "{told}"
    );
    served.join().expect("served once");
}

/// F82: an unreachable webhook is said so, after its tries.
#[tokio::test(start_paused = true)]
async fn an_unreachable_url_is_said_to_be() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        listener.local_addr().expect("an address").port()
    };
    let webhook = Webhook {
        retries: 2,
        timeout: PATIENCE * 100,
        ..hook(&format!("http://127.0.0.1:{port}/"))
    };
    let told = webhook::call(&webhook, &facts("shop"))
        .await
        .expect_err("nobody");
    assert!(
        told.starts_with(&format!(
            "127.0.0.1:{port} was not told in 3 tries: cannot connect: "
        )),
        "{told}"
    );
}

#[tokio::test]
async fn a_url_that_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = listener.local_addr().expect("an address").port();
    let webhook = Webhook {
        timeout: Duration::from_millis(100),
        ..hook(&format!("http://127.0.0.1:{port}/"))
    };
    let told = webhook::call(&webhook, &facts("shop"))
        .await
        .expect_err("silence");
    assert!(told.ends_with("no answer within 100 ms"), "{told}");
}
