//! A service that says no in time: five pages are read at once, a hundred wait, and the next upload is answered with
//! 429 at once instead of slowing everybody down.
//!
//! ```text
//! cargo run --release --example ocr_limit
//! ```

use std::{collections::BTreeMap, error::Error, io, net::SocketAddr, time::Duration};

use ax_probe::Probe;
use ax_scheduler::{
    JobContext, JobError, Lane, LaneError, Scheduler, SubmitError, trace::TraceLayer, window,
};
use axum::{
    Router,
    extract::{MatchedPath, State},
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use http_body_util::Empty;
use hyper::{Request, body::Bytes};
use hyper_util::{client::legacy, rt::TokioExecutor};
use tokio::{net::TcpListener, time::sleep};

/// What an upload needs.
#[derive(Clone)]
pub struct Ocr {
    ax: Scheduler,
    lane: Lane,
    page_takes: Duration,
}

impl Ocr {
    /// Opens the lane: so many pages at once, so many waiting, three seconds for each.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub fn open(limit: usize, capacity: usize, page_takes: Duration) -> Result<Self, LaneError> {
        let ax = Scheduler::new();
        let lane = ax.lane("ocr").limit(limit).capacity(capacity);
        let lane = lane.timeout(Duration::from_secs(3)).open()?;
        Ok(Self {
            ax,
            lane,
            page_takes,
        })
    }
}

/// Reads one page, and answers with its text.
pub async fn upload(State(ocr): State<Ocr>) -> Response {
    let page_takes = ocr.page_takes;
    let job = ocr.ax.job("read_page", move |_: JobContext| async move {
        sleep(page_takes).await;
        Ok::<_, io::Error>("what the page says\n")
    });
    match job.lane(&ocr.lane).submit() {
        Ok(job) => match job.await {
            Ok(text) => text.into_response(),
            Err(late @ JobError::TimedOut { .. }) => {
                (StatusCode::GATEWAY_TIMEOUT, format!("{late}\n")).into_response()
            }
            Err(failed) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("{failed}\n")).into_response()
            }
        },
        Err(full @ SubmitError::Full { .. }) => {
            let retry = [(RETRY_AFTER, "1")];
            (StatusCode::TOO_MANY_REQUESTS, retry, format!("{full}\n")).into_response()
        }
        Err(closed) => (StatusCode::SERVICE_UNAVAILABLE, format!("{closed}\n")).into_response(),
    }
}

/// The service: `POST /pages`.
pub fn app(ocr: Ocr) -> Router {
    let routes =
        TraceLayer::new().route(|request| Some(request.extensions.get::<MatchedPath>()?.as_str()));
    Router::new()
        .route("/pages", post(upload))
        .layer(routes)
        .with_state(ocr)
}

/// Serves on loopback and uploads so many pages at once. Returns how often each status was the answer.
///
/// # Errors
///
/// When there is no port, or an upload gets no answer.
pub async fn run(
    ocr: Ocr,
    uploads: usize,
) -> Result<BTreeMap<u16, usize>, Box<dyn Error + Send + Sync>> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let service = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, app(ocr)).into_future());
    let client = legacy::Client::builder(TokioExecutor::new()).build_http();
    let answers = window(uploads, 0..uploads, |_| post_page(&client, service)).await;
    server.abort();
    let mut by_status = BTreeMap::new();
    for status in answers {
        *by_status.entry(status?.as_u16()).or_default() += 1;
    }
    Ok(by_status)
}

type Client = legacy::Client<legacy::connect::HttpConnector, Empty<Bytes>>;

async fn post_page(
    client: &Client,
    service: SocketAddr,
) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
    let page = Request::post(format!("http://{service}/pages")).body(Empty::new())?;
    Ok(client.request(page).await?.status())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("ocr-limit").install()?;
    let ocr = Ocr::open(5, 100, Duration::from_millis(500))?;
    for (status, times) in run(ocr, 120).await? {
        println!("{status}: {times} uploads");
    }
    Ok(())
}
