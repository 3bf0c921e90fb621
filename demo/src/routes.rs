//! The HTTP side of the demo.

use std::fmt::Display;

use ax_scheduler::{JobHandle, SubmitError, trace::TraceLayer};
use axum::{
    Json, Router,
    extract::{MatchedPath, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};

use crate::{fault::block::Block, lanes::Lanes};

#[derive(Clone)]
struct App {
    lanes: Lanes,
    /// Worker threads of the runtime.
    workers: usize,
}

/// All routes, on these lanes.
pub(crate) fn app(lanes: Lanes, workers: usize) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/push", post(push))
        .route("/order", post(order))
        .route("/orders", get(orders))
        .route("/rate", get(rate))
        .route("/report", post(report))
        .route("/fault/block", post(block))
        .layer(TraceLayer::new().route(|request| {
            let path = request.extensions.get::<MatchedPath>();
            path.map(MatchedPath::as_str)
        }))
        .with_state(App { lanes, workers })
}

async fn index() -> &'static str {
    "ax demo\n\
     POST /push                               lane push\n\
     POST /order                              lane db, then push\n\
     GET  /orders                             lane db\n\
     GET  /rate                               lane api\n\
     POST /report                             lane files\n\
     POST /fault/block?ms=300&workers=one|all a poll that does not return\n"
}

async fn push(State(app): State<App>) -> Response {
    finish(app.lanes.send_push(), |()| "sent\n").await
}

async fn order(State(app): State<App>) -> Response {
    finish(app.lanes.save_order(), |()| "saved\n").await
}

async fn orders(State(app): State<App>) -> Response {
    finish(app.lanes.read_orders(), |cents| {
        format!("the newest orders come to {cents} cents\n")
    })
    .await
}

async fn rate(State(app): State<App>) -> Response {
    finish(app.lanes.fetch_rate(), |rate| rate).await
}

async fn report(State(app): State<App>) -> Response {
    finish(app.lanes.render_report(), |bytes| {
        format!("{bytes} bytes\n")
    })
    .await
}

async fn block(State(app): State<App>, Query(block): Query<Block>) -> Response {
    match block.start(app.workers) {
        Ok(started) => Json(started).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

/// Waits for a job and turns its end into an answer: 429 where the lane is full, 500 where the job failed.
async fn finish<T, R: IntoResponse>(
    submitted: Result<JobHandle<T>, SubmitError>,
    body: impl FnOnce(T) -> R,
) -> Response {
    let error =
        |status: StatusCode, error: &dyn Display| (status, format!("{error}\n")).into_response();
    match submitted {
        Ok(job) => match job.await {
            Ok(value) => body(value).into_response(),
            Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, &failed),
        },
        Err(full @ SubmitError::Full { .. }) => error(StatusCode::TOO_MANY_REQUESTS, &full),
        Err(closed) => error(StatusCode::SERVICE_UNAVAILABLE, &closed),
    }
}
