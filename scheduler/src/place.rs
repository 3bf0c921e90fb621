//! Room in a lane's queue that was promised to a submitter, and the line of those who wait for it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::{
    SubmitError,
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
