//! The demo's own traffic: requests to itself over loopback, at a steady rate.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty};
use hyper::{Method, Request, body::Bytes};
use hyper_util::{client::legacy, rt::TokioExecutor};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{MissedTickBehavior, interval_at},
};

/// Most requests under way. Beyond it the traffic leaves requests out, so that a demo under a fault does not fill its
/// memory with waiting ones.
const MAX_IN_FLIGHT: usize = 256;

/// Connections kept open between requests: those that a fault made it open are closed when it is over, so that open
/// files and tasks fall back to where they were.
const IDLE_CONNECTIONS: usize = 8;

/// The mix, by weight.
const MIX: [(u32, Method, &str); 5] = [
    (44, Method::POST, "/push"),
    (40, Method::POST, "/order"),
    (4, Method::GET, "/orders"),
    (11, Method::GET, "/rate"),
    (1, Method::POST, "/report"),
];

/// Traffic that goes on until this is dropped.
pub(crate) struct Traffic {
    _stop: oneshot::Sender<()>,
}

/// Starts `rate` requests a second, spread evenly. On a thread and a runtime of its own: a client that shares the
/// service's workers would stop asking whenever they are stuck.
pub(crate) fn start(service: SocketAddr, rate: u32) -> anyhow::Result<Traffic> {
    let (stop, stopped) = oneshot::channel::<()>();
    if rate > 0 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the traffic's runtime")?;
        std::thread::Builder::new()
            .name("demo-traffic".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = send(service, rate) => {}
                        _ = stopped => {}
                    }
                });
            })
            .context("cannot start a thread")?;
    }
    Ok(Traffic { _stop: stop })
}

async fn send(service: SocketAddr, rate: u32) {
    let client = legacy::Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build_http::<Empty<Bytes>>();
    let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    let mut ticks = interval_at(Instant::now().into(), Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let Ok(permit) = Arc::clone(&in_flight).try_acquire_owned() else {
            continue;
        };
        let (method, path) = pick();
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{service}{path}"))
            .body(Empty::new());
        let Ok(request) = request else { continue };
        let answer = client.request(request);
        tokio::spawn(async move {
            // The outcome shows in the service's own counters, which is where the demo's viewer looks.
            if let Ok(response) = answer.await {
                let _ = response.into_body().collect().await;
            }
            drop(permit);
        });
    }
}

fn pick() -> (Method, &'static str) {
    let total: u32 = MIX.iter().map(|(weight, ..)| weight).sum();
    let mut at = fastrand::u32(0..total);
    for (weight, method, path) in &MIX {
        if at < *weight {
            return (method.clone(), path);
        }
        at -= weight;
    }
    unreachable!("`at` is below the sum of the weights")
}
