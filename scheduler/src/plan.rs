//! What only some jobs have. A job that uses none of it pays for one empty pointer.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_probe::clock::duration_ns;
use ax_wire::JobId;
use parking_lot::Mutex;

use crate::{JobHandle, backoff::Retry, cell::Job, job_ref::JobRef, waits::WaitCell};

/// The most of it that a heartbeat may be promised in, unless set.
pub const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(5);

/// How far a job says that it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Done so far.
    pub done: u64,
    /// Of so many; 0 where it is not known.
    pub of: u64,
}

/// Set before the job is submitted, but for the cells.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) retry: Option<Retry>,
    /// Longest time without a sign of life.
    pub(crate) heartbeat: Option<Duration>,
    /// Its record is kept however it ends.
    pub(crate) keep: bool,
    /// It may be stopped for a job of a higher priority.
    pub(crate) preemptible: bool,
    pub(crate) created_ns: u64,
    /// The last sign of life.
    pub(crate) beat_ns: AtomicU64,
    /// What it waits for, once an await has had a label.
    pub(crate) waits: OnceLock<Arc<WaitCell>>,
    /// What a registered handler returned.
    pub(crate) output: Mutex<Option<Arc<serde_json::Value>>>,
}

impl Plan {
    pub(crate) fn beat(&self, now_ns: u64) {
        self.beat_ns.fetch_max(now_ns, Relaxed);
    }

    /// When the promise of a heartbeat is broken; `u64::MAX` without one.
    pub(crate) fn beat_ends_ns(&self) -> u64 {
        let Some(within) = self.heartbeat else {
            return u64::MAX;
        };
        let beat_ns = self.beat_ns.load(Relaxed);
        beat_ns.saturating_add(duration_ns(within))
    }
}

/// What a job waits for: another job, or the name of one, which may not have been submitted yet.
#[derive(Clone)]
pub struct Dependency(pub(crate) On);

#[derive(Clone)]
pub(crate) enum On {
    Job(Arc<dyn Job>),
    Name(Arc<str>),
}

impl<T: 'static> From<&JobHandle<T>> for Dependency {
    fn from(handle: &JobHandle<T>) -> Self {
        Self::from(&handle.job_ref())
    }
}

impl From<&JobRef> for Dependency {
    fn from(job: &JobRef) -> Self {
        Self(On::Job(Arc::clone(&job.job)))
    }
}

impl From<&str> for Dependency {
    fn from(name: &str) -> Self {
        Self(On::Name(Arc::from(name)))
    }
}

impl From<&String> for Dependency {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

impl std::fmt::Debug for Dependency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            On::Job(job) => write!(f, "Dependency(job {})", job.header().id),
            On::Name(name) => write!(f, "Dependency({name:?})"),
        }
    }
}

/// What else a submit says.
#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) plan: Plan,
    pub(crate) after: Vec<Dependency>,
    /// One of `after` is enough.
    pub(crate) any: bool,
    pub(crate) delay: Duration,
}

/// A job on the way from the one that failed to the one that is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// The job; `None` for a name that no job had.
    pub job: Option<JobId>,
    /// Its name, or else its type.
    pub name: Arc<str>,
}

/// Why a job cannot run: what it depends on failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependencyFailure {
    /// From the job that failed by itself to the direct dependency. At most [`MAX_PATH`]: of a longer path the first
    /// and the last jobs.
    pub path: Vec<PathStep>,
    /// Jobs left out in the middle of `path`.
    pub left_out: usize,
    /// Why the first one failed.
    pub reason: Arc<str>,
}

/// Steps that are kept of the path of a reason.
pub const MAX_PATH: usize = 16;

impl DependencyFailure {
    /// The reason for the dependents of `next`, which was itself cancelled for this one.
    pub(crate) fn by_way_of(&self, next: PathStep) -> Self {
        let mut path = self.path.clone();
        let mut left_out = self.left_out;
        if path.len() >= MAX_PATH {
            path.remove(MAX_PATH / 2);
            left_out += 1;
        }
        path.push(next);
        Self {
            path,
            left_out,
            reason: Arc::clone(&self.reason),
        }
    }
}

impl std::fmt::Display for DependencyFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut steps = self.path.iter();
        if let Some(first) = steps.next() {
            write!(f, "`{}`", first.name)?;
            if let Some(job) = first.job {
                write!(f, " (job {job})")?;
            }
        }
        write!(f, " did not succeed: {}", self.reason)?;
        for step in steps {
            write!(f, " -> `{}`", step.name)?;
        }
        if self.left_out > 0 {
            write!(f, " ({} jobs between them left out)", self.left_out)?;
        }
        Ok(())
    }
}
