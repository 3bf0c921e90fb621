//! The context in HTTP headers, in and out.

use std::sync::Arc;

use ax_wire::TraceId;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Baggage, Carried, Inherited, REQUEST_ID, TraceParent, current, new_trace};

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");
const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest `tracestate` that is handed on, in bytes: what the recommendation asks for. A longer one is left out.
const MAX_TRACE_STATE_BYTES: usize = 512;

/// Longest `x-request-id` that is taken, in bytes. A longer one is left out.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// Puts the context of the running code on an outgoing request: `traceparent`, and `tracestate` and `baggage` where
/// there are any. Headers of these names that are there already are replaced. The service that is called, when it reads
/// them, then shows its work as a part of this trace.
///
/// Outside a job, request or task of [`spawn`](crate::spawn) it does nothing.
///
/// Mind who is called: baggage may name a user.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let call = ax_probe::spawn("call", async {
///     let mut headers = http::HeaderMap::new();
///     ax_probe::trace::inject(&mut headers);
///     headers
/// });
/// assert!(call.await.unwrap().contains_key("traceparent"));
/// # }
/// ```
pub fn inject(headers: &mut HeaderMap) {
    let Some(context) = current() else { return };
    let mut set = |name, value: &str| {
        // What is in a context came out of a header or was encoded for one.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(TRACE_PARENT, &context.trace_parent().to_string());
    if let Some(carried) = &context.inherited.carried {
        if !carried.state.is_empty() {
            set(TRACE_STATE, &carried.state);
        }
        if !carried.baggage.is_empty() {
            set(BAGGAGE, &carried.baggage.to_string());
        }
    }
}

/// What a request with these headers belongs to. Headers that are malformed are as good as missing.
pub(super) fn extract(headers: &HeaderMap) -> (TraceId, Inherited) {
    let mut values = headers.get_all(TRACE_PARENT).iter();
    // Two of them contradict each other: the recommendation has none of them believed.
    let parent = match (values.next(), values.next()) {
        (Some(only), None) => only.to_str().ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    let baggage = read_baggage(headers);
    let Some(TraceParent {
        trace,
        span,
        sampled,
    }) = parent
    else {
        // Where a server runs inside a task of ours, that one's trace does not become every request's.
        let carried = (!baggage.is_empty()).then(|| {
            Arc::new(Carried {
                baggage,
                ..Carried::default()
            })
        });
        return (
            new_trace(),
            Inherited {
                parent: None,
                carried,
            },
        );
    };
    let carried = Carried {
        baggage,
        state: read_state(headers),
        unsampled: !sampled,
    };
    let plain = carried.baggage.is_empty() && carried.state.is_empty() && sampled;
    let inherited = Inherited {
        parent: Some(span),
        carried: (!plain).then(|| Arc::new(carried)),
    };
    (trace, inherited)
}

/// What a request belongs to whose headers are not believed: a trace of its own.
pub(super) fn begin() -> (TraceId, Inherited) {
    (new_trace(), Inherited::default())
}

fn read_baggage(headers: &HeaderMap) -> Baggage {
    let mut baggage = Baggage::new();
    for value in headers.get_all(BAGGAGE) {
        // One with other characters is malformed as a whole; counted as one entry.
        baggage.add_header(value.to_str().unwrap_or("\u{7f}"));
    }
    let request_id = headers.get(REQUEST_ID_HEADER);
    let request_id = request_id.and_then(|id| id.to_str().ok());
    if let Some(id) = request_id
        && (1..=MAX_REQUEST_ID_BYTES).contains(&id.len())
        && baggage.get(REQUEST_ID).is_none()
    {
        baggage.insert_or_count(REQUEST_ID, id);
    }
    baggage
}

fn read_state(headers: &HeaderMap) -> Box<str> {
    let mut state = String::new();
    for value in headers.get_all(TRACE_STATE) {
        let Ok(value) = value.to_str() else {
            return Box::default();
        };
        if !state.is_empty() {
            state.push(',');
        }
        if state.len() + value.len() > MAX_TRACE_STATE_BYTES {
            return Box::default();
        }
        state.push_str(value);
    }
    state.into()
}
