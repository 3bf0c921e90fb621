//! A job in memory: one allocation from submit to result, and a second one while it runs.
//!
//! ```text
//!  JobHandle --+                  +-- lane's queue, then the runner's entry in the lane
//!              +--> JobCell <-----+
//!  JobContext -+                  +-- Run (the future, boxed while it runs)
//! ```
//!
//! The cell holds what is the user's (closure, output) behind a small lock of its own, which is never held while
//! the user's code runs. A cell that has ended holds nothing of the user's but an output whose handle is alive, so
//! that whoever drops the last reference runs no foreign destructor.

mod header;

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, Release},
    },
    task::{Context, Poll, Waker, ready},
};

use ax_probe::task_type::End;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio_util::sync::CancellationToken;

pub(crate) use self::header::Header;
use crate::{JobContext, JobError, body::Body, guard, plan::Progress};

/// What a running job made on first use.
#[derive(Default)]
struct Own {
    token: Option<CancellationToken>,
    progress: Option<Progress>,
}

/// A job whose closure and result are hidden.
pub(crate) trait Job: Send + Sync {
    fn header(&self) -> &Header;

    /// Makes what a runner polls. Runs no code of the user.
    fn start(self: Arc<Self>) -> Pin<Box<dyn Run>>;

    /// The queued job has been counted out: drops its closure, and tells its handle why.
    fn publish_withdrawn(&self, reason: JobError);

    /// The token of its context, made on first use.
    fn token(&self) -> CancellationToken;

    fn set_progress(&self, progress: Progress);

    fn progress(&self) -> Option<Progress>;

    /// Tells the running job, through its token, that it should end. True for the first call.
    fn signal_cancel(&self) -> bool;
}

/// A job as its handle sees it.
pub(crate) trait Join<T>: Job {
    fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<Result<T, JobError>>;

    /// The handle is gone: nobody wants the outcome.
    fn detach(&self);
}

/// A running job.
pub(crate) trait Run: Send {
    fn job(&self) -> &dyn Job;

    fn shared(&self) -> Arc<dyn Job>;

    /// Calls the closure at first, then polls its future; drops the future as soon as it is ready. Runs the user's
    /// code: through [`guard::catch`] only.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End>;

    /// Drops the future before it is ready. Runs the user's code, like `poll`.
    fn drop_future(self: Pin<&mut Self>);

    /// Why its outcome is no success, in words.
    fn reason(&self) -> Option<Arc<str>>;

    /// Puts back what another attempt needs, and returns how this one ended; `None` where there cannot be another.
    fn give_back(self: Pin<&mut Self>) -> Option<JobError>;

    /// Sets how it ended, in the place of an output, which is dropped: the user's code, like `poll`.
    fn fail(self: Pin<&mut Self>, error: JobError);

    /// The state and all counts say that it has ended: hands the outcome to the handle.
    fn publish(self: Pin<&mut Self>);
}

/// What the cell holds for the user.
enum Content<B: Body> {
    /// Not begun.
    Body(B),
    /// An attempt has it.
    Running(Option<Box<Own>>),
    /// How it ended; every count says so already. The error in a box, so that jobs without one are smaller.
    Outcome(Result<B::Value, Box<JobError>>),
    /// Ended, and handed out or unwanted.
    Empty,
}

struct Inner<B: Body> {
    content: Content<B>,
    waker: Option<Waker>,
}

impl<B: Body> Inner<B> {
    /// `None` where no attempt runs.
    fn own(&mut self) -> Option<&mut Own> {
        match &mut self.content {
            Content::Running(own) => Some(own.get_or_insert_default()),
            Content::Body(_) | Content::Outcome(_) | Content::Empty => None,
        }
    }

    fn own_if_made(&self) -> Option<&Own> {
        match &self.content {
            Content::Running(own) => own.as_deref(),
            Content::Body(_) | Content::Outcome(_) | Content::Empty => None,
        }
    }
}

pub(crate) struct JobCell<B: Body> {
    header: Header,
    inner: Mutex<Inner<B>>,
}

impl<B: Body> JobCell<B> {
    pub(crate) fn new(header: Header, body: B) -> Self {
        Self {
            header,
            inner: Mutex::new(Inner {
                content: Content::Body(body),
                waker: None,
            }),
        }
    }

    /// Hands over the outcome: to the handle, or to nobody where that is gone.
    fn finish(&self, outcome: Result<B::Value, JobError>) {
        let outcome = outcome.map_err(Box::new);
        let (waker, unwanted) = {
            let mut inner = self.inner.lock();
            let (content, unwanted) = if self.header.detached.load(Relaxed) {
                (Content::Empty, Some(outcome))
            } else {
                (Content::Outcome(outcome), None)
            };
            // Before it was what a running job has, or the body of a job that never ran.
            let before = mem::replace(&mut inner.content, content);
            (inner.waker.take(), (before, unwanted))
        };
        let handed = guard::catch(|| {
            if let Some(waker) = waker {
                waker.wake();
            }
            drop(unwanted);
        });
        if let Err(message) = handed {
            warn_of_panic(&self.header, &message);
        }
    }

    fn take_body(&self) -> Option<B> {
        let mut inner = self.inner.lock();
        match mem::replace(&mut inner.content, Content::Running(None)) {
            Content::Body(body) => Some(body),
            other => {
                inner.content = other;
                None
            }
        }
    }
}

impl<B: Body> Job for JobCell<B> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn start(self: Arc<Self>) -> Pin<Box<dyn Run>> {
        Box::pin(RunJob {
            cell: self,
            body: None,
            future: None,
            outcome: None,
        })
    }

    fn publish_withdrawn(&self, reason: JobError) {
        self.finish(Err(reason));
    }

    fn token(&self) -> CancellationToken {
        let (token, cancelling) = {
            let mut inner = self.inner.lock();
            // A context that has outlived its attempt gets a token that nobody will fire.
            let token = inner.own().map_or_else(CancellationToken::new, |own| {
                own.token.get_or_insert_default().clone()
            });
            (token, self.header.is_cancelling())
        };
        if cancelling {
            token.cancel();
        }
        token
    }

    fn set_progress(&self, progress: Progress) {
        if let Some(own) = self.inner.lock().own() {
            own.progress = Some(progress);
        }
    }

    fn progress(&self) -> Option<Progress> {
        self.inner.lock().own_if_made()?.progress
    }

    fn signal_cancel(&self) -> bool {
        let (first, token) = {
            // Under the lock, so that a token made meanwhile either sees the flag or is found here.
            let inner = self.inner.lock();
            let first = !self.header.cancelling.swap(true, Release);
            let own = inner.own_if_made();
            (first, own.and_then(|own| own.token.clone()))
        };
        if let Some(Err(message)) = token.map(|token| guard::catch(|| token.cancel())) {
            warn_of_panic(&self.header, &message);
        }
        first
    }
}

/// A panic that has no outcome to go into: a waker, or the destructor of what nobody wanted.
pub(crate) fn warn_of_panic(header: &Header, message: &str) {
    tracing::warn!(
        job = header.id.0,
        job_type = header.task.name(),
        message,
        "a destructor or waker of a job panicked after the job had ended"
    );
}

impl<B: Body> Join<B::Value> for JobCell<B> {
    fn poll_outcome(&self, cx: &mut Context<'_>) -> Poll<Result<B::Value, JobError>> {
        // Cloning a waker is the user's code, so it is not done under the lock. A job that has not ended will want one.
        let ended = self.header.state.get().is_end();
        let mut new_waker = (!ended).then(|| cx.waker().clone());
        loop {
            let mut inner = self.inner.lock();
            // Looked at first: a body may be large to move.
            if matches!(inner.content, Content::Outcome(_))
                && let Content::Outcome(outcome) = mem::replace(&mut inner.content, Content::Empty)
            {
                self.header.taken.store(true, Relaxed);
                return Poll::Ready(outcome.map_err(|error| *error));
            }
            if self.header.taken.load(Relaxed) {
                drop(inner);
                panic!("a JobHandle was polled again after it had given its outcome");
            }
            match new_waker.take() {
                None => {
                    let known = inner.waker.as_ref();
                    if known.is_some_and(|known| known.will_wake(cx.waker())) {
                        return Poll::Pending;
                    }
                    // Ended, and about to be published by another thread.
                    drop(inner);
                    new_waker = Some(cx.waker().clone());
                }
                Some(new) => {
                    let before = inner.waker.replace(new);
                    drop(inner);
                    drop(before);
                    return Poll::Pending;
                }
            }
        }
    }

    fn detach(&self) {
        if self.header.taken.load(Relaxed) {
            return;
        }
        let (waker, outcome) = {
            let mut inner = self.inner.lock();
            self.header.detached.store(true, Relaxed);
            // A job that has not ended keeps what it has: its runner drops the outcome when it finds `detached`.
            let ended = matches!(inner.content, Content::Outcome(_));
            let outcome = ended.then(|| mem::replace(&mut inner.content, Content::Empty));
            (inner.waker.take(), outcome)
        };
        drop((waker, outcome));
    }
}

pin_project! {
    struct RunJob<B: Body> {
        cell: Arc<JobCell<B>>,
        // What another attempt would need.
        body: Option<B>,
        #[pin]
        future: Option<B::Future>,
        outcome: Option<Result<B::Value, JobError>>,
    }
}

impl<B: Body> Run for RunJob<B> {
    fn job(&self) -> &dyn Job {
        &*self.cell
    }

    fn shared(&self) -> Arc<dyn Job> {
        Arc::<JobCell<B>>::clone(&self.cell)
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let mut this = self.project();
        if this.future.is_none() {
            *this.body = this.cell.take_body();
            let context = JobContext::new(Arc::<JobCell<B>>::clone(this.cell));
            this.future.set(B::begin(this.body, context));
        }
        let future = this.future.as_mut().as_pin_mut();
        let future = future.expect("made from the body by the first poll, dropped by the last");
        let output = ready!(future.poll(cx));
        let cancelling = this.cell.header.is_cancelling();
        let (end, outcome) = match output {
            Ok(value) => (End::Succeeded, Ok(value)),
            // A job that answers its cancellation with an error has been cancelled.
            Err(_) if cancelling => (End::Cancelled, Err(JobError::Cancelled)),
            Err(error) => (End::Failed, Err(JobError::Failed(error.into()))),
        };
        // Kept before the future is dropped: were both destructors to panic at once, the process would abort.
        *this.outcome = Some(outcome);
        this.future.set(None);
        Poll::Ready(end)
    }

    fn drop_future(self: Pin<&mut Self>) {
        self.project().future.set(None);
    }

    fn reason(&self) -> Option<Arc<str>> {
        let error = self.outcome.as_ref()?.as_ref().err()?;
        Some(error.text())
    }

    fn give_back(self: Pin<&mut Self>) -> Option<JobError> {
        let this = self.project();
        let body = this.body.take()?;
        let error = this.outcome.take()?.err()?;
        let before = {
            let mut inner = this.cell.inner.lock();
            this.cell.header.cancelling.store(false, Release);
            mem::replace(&mut inner.content, Content::Body(body))
        };
        drop(before);
        Some(error)
    }

    fn fail(self: Pin<&mut Self>, error: JobError) {
        *self.project().outcome = Some(Err(error));
    }

    fn publish(self: Pin<&mut Self>) {
        let this = self.project();
        if let Some(outcome) = this.outcome.take() {
            this.cell.finish(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Once;

    fn size_of_cell<F, Fut, T, E>(_: F) -> usize
    where
        F: FnOnce(JobContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        size_of::<JobCell<Once<F>>>()
    }

    /// With two reference counts and the allocator's own word 176 bytes, of which 8 are the closure's; with the queue's
    /// entry 192. One word more costs 16 bytes.
    #[test]
    fn a_pending_job_keeps_to_its_budget() {
        let number = std::hint::black_box(7_u64);
        let cell = size_of_cell(move |_| async move { Ok::<_, std::io::Error>(number) });
        assert!(cell <= 152, "{cell} bytes");
    }
}
