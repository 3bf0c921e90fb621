//! Submitting a job.

use std::{
    error::Error,
    future::Future,
    mem,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_probe::{clock::duration_ns, trace};
use ax_wire::JobId;

use crate::{
    JobContext, JobHandle, Lane, SubmitError,
    cell::{Header, Job, JobCell},
    place::{Place, Ready},
    priority,
    scheduler::Inner,
    shared::Shared,
    time, types,
};

/// A job that is about to be submitted: [`Scheduler::job`](crate::Scheduler::job).
#[must_use = "a job runs once it is submitted"]
pub struct JobBuilder<'a, F> {
    scheduler: &'a Arc<Inner>,
    name: &'a str,
    body: F,
    lane: Option<&'a Lane>,
    priority: Option<u8>,
    timeout: Option<Duration>,
    payload_bytes: u32,
    place: Option<Place>,
}

impl<'a, F> JobBuilder<'a, F> {
    pub(crate) fn new(scheduler: &'a Arc<Inner>, name: &'a str, body: F) -> Self {
        Self {
            scheduler,
            name,
            body,
            lane: None,
            priority: None,
            timeout: None,
            payload_bytes: 0,
            place: None,
        }
    }

    /// The lane that it runs in: [`DEFAULT_LANE`](crate::DEFAULT_LANE) unless set.
    pub fn lane(mut self, lane: &'a Lane) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Its priority, 1 (last) to 100 (first): the lane's unless set.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// How long it may run, from its start: the lane's unless set. Then its token fires and its future is dropped.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What its closure holds on the heap, for lanes with a bound in bytes: 0 unless set. The closure itself is counted
    /// without being declared.
    pub fn payload_bytes(mut self, bytes: u32) -> Self {
        self.payload_bytes = bytes;
        self
    }

    /// Queues it in room that was waited for, and so in that lane: [`Lane::ready`].
    pub fn place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Waits for room in the lane, then queues the job. Submitters are served in the order in which they came; the lane's
    /// [`FullPolicy`](crate::FullPolicy) is not asked. Priority orders the queue, not the line before it.
    ///
    /// A job that waits here for its own lane may wait for itself.
    ///
    /// Cancel safe: dropped, it leaves the line and drops the closure; the job has not been submitted.
    ///
    /// # Errors
    ///
    /// As [`JobBuilder::submit`], but never [`SubmitError::Full`].
    #[track_caller]
    pub fn submit_wait<Fut, T, E>(
        self,
    ) -> impl Future<Output = Result<JobHandle<T>, SubmitError>> + use<'a, F, Fut, T, E>
    where
        F: FnOnce(JobContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let place = Location::caller();
        async move {
            let lane = self.find_lane()?;
            let bytes = self.bytes::<T>() as usize;
            let room = Ready::new(lane, bytes).await?;
            self.place(room).submit_from(place)
        }
    }

    /// Queues the job and returns at once. The place of this call is shown wherever the job is.
    ///
    /// May be called from any thread, inside the scheduler's runtime or not. Costs about 0.2 us and one allocation.
    ///
    /// # Errors
    ///
    /// Where the lane is full and its policy has no room for it (counted as rejected), closed or foreign, where there is
    /// no runtime, and where priority or timeout are out of range. The closure is dropped.
    #[track_caller]
    pub fn submit<Fut, T, E>(self) -> Result<JobHandle<T>, SubmitError>
    where
        F: FnOnce(JobContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        self.submit_from(Location::caller())
    }

    /// [`submit`](Self::submit) with the place of an earlier call, for helpers that submit later.
    pub(crate) fn submit_from<Fut, T, E>(
        mut self,
        place: &'static Location<'static>,
    ) -> Result<JobHandle<T>, SubmitError>
    where
        F: FnOnce(JobContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let room = self.place.take();
        let lane = match room.as_ref().and_then(Place::lane) {
            Some(lane) => Arc::clone(lane),
            None => self.find_lane()?,
        };
        let priority = self.priority.unwrap_or(lane.settings.priority);
        if !priority::ALL.contains(&priority) {
            return Err(SubmitError::InvalidPriority { given: priority });
        }
        let timeout = self.timeout.or(lane.settings.timeout);
        if timeout == Some(Duration::ZERO) {
            return Err(SubmitError::ZeroTimeout);
        }
        let task = types::find(&lane, self.name, place);
        let (trace, inherited) = trace::inherit();
        let header = Header::new(
            next_id(),
            trace,
            inherited,
            task,
            place,
            lane,
            timeout.map_or(u64::MAX, duration_ns),
            time::now_ns(),
            priority,
            self.bytes::<T>(),
        );
        let cell = Arc::new(JobCell::new(header, self.body));
        match cell
            .header()
            .lane
            .push(Arc::<JobCell<F, T>>::clone(&cell), room)
        {
            Ok(()) => task.submitted(),
            Err(refused) => {
                task.rejected();
                return Err(refused);
            }
        }
        Ok(JobHandle::new(cell))
    }

    /// What it takes of its lane's queue.
    fn bytes<T>(&self) -> u32 {
        let cell = mem::size_of::<JobCell<F, T>>();
        self.payload_bytes
            .saturating_add(u32::try_from(cell).unwrap_or(u32::MAX))
    }

    fn find_lane(&self) -> Result<Arc<Shared>, SubmitError> {
        let lane = match self.lane {
            Some(lane) if Arc::ptr_eq(&lane.scheduler, self.scheduler) => &lane.shared,
            Some(lane) => {
                return Err(SubmitError::ForeignLane {
                    lane: Box::from(lane.name()),
                });
            }
            None => self.scheduler.default_lane()?,
        };
        if lane.has_runtime() {
            Ok(Arc::clone(lane))
        } else {
            Err(SubmitError::NoRuntime)
        }
    }
}

/// Ids count up over the process, so that they are unique across schedulers and sort by submission.
fn next_id() -> JobId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    JobId(NEXT.fetch_add(1, Relaxed))
}
