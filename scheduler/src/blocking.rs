//! Work that computes, in a lane of its own: on threads of the blocking pool, at most so many at once.

use std::{error::Error, fmt, sync::Arc};

use ax_probe::{clock, slot};
use tokio::sync::Semaphore;

use crate::{JobContext, JobHandle, Lane, SubmitError, job::JobBuilder};

/// A lane whose jobs compute. Each runs as a closure on a thread of tokio's blocking pool, so that it holds up no
/// worker; as a job it is queued, limited, seen and awaited like any other.
///
/// A closure cannot be stopped from outside. After a timeout or a cancellation its job has ended and its place in the
/// lane is free, but it still has its thread until it looks at [`JobContext::is_cancelled`] and returns; until then no
/// other closure of this lane starts in its stead. So at most as many threads as the lane's limit compute at once,
/// whatever happens to the jobs.
///
/// A handle: clones are the same.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ax = ax_scheduler::Scheduler::new();
/// let cpu = ax_scheduler::BlockingLane::new(&ax.lane("cpu").limit(4).open()?);
/// let sum = cpu.submit("sum", |_cx| Ok::<u64, std::io::Error>((1..=1_000_u64).sum()))?;
/// assert_eq!(sum.await?, 500_500);
/// # ax.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct BlockingLane {
    lane: Lane,
    /// A thread's permit: held by the closure itself, not by its job.
    threads: Arc<Semaphore>,
}

impl BlockingLane {
    /// Makes the lane one for closures. As many compute at once as the lane's limit says now.
    ///
    /// Make one for a lane and clone it: each has its own count of threads.
    #[must_use]
    pub fn new(lane: &Lane) -> Self {
        let limit = usize::try_from(lane.counts().limit).unwrap_or(usize::MAX);
        Self {
            lane: lane.clone(),
            threads: Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// The lane, for its counts and for jobs that need a setting of their own.
    #[must_use]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Queues a closure as a job of this type, with the lane's priority and timeout. The lane's runtime runs it.
    ///
    /// A closure that computes for long looks at [`JobContext::is_cancelled`] now and then.
    ///
    /// # Errors
    ///
    /// Those of [`JobBuilder::submit`].
    #[track_caller]
    pub fn submit<F, T, E>(&self, job_type: &str, closure: F) -> Result<JobHandle<T>, SubmitError>
    where
        F: FnOnce(JobContext) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let threads = Arc::clone(&self.threads);
        let name: Box<str> = Box::from(job_type);
        let body = move |cx: JobContext| async move {
            // Never closed: an error cannot come.
            let permit = threads.acquire_owned().await;
            let subject = slot::current_subject();
            let running = ax_probe::spawn_blocking(&name, move || {
                let _permit = permit;
                if cx.is_cancelled() {
                    return Err("cancelled before a thread was free".into());
                }
                // So that the thread is shown under the job that it works for.
                let entered = subject.map(|job| slot::enter(&job, clock::now_ns()));
                let output = closure(cx);
                drop(entered);
                output.map_err(Into::into)
            });
            match running.await {
                Ok(output) => output,
                Err(error) => match error.try_into_panic() {
                    // The job's own panic, with its message.
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(error) => Err(error.into()),
                },
            }
        };
        JobBuilder::new(&self.lane.scheduler, job_type, body)
            .lane(&self.lane)
            .submit()
    }
}

impl fmt::Debug for BlockingLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingLane")
            .field("lane", &self.lane.name())
            .finish_non_exhaustive()
    }
}
