//! Adding to the baggage.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use ax_wire::SpanId;
use pin_project_lite::pin_project;

use super::{Baggage, Inherited};
use crate::slot;

/// Adds entries to the baggage of everything that `future` starts: jobs, tasks, outgoing requests. An entry of a key
/// that is there takes its place; one that is malformed or does not fit is left out and counted.
///
/// To be awaited inside a job, a request or a task of [`spawn`](crate::spawn): the future has no trace of its own.
pub fn with_baggage<'a, F: Future>(
    entries: impl IntoIterator<Item = (&'a str, &'a str)>,
    future: F,
) -> WithBaggage<F> {
    let mut added = Baggage::new();
    for (key, value) in entries {
        added.insert_or_count(key, value);
    }
    WithBaggage {
        future,
        added,
        inside: None,
    }
}

/// What the first poll finds around it, with the entries added.
struct Inside {
    span: Option<SpanId>,
    inherited: Inherited,
}

pin_project! {
    /// A future with more baggage: [`with_baggage`].
    #[must_use = "futures do nothing unless polled"]
    pub struct WithBaggage<F> {
        #[pin]
        future: F,
        added: Baggage,
        inside: Option<Inside>,
    }
}

impl<F: Future> Future for WithBaggage<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let inside = this.inside.get_or_insert_with(|| Inside {
            span: slot::current_trace().map(|_| super::current_span()),
            inherited: super::current_inherited().with_entries(this.added),
        });
        let future = this.future;
        inside.inherited.scope(inside.span, || future.poll(cx))
    }
}
