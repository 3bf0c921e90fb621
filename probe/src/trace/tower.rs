//! The layer that makes each request a span of a trace, for axum, hyper and tonic.

use std::{
    fmt,
    future::Future,
    panic::Location,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode, request::Parts};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    propagate,
    route::{self, Route},
};
use crate::{
    clock::now_ns,
    slot::Subject,
    spawn::{Life, Span},
    task_type::End,
};

/// Finds the route of a request: its pattern, such as `/orders/{id}`, never its path, which strangers choose. `None`
/// where no route takes it.
pub type RouteOf = for<'a> fn(&'a Parts) -> Option<&'a str>;

/// Makes each request a span of a trace: the root of a new one, or a child of the caller's where the request has a
/// `traceparent`. The dashboard counts and times requests by route, with their status, and names the route of a request
/// that stalls a worker; what the request starts inherits its trace and its baggage. Where a subscriber of `tracing`
/// wants it, each request is a span `request` there too.
///
/// A `baggage` header is taken with it, and `x-request-id` as the baggage entry [`REQUEST_ID`](super::REQUEST_ID).
///
/// A request is timed until the head of its response is ready: a body that streams is not included. One that is
/// dropped before (the client went away) counts as cancelled, a status of 500 and above as failed. gRPC's own status
/// travels in trailers, behind that head, so that a tonic service counts as failed only what fails below gRPC.
///
/// Cost: about 1 us for each request with a subscriber that takes no span of it, 100 ns for each poll.
///
/// # Examples
///
/// With axum, whose router says which route it chose (put it on with `Router::layer`):
///
/// ```
/// # mod axum { pub mod extract {
/// # #[derive(Clone)] pub struct MatchedPath(String);
/// # impl MatchedPath { pub fn as_str(&self) -> &str { &self.0 } } } }
/// use axum::extract::MatchedPath;
///
/// let layer = ax_probe::TraceLayer::new()
///     .route(|parts| parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str));
/// # let _ = layer;
/// ```
///
/// With tonic, where the path is the route and the service's own prefix tells it from what strangers ask for:
///
/// ```
/// let layer = ax_probe::TraceLayer::new()
///     .route(|parts| Some(parts.uri.path()).filter(|path| path.starts_with("/shop.Orders/")));
/// # let _ = layer;
/// ```
#[derive(Clone, Copy)]
pub struct TraceLayer {
    route: RouteOf,
    believe: bool,
    place: &'static Location<'static>,
}

impl TraceLayer {
    /// A layer that knows no routes: every request is `unmatched`.
    #[track_caller]
    #[must_use]
    pub fn new() -> Self {
        Self {
            route: |_| None,
            believe: true,
            place: Location::caller(),
        }
    }

    /// How the route of a request is found. At most [`MAX_ROUTES`](super::MAX_ROUTES) are told apart.
    #[must_use]
    pub fn route(mut self, route: RouteOf) -> Self {
        self.route = route;
        self
    }

    /// Begins a trace for each request and takes no baggage, whatever its headers say: for a service that strangers
    /// call.
    #[must_use]
    pub fn ignore_incoming(mut self) -> Self {
        self.believe = false;
        self
    }
}

impl Default for TraceLayer {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TraceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceLayer")
            .field("believe", &self.believe)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = TraceService<S>;

    fn layer(&self, inner: S) -> TraceService<S> {
        TraceService {
            inner,
            layer: *self,
        }
    }
}

/// A service under a [`TraceLayer`].
#[derive(Clone, Debug)]
pub struct TraceService<S> {
    inner: S,
    layer: TraceLayer,
}

impl<S, B, R> Service<Request<B>> for TraceService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = TraceFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> TraceFuture<S::Future> {
        let (parts, body) = request.into_parts();
        let path = (self.layer.route)(&parts);
        let route = route::find(&parts.method, path, self.layer.place);
        let (trace, inherited) = if self.layer.believe {
            propagate::extract(&parts.headers)
        } else {
            propagate::begin()
        };
        let span = Span {
            subject: Subject {
                task: route.task,
                job: None,
                trace: Some(trace),
                place: self.layer.place,
            },
            id: super::new_span(),
            inherited,
        };
        let log = tracing::info_span!(
            "request",
            route = route.task.name(),
            trace = %trace,
            span = %span.id,
            parent = span.inherited.parent().map(tracing::field::display),
            status = tracing::field::Empty,
        );
        let now_ns = now_ns();
        let life = Life::begin(route.task, now_ns);
        // A service may do its work, or start things, before it returns its future.
        let future = span.enter(now_ns, || {
            log.in_scope(|| self.inner.call(Request::from_parts(parts, body)))
        });
        TraceFuture {
            future,
            span,
            life,
            route,
            log,
        }
    }
}

pin_project! {
    /// A request under a [`TraceLayer`], until the head of its response is ready.
    #[must_use = "futures do nothing unless polled"]
    pub struct TraceFuture<F> {
        // First, so that the future is dropped before its end is counted.
        #[pin]
        future: F,
        span: Span,
        life: Life,
        route: &'static Route,
        log: tracing::Span,
    }
}

impl<F, R, E> Future for TraceFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let (future, log, route) = (this.future, this.log, *this.route);
        this.life.poll(
            this.span,
            |_| log.in_scope(|| future.poll(cx)),
            |answer| {
                let Ok(response) = answer else {
                    return End::Failed;
                };
                let status = response.status();
                route.answered(status);
                log.record("status", status.as_u16());
                if status < StatusCode::INTERNAL_SERVER_ERROR {
                    End::Succeeded
                } else {
                    End::Failed
                }
            },
        )
    }
}
