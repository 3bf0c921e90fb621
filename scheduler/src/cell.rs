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

use std::{
    future::Future,
    mem,
    panic::Location,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use ax_probe::{
    slot::Subject,
    task_type::{End, TaskType},
    trace::Inherited,
};
use ax_wire::{JobId, TraceId};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio_util::sync::CancellationToken;

use crate::{
    JobContext, JobError,
    body::Body,
    guard,
    plan::{Plan, Progress},
    room::Load,
    shared::Shared,
    state::StateCell,
};

const NS_PER_MS: u64 = 1_000_000;

/// Of [`Header::marks`]: it was cancelled while it ran, so that no other attempt follows.
const CANCEL_WANTED: u8 = 1;
/// Its end is to be told to the ledger.
const WATCHED: u8 = 2;
/// It waits in the hands of its lane's spill.
const SPILLED: u8 = 4;
/// Its attempt is to end for a job of a higher priority.
const PREEMPTING: u8 = 8;

/// Rounded up to the runtime's timer; at most 49 days, beyond which it is none.
fn whole_ms(timeout: Duration) -> u32 {
    let ms = timeout.as_nanos().div_ceil(u128::from(NS_PER_MS));
    u32::try_from(ms).unwrap_or(u32::MAX)
}

/// What a running job made on first use.
#[derive(Default)]
struct Own {
    token: Option<CancellationToken>,
    progress: Option<Progress>,
}

/// What every job has, whatever its closure.
pub(crate) struct Header {
    pub(crate) id: JobId,
    /// As words, which align to 8 bytes.
    trace: [u64; 2],
    pub(crate) inherited: Inherited,
    pub(crate) task: &'static TaskType,
    pub(crate) place: &'static Location<'static>,
    pub(crate) lane: Arc<Shared>,
    /// From its start; `u32::MAX` for none.
    timeout_ms: u32,
    /// When it was queued; until then, when it was submitted. Written under the lane's lock while it is not queued.
    ready_ns: AtomicU64,
    /// Written under the lane's lock, before the state says running.
    pub(crate) started_ns: AtomicU64,
    /// When its last poll ended, after its start and plus one; 0 before that.
    polled_ms: AtomicU32,
    /// The runner that has it, written as `started_ns` is.
    pub(crate) runner: AtomicU32,
    /// Runs begun. Written as `started_ns` is.
    attempt: AtomicU16,
    /// What it takes of the queue's bytes.
    bytes: u32,
    pub(crate) priority: u8,
    pub(crate) state: StateCell,
    /// Its attempt is to end: it was cancelled, or its timeout passed.
    cancelling: AtomicBool,
    /// [`CANCEL_WANTED`] and so on. Written under the lane's lock, or before the job is submitted.
    marks: AtomicU8,
    /// The handle is gone. Written under the cell's lock.
    detached: AtomicBool,
    /// The handle has had the outcome. Of the handle's thread.
    taken: AtomicBool,
    /// What only some jobs have.
    plan: OnceLock<Box<Plan>>,
}

impl Header {
    #[expect(
        clippy::too_many_arguments,
        reason = "the one place that makes it, with each argument named like its field"
    )]
    pub(crate) fn new(
        id: JobId,
        trace: TraceId,
        inherited: Inherited,
        task: &'static TaskType,
        place: &'static Location<'static>,
        lane: Arc<Shared>,
        timeout: Option<Duration>,
        ready_ns: u64,
        priority: u8,
        plan: Option<Box<Plan>>,
        bytes: u32,
    ) -> Self {
        let ledger_knows = plan
            .as_ref()
            .is_some_and(|plan| plan.name.is_some() || plan.key.is_some());
        Self {
            id,
            trace: [(trace.get() >> 64) as u64, trace.get() as u64],
            inherited,
            task,
            place,
            lane,
            timeout_ms: timeout.map_or(u32::MAX, whole_ms),
            ready_ns: AtomicU64::new(ready_ns),
            started_ns: AtomicU64::new(0),
            polled_ms: AtomicU32::new(0),
            runner: AtomicU32::new(0),
            attempt: AtomicU16::new(0),
            bytes,
            priority,
            state: StateCell::new(),
            cancelling: AtomicBool::new(false),
            marks: AtomicU8::new(if ledger_knows { WATCHED } else { 0 }),
            detached: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            plan: plan.map_or_else(OnceLock::new, OnceLock::from),
        }
    }

    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.plan.get().map(|plan| &**plan)
    }

    pub(crate) fn plan_or_new(&self) -> &Plan {
        self.plan.get_or_init(Box::default)
    }

    pub(crate) fn attempt(&self) -> u32 {
        u32::from(self.attempt.load(Relaxed))
    }

    pub(crate) fn begin_attempt(&self) {
        let before = self.attempt.load(Relaxed);
        self.attempt.store(before.saturating_add(1), Relaxed);
    }

    /// The attempt does not count: it was stopped for others.
    pub(crate) fn uncharge_attempt(&self) {
        let before = self.attempt.load(Relaxed);
        self.attempt.store(before.saturating_sub(1), Relaxed);
    }

    /// A person has decided that all attempts begin anew.
    pub(crate) fn forget_attempts(&self) {
        self.attempt.store(0, Relaxed);
    }

    pub(crate) fn ready_ns(&self) -> u64 {
        self.ready_ns.load(Relaxed)
    }

    pub(crate) fn set_ready_ns(&self, ready_ns: u64) {
        self.ready_ns.store(ready_ns, Relaxed);
    }

    pub(crate) fn last_poll_ns(&self) -> Option<u64> {
        let after_ms = self.polled_ms.load(Relaxed).checked_sub(1)?;
        Some(self.started_ns() + u64::from(after_ms) * NS_PER_MS)
    }

    pub(crate) fn set_polled(&self, now_ns: u64) {
        let after_ms = self.run_ns(now_ns) / NS_PER_MS + 1;
        let after_ms = u32::try_from(after_ms).unwrap_or(u32::MAX);
        self.polled_ms.store(after_ms, Relaxed);
    }

    /// Its writers hold the lane's lock, so that load and store are one step.
    fn mark(&self, mark: u8, set: bool) {
        let others = self.marks.load(Relaxed) & !mark;
        self.marks
            .store(if set { others | mark } else { others }, Relaxed);
    }

    fn has_mark(&self, mark: u8) -> bool {
        self.marks.load(Relaxed) & mark != 0
    }

    pub(crate) fn want_cancel(&self) {
        self.mark(CANCEL_WANTED, true);
    }

    pub(crate) fn is_cancel_wanted(&self) -> bool {
        self.has_mark(CANCEL_WANTED)
    }

    /// Whether its lane may stop it for a job of a higher priority.
    pub(crate) fn is_preemptible(&self) -> bool {
        self.plan().is_some_and(|plan| plan.preemptible)
    }

    pub(crate) fn set_preempting(&self, preempting: bool) {
        self.mark(PREEMPTING, preempting);
    }

    pub(crate) fn is_preempting(&self) -> bool {
        self.has_mark(PREEMPTING)
    }

    pub(crate) fn watch(&self) {
        self.mark(WATCHED, true);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.has_mark(WATCHED)
    }

    pub(crate) fn set_spilled(&self, spilled: bool) {
        self.mark(SPILLED, spilled);
    }

    pub(crate) fn is_spilled(&self) -> bool {
        self.has_mark(SPILLED)
    }

    pub(crate) fn trace(&self) -> TraceId {
        let [high, low] = self.trace.map(u128::from);
        TraceId::new(high << 64 | low).expect("the words were made from an id")
    }

    /// `u64::MAX` for none.
    pub(crate) fn timeout_ns(&self) -> u64 {
        match self.timeout_ms {
            u32::MAX => u64::MAX,
            ms => u64::from(ms) * NS_PER_MS,
        }
    }

    /// Whether it is remembered however it ends.
    pub(crate) fn keeps_record(&self) -> bool {
        self.plan()
            .is_some_and(|plan| plan.keep || plan.name.is_some() || plan.key.is_some())
    }

    pub(crate) fn subject(&self) -> Subject {
        Subject {
            task: self.task,
            job: Some(self.id),
            trace: Some(self.trace()),
            place: self.place,
        }
    }

    pub(crate) fn is_cancelling(&self) -> bool {
        self.cancelling.load(Acquire)
    }

    /// What it takes of its lane's room.
    pub(crate) fn load(&self) -> Load {
        Load {
            jobs: 1,
            bytes: self.bytes as usize,
        }
    }

    pub(crate) fn started_ns(&self) -> u64 {
        self.started_ns.load(Relaxed)
    }

    /// How long the attempt has run.
    pub(crate) fn run_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.started_ns())
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout_ns())
    }

    pub(crate) fn timed_out(&self) -> JobError {
        JobError::TimedOut {
            after: self.timeout(),
        }
    }
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
    /// Running, or handed out.
    Empty,
    /// How it ended; every count says so already.
    Outcome(Result<B::Value, JobError>),
}

struct Inner<B: Body> {
    content: Content<B>,
    waker: Option<Waker>,
    own: Option<Box<Own>>,
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
                own: None,
            }),
        }
    }

    /// Hands over the outcome: to the handle, or to nobody where that is gone.
    fn finish(&self, outcome: Result<B::Value, JobError>) {
        let (waker, unwanted) = {
            let mut inner = self.inner.lock();
            let (content, unwanted) = if self.header.detached.load(Relaxed) {
                (Content::Empty, Some(outcome))
            } else {
                (Content::Outcome(outcome), None)
            };
            // Before it was empty, or the body of a job that never ran.
            let before = mem::replace(&mut inner.content, content);
            let token = inner.own.take();
            (inner.waker.take(), (before, token, unwanted))
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
        match mem::replace(&mut inner.content, Content::Empty) {
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
            let own = inner.own.get_or_insert_default();
            let token = own.token.get_or_insert_default().clone();
            (token, self.header.is_cancelling())
        };
        if cancelling {
            token.cancel();
        }
        token
    }

    fn set_progress(&self, progress: Progress) {
        self.inner.lock().own.get_or_insert_default().progress = Some(progress);
    }

    fn progress(&self) -> Option<Progress> {
        self.inner.lock().own.as_ref()?.progress
    }

    fn signal_cancel(&self) -> bool {
        let (first, token) = {
            // Under the lock, so that a token made meanwhile either sees the flag or is found here.
            let inner = self.inner.lock();
            let first = !self.header.cancelling.swap(true, Release);
            let own = inner.own.as_ref();
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
                return Poll::Ready(outcome);
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
            let outcome = match mem::replace(&mut inner.content, Content::Empty) {
                // The runner will want the body; it drops the outcome itself when it finds `detached`.
                body @ Content::Body(_) => {
                    inner.content = body;
                    None
                }
                other => Some(other),
            };
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
        let own = {
            let mut inner = this.cell.inner.lock();
            inner.content = Content::Body(body);
            this.cell.header.cancelling.store(false, Release);
            inner.own.take()
        };
        drop(own);
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

    /// With two reference counts, the allocator's own word and the queue's entry about 216 bytes, of which 8 are the
    /// closure's.
    #[test]
    fn a_pending_job_keeps_to_its_budget() {
        let number = std::hint::black_box(7_u64);
        let cell = size_of_cell(move |_| async move { Ok::<_, std::io::Error>(number) });
        assert!(cell <= 176, "{cell} bytes");
    }
}
