//! Connections, and one request with its answer on one of them.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};

use super::{ns, target::Target};

/// Why there was no good answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("no secure connection: {0}")]
    Tls(io::Error),
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the connection broke: {0}")]
    Broken(hyper::Error),
    #[error("status {0}")]
    Status(u16),
}

/// What became of one request.
pub struct Answer {
    /// When its bytes were handed to the system. `None`: they never were.
    pub sent: Option<Instant>,
    pub outcome: Result<(), SendError>,
}

/// The connections of one thread that wait for the next request.
pub struct Pool {
    target: Arc<Target>,
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    written: Arc<Written>,
}

impl Pool {
    pub fn new(target: Arc<Target>, timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            target,
            timeout,
            idle: Mutex::default(),
        })
    }

    /// Sends one request and reads its answer to the end.
    pub async fn exchange(&self) -> Answer {
        let mut sent = None;
        let exchanged = timeout(self.timeout, self.try_exchange(&mut sent)).await;
        let outcome = exchanged.unwrap_or(Err(SendError::Timeout(self.timeout)));
        Answer { sent, outcome }
    }

    async fn try_exchange(&self, sent: &mut Option<Instant>) -> Result<(), SendError> {
        // A connection that the service has closed meanwhile is no failure of this request.
        while let Some(connection) = self.take() {
            match self.on(connection, sent).await {
                Err(SendError::Broken(error)) if error.is_canceled() || error.is_closed() => {
                    *sent = None;
                }
                done => return done,
            }
        }
        let connection = connect(&self.target).await?;
        self.on(connection, sent).await
    }

    async fn on(
        &self,
        mut connection: Connection,
        sent: &mut Option<Instant>,
    ) -> Result<(), SendError> {
        let Connection { sender, written } = &mut connection;
        sender.ready().await.map_err(SendError::Broken)?;
        written.arm();
        let answer = sender.send_request(self.target.request()).await;
        *sent = written.at();
        let answer = answer.map_err(SendError::Broken)?;
        let status = answer.status();
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            frame.map_err(SendError::Broken)?;
        }
        self.give_back(connection);
        if status.is_client_error() || status.is_server_error() {
            return Err(SendError::Status(status.as_u16()));
        }
        Ok(())
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The one used last is the least likely to have been closed.
        loop {
            let connection = idle.pop()?;
            if !connection.sender.is_closed() {
                return Some(connection);
            }
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

/// One request by itself, to learn whether anybody answers. Returns the status where it is one of failure.
///
/// # Errors
///
/// Nobody does.
pub async fn probe(target: &Arc<Target>, within: Duration) -> Result<Option<u16>, SendError> {
    let pool = Pool::new(Arc::clone(target), within);
    match pool.exchange().await.outcome {
        Ok(()) => Ok(None),
        Err(SendError::Status(status)) => Ok(Some(status)),
        Err(error) => Err(error),
    }
}

async fn connect(target: &Target) -> Result<Connection, SendError> {
    let stream = TcpStream::connect(&*target.addresses).await;
    let stream = stream.map_err(SendError::Connect)?;
    // Each request is small and wanted at once.
    stream.set_nodelay(true).map_err(SendError::Connect)?;
    match &target.tls {
        None => hand_shake(stream).await,
        Some(tls) => {
            let name = tls.name.clone();
            let secured = tls.connector.connect(name, stream).await;
            hand_shake(secured.map_err(SendError::Tls)?).await
        }
    }
}

async fn hand_shake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Connection, SendError> {
    let written = Arc::new(Written::default());
    let stamped = Stamped {
        stream,
        written: Arc::clone(&written),
    };
    let (sender, connection) = handshake(TokioIo::new(stamped))
        .await
        .map_err(SendError::Broken)?;
    // It ends with its sender; what goes wrong on it is told to the request that is on it.
    tokio::spawn(connection);
    Ok(Connection { sender, written })
}

impl Target {
    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        if !headers.contains_key(header::HOST)
            && let Ok(host) = HeaderValue::from_str(&self.authority)
        {
            headers.insert(header::HOST, host);
        }
        request
    }
}

/// When the first bytes since [`arm`](Self::arm) were written, in nanoseconds since `began`; 0 while none were.
struct Written {
    began: Instant,
    at_ns: AtomicU64,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            at_ns: AtomicU64::new(0),
        }
    }
}

impl Written {
    fn arm(&self) {
        self.at_ns.store(0, Relaxed);
    }

    fn stamp(&self) {
        if self.at_ns.load(Relaxed) == 0 {
            self.at_ns.store(ns(self.began.elapsed()).max(1), Relaxed);
        }
    }

    fn at(&self) -> Option<Instant> {
        let at_ns = self.at_ns.load(Relaxed);
        (at_ns > 0).then(|| self.began + Duration::from_nanos(at_ns))
    }
}

/// A stream that notes when bytes were written: what hyper is given and when it writes it are two moments.
struct Stamped<S> {
    stream: S,
    written: Arc<Written>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Stamped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stamped<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.stamp();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.written.stamp();
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
