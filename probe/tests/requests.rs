//! Requests through `TraceLayer`: their traces, and what the agent is told of their routes.

mod common;

use std::{
    convert::Infallible,
    future::{Future, pending},
    pin::Pin,
    task::{Context, Poll},
};

use ax_probe::{
    TraceLayer, TraceService,
    trace::{self, MAX_ROUTES, REQUEST_ID, TraceContext, TraceParent, USER_ID},
};
use ax_wire::{
    ToAgent,
    sample::{RouteSample, Sample, TaskKind, TypeSample},
};
use common::{FakeAgent, turn};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::{runtime::Builder, task::yield_now};
use tower_layer::Layer as _;
use tower_service::Service;

const INCOMING: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

const FLOOD: usize = 3 * MAX_ROUTES;
/// Of the flood, what finds the routes used up: there are three before it.
const FOLDED: usize = FLOOD - (MAX_ROUTES - 3);

type Answer = Pin<Box<dyn Future<Output = Result<Response<()>, Infallible>> + Send>>;

/// What a router leaves on the request.
#[derive(Clone)]
struct Pattern(&'static str);

/// Stands for an application: does what `work` says.
#[derive(Clone)]
struct App<W>(W);

impl<W, F> Service<Request<()>> for App<W>
where
    W: Fn() -> F,
    F: Future<Output = StatusCode> + Send + 'static,
{
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Answer {
        let work = self.0();
        Box::pin(async {
            let mut response = Response::new(());
            *response.status_mut() = work.await;
            Ok(response)
        })
    }
}

fn layer() -> TraceLayer {
    TraceLayer::new().route(|parts| parts.extensions.get::<Pattern>().map(|pattern| pattern.0))
}

fn app<W>(work: W) -> TraceService<App<W>> {
    layer().layer(App(work))
}

fn request(pattern: Option<&'static str>, headers: &[(&'static str, &str)]) -> Request<()> {
    let mut request = Request::new(());
    if let Some(pattern) = pattern {
        request.extensions_mut().insert(Pattern(pattern));
    }
    for (name, value) in headers {
        let value = value.parse().expect("a header's value");
        request.headers_mut().append(*name, value);
    }
    request
}

/// The context inside a request, and what it would put on an outgoing one.
async fn inside(layer: TraceLayer, request: Request<()>) -> (TraceContext, HeaderMap) {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let work = move || {
        let tell = tell.clone();
        async move {
            yield_now().await;
            let mut headers = HeaderMap::new();
            trace::inject(&mut headers);
            let context = trace::current().expect("inside a request");
            tell.send((context, headers)).expect("is listened to");
            StatusCode::OK
        }
    };
    let answer = layer.layer(App(work)).call(request).await;
    assert!(answer.is_ok());
    told.recv().await.expect("the request ran")
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(value.to_str().expect("text").to_owned())
}

#[tokio::test]
async fn a_request_goes_on_with_its_callers_trace_and_hands_it_on() {
    let headers = [
        ("traceparent", INCOMING),
        ("tracestate", "vendor=1"),
        ("tracestate", "other=2"),
        ("baggage", "user.id=42"),
        ("baggage", "tier=gold;since=2020"),
        ("x-request-id", "r 7"),
    ];
    let (context, out) = inside(layer(), request(None, &headers)).await;
    let incoming: TraceParent = INCOMING.parse().expect("well formed");
    assert_eq!(context.trace(), incoming.trace);
    assert_eq!(context.parent(), Some(incoming.span));
    assert_ne!(context.span(), incoming.span);
    assert!(!context.sampled());
    assert_eq!(context.baggage().get(USER_ID).as_deref(), Some("42"));
    assert_eq!(context.baggage().get(REQUEST_ID).as_deref(), Some("r 7"));

    let outgoing = header(&out, "traceparent").expect("injected");
    assert_eq!(
        outgoing,
        format!("00-{}-{}-00", incoming.trace, context.span())
    );
    assert_eq!(
        header(&out, "tracestate").as_deref(),
        Some("vendor=1,other=2")
    );
    let baggage = "user.id=42,tier=gold;since=2020,request.id=r%207";
    assert_eq!(header(&out, "baggage").as_deref(), Some(baggage));
}

#[tokio::test]
async fn a_request_without_a_believable_caller_is_the_root_of_its_own_trace() {
    let upper = INCOMING.to_uppercase();
    let long_state = "x".repeat(600);
    let rows: [&[(&'static str, &str)]; 4] = [
        &[],
        &[("traceparent", &upper)],
        &[("traceparent", INCOMING), ("traceparent", INCOMING)],
        &[("tracestate", "vendor=1"), ("tracestate", &long_state)],
    ];
    let mut traces = Vec::new();
    for headers in rows {
        // A server that runs inside a task of ours: its trace is not that of every request.
        let request = request(None, headers);
        let (context, out) = ax_probe::spawn("server", inside(layer(), request))
            .await
            .expect("runs");
        assert_eq!(context.parent(), None, "{headers:?}");
        assert!(context.sampled());
        assert_eq!(header(&out, "tracestate"), None);
        traces.push(context.trace());
    }
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), rows.len());
}

#[tokio::test]
async fn at_the_edge_nothing_of_a_stranger_is_believed() {
    let headers = [("traceparent", INCOMING), ("baggage", "user.id=root")];
    let (context, out) = inside(layer().ignore_incoming(), request(None, &headers)).await;
    assert_eq!(
        (context.parent(), context.baggage().is_empty()),
        (None, true)
    );
    assert_eq!(header(&out, "baggage"), None);
}

/// The latest sample of which `wanted` is true.
fn sample(agent: &FakeAgent, wanted: impl Fn(&Sample) -> bool) -> Sample {
    agent.wait_for(|frame| match frame {
        ToAgent::Sample(sample) if wanted(sample) => Some(sample.as_ref().clone()),
        _ => None,
    })
}

fn route<'a>(sample: &'a Sample, name: &str) -> Option<(&'a RouteSample, &'a TypeSample)> {
    let route = sample.routes.iter().find(|route| route.name == name)?;
    let of = |kind: &&TypeSample| kind.kind == TaskKind::Request && kind.name == name;
    Some((route, sample.types.iter().find(of)?))
}

#[test]
fn the_agent_learns_who_is_hurt_by_route() {
    let _turn = turn();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("builds");
    let agent = FakeAgent::start();
    let probe = agent.observe(&runtime);
    runtime.block_on(async {
        let statuses = [200, 201, 304, 404, 429, 500, 503];
        for status in statuses {
            let status = StatusCode::from_u16(status).expect("a status");
            let mut app = app(move || async move { status });
            let _ = app.call(request(Some("/orders/{id}"), &[])).await;
        }
        let mut unmatched = app(|| async { StatusCode::NOT_FOUND });
        for _ in 0..3 {
            let _ = unmatched.call(request(None, &[])).await;
        }
        let mut invented = request(Some("/orders/{id}"), &[]);
        *invented.method_mut() = "INVENTED".parse().expect("a token");
        let _ = unmatched.call(invented).await;
        // The client goes away.
        let mut hanging = app(pending::<StatusCode>);
        let mut call = hanging.call(request(Some("/hangs"), &[]));
        std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut call).poll(cx).is_pending())).await;
        drop(call);
        // As many routes as a hostile client can think of.
        let mut flooded = app(|| async { StatusCode::OK });
        for index in 0..FLOOD {
            let pattern: &'static str = Box::leak(format!("/flood/{index}").into_boxed_str());
            let _ = flooded.call(request(Some(pattern), &[])).await;
        }
    });
    let sample = sample(&agent, |sample| {
        let folded = route(sample, "other");
        folded.is_some_and(|(_, of)| of.counters.started_total == FOLDED as u64)
    });
    let (statuses, of) = route(&sample, "GET /orders/{id}").expect("is there");
    assert_eq!(
        *statuses,
        RouteSample {
            name: "GET /orders/{id}".into(),
            successes_total: 2,
            redirections_total: 1,
            client_errors_total: 2,
            too_many_requests_total: 1,
            server_errors_total: 2,
        }
    );
    assert_eq!(
        (of.counters.started_total, of.counters.failed_total),
        (7, 2)
    );
    // The other tests of this file ask for no route either, and are answered 200.
    let (statuses, _) = route(&sample, "unmatched").expect("is there");
    assert_eq!(statuses.client_errors_total, 4);
    let (_, of) = route(&sample, "GET /hangs").expect("is there");
    assert_eq!(of.counters.cancelled_total, 1);
    let (_, of) = route(&sample, "other").expect("is there");
    assert_eq!(sample.routes.len(), MAX_ROUTES + 1);
    assert_eq!(of.counters.succeeded_total, FOLDED as u64);
    probe.shutdown();
}
