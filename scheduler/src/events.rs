//! What happens to jobs, told to whoever listens.
//!
//! A move is noted under its lane's lock, so that the events of a lane keep their order, and told after it: listeners
//! and log subscribers are the user's code. With nobody listening a move costs one load.

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed},
        },
    },
    time::{Duration, SystemTime},
};

use ax_wire::{JobId, TraceId};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{JobState, cell::Header, guard, time};

/// Events that a listener may be behind before it loses the oldest, unless set: about 200 bytes each.
pub const DEFAULT_EVENT_CAPACITY: usize = 1024;

/// Most events that a listener may be behind: their places, 32 MB, are taken by the first listener.
pub const MAX_EVENT_CAPACITY: usize = 1 << 20;

/// Events of one lane that may wait to be told; beyond it they are lost and counted. Reached only where a thread is
/// stopped while it tells.
pub(crate) const OUTBOX: usize = 65_536;

/// Under which the log events of jobs are found.
const TARGET: &str = "ax::job";

/// What happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobEventKind {
    /// Accepted by its lane: ready, or waiting for time or other jobs.
    Submitted,
    /// Has waited, and is queued now.
    Ready,
    /// An attempt begins.
    Started,
    /// Runs for longer than the lane's slow share of its timeout.
    Slow,
    /// Promised a heartbeat and gave none: the attempt ends as timed out.
    Zombie,
    /// An attempt failed; the next one waits for its time.
    Retried,
    /// Its attempt was stopped for a job of a higher priority, and it is queued again.
    Preempted,
    /// Ended with `Ok`.
    Succeeded,
    /// Ended with an error or a panic.
    Failed,
    /// Ended by its timeout, or as a zombie.
    TimedOut,
    /// Ended by cancellation, for its own sake or because of what it depends on.
    Cancelled,
    /// Not accepted.
    Rejected,
    /// Was queued, and with it the queue of its lane has passed its high-water mark
    /// ([`LaneBuilder::high_water_percent`](crate::lane::LaneBuilder::high_water_percent)): an event of the lane, which
    /// the job merely set off.
    HighWater,
}

impl JobEventKind {
    /// The word for it, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Ready => "ready",
            Self::Started => "started",
            Self::Slow => "slow",
            Self::Zombie => "zombie",
            Self::Retried => "retried",
            Self::Preempted => "preempted",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::HighWater => "high water",
        }
    }

    const fn is_warning(self) -> bool {
        matches!(
            self,
            Self::Slow
                | Self::Zombie
                | Self::Retried
                | Self::Failed
                | Self::TimedOut
                | Self::Rejected
                | Self::HighWater
        )
    }
}

/// Something that happened to a job.
#[derive(Clone, Debug)]
pub struct JobEvent {
    /// When, on the wall clock.
    pub at: SystemTime,
    /// When, as nanoseconds of `CLOCK_MONOTONIC`.
    pub at_mono_ns: u64,
    /// The job.
    pub job: JobId,
    /// Its type.
    pub job_type: &'static str,
    /// Its lane.
    pub lane: Box<str>,
    /// What happened.
    pub kind: JobEventKind,
    /// The state before.
    pub from: JobState,
    /// The state after: equal to `from` for a warning, which is no move.
    pub to: JobState,
    /// Why, for what is not the ordinary way.
    pub reason: Option<Arc<str>>,
    /// The attempt that it is about, from 1; 0 before the first.
    pub attempt: u32,
    /// The trace that the job belongs to.
    pub trace: TraceId,
    /// Where the job was submitted.
    pub place: &'static Location<'static>,
    /// How long the job had been in `from`: the queue wait at a start, the run time at an end.
    pub duration: Duration,
}

impl JobEvent {
    pub(crate) fn new(
        header: &Header,
        kind: JobEventKind,
        (from, to): (JobState, JobState),
        reason: Option<Arc<str>>,
        now_ns: u64,
    ) -> Self {
        let since_ns = match from {
            JobState::Running => header.started_ns(),
            JobState::Pending => now_ns,
            _ => header.ready_ns(),
        };
        Self {
            at: SystemTime::now(),
            at_mono_ns: now_ns,
            job: header.id,
            job_type: header.task.name(),
            lane: header.lane.name.clone(),
            kind,
            from,
            to,
            reason,
            attempt: header.attempt(),
            trace: header.trace(),
            place: header.place,
            duration: time::between(since_ns, now_ns),
        }
    }

    /// F71: one structured log event each.
    fn log(&self) {
        let result = self.kind.name();
        let duration_ms = self.duration.as_secs_f64() * 1e3;
        let reason = self.reason.as_deref().unwrap_or("");
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    target: TARGET,
                    job = self.job.0,
                    job_type = self.job_type,
                    lane = &*self.lane,
                    trace = %self.trace,
                    attempt = self.attempt,
                    from = self.from.name(),
                    to = self.to.name(),
                    duration_ms,
                    result,
                    reason,
                )
            };
        }
        if self.kind.is_warning() {
            log!(warn);
        } else {
            log!(debug);
        }
    }
}

/// Called with each move.
pub(crate) type Sink = Box<dyn Fn(&JobEvent) + Send + Sync>;

/// The listeners of a scheduler.
pub(crate) struct Listeners {
    sink: Option<Sink>,
    capacity: usize,
    channel: OnceLock<broadcast::Sender<Arc<JobEvent>>>,
    /// Listeners and the sink.
    count: Arc<AtomicUsize>,
    lost: AtomicU64,
}

impl Listeners {
    pub(crate) fn new(sink: Option<Sink>, capacity: usize) -> Self {
        Self {
            count: Arc::new(AtomicUsize::new(usize::from(sink.is_some()))),
            sink,
            capacity: capacity.clamp(1, MAX_EVENT_CAPACITY),
            channel: OnceLock::new(),
            lost: AtomicU64::new(0),
        }
    }

    /// Whether anybody wants to know.
    #[inline]
    pub(crate) fn want(&self, kind: JobEventKind) -> bool {
        self.count.load(Relaxed) > 0
            || if kind.is_warning() {
                tracing::enabled!(target: TARGET, tracing::Level::WARN)
            } else {
                tracing::enabled!(target: TARGET, tracing::Level::DEBUG)
            }
    }

    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// Runs the code of whoever listens.
    pub(crate) fn tell(&self, event: JobEvent) {
        let told = guard::catch(|| {
            event.log();
            if let Some(sink) = &self.sink {
                sink(&event);
            }
        });
        let sent = guard::catch(|| {
            if let Some(channel) = self.channel.get() {
                // Without listeners at the moment it is nobody's.
                let _ = channel.send(Arc::new(event));
            }
        });
        for message in [told.err(), sent.err()].into_iter().flatten() {
            self.lose();
            let _ = guard::catch(|| tracing::error!(message, "a listener of job events panicked"));
        }
    }

    pub(crate) fn subscribe(&self) -> JobEvents {
        let channel = self
            .channel
            .get_or_init(|| broadcast::channel(self.capacity).0);
        let receiver = channel.subscribe();
        self.count.fetch_add(1, Relaxed);
        JobEvents {
            receiver,
            count: Arc::clone(&self.count),
            lost: 0,
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Acquire)
    }
}

/// A listener: [`Scheduler::subscribe`](crate::Scheduler::subscribe).
///
/// One that falls behind loses the oldest events, which [`JobEvents::lost`] counts; the scheduler never waits for it.
/// What it does meanwhile, such as submitting more jobs, is not limited.
pub struct JobEvents {
    receiver: broadcast::Receiver<Arc<JobEvent>>,
    count: Arc<AtomicUsize>,
    lost: u64,
}

impl JobEvents {
    /// The next event, in the order of each lane; `None` once the scheduler is gone, with all lanes and job
    /// handles. Cancel safe.
    pub async fn next(&mut self) -> Option<Arc<JobEvent>> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(lost)) => self.lost += lost,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Events that this listener has lost by being slow.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Drop for JobEvents {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

impl fmt::Debug for JobEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobEvents")
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}
