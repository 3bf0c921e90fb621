//! What a job runs: a closure that is called once, or one that is copied for each attempt.

use std::{error::Error, future::Future};

use crate::JobContext;

/// What a job runs. Implemented here only: by [`Once`] and [`Again`] around closures, and by registered handlers.
pub trait Body: Sized + Send + 'static {
    /// What the lane polls.
    type Future: Future<Output = Result<Self::Value, Self::Error>> + Send + 'static;
    /// Its result.
    type Value: Send + 'static;
    /// Its failure.
    type Error: Into<Box<dyn Error + Send + Sync>> + 'static;

    /// Whether it is tried again as its lane says, unless it says otherwise.
    const TAKES_LANE_RETRY: bool = false;

    /// Begins an attempt. Leaves in `body` what the next attempt needs, and nothing where there cannot be one; `None`
    /// where there is nothing left to begin.
    fn begin(body: &mut Option<Self>, cx: JobContext) -> Option<Self::Future>;
}

/// A closure that is called at most once.
#[derive(Clone, Debug)]
pub struct Once<F>(pub(crate) F);

/// A closure of which each attempt calls a copy.
#[derive(Clone, Debug)]
pub struct Again<F>(pub(crate) F);

impl<F, Fut, T, E> Body for Once<F>
where
    F: FnOnce(JobContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    type Future = Fut;
    type Value = T;
    type Error = E;

    fn begin(body: &mut Option<Self>, cx: JobContext) -> Option<Fut> {
        body.take().map(|body| body.0(cx))
    }
}

impl<F, Fut, T, E> Body for Again<F>
where
    F: FnOnce(JobContext) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    type Future = Fut;
    type Value = T;
    type Error = E;

    fn begin(body: &mut Option<Self>, cx: JobContext) -> Option<Fut> {
        let attempt = body.as_ref()?.0.clone();
        Some(attempt(cx))
    }
}
