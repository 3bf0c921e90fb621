//! The generator against small servers. How exactly it sends is measured in `tests/load.rs` of the root package.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{target::Wanted, *};

/// A server that reads requests of one segment each, and answers each after a while with a status.
async fn server(after: Duration, status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("has one");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4_096];
                while matches!(stream.read(&mut request).await, Ok(1..)) {
                    tokio::time::sleep(after).await;
                    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok");
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}/")
}

async fn target(url: &str) -> Arc<Target> {
    let wanted = Wanted {
        url: url.to_owned(),
        method: "POST".to_owned(),
        headers: Vec::new(),
        body: b"hello".to_vec(),
        ca: None,
        any_host: false,
    };
    Arc::new(wanted.resolve().await.expect("is on this host"))
}

async fn run(url: &str, max_in_flight: u64, timeout: Duration, rate_per_s: f64) -> Client {
    let settings = Settings {
        arrivals: Arrivals::Uniform,
        max_in_flight,
        threads: 2,
        timeout,
    };
    let generator = Generator::start(&target(url).await, &settings).expect("starts");
    let phase = Phase {
        rate_per_s,
        run_in: Duration::from_millis(20),
        length: Duration::from_millis(200),
    };
    generator.run(phase).await.expect("runs").client
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_on_the_schedule_is_sent_and_answered() {
    let url = server(Duration::ZERO, 200).await;
    let client = run(&url, 1_000, LONG, 500.0).await;
    assert_eq!((client.scheduled_total, client.sent_total), (100, 100));
    assert_eq!(
        (
            client.errors.total(),
            client.dropped_total,
            client.unfinished_total
        ),
        (0, 0, 0)
    );
    assert_eq!(
        (client.latency.count(), client.send_error.count()),
        (100, 100)
    );
    assert_eq!(client.slices.len(), 2);
}

/// What is due while too many are under way is dropped, counted, and never made up for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_bound_are_dropped_and_counted() {
    let url = server(Duration::from_millis(150), 200).await;
    let client = run(&url, 4, LONG, 500.0).await;
    assert_eq!(client.scheduled_total, 100);
    assert_eq!(client.sent_total + client.dropped_total, 100);
    assert!(
        client.sent_total <= 12,
        "two rounds of four, and a third begun: {}",
        client.sent_total
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_failure_is_told_apart() {
    let busy = server(Duration::ZERO, 503).await;
    let errors = run(&busy, 100, LONG, 100.0).await.errors;
    assert_eq!(
        (errors.server_error_total, errors.first.as_deref()),
        (20, Some("status 503"))
    );

    let slow = server(Duration::from_millis(180), 200).await;
    let client = run(&slow, 100, Duration::from_millis(30), 100.0).await;
    assert_eq!(
        (client.errors.timeout_total, client.achieved_total),
        (20, 0)
    );
    assert!(
        client.latency.quantile_ns(0.5) >= Some(29_000_000),
        "the time that it took counts"
    );

    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("http://{}/", listener.local_addr().expect("has one"))
    };
    let errors = run(&nobody, 100, LONG, 100.0).await.errors;
    assert_eq!(errors.connect_total, 20);
    assert!(probe(&target(&nobody).await, LONG).await.is_err());
    let answered = probe(&target(&busy).await, LONG).await.expect("it answers");
    assert_eq!(answered, Some(503));
}

/// An address of https at which plain HTTP is spoken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tls_error_is_told_as_one() {
    let url = server(Duration::ZERO, 200).await.replace("http:", "https:");
    let problem = probe(&target(&url).await, LONG)
        .await
        .expect_err("no TLS there");
    assert!(matches!(problem, SendError::Tls(_)), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phase_can_be_stopped_and_what_it_counted_stays() {
    let url = server(Duration::from_secs(30), 200).await;
    let settings = Settings {
        arrivals: Arrivals::Poisson,
        max_in_flight: 1_000,
        threads: 1,
        timeout: Duration::from_mins(5),
    };
    let generator = Generator::start(&target(&url).await, &settings).expect("starts");
    let phase = Phase {
        rate_per_s: 1_000.0,
        run_in: Duration::ZERO,
        length: Duration::from_mins(10),
    };
    let work = generator.run(phase);
    let stop = async {
        while generator.live().in_flight.load(Relaxed) < 20 {
            tokio::task::yield_now().await;
        }
        generator.stop();
    };
    let (outcome, ()) = tokio::join!(work, stop);
    let outcome = outcome.expect("runs");
    assert!(outcome.client.unfinished_total >= 20);
    assert!(outcome.ended_unix_ns - outcome.began_unix_ns < 60_000_000_000);
}

/// Answers that take longer than the run-in was to last: it lasts until the first has come, so that nothing is missing of
/// what was offered, and nothing seems to pile up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_answers_are_no_less_than_what_was_offered() {
    let url = server(Duration::from_millis(150), 200).await;
    let client = run(&url, 1_000, LONG, 100.0).await;
    assert_eq!((client.scheduled_total, client.errors.total()), (20, 0));
    assert!(
        client.achieved_total >= 10,
        "a run-in of 20 ms would leave 5 or 6: {}",
        client.achieved_total
    );
}
