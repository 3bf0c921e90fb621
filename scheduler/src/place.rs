//! Room in a lane's queue that was promised to a submitter, and the line of those who wait for it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt as _, stream};

use crate::{
    JobHandle, Lane, SubmitError,
    room::{Load, Ticket},
    shared::Shared,
};

/// Room for one job in a lane's queue: [`Lane::ready`](crate::Lane::ready).
///
/// Used by [`JobBuilder::place`](crate::JobBuilder::place); dropped, it goes to the next submitter in line. Held for
/// long, it keeps others out.
#[must_use = "dropped, the place goes to the next submitter"]
pub struct Place {
    /// `None` once it is settled: the promise is somebody else's to return.
    lane: Option<Arc<Shared>>,
    load: Load,
}

impl Place {
    pub(crate) fn new(lane: Arc<Shared>, load: Load) -> Self {
        Self {
            lane: Some(lane),
            load,
        }
    }

    pub(crate) fn lane(&self) -> Option<&Arc<Shared>> {
        self.lane.as_ref()
    }

    /// The caller uses the promise, or returns it.
    pub(crate) fn settle(mut self) -> Load {
        self.lane = None;
        self.load
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            lane.release(|room| {
                room.return_promise(self.load);
                None
            });
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lane = self.lane.as_ref().map(|lane| &lane.name);
        f.debug_struct("Place")
            .field("lane", &lane)
            .finish_non_exhaustive()
    }
}

/// A submitter in line. Dropped, it leaves the line, or gives up what it was promised.
pub(crate) struct InLine {
    /// `None` once it is settled.
    lane: Option<Arc<Shared>>,
    ticket: Ticket,
    load: Load,
}

impl InLine {
    pub(crate) fn new(lane: Arc<Shared>, ticket: Ticket, load: Load) -> Self {
        Self {
            lane: Some(lane),
            ticket,
            load,
        }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The promise is a [`Place`]'s now.
    pub(crate) fn settle(mut self) {
        self.lane = None;
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            lane.release(|room| room.give_up(self.ticket, self.load));
        }
    }
}

/// A future of a [`Place`].
pub(crate) struct Ready {
    lane: Arc<Shared>,
    load: Load,
    in_line: Option<InLine>,
}

impl Ready {
    pub(crate) fn new(lane: Arc<Shared>, bytes: usize) -> Self {
        Self {
            lane,
            load: Load { jobs: 1, bytes },
            in_line: None,
        }
    }
}

impl Future for Ready {
    type Output = Result<Place, SubmitError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = self.get_mut();
        if !me.lane.has_runtime() {
            return Poll::Ready(Err(SubmitError::NoRuntime));
        }
        me.lane.poll_place(&mut me.in_line, me.load, cx)
    }
}

impl Lane {
    /// Submits a job for each item of `source`, and pulls no item before the lane has room for its job: the source moves
    /// no faster than the lane, and at most the lane's capacity of items is in memory. `submit` makes the job and submits
    /// it to its place.
    ///
    /// The stream gives the handles in the order of the items. It ends with the source, or after the error of a lane that
    /// was closed. While the source has no item, one place in the queue is kept for the next.
    ///
    /// Cancel safe: dropped, no more is pulled; what was submitted runs on.
    ///
    /// ```
    /// # use ax_scheduler::Scheduler;
    /// # use futures_util::{StreamExt as _, stream};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ax = Scheduler::new();
    /// let lane = ax.lane("pages").limit(2).capacity(4).open()?;
    /// let numbers = stream::iter(1..=100_u32);
    /// let mut jobs = std::pin::pin!(lane.submit_stream(numbers, |number, place| {
    ///     let job = ax.job("square", move |_| async move { Ok::<_, std::io::Error>(number * number) });
    ///     job.place(place).submit()
    /// }));
    /// let mut sum = 0;
    /// while let Some(job) = jobs.next().await {
    ///     sum += job?.await?;
    /// }
    /// assert_eq!(sum, 338_350);
    /// # Ok(())
    /// # }
    /// ```
    pub fn submit_stream<S, M, T>(
        &self,
        source: S,
        submit: M,
    ) -> impl Stream<Item = Result<JobHandle<T>, SubmitError>> + use<S, M, T>
    where
        S: Stream,
        M: FnMut(S::Item, Place) -> Result<JobHandle<T>, SubmitError>,
    {
        let begin = Some((self.clone(), Box::pin(source), submit));
        stream::unfold(begin, async |state| {
            let (lane, mut source, mut submit) = state?;
            let place = match lane.ready().await {
                Ok(place) => place,
                Err(closed) => return Some((Err(closed), None)),
            };
            let item = source.next().await?;
            let submitted = submit(item, place);
            Some((submitted, Some((lane, source, submit))))
        })
    }
}
