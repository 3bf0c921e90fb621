//! What a lane does with a job that finds its queue full.

use std::{fmt, sync::Arc};

use ax_wire::{JobId, TraceId};

use crate::{Place, cell::Job, guard, time};

/// What happens to a job that finds the queue of its lane full: [`LaneBuilder::when_full`](crate::LaneBuilder::when_full).
///
/// Whoever can wait, waits by [`JobBuilder::submit_wait`](crate::JobBuilder::submit_wait) or
/// [`Lane::ready`](crate::Lane::ready), in a lane of any policy: the policy is for those who do not. While submitters
/// wait in line, the queue is full for all others.
#[derive(Clone, Default)]
pub enum FullPolicy {
    /// Refuses it with [`SubmitError::Full`](crate::SubmitError::Full): the default.
    #[default]
    Reject,
    /// Makes room by ending queued jobs of a lower priority with [`JobError::Shed`](crate::JobError::Shed), the lowest
    /// first and of these the one that was queued last; refuses it where there is none. The priority is the one that a
    /// job was given: age does not protect it.
    ShedLowest,
    /// Backpressure: submitters are meant to wait. A plain `submit`, which cannot, is refused as under
    /// [`FullPolicy::Reject`], and told to use `submit_wait`.
    Wait,
    /// Hands it to this store, which brings it back when there is room.
    Spill(Arc<dyn Spill>),
}

impl PartialEq for FullPolicy {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Reject, Self::Reject)
            | (Self::ShedLowest, Self::ShedLowest)
            | (Self::Wait, Self::Wait) => true,
            (Self::Spill(one), Self::Spill(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Debug for FullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reject => "Reject",
            Self::ShedLowest => "ShedLowest",
            Self::Wait => "Wait",
            Self::Spill(_) => "Spill",
        })
    }
}

impl fmt::Display for FullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reject => "reject",
            Self::ShedLowest => "shed the lowest",
            Self::Wait => "wait",
            Self::Spill(_) => "spill",
        })
    }
}

/// Where jobs go that find their lane full.
pub trait Spill: Send + Sync {
    /// Takes a job, to submit it again when the lane has room: wait for that by [`Lane::ready`](crate::Lane::ready), then
    /// [`SpilledJob::submit_to`] the place.
    ///
    /// Called by the thread that submits, under no lock; should return at once. The job counts as accepted by the time
    /// of the call.
    ///
    /// # Errors
    ///
    /// With the job itself, where it cannot be taken: its submitter is then told that the lane is full.
    fn spill(&self, job: SpilledJob) -> Result<(), SpilledJob>;
}

/// A job outside its lane's queue. Its handle waits for it, and may cancel it.
///
/// Dropped, it ends with [`JobError::SpillLost`](crate::JobError::SpillLost): nothing is lost without a word.
#[must_use = "dropped, the job ends"]
pub struct SpilledJob {
    /// `None` once it is back in the lane, or refused.
    job: Option<Arc<dyn Job>>,
}

impl SpilledJob {
    pub(crate) fn new(job: Arc<dyn Job>) -> Self {
        Self { job: Some(job) }
    }

    fn job(&self) -> &dyn Job {
        let job = self.job.as_deref();
        job.expect("taken only by methods that consume the SpilledJob")
    }

    /// The job.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job().header().id
    }

    /// Its type.
    #[must_use]
    pub fn job_type(&self) -> &'static str {
        self.job().header().task.name()
    }

    /// The trace that it belongs to.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        self.job().header().trace()
    }

    /// Its priority.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.job().header().priority
    }

    /// What it takes of its lane's [`capacity_bytes`](crate::LaneBuilder::capacity_bytes).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.job().header().load().bytes
    }

    /// Puts it into the queue of its lane. A job that was cancelled meanwhile, or whose lane has closed, ends instead.
    ///
    /// # Errors
    ///
    /// With the job itself, where the lane is still full, or others wait in line for it.
    pub fn submit(self) -> Result<(), Self> {
        self.come_back(None)
    }

    /// [`SpilledJob::submit`] in room that was waited for by [`Lane::ready`](crate::Lane::ready) of its lane; a place in
    /// another lane is given back.
    ///
    /// # Errors
    ///
    /// With the job itself, where its lane has a bound in bytes and is too full for it.
    pub fn submit_to(self, place: Place) -> Result<(), Self> {
        self.come_back(Some(place))
    }

    fn come_back(mut self, place: Option<Place>) -> Result<(), Self> {
        if let Some(job) = self.job.take() {
            let lane = Arc::clone(&job.header().lane);
            let ours = |place: &Place| place.lane().is_some_and(|of| Arc::ptr_eq(of, &lane));
            if !lane.take_back(&job, place.filter(ours), time::now_ns()) {
                self.job = Some(job);
                return Err(self);
            }
        }
        Ok(())
    }
}

impl Drop for SpilledJob {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.header().lane.give_up_spilled(&*job);
        }
    }
}

impl fmt::Debug for SpilledJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpilledJob")
            .field("id", &self.id())
            .field("job_type", &self.job_type())
            .field("priority", &self.priority())
            .finish()
    }
}

/// Calls the spill. The job that it gave back, if it did; one that panics has dropped the job.
pub(crate) fn hand_over(spill: &dyn Spill, job: Arc<dyn Job>) -> Option<Arc<dyn Job>> {
    let id = job.header().id.0;
    match guard::catch(|| spill.spill(SpilledJob::new(job))) {
        Ok(Ok(())) => None,
        Ok(Err(mut refused)) => refused.job.take(),
        Err(message) => {
            tracing::warn!(job = id, message, "a spill panicked over a job");
            None
        }
    }
}
