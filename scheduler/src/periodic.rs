//! Jobs that come back on a schedule.

use std::{error::Error, fmt, panic::Location, sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use crate::{JobContext, JobError, JobHandle, Lane, SubmitError, job::JobBuilder};

/// A periodic job, which goes on until this is dropped: [`Lane::periodic`]. A run that has begun then goes on to its end.
#[must_use = "a periodic job ends when this is dropped"]
pub struct Periodic {
    task: JoinHandle<()>,
}

impl Lane {
    /// Runs `body` as a job of this type in this lane every `period`, the first time after one period.
    ///
    /// - No drift: the schedule counts from its beginning, not from the end of a run.
    /// - No burst of catching up: a run that takes longer than the period, or waits that long in the queue, costs the
    ///   turns that it overlaps; so does a lane that is full. A job is never in its lane twice.
    /// - A run that fails is logged, and the next one comes in its turn.
    ///
    /// Ends by itself when the lane is closed. Each run begins a trace of its own.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NoRuntime`] where the scheduler has no runtime. It is that runtime which keeps the schedule, wherever
    /// this is called.
    ///
    /// # Panics
    ///
    /// When `period` is zero. In a runtime without a time driver the task that keeps the schedule panics instead, and no run
    /// ever comes.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ax = ax_scheduler::Scheduler::new();
    /// let sync = ax.lane("sync").limit(1).open()?;
    /// let every_minute = sync.periodic("sync_stock", Duration::from_secs(60), |_cx| async {
    ///     Ok::<_, std::io::Error>(())
    /// })?;
    /// # drop(every_minute); ax.shutdown().await; Ok(()) }
    /// ```
    #[track_caller]
    pub fn periodic<F, Fut, E>(
        &self,
        job_type: &str,
        period: Duration,
        body: F,
    ) -> Result<Periodic, SubmitError>
    where
        F: Fn(JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let place = Location::caller();
        assert!(!period.is_zero(), "a period of zero would never pause");
        let Some(runtime) = self.shared.hub.runtime.clone() else {
            return Err(SubmitError::NoRuntime);
        };
        let (lane, name) = (self.clone(), Box::<str>::from(job_type));
        let body = Arc::new(body);
        // Plain tokio: a named task would make all runs parts of its own trace.
        let task = runtime.spawn(async move {
            let began = Instant::now();
            loop {
                sleep_until(next_turn(began, period)).await;
                let body = Arc::clone(&body);
                let job = JobBuilder::new(&lane.scheduler, &name, move |cx| body(cx));
                if !run_once(job.lane(&lane).submit_from(place), &name).await {
                    return;
                }
            }
        });
        Ok(Periodic { task })
    }
}

/// The first whole period from `began` that has not begun yet. Those in between are left out.
fn next_turn(began: Instant, period: Duration) -> Instant {
    let passed = began.elapsed().as_nanos() / period.as_nanos();
    let next_ns = (passed + 1).saturating_mul(period.as_nanos());
    // 64 bits of nanoseconds last for 584 years.
    began + Duration::from_nanos(u64::try_from(next_ns).unwrap_or(u64::MAX))
}

/// Waits for one run; false when there can be no other.
async fn run_once(submitted: Result<JobHandle<()>, SubmitError>, job_type: &str) -> bool {
    let outcome = match submitted {
        Ok(handle) => handle.await,
        Err(full @ SubmitError::Full { .. }) => {
            tracing::warn!(job_type, error = %full, "a periodic job missed its turn");
            return true;
        }
        Err(_) => return false,
    };
    match outcome {
        Ok(()) => true,
        Err(JobError::RuntimeGone) => false,
        Err(error) => {
            tracing::warn!(job_type, %error, "a run of a periodic job failed");
            true
        }
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        // The handle of a run is dropped with it, which detaches the run.
        self.task.abort();
    }
}

impl fmt::Debug for Periodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic")
            .field("ended", &self.task.is_finished())
            .finish_non_exhaustive()
    }
}
