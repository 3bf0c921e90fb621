//! Calling a URL: HTTP/1.1 without TLS.
//!
//! TLS would bring a cryptography library and the certificates of the world into an agent that is to stay small; a pager
//! that wants `https` is reached through `exec` and a program of the host's such as curl, or through a relay on it.

use std::{fmt, pin::pin, time::Duration};

use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT},
    http::uri::Authority,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{Webhook, facts::Facts};
use crate::text::duration;

/// Before the first repetition; twice as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A URL that can be called.
#[derive(Clone, PartialEq)]
pub struct Url(Uri);

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// It is none, or not one of `http`; for a person.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("`{text}` is no URL: {error}"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(
                    "https is not built in: call it with a program, such as `{ exec = [\"curl\", \
                     \"-fsS\", \"--json\", \"@-\", \"https://...\"] }`, which gets the same body"
                        .to_owned(),
                );
            }
            _ => return Err(format!("`{text}` is no URL that begins with http://")),
        }
        let authority = uri.authority().map(Authority::as_str);
        if authority.is_none_or(|authority| authority.contains('@')) {
            return Err(
                "a URL without a host, or with a password in it: give it as a header".to_owned(),
            );
        }
        Ok(Self(uri))
    }

    /// Host and port, which hold no secret.
    pub(crate) fn authority(&self) -> &str {
        self.0.authority().map_or("", Authority::as_str)
    }
}

/// Its path may hold a secret.
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}/..", self.authority())
    }
}

/// A header that can be sent.
///
/// # Errors
///
/// It cannot; for a person.
pub(crate) fn check_header(name: &str, value: &str) -> Result<(), String> {
    let known: HeaderName = name
        .parse()
        .map_err(|_| format!("`{name}` is no name of a header"))?;
    if [HOST, hyper::header::CONTENT_LENGTH].contains(&known) {
        return Err(format!("`{name}` is set by ax"));
    }
    let value: Result<HeaderValue, _> = value.parse();
    value
        .map(drop)
        .map_err(|_| format!("the value of `{name}` cannot be sent"))
}

/// Why a try came to nothing.
enum Failed {
    /// Another try may do better.
    ForNow(String),
    /// It would be answered the same.
    ForGood(String),
}

/// Calls it until it is taken, as often as it says. Returns what came of it, for a person.
///
/// Cancel safe: dropping the future closes the connection.
///
/// # Errors
///
/// It was not taken: why the last try was not.
pub(crate) async fn call(webhook: &Webhook, facts: &Facts) -> Result<String, String> {
    let body = match &webhook.body {
        Some(template) => template.fill(facts),
        None => facts.json().clone(),
    };
    let body = Bytes::from(body.to_string());
    let at = webhook.url.authority();
    let mut pause = FIRST_PAUSE;
    let mut tries = 0;
    loop {
        tries += 1;
        let answer = timeout(webhook.timeout, send(webhook, body.clone())).await;
        let answer = answer.unwrap_or_else(|_| {
            let after = duration(webhook.timeout.as_nanos() as u64);
            Err(Failed::ForNow(format!("no answer within {after}")))
        });
        let tries_words = if tries == 1 {
            "1 try".to_owned()
        } else {
            format!("{tries} tries")
        };
        match answer {
            Ok(status) => return Ok(format!("{at} answered {status}")),
            Err(Failed::ForNow(_)) if tries <= webhook.retries => {
                sleep(pause).await;
                pause *= 2;
            }
            Err(Failed::ForNow(why) | Failed::ForGood(why)) => {
                return Err(format!("{at} was not told in {tries_words}: {why}"));
            }
        }
    }
}

async fn send(webhook: &Webhook, body: Bytes) -> Result<StatusCode, Failed> {
    let for_now = |what: &str, error: &dyn fmt::Display| Failed::ForNow(format!("{what}: {error}"));
    let uri = &webhook.url.0;
    let host = uri.host().unwrap_or_default();
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((name, uri.port_u16().unwrap_or(80)))
        .await
        .map_err(|error| for_now("cannot connect", &error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| for_now("no HTTP", &error))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, webhook.url.authority())
        .header(USER_AGENT, concat!("ax-agent/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json");
    for (name, value) in &webhook.headers {
        request = request.header(name, value);
    }
    let request = request
        .body(Full::new(body))
        .map_err(|error| Failed::ForGood(format!("it cannot be sent: {error}")))?;
    // Both at once: the request moves only while the connection is polled. A server that answers and closes at once ends
    // the connection with the answer waiting.
    let mut asked = pin!(sender.send_request(request));
    let answered = tokio::select! {
        answered = &mut asked => answered,
        closed = connection => match closed {
            Ok(()) => asked.await,
            Err(error) => Err(error),
        },
    };
    let status = answered
        .map_err(|error| for_now("no answer", &error))?
        .status();
    if status.is_success() {
        Ok(status)
    } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        Err(Failed::ForNow(format!("it answered {status}")))
    } else {
        Err(Failed::ForGood(format!("it answered {status}")))
    }
}
