//! The external API that lane `api` calls: a second HTTP server on loopback, on a thread and a runtime of its own, so
//! that it stands for somebody else's service.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use axum::{Router, routing::get};
use http_body_util::{BodyExt as _, Empty};
use hyper::{Uri, body::Bytes};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{net::TcpListener, sync::oneshot};

/// Starts the partner's server, which lives as long as the process.
pub(crate) async fn start() -> anyhow::Result<SocketAddr> {
    let (tell, told) = oneshot::channel();
    std::thread::Builder::new()
        .name("demo-partner".into())
        .spawn(move || {
            // The receiver learns of a failure by the dropped sender as well.
            let _ = serve(tell);
        })
        .context("cannot start a thread")?;
    told.await.context("the partner's server did not start")
}

fn serve(tell: oneshot::Sender<SocketAddr>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        if tell.send(listener.local_addr()?).is_err() {
            return Ok(());
        }
        let app = Router::new().route("/rate", get(rate));
        axum::serve(listener, app).await?;
        anyhow::Ok(())
    })
}

async fn rate() -> String {
    tokio::time::sleep(Duration::from_micros(fastrand::u64(20_000..60_000))).await;
    format!("{:.4}", 1.0 + fastrand::f64() / 10.0)
}

/// A pooled client of the partner. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Empty<Bytes>>,
    partner: SocketAddr,
}

impl Client {
    pub(crate) fn new(partner: SocketAddr) -> Self {
        Self {
            http: legacy::Client::builder(TokioExecutor::new()).build_http(),
            partner,
        }
    }

    /// The rate of the moment.
    pub(crate) async fn rate(&self) -> anyhow::Result<String> {
        let uri: Uri = format!("http://{}/rate", self.partner).parse()?;
        let response = self
            .http
            .get(uri)
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
