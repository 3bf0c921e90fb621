//! Tasks with a name: what tokio spawns, wrapped so that the probe can say whose poll it is.

use std::{
    future::Future,
    panic::Location,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
};

use ax_wire::{SpanId, sample::TaskKind};
use pin_project_lite::pin_project;
use tokio::task::{self, JoinHandle};

use crate::{
    clock::now_ns,
    recorder,
    runtime::{self, Watched},
    slot::{self, Subject},
    task_type::{End, TaskType, task_type},
    trace::{self, Inherited},
    wake::WakeDelay,
};

/// [`tokio::spawn`] with a name: the dashboard shows how many of that name are alive, how long their polls and runs
/// take, where they were first started, and names them when they stall a worker.
///
/// Keep the name to the kind of work (`"connection"`, not `"connection 17"`): the probe tells
/// [`MAX_TYPES`](crate::task_type::MAX_TYPES) names apart. The task inherits the trace of the job or wrapped task that
/// spawns it, else it begins a trace. It ends as succeeded, panicked, or cancelled when it is dropped before its end.
///
/// Works with and without an installed probe. Cost: some 100 ns for each spawn and 85 ns for each poll, of which two
/// readings of the clock are 50.
///
/// # Panics
///
/// Outside a tokio runtime, as `tokio::spawn` does.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let answer = ax_probe::spawn("answer", async { 42 }).await;
/// assert_eq!(answer.unwrap(), 42);
/// # }
/// ```
#[track_caller]
pub fn spawn<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(Named::new(name, Location::caller(), future))
}

/// [`tokio::task::spawn_blocking`] with a name: see [`spawn`]. The closure may take its time, which is no stall; the
/// dashboard shows how many run and how long they take.
///
/// # Panics
///
/// Outside a tokio runtime, as `tokio::task::spawn_blocking` does.
#[track_caller]
pub fn spawn_blocking<F, R>(name: &str, closure: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let span = Span::inherit(TaskKind::Blocking, name, Location::caller());
    task::spawn_blocking(move || {
        // Counted from here: before, it waits for a thread of the pool, and a closure that never gets one never was.
        let _running = Running::begin(runtime::current());
        let began_ns = now_ns();
        let mut life = Life::begin(span.subject.task, began_ns);
        life.polling = true;
        let output = span.enter(began_ns, closure);
        life.end(End::Succeeded, now_ns());
        output
    })
}

/// What is polled, and its place in its trace.
pub(crate) struct Span {
    pub(crate) subject: Subject,
    pub(crate) id: SpanId,
    pub(crate) inherited: Inherited,
}

impl Span {
    fn inherit(kind: TaskKind, name: &str, place: &'static Location<'static>) -> Self {
        let (trace, inherited) = trace::inherit();
        Self {
            subject: Subject {
                task: task_type(kind, None, name, place),
                job: None,
                trace: Some(trace),
                place,
            },
            id: trace::new_span(),
            inherited,
        }
    }

    /// Runs `poll` as the inside of this span.
    #[inline]
    pub(crate) fn enter<R>(&self, now_ns: u64, poll: impl FnOnce() -> R) -> R {
        let entered = slot::enter(&self.subject, now_ns);
        let output = self.inherited.scope(Some(self.id), poll);
        entered.leave();
        output
    }
}

/// One closure more on the blocking pool, as long as it lives.
struct Running(Option<Arc<Watched>>);

impl Running {
    fn begin(on: Option<Arc<Watched>>) -> Self {
        if let Some(on) = &on {
            on.blocking_running.fetch_add(1, Relaxed);
        }
        Self(on)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(on) = &self.0 {
            on.blocking_running.fetch_sub(1, Relaxed);
        }
    }
}

/// From the beginning of a task to its end, of which there is exactly one.
pub(crate) struct Life {
    task: &'static TaskType,
    began_ns: u64,
    /// Its code runs; still set when it is dropped by its own panic.
    polling: bool,
    ended: bool,
}

impl Life {
    pub(crate) fn begin(task: &'static TaskType, now_ns: u64) -> Self {
        task.started();
        Self {
            task,
            began_ns: now_ns,
            polling: false,
            ended: false,
        }
    }

    /// Runs one poll inside `span`, which is told when it began, and counts the end that `ended` makes of its output.
    pub(crate) fn poll<T>(
        &mut self,
        span: &Span,
        poll: impl FnOnce(u64) -> Poll<T>,
        ended: impl FnOnce(&T) -> End,
    ) -> Poll<T> {
        let (start_ns, task) = (now_ns(), self.task);
        let mut end_ns = start_ns;
        self.polling = true;
        let polled = span.enter(start_ns, || {
            let polled = poll(start_ns);
            end_ns = now_ns();
            // Before the slot is left: who sees the poll gone then finds its length.
            let poll_ns = end_ns.saturating_sub(start_ns);
            task.polled(poll_ns);
            recorder::polled(&span.subject, poll_ns, end_ns);
            polled
        });
        self.polling = false;
        if let Poll::Ready(output) = &polled {
            self.end(ended(output), end_ns);
        }
        polled
    }

    fn end(&mut self, end: End, now_ns: u64) {
        if !self.ended {
            self.ended = true;
            self.task.ended(end, now_ns.saturating_sub(self.began_ns));
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let end = if self.polling {
            End::Panicked
        } else {
            End::Cancelled
        };
        self.end(end, now_ns());
    }
}

pin_project! {
    /// A future under its name. Made by [`spawn`] and [`Probe::watch`](crate::Probe::watch).
    ///
    /// Dropping it drops the future; nothing is lost by a cancellation but the future itself.
    #[must_use = "futures do nothing unless polled"]
    pub struct Named<F> {
        // First, so that the future is dropped before its end is counted.
        #[pin]
        future: F,
        span: Span,
        life: Life,
        delay: WakeDelay,
    }
}

impl<F: Future> Named<F> {
    pub(crate) fn new(name: &str, place: &'static Location<'static>, future: F) -> Self {
        let span = Span::inherit(TaskKind::Task, name, place);
        Self {
            future,
            life: Life::begin(span.subject.task, now_ns()),
            span,
            delay: WakeDelay::default(),
        }
    }

    /// The body of a `block_on`: see [`TaskType::set_root`].
    pub(crate) fn root(name: &str, place: &'static Location<'static>, future: F) -> Self {
        let named = Self::new(name, place, future);
        named.span.subject.task.set_root();
        named
    }
}

impl<F: Future> Future for Named<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let (future, delay, task) = (this.future, this.delay, this.span.subject.task);
        this.life.poll(
            this.span,
            |begun_ns| delay.poll(task, begun_ns, cx, |cx| future.poll(cx)),
            |_| End::Succeeded,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use ax_wire::sample::TypeSample;

    use super::*;

    fn sample(kind: TaskKind, name: &str) -> TypeSample {
        task_type(kind, None, name, Location::caller()).sample()
    }

    #[tokio::test]
    async fn each_task_ends_in_exactly_one_way() {
        assert_eq!(spawn("t-ends", async { 7 }).await.expect("succeeds"), 7);
        assert!(spawn("t-ends", async { panic!("wanted") }).await.is_err());
        let cancelled = spawn("t-ends", pending::<()>());
        tokio::task::yield_now().await;
        assert_eq!(sample(TaskKind::Task, "t-ends").running, 1);
        cancelled.abort();
        assert!(cancelled.await.is_err());

        let sample = sample(TaskKind::Task, "t-ends");
        let counters = sample.counters;
        assert_eq!(
            (
                counters.started_total,
                counters.succeeded_total,
                counters.panicked_total,
                counters.cancelled_total
            ),
            (3, 1, 1, 1)
        );
        assert_eq!((sample.running, sample.pending), (0, 0));
        let place = sample.place.expect("known");
        assert!(place.contains("spawn.rs:"), "{place}");
    }

    #[tokio::test]
    async fn blocking_closures_are_counted_with_their_ends() {
        let done = spawn_blocking("t-blocking", || {
            std::thread::sleep(Duration::from_millis(2));
            slot::current_trace()
        });
        assert!(done.await.expect("succeeds").is_some());
        assert!(
            spawn_blocking("t-blocking", || panic!("wanted"))
                .await
                .is_err()
        );
        let sample = sample(TaskKind::Blocking, "t-blocking");
        assert_eq!(sample.counters.succeeded_total, 1);
        assert_eq!(sample.counters.panicked_total, 1);
        assert!(sample.run.expect("recorded").max_ns() >= Some(2_000_000));
    }

    #[tokio::test]
    async fn a_trace_goes_on_across_spawns_and_only_there() {
        let traces = spawn("t-trace", async {
            let own = slot::current_trace();
            let child = spawn("t-trace", async { slot::current_trace() });
            let blocking = spawn_blocking("t-trace", slot::current_trace);
            (
                own,
                child.await.expect("runs"),
                blocking.await.expect("runs"),
            )
        });
        let (own, child, blocking) = traces.await.expect("runs");
        assert!(own.is_some());
        assert_eq!((child, blocking), (own, own));
        assert_eq!(slot::current_trace(), None);
        let other = spawn("t-trace", async { slot::current_trace() });
        assert_ne!(other.await.expect("runs"), own);
    }
}
