//! The external API that lane `api` calls: a second HTTP server on loopback, on a thread and a runtime of its own, so
//! that it stands for somebody else's service.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context as _;
use ax_scheduler::{Downstream, downstream, trace};
use axum::{Router, extract::State, routing::get};
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, body::Bytes};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{net::TcpListener, sync::oneshot};

/// How much longer than usual the partner takes. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Slowness(Arc<AtomicU64>);

impl Slowness {
    /// From now on it takes so much longer.
    pub(crate) fn set(&self, longer: Duration) {
        self.0.store(longer.as_millis() as u64, Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Relaxed))
    }
}

/// Starts the partner's server, which lives as long as the process.
pub(crate) async fn start(slowness: Slowness) -> anyhow::Result<SocketAddr> {
    let (tell, told) = oneshot::channel();
    std::thread::Builder::new()
        .name("demo-partner".into())
        .spawn(move || {
            // The receiver learns of a failure by the dropped sender as well.
            let _ = serve(tell, slowness);
        })
        .context("cannot start a thread")?;
    told.await.context("the partner's server did not start")
}

fn serve(tell: oneshot::Sender<SocketAddr>, slowness: Slowness) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        if tell.send(listener.local_addr()?).is_err() {
            return Ok(());
        }
        let app = Router::new().route("/rate", get(rate)).with_state(slowness);
        axum::serve(listener, app).await?;
        anyhow::Ok(())
    })
}

async fn rate(State(slowness): State<Slowness>) -> String {
    let usual = Duration::from_micros(fastrand::u64(20_000..60_000));
    tokio::time::sleep(usual + slowness.get()).await;
    format!("{:.4}", 1.0 + fastrand::f64() / 10.0)
}

/// A pooled client of the partner. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Empty<Bytes>>,
    partner: SocketAddr,
    downstream: Downstream,
}

impl Client {
    pub(crate) fn new(partner: SocketAddr) -> Self {
        let downstream = downstream("partner");
        downstream.allow_injection();
        Self {
            http: legacy::Client::builder(TokioExecutor::new()).build_http(),
            partner,
            downstream,
        }
    }

    /// The rate of the moment.
    pub(crate) async fn rate(&self) -> anyhow::Result<String> {
        self.downstream.call(self.ask_rate()).await
    }

    async fn ask_rate(&self) -> anyhow::Result<String> {
        let uri = format!("http://{}/rate", self.partner);
        let mut request = Request::get(uri).body(Empty::new())?;
        trace::inject(request.headers_mut());
        let response = self
            .http
            .request(request)
            .await
            .context("cannot reach the partner")?;
        anyhow::ensure!(
            response.status().is_success(),
            "the partner answered {}",
            response.status()
        );
        let body = response.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::*;

    #[tokio::test]
    async fn the_partner_is_told_the_trace_it_is_called_for() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("binds");
        let client = Client::new(listener.local_addr().expect("has one"));
        let echo = async |headers: HeaderMap| {
            let parent = headers.get("traceparent");
            parent
                .map(|value| value.to_str().expect("text").to_owned())
                .unwrap_or_default()
        };
        let app = Router::new().route("/rate", get(echo));
        tokio::spawn(axum::serve(listener, app).into_future());
        let call = ax_probe::spawn("caller", async move {
            let own = trace::current().expect("in a task");
            (own, client.rate().await)
        });
        let (own, told) = call.await.expect("runs");
        let told: trace::TraceParent = told.expect("answers").parse().expect("a traceparent");
        assert_eq!(told.trace, own.trace());
        // The call is a span of its own.
        assert_ne!(told.span, own.span());
    }
}
