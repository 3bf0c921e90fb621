//! Two answers to a full queue, beside saying no: end what matters least, or put it aside for later.
//!
//! ```text
//! cargo run --release --example shed_and_spill
//! ```

use std::{
    collections::VecDeque,
    convert::Infallible,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ax_probe::Probe;
use ax_scheduler::{
    FullPolicy, JobContext, JobError, JobHandle, Lane, Scheduler, Spill, SpilledJob, SubmitError,
};
use tokio::{sync::Notify, time::sleep};

/// How a job of a kind ended, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Ended well.
    pub succeeded: usize,
    /// Ended to make room for something more important.
    pub shed: usize,
}

type Failure = Box<dyn Error + Send + Sync>;

fn work(
    ax: &Scheduler,
    lane: &Lane,
    name: &str,
    priority: u8,
) -> Result<JobHandle<()>, SubmitError> {
    let job = ax.job(name, |_: JobContext| async {
        sleep(Duration::from_millis(10)).await;
        Ok::<_, Infallible>(())
    });
    job.lane(lane).priority(priority).submit()
}

async fn ends(jobs: Vec<JobHandle<()>>) -> Result<Ends, JobError> {
    let mut ends = Ends::default();
    for job in jobs {
        match job.await {
            Ok(()) => ends.succeeded += 1,
            Err(JobError::Shed) => ends.shed += 1,
            Err(other) => return Err(other),
        }
    }
    Ok(ends)
}

/// A queue full of suggestions, then as many payments: each payment takes the place of a suggestion. Returns how the
/// suggestions and the payments ended.
///
/// # Errors
///
/// When a payment is refused.
pub async fn shed() -> Result<(Ends, Ends), Failure> {
    let ax = Scheduler::new();
    let lane = ax.lane("checkout").limit(2).capacity(20);
    let lane = lane.when_full(FullPolicy::ShedLowest).open()?;
    let submit = |name, priority| -> Result<Vec<_>, SubmitError> {
        (0..20).map(|_| work(&ax, &lane, name, priority)).collect()
    };
    let suggestions = submit("suggest", 20)?;
    let payments = submit("pay", 95)?;
    let outcome = (ends(suggestions).await?, ends(payments).await?);
    ax.shutdown().await;
    Ok(outcome)
}

/// Where the jobs wait that found no room. A real one writes them down.
#[derive(Default)]
struct Shelf {
    jobs: Mutex<VecDeque<SpilledJob>>,
    filled: Notify,
}

impl Shelf {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<SpilledJob>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the jobs back, oldest first, as the lane has room.
    async fn bring_back(&self, lane: Lane) -> Result<Infallible, SubmitError> {
        loop {
            let next = self.jobs().pop_front();
            let Some(job) = next else {
                self.filled.notified().await;
                continue;
            };
            let place = lane.ready().await?;
            if let Err(job) = job.submit_to(place) {
                // Only a lane with a bound in bytes may still be too full.
                self.jobs().push_front(job);
            }
        }
    }
}

impl Spill for Shelf {
    fn spill(&self, job: SpilledJob) -> Result<(), SpilledJob> {
        self.jobs().push_back(job);
        self.filled.notify_one();
        Ok(())
    }
}

/// So many exports at once, of which the queue holds five: the others go to the shelf and come back. Returns how many
/// succeeded, and how many had been on the shelf.
///
/// # Errors
///
/// When an export is refused, or is lost.
pub async fn spill(exports: usize) -> Result<(usize, u64), Failure> {
    let ax = Scheduler::new();
    let shelf = Arc::new(Shelf::default());
    let policy = FullPolicy::Spill(Arc::<Shelf>::clone(&shelf));
    let lane = ax.lane("export").limit(2).capacity(5);
    let lane = lane.when_full(policy).open()?;
    let returning = lane.clone();
    let bringing = tokio::spawn(async move { shelf.bring_back(returning).await });
    let jobs: Result<Vec<_>, _> = (0..exports)
        .map(|_| work(&ax, &lane, "export", 50))
        .collect();
    let ends = ends(jobs?).await?;
    bringing.abort();
    let spilled = lane.counts().overload.spilled_total;
    ax.shutdown().await;
    Ok((ends.succeeded, spilled))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let _probe = Probe::builder("shed-and-spill").install()?;
    let (suggestions, payments) = shed().await?;
    println!("suggestions {suggestions:?}");
    println!("payments    {payments:?}");
    let (succeeded, spilled) = spill(50).await?;
    println!("{succeeded} exports succeeded, of which {spilled} had to wait outside");
    Ok(())
}
