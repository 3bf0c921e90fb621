//! Submitting a job.

use std::{
    fmt, mem,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_probe::trace;
use ax_wire::{JobId, recorder::RecordedKind};

use crate::{
    JobContext, JobHandle, Lane, MAX_DELAY, Retry, SubmitError,
    body::{Again, Body, Once},
    cell::{Header, Job, JobCell},
    hub::Submission,
    job_ref::JobRef,
    place::{Place, Ready},
    plan::{Dependency, Extras},
    priority,
    scheduler::Inner,
    shared::Shared,
    time, types,
    waits::{Kind, Waits},
};

/// A job that is about to be submitted: [`Scheduler::job`](crate::Scheduler::job).
#[must_use = "a job runs once it is submitted"]
pub struct JobBuilder<'a, B> {
    scheduler: &'a Arc<Inner>,
    name: &'a str,
    body: B,
    lane: Option<&'a Lane>,
    priority: Option<u8>,
    timeout: Option<Duration>,
    /// What only some jobs have.
    extras: Option<Box<Extras>>,
    payload_bytes: u32,
    place: Option<Place>,
}

impl<B> fmt::Debug for JobBuilder<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobBuilder")
            .field("job_type", &self.name)
            .field("lane", &self.lane.map(Lane::name))
            .field("priority", &self.priority)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// What became of a submit with a key.
#[derive(Debug)]
pub enum Submitted<T> {
    /// The job is new.
    New(JobHandle<T>),
    /// This job has the key: it has not ended, or not long ago.
    Known(JobRef),
}

impl<'a, B> JobBuilder<'a, B> {
    pub(crate) fn of(scheduler: &'a Arc<Inner>, name: &'a str, body: B) -> Self {
        Self {
            scheduler,
            name,
            body,
            lane: None,
            priority: None,
            timeout: None,
            extras: None,
            payload_bytes: 0,
            place: None,
        }
    }

    pub(crate) fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
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

    /// How long each attempt may run, from its start: the lane's for its type, else the lane's, unless set. Then its
    /// token fires and its future is dropped.
    ///
    /// Between two polls, that is: a poll that does not return can be stopped by nobody. Such a job keeps its slot and its
    /// worker, the probe shows the stall with its name, and the rest goes on. What may block belongs on the
    /// [blocking pool](crate::BlockingLane).
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

    /// Queues it in room that was waited for, and so in that lane: [`Lane::ready`]. A job that waits first, or has a name
    /// or key, gives the place back.
    pub fn place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Not before so long from now. Meanwhile it waits and holds no slot. Combined with dependencies, both must hold.
    /// At most [`MAX_DELAY`], to which a longer one is shortened.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.extras().delay = delay.min(MAX_DELAY);
        self
    }

    /// Not before this instant: see [`Self::delay`]. One that is past means at once.
    pub fn run_at(self, at: tokio::time::Instant) -> Self {
        self.delay(at.saturating_duration_since(tokio::time::Instant::now()))
    }

    /// Once all of these jobs have succeeded: handles, [`JobRef`]s, or names of jobs that may not have been submitted yet
    /// ([`Self::named`]). One that fails, or is cancelled, cancels this one, with the path of the reason
    /// ([`JobError::Dependency`](crate::JobError::Dependency)). Called again, it adds.
    ///
    /// A name that never comes is waited for until the scheduler ends; [`Scheduler::page`](crate::Scheduler::page) says
    /// who waits for what. After no jobs at all means at once.
    pub fn after<D: Into<Dependency>>(mut self, jobs: impl IntoIterator<Item = D>) -> Self {
        let jobs = jobs.into_iter().map(Into::into);
        self.extras().after.extend(jobs);
        self
    }

    /// Once one of its dependencies has succeeded, instead of all; it is cancelled when all have failed. It goes for those
    /// given by [`Self::after`] as well: a job has one rule. Of no jobs at all means at once.
    pub fn after_any<D: Into<Dependency>>(mut self, jobs: impl IntoIterator<Item = D>) -> Self {
        self.extras().any = true;
        self.after(jobs)
    }

    /// A name by which others depend on it. It is refused while a job of this name has not ended; after that the name
    /// is this job's.
    pub fn named(mut self, name: &str) -> Self {
        self.extras().plan.name = Some(Arc::from(name));
        self
    }

    /// Promises a sign of life ([`JobContext::heartbeat`](crate::JobContext::heartbeat) or `progress`) at least so often,
    /// [`DEFAULT_HEARTBEAT`](crate::DEFAULT_HEARTBEAT) being usual. A job that breaks the promise is a zombie: it is
    /// announced, its future is dropped, its slot is free, and the attempt counts as timed out. Only a poll that does not
    /// return keeps its slot.
    pub fn heartbeat(mut self, within: Duration) -> Self {
        self.extras().plan.heartbeat = Some(within);
        self
    }

    /// Remembers how it ended, whichever way, for [`Scheduler::record`](crate::Scheduler::record).
    pub fn keep(mut self) -> Self {
        self.extras().plan.keep = true;
        self
    }

    fn check(&self, lane: &Shared) -> Result<(u8, Option<Duration>), SubmitError> {
        let priority = self.priority.unwrap_or(lane.settings.priority);
        if !priority::ALL.contains(&priority) {
            return Err(SubmitError::InvalidPriority { given: priority });
        }
        let timeout = self
            .timeout
            .or_else(|| lane.settings.timeout_of_type(self.name))
            .or(lane.settings.timeout);
        if timeout == Some(Duration::ZERO) {
            return Err(SubmitError::ZeroTimeout);
        }
        let extras = self.extras.as_deref();
        if extras.is_some_and(|extras| extras.plan.heartbeat == Some(Duration::ZERO)) {
            return Err(SubmitError::ZeroHeartbeat);
        }
        Ok((priority, timeout))
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

impl<'a, F> JobBuilder<'a, Once<F>> {
    pub(crate) fn new<Fut>(scheduler: &'a Arc<Inner>, name: &'a str, body: F) -> Self
    where
        F: FnOnce(JobContext) -> Fut,
    {
        Self::of(scheduler, name, Once(body))
    }

    /// Tries it again when it fails: a [`Backoff`](crate::Backoff) (with [`DEFAULT_RETRIES`](crate::DEFAULT_RETRIES) beyond the first
    /// run) or a [`Retry`]. No retry unless set.
    ///
    /// Each attempt calls a copy of the closure, which therefore has to be `Clone`: it is where what it captures is. What
    /// it captures by value is so each attempt's own.
    pub fn retry(mut self, retry: impl Into<Retry>) -> JobBuilder<'a, Again<F>>
    where
        F: Clone,
    {
        self.extras().plan.retry = Some(retry.into());
        self.again()
    }

    /// Lets a lane that [preempts](crate::LaneBuilder::preempt) stop it for a job of a higher priority: its token fires,
    /// and its future is dropped after the lane's cancel grace, unless it ends before. It is then queued again, before
    /// all others of its priority and as old as it is, and begins anew; the attempt is not counted. One that succeeds, or
    /// fails by a panic or its timeout, within the grace has ended that way. Not unless set.
    ///
    /// Each run calls a copy of the closure, as with [`Self::retry`].
    pub fn preemptible(mut self) -> JobBuilder<'a, Again<F>>
    where
        F: Clone,
    {
        self.extras().plan.preemptible = true;
        self.again()
    }

    fn again(self) -> JobBuilder<'a, Again<F>> {
        JobBuilder {
            scheduler: self.scheduler,
            name: self.name,
            body: Again(self.body.0),
            lane: self.lane,
            priority: self.priority,
            timeout: self.timeout,
            extras: self.extras,
            payload_bytes: self.payload_bytes,
            place: self.place,
        }
    }
}

/// A closure that is copied for each run already.
impl<F> JobBuilder<'_, Again<F>> {
    /// Tries it again when it fails, as [`JobBuilder::retry`] of a closure that is called once.
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.extras().plan.retry = Some(retry.into());
        self
    }

    /// Lets its lane stop it for a job of a higher priority, as [`JobBuilder::preemptible`] of a closure that is called
    /// once.
    pub fn preemptible(mut self) -> Self {
        self.extras().plan.preemptible = true;
        self
    }
}

impl<'a, B: Body> JobBuilder<'a, B> {
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
    pub fn submit_wait(
        self,
    ) -> impl Future<Output = Result<JobHandle<B::Value>, SubmitError>> + use<'a, B> {
        let place = Location::caller();
        async move {
            let lane = self.find_lane()?;
            let bytes = self.bytes() as usize;
            let waits = Waits::begin(Kind::Lane, &lane.name);
            let room = Ready::new(lane, bytes).await?;
            drop(waits);
            self.place(room).submit_from(place)
        }
    }

    /// What it takes of its lane's queue.
    fn bytes(&self) -> u32 {
        let cell = mem::size_of::<JobCell<B>>();
        self.payload_bytes
            .saturating_add(u32::try_from(cell).unwrap_or(u32::MAX))
    }

    /// Queues the job and returns at once. The place of this call is shown wherever the job is.
    ///
    /// May be called from any thread, inside the scheduler's runtime or not. Costs about 0.2 us and one allocation; with
    /// dependencies, a delay or a name about 1 us more.
    ///
    /// # Errors
    ///
    /// Where the lane is full (counted as rejected), closed or foreign, where there is no runtime, where an option is
    /// out of range, where the name is taken, and where the job would wait for itself. The closure is dropped.
    #[track_caller]
    pub fn submit(self) -> Result<JobHandle<B::Value>, SubmitError> {
        self.submit_from(Location::caller())
    }

    /// [`submit`](Self::submit) with the place of an earlier call, for helpers that submit later.
    pub(crate) fn submit_from(
        self,
        place: &'static Location<'static>,
    ) -> Result<JobHandle<B::Value>, SubmitError> {
        match self.submit_at(place)? {
            Submitted::New(handle) => Ok(handle),
            Submitted::Known(_) => unreachable!("only a job with a key is known before"),
        }
    }

    /// Queues the job, unless one with this key is there already: one that has not ended, or that ended within the time
    /// that the scheduler remembers ([`SchedulerBuilder::remember`](crate::SchedulerBuilder::remember)). In that case the
    /// closure is dropped, and the first job is returned.
    ///
    /// # Errors
    ///
    /// See [`Self::submit`].
    #[track_caller]
    pub fn submit_once(mut self, key: &str) -> Result<Submitted<B::Value>, SubmitError> {
        self.extras().plan.key = Some(Arc::from(key));
        self.submit_at(Location::caller())
    }

    fn submit_at(
        mut self,
        place: &'static Location<'static>,
    ) -> Result<Submitted<B::Value>, SubmitError> {
        let room = self.place.take();
        let lane = match room.as_ref().and_then(Place::lane) {
            Some(lane) => Arc::clone(lane),
            None => self.find_lane()?,
        };
        let (priority, timeout) = self.check(&lane)?;
        let task = types::find(&lane, self.name, place);
        let (trace, inherited) = trace::inherit();
        let now_ns = time::now_ns();
        if B::TAKES_LANE_RETRY
            && let Some(retry) = lane.settings.retry
        {
            self.extras().plan.retry.get_or_insert(retry);
        }
        let extras = self.extras.take();
        let plan = extras.map(|extras| {
            let Extras {
                mut plan,
                after,
                any,
                delay,
            } = *extras;
            plan.created_ns = now_ns;
            (Box::new(plan), Submission { after, any, delay })
        });
        let (plan, submission) = plan.unzip();
        let header = Header::new(
            next_id(),
            trace,
            inherited,
            task,
            place,
            lane,
            timeout,
            now_ns,
            priority,
            plan,
            self.bytes(),
        );
        let cell = Arc::new(JobCell::new(header, self.body));
        let lane = &cell.header().lane;
        let job: Arc<dyn Job> = Arc::<JobCell<B>>::clone(&cell);
        let queued = match &submission {
            Some(submission) if !submission.is_plain(cell.header()) => {
                drop(room);
                lane.hub.submit(&job, submission, now_ns)
            }
            _ => lane.push(job, room).map(|()| {
                task.submitted();
                cell.header().tell(RecordedKind::Ready, now_ns, None);
                None
            }),
        };
        match queued {
            Ok(Some(known)) => Ok(Submitted::Known(known)),
            Ok(None) => Ok(Submitted::New(JobHandle::new(cell))),
            Err(refused) => {
                task.rejected();
                cell.header().tell(RecordedKind::Rejected, now_ns, None);
                Err(refused)
            }
        }
    }
}

/// Ids count up over the process, so that they are unique across schedulers and sort by submission.
fn next_id() -> JobId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    JobId(NEXT.fetch_add(1, Relaxed))
}
