//! Large results page by page, in constant memory.

use futures_util::{
    FutureExt as _, Stream, StreamExt as _, TryStreamExt as _,
    future::{Either, ready},
    stream,
};

/// One page of a large result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<R, C> {
    /// Its rows, 500 of them for example.
    pub rows: Vec<R>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<C>,
}

/// How the rows of a stream ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows whose call gave `Ok`.
    pub succeeded: u64,
    /// Rows whose call gave an error.
    pub failed: u64,
}

/// The rows of a large result, as a stream: `fetch` is called with `first`, and then with where each page says that the
/// next one begins. A page is fetched once the rows of the one before have been taken, so that one page is in memory at
/// most, however many there are.
///
/// An error of `fetch` is an item, and the last one. The futures of `fetch` are dropped with the stream.
///
/// See [`for_each_row`] for what to do with it.
pub fn pages<C, F, Fut, R, E>(first: C, fetch: F) -> impl Stream<Item = Result<R, E>>
where
    F: FnMut(C) -> Fut,
    Fut: Future<Output = Result<Page<R, C>, E>>,
{
    let pages = stream::try_unfold((Some(first), fetch), async |(next, mut fetch)| {
        let Some(at) = next else { return Ok(None) };
        let page = fetch(at).await?;
        Ok(Some((stream::iter(page.rows).map(Ok), (page.next, fetch))))
    });
    pages.try_flatten()
}

/// Calls `call` for each row, at most `window` at the same time, and counts how they ended. What a row's failure means
/// is up to `call`. A `window` of zero is taken as one.
///
/// Memory is constant: at most `window` calls, and what `rows` holds (with [`pages`], one page, of which the next is
/// fetched while the last calls are under way).
///
/// Cancel safe as far as `call` is: dropped, the calls under way are dropped, and no more begin.
///
/// # Errors
///
/// The first error of `rows`, after the calls under way have ended.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), std::io::Error> {
/// use ax_scheduler::{Page, for_each_row, pages};
///
/// // 2,000 rows, 500 a page.
/// let rows = pages(0, async |from: u32| {
///     let next = (from < 1_500).then_some(from + 500);
///     Ok::<_, std::io::Error>(Page { rows: (from..from + 500).collect(), next })
/// });
/// let counts = for_each_row(20, rows, async |row| if row % 100 == 0 { Err(()) } else { Ok(()) });
/// let counts = counts.await?;
/// assert_eq!((counts.succeeded, counts.failed), (1_980, 20));
/// # Ok(()) }
/// ```
pub async fn for_each_row<S, R, E, F, Fut, X>(
    window: usize,
    rows: S,
    mut call: F,
) -> Result<RowCounts, E>
where
    S: Stream<Item = Result<R, E>>,
    F: FnMut(R) -> Fut,
    Fut: Future<Output = Result<(), X>>,
{
    let calls = rows.map(|row| match row {
        Ok(row) => Either::Left(call(row).map(|outcome| Ok(outcome.is_ok()))),
        Err(error) => Either::Right(ready(Err(error))),
    });
    let mut ended = std::pin::pin!(calls.buffer_unordered(window.max(1)));
    let (mut counts, mut stopped) = (RowCounts::default(), None);
    while let Some(outcome) = ended.next().await {
        match outcome {
            Ok(true) => counts.succeeded += 1,
            Ok(false) => counts.failed += 1,
            Err(error) => {
                stopped.get_or_insert(error);
            }
        }
    }
    stopped.map_or(Ok(counts), Err)
}
