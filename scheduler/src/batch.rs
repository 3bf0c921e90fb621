//! Many calls at once, a few at a time: [`window`] inside one task, [`Lane::batch`] as jobs.
//!
//! Both take the place of a loop that awaits one call after the other, and give the outcome of each item in the order
//! of the items: some may fail while the others succeed.

use std::{error::Error, future::Future, panic::Location, sync::Arc};

use futures_util::{FutureExt as _, StreamExt as _, stream};

use crate::{JobContext, JobError, JobHandle, Lane, SubmitError, job::JobBuilder};

/// Calls `call` for each item, at most `limit` at the same time, and returns what each gave, in the order of the items.
///
/// All calls run inside the task that awaits this, which needs no `'static` and no spawn: right for calls that wait. For
/// work that computes, or that others should see, use [`Lane::batch`]. A `limit` of zero is taken as one.
///
/// A call that panics panics here, as it would in a loop. Cancel safe: dropped, the calls under way are dropped, and
/// the others never begin.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let halves = ax_scheduler::window(20, 0..100, |n: u32| async move {
///     if n % 2 == 0 { Ok(n / 2) } else { Err("odd") }
/// });
/// let halves = halves.await;
/// assert_eq!((halves.len(), halves[4], halves[5]), (100, Ok(2), Err("odd")));
/// # }
/// ```
pub async fn window<I, F, Fut>(limit: usize, items: I, mut call: F) -> Vec<Fut::Output>
where
    I: IntoIterator,
    F: FnMut(I::Item) -> Fut,
    Fut: Future,
{
    let mut outcomes = Vec::new();
    let numbered = items.into_iter().enumerate();
    let calls = numbered.map(|(index, item)| call(item).map(move |outcome| (index, outcome)));
    // As they end, not in order: one slow call must not keep the window from moving on.
    let mut ended = stream::iter(calls).buffer_unordered(limit.max(1));
    while let Some((index, outcome)) = ended.next().await {
        if outcomes.len() <= index {
            outcomes.resize_with(index + 1, || None);
        }
        outcomes[index] = Some(outcome);
    }
    outcomes.into_iter().flatten().collect()
}

/// Why an item of a batch has no result.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Its job ended without success.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The lane did not take its job.
    #[error(transparent)]
    NotSubmitted(#[from] SubmitError),
}

impl Lane {
    /// Runs `body` for each item as a job of this type in this lane, and returns what each gave, in the order of the
    /// items. Each item is a job like any other: limited, seen, timed out, and a panic is its own only.
    ///
    /// At most `window` of them are in the lane at once, queued or running, so that a large batch leaves room for
    /// others; zero is taken as one. Where the lane is full nevertheless, the item is not submitted and its outcome says
    /// so.
    ///
    /// Dropped before its end, the jobs in the lane are cancelled and the others never submitted.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), ax_scheduler::LaneError> {
    /// let ax = ax_scheduler::Scheduler::new();
    /// let ocr = ax.lane("ocr").limit(5).open()?;
    /// let pages = ocr.batch("recognize", 10, 0..50_u32, |_cx, page| async move {
    ///     if page == 7 { Err("smudged") } else { Ok(page * 2) }
    /// });
    /// let pages = pages.await;
    /// assert_eq!(pages.iter().filter(|page| page.is_ok()).count(), 49);
    /// # ax.shutdown().await; Ok(()) }
    /// ```
    #[track_caller]
    pub fn batch<I, F, Fut, T, E>(
        &self,
        job_type: &str,
        window: usize,
        items: I,
        body: F,
    ) -> impl Future<Output = Vec<Result<T, BatchError>>>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(JobContext, I::Item) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let place = Location::caller();
        let body = Arc::new(body);
        self::window(window, items, move |item| {
            let body = Arc::clone(&body);
            let job = JobBuilder::new(&self.scheduler, job_type, move |cx| body(cx, item));
            let submitted = job.lane(self).submit_from(place).map(CancelOnDrop);
            async { Ok(submitted?.join().await?) }
        })
    }
}

/// A handle that takes its job with it.
struct CancelOnDrop<T>(JobHandle<T>);

impl<T> CancelOnDrop<T> {
    async fn join(mut self) -> Result<T, JobError> {
        (&mut self.0).await
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        // Of a job that has ended nothing is left to cancel.
        self.0.cancel();
    }
}
