//! Each example, run: what it tells is true. Under paused time where it opens no socket, so that times are exact.

#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/adaptive_limit.rs"]
mod adaptive_limit;
#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/batch_window.rs"]
mod batch_window;
#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/crawler.rs"]
mod crawler;
#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/ocr_limit.rs"]
mod ocr_limit;
#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/periodic.rs"]
mod periodic;
#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/preempt.rs"]
mod preempt;
#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/shed_and_spill.rs"]
mod shed_and_spill;
#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/stream_pages.rs"]
mod stream_pages;
#[expect(dead_code, reason = "an example has a main of its own")]
#[path = "../examples/weekly_report.rs"]
mod weekly_report;

use std::time::Duration;

use ax_scheduler::{RowCounts, window};
use axum::{extract::State, http::header::RETRY_AFTER};
use tokio::time::{Instant, sleep};

/// `F76`.
#[tokio::test(start_paused = true)]
async fn batch_window() {
    let began = Instant::now();
    let windowed = batch_window::run(100).await;
    assert_eq!(began.elapsed(), Duration::from_millis(100));
    let began = Instant::now();
    let serial = batch_window::one_by_one(100).await;
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert_eq!(serial, windowed);
    assert_eq!(windowed.iter().filter(|price| price.is_err()).count(), 1);
}

/// `F64`.
#[tokio::test(start_paused = true)]
async fn crawler() {
    let began = Instant::now();
    let mut pages = crawler::run(1_000).await.expect("crawls");
    // Five at once all the time, but for the first few pages, which know too few links.
    let least = crawler::FETCH * 1_000 / crawler::LIMIT as u32;
    let took = began.elapsed();
    assert!(
        (least..least + 5 * crawler::FETCH).contains(&took),
        "{took:?}"
    );
    pages.sort_unstable();
    assert_eq!(pages, (0..1_000).collect::<Vec<_>>());
}

/// `F26`: the story, without the sockets.
#[tokio::test(start_paused = true)]
async fn ocr_limit_answers_the_106th_upload_at_once() {
    let page = Duration::from_millis(500);
    let ocr = ocr_limit::Ocr::open(5, 100, page).expect("opens");
    let began = Instant::now();
    // One every millisecond, so that a page that can begin has begun before the next upload comes.
    let uploads = window(106, 0..106, |number| {
        let ocr = ocr.clone();
        async move {
            sleep(Duration::from_millis(number)).await;
            let came = Instant::now();
            (ocr_limit::upload(State(ocr)).await, came.elapsed())
        }
    });
    let answers = uploads.await;
    let (last, took) = &answers[105];
    assert_eq!((last.status().as_u16(), *took), (429, Duration::ZERO));
    assert!(last.headers().contains_key(RETRY_AFTER));
    let statuses = answers.iter().map(|(answer, _)| answer.status().as_u16());
    assert_eq!(statuses.filter(|status| *status == 200).count(), 105);
    // Five at once: 21 rounds from the fifth upload on.
    assert_eq!(began.elapsed(), page * 21 + Duration::from_millis(4));
}

#[tokio::test(start_paused = true)]
async fn ocr_limit_gives_up_a_page_after_three_seconds() {
    let ocr = ocr_limit::Ocr::open(1, 1, Duration::from_secs(10)).expect("opens");
    let began = Instant::now();
    let answer = ocr_limit::upload(State(ocr)).await;
    assert_eq!(
        (answer.status().as_u16(), began.elapsed()),
        (504, Duration::from_secs(3))
    );
}

/// Over HTTP: how many of the uploads arrive while the first page is read is up to the machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ocr_limit_over_http() {
    let ocr = ocr_limit::Ocr::open(1, 2, Duration::from_millis(100)).expect("opens");
    let answers = ocr_limit::run(ocr, 30).await.expect("serves");
    let (read, refused) = (answers[&200], answers[&429]);
    assert!(
        read >= 3 && refused >= 1 && read + refused == 30,
        "{answers:?}"
    );
}

/// `F77`.
#[tokio::test(start_paused = true)]
async fn periodic() {
    let period = Duration::from_millis(200);
    let times = periodic::run(period, 8).await.expect("runs");
    // The third, at 3, goes on until 5.5: the turns at 4 and 5 are left out.
    let expected = [1, 2, 3, 6, 7, 8, 9, 10].map(|turn| period * turn);
    assert_eq!(times, expected);
}

/// `F80`.
#[tokio::test(start_paused = true)]
async fn stream_pages() {
    let counts = stream_pages::run(20_000).await.expect("exports");
    let expected = RowCounts {
        succeeded: 19_800,
        failed: 200,
    };
    assert_eq!(counts, expected);
}

/// `F10`, `F27`.
#[tokio::test(start_paused = true)]
async fn shed_and_spill() {
    let (suggestions, payments) = shed_and_spill::shed().await.expect("payments are taken");
    assert_eq!((payments.succeeded, payments.shed), (20, 0));
    // None had begun when the payments came.
    assert_eq!((suggestions.succeeded, suggestions.shed), (0, 20));
    let exports = shed_and_spill::spill(50).await.expect("none is lost");
    assert_eq!(exports, (50, 45));
}

/// `F40`.
#[tokio::test(start_paused = true)]
async fn adaptive_limit() {
    // Twice the time of a call is reached at twice the room.
    for room in [10, 40] {
        let limit = adaptive_limit::run(room, 5_000).await.expect("runs");
        let at_knee = u64::from(room) * 3 / 2..=u64::from(room) * 5 / 2;
        assert!(at_knee.contains(&limit), "{room}: {limit}");
    }
}

/// `F36`.
#[tokio::test(start_paused = true)]
async fn preempt() {
    let waits = preempt::run(12, 5, false).await.expect("runs");
    assert_eq!((waits.preempted, waits.reports), (0, 12));
    assert!(waits.slowest_payment > preempt::REPORT / 2, "{waits:?}");
    let gives_way = preempt::run(12, 5, true).await.expect("runs");
    assert_eq!(gives_way.slowest_payment, preempt::PAYMENT);
    assert_eq!((gives_way.preempted, gives_way.reports), (5, 12));
}

/// `F59`.
#[tokio::test(start_paused = true)]
async fn weekly_report() {
    let began = Instant::now();
    let sent = weekly_report::run(None).await.expect("is sent");
    assert_eq!(sent, "this week: 723");
    // As long as the slowest source, and nothing more.
    assert_eq!(began.elapsed(), Duration::from_millis(710));
    let failed = weekly_report::run(Some("stock")).await;
    let reason = failed.expect_err("is not sent").to_string();
    assert!(reason.contains("stock does not answer"), "{reason}");
    for step in ["`stock`", "`report`"] {
        assert!(reason.contains(step), "{reason}");
    }
}
