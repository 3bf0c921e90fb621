//! Trace context: which trace the code that runs now belongs to, and what travels with it.
//!
//! A job, a request that came through `TraceLayer` (feature `tower`) and a task of
//! [`spawn`](crate::spawn) each are one span of a trace. Whatever is submitted or spawned inside one becomes its child:
//! it inherits the trace id and the [`Baggage`] (user and request id, for example), across every `.await`, with no
//! argument passed by hand. Plain `tokio::spawn` loses the context, as it loses every task-local.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use ax_probe::trace;
//!
//! let handled = trace::with_baggage([(trace::USER_ID, "42")], async {
//!     let context = trace::current().expect("inside a task");
//!     context.baggage().get(trace::USER_ID).map(String::from)
//! });
//! assert_eq!(ax_probe::spawn("request", handled).await.unwrap().as_deref(), Some("42"));
//! # }
//! ```
//!
//! Between processes the context travels as the W3C headers `traceparent`, `tracestate` and `baggage`: `TraceLayer`
//! reads them, `trace::inject` writes them (both behind the feature `tower`).
//!
//! Cost of the context: two thread-local words written on each poll (1 ns), nothing more where nobody asks.

mod baggage;
mod parent;
#[cfg(feature = "tower")]
mod propagate;
#[cfg(feature = "tower")]
pub(crate) mod route;
#[cfg(feature = "tower")]
mod tower;
mod with;

use std::{
    cell::Cell,
    fmt, ptr,
    sync::{Arc, OnceLock},
};

use ax_wire::{JobId, SpanId, TraceId, sample::RouteSample};

use crate::slot;

pub(crate) use self::baggage::dropped_total as baggage_dropped_total;
pub use self::{
    baggage::{Baggage, BaggageError, MAX_BAGGAGE_BYTES, MAX_BAGGAGE_ENTRIES, REQUEST_ID, USER_ID},
    parent::{InvalidTraceParent, TraceParent},
    with::{WithBaggage, with_baggage},
};
#[cfg(feature = "tower")]
pub use self::{
    propagate::inject,
    route::MAX_ROUTES,
    tower::{RouteOf, TraceFuture, TraceLayer, TraceService},
};

/// What goes with a trace beside its ids. Shared by everything that one request caused.
#[derive(Clone, Default)]
struct Carried {
    baggage: Baggage,
    /// `tracestate`: other vendors' data, handed on as it came.
    #[cfg(feature = "tower")]
    state: Box<str>,
    /// The trace's origin asked for it not to be recorded.
    unsampled: bool,
}

/// What a job, request or task has from where it was started, beside the trace id: 16 bytes.
#[derive(Clone, Default)]
pub struct Inherited {
    parent: Option<SpanId>,
    carried: Option<Arc<Carried>>,
}

/// The trace context at one place of the code: [`current`].
#[derive(Clone)]
pub struct TraceContext {
    trace: TraceId,
    span: SpanId,
    inherited: Inherited,
}

/// What is being polled on this thread.
#[derive(Clone, Copy)]
struct Top {
    inherited: *const Inherited,
    /// `None` for a job, whose span id is made of its job id when somebody asks.
    span: Option<SpanId>,
}

const NOTHING: Top = Top {
    inherited: ptr::null(),
    span: None,
};

thread_local! {
    static TOP: Cell<Top> = const { Cell::new(NOTHING) };
}

/// Puts back what was being polled before, also when the poll panics.
struct Restore(Top);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        TOP.set(self.0);
    }
}

impl Inherited {
    /// The span inside which it was started.
    #[must_use]
    pub fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    /// Runs `poll` as the inside of what has inherited this: [`current`] finds it. `span` is its own span id, `None` for
    /// a job, whose id the slot has. To be used with [`slot::enter`], which has the trace id.
    #[inline]
    pub fn scope<R>(&self, span: Option<SpanId>, poll: impl FnOnce() -> R) -> R {
        let top = Top {
            inherited: ptr::from_ref(self),
            span,
        };
        // Dropped before this function returns, whatever `poll` does: the pointer never outlives `self`'s borrow.
        let _restore = Restore(TOP.replace(top));
        poll()
    }

    /// The same with these entries added to the baggage.
    fn with_entries(&self, added: &Baggage) -> Self {
        let mut carried = self.carried.as_deref().cloned().unwrap_or_default();
        carried.baggage.add_all(added);
        Self {
            parent: self.parent,
            carried: Some(Arc::new(carried)),
        }
    }
}

/// The context of the code that runs now: of the job, request or task that is being polled on this thread.
#[must_use]
pub fn current() -> Option<TraceContext> {
    Some(TraceContext {
        trace: slot::current_trace()?,
        span: current_span(),
        inherited: current_inherited(),
    })
}

/// What something that is started here belongs to: the trace that goes on, or a new one.
#[must_use]
pub fn inherit() -> (TraceId, Inherited) {
    match slot::current_trace() {
        Some(trace) => {
            let parent = Some(current_span());
            let inherited = Inherited {
                parent,
                ..current_inherited()
            };
            (trace, inherited)
        }
        None => (new_trace(), Inherited::default()),
    }
}

#[expect(
    unsafe_code,
    reason = "a poll shows its context by address, without counting references"
)]
fn current_inherited() -> Inherited {
    let top = TOP.get();
    // SAFETY: `Inherited::scope` sets the pointer to its own `&self` and puts the earlier one back before it returns, on
    // this thread; so whatever is found here is null or borrowed by a `scope` that is still running further up.
    unsafe { top.inherited.as_ref() }
        .cloned()
        .unwrap_or_default()
}

fn current_span() -> SpanId {
    let own = TOP.get().span;
    own.or_else(|| slot::current_job().map(span_of_job))
        .unwrap_or_else(new_span)
}

/// The span id of a job: a mixture of its id, so that it needs no memory and jobs of different processes differ.
#[must_use]
pub fn span_of_job(job: JobId) -> SpanId {
    let mut bits = job.0 ^ seed();
    // Each step can be undone, so two jobs never share a span id.
    bits = (bits ^ bits >> 31).wrapping_mul(SPAN_FACTOR);
    bits ^= bits >> 29;
    SpanId::new(bits).unwrap_or(const { SpanId::new(u64::MAX).expect("not zero") })
}

const SPAN_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// What undoes a multiplication by [`SPAN_FACTOR`].
const SPAN_INVERSE: u64 = 0xF1DE_83E1_9937_733D;
const _: () = assert!(SPAN_FACTOR.wrapping_mul(SPAN_INVERSE) == 1);

/// Makes the span ids of different processes differ.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| fastrand::u64(..))
}

/// The job whose span this is, where it is one of a job that was submitted before `before`. Any other span is one by
/// chance once in 10^19 divided by the number of jobs.
#[must_use]
pub fn job_of_span(span: SpanId, before: JobId) -> Option<JobId> {
    let mut bits = span.get();
    bits ^= bits >> 29 ^ bits >> 58;
    bits = bits.wrapping_mul(SPAN_INVERSE);
    bits ^= bits >> 31 ^ bits >> 62;
    let job = bits ^ seed();
    (1..before.0).contains(&job).then_some(JobId(job))
}

/// A random trace id: 128 bits meet by chance once in 10^19 ids.
pub(crate) fn new_trace() -> TraceId {
    loop {
        if let Some(trace) = TraceId::new(fastrand::u128(..)) {
            return trace;
        }
    }
}

/// What each route answered so far.
pub(crate) fn sample_routes() -> Vec<RouteSample> {
    #[cfg(feature = "tower")]
    return route::sample_all();
    #[cfg(not(feature = "tower"))]
    Vec::new()
}

/// A random span id, for something that is a part of a trace without being a job, request or task of its own.
#[must_use]
pub fn new_span() -> SpanId {
    loop {
        if let Some(span) = SpanId::new(fastrand::u64(..)) {
            return span;
        }
    }
}

impl TraceContext {
    /// The trace.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    /// The span: this job, request or task.
    #[must_use]
    pub fn span(&self) -> SpanId {
        self.span
    }

    /// The span inside which it was started, here or in the service that sent the request; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<SpanId> {
        self.inherited.parent
    }

    /// Whether the trace's origin asked for it to be recorded. True unless an incoming `traceparent` said otherwise.
    #[must_use]
    pub fn sampled(&self) -> bool {
        let carried = self.inherited.carried.as_ref();
        carried.is_none_or(|carried| !carried.unsampled)
    }

    /// What travels with the trace.
    #[must_use]
    pub fn baggage(&self) -> &Baggage {
        static NONE: Baggage = Baggage::new();
        let carried = self.inherited.carried.as_ref();
        carried.map_or(&NONE, |carried| &carried.baggage)
    }

    /// The `traceparent` that something which is called from here gets.
    #[must_use]
    pub fn trace_parent(&self) -> TraceParent {
        TraceParent {
            trace: self.trace,
            span: self.span,
            sampled: self.sampled(),
        }
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the baggage, which may name a person.
        f.debug_struct("TraceContext")
            .field("trace", &self.trace)
            .field("span", &self.span)
            .field("parent", &self.parent())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inherited")
            .field("parent", &self.parent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
