//! Lanes as the user sees them: opened by name, cheap to clone.

use std::{fmt, sync::Arc, time::Duration};

use ax_wire::sample::LaneSample;

use crate::{
    LaneError, priority,
    scheduler::Inner,
    shared::{Settings, Shared},
    time,
};

/// The lane of a job for which none was named. It is opened by the first such job with the default settings, unless
/// it was opened with others before.
pub const DEFAULT_LANE: &str = "default";

/// Jobs that run at once in a lane that sets no limit. More lets more work wait inside the downstream instead of in
/// the lane, where it is seen, ordered and refused.
pub const DEFAULT_LIMIT: usize = 100;

/// Jobs that queue in a lane that sets no capacity: at 200 bytes and the closure for each, 2 MB and more when full.
pub const DEFAULT_CAPACITY: usize = 10_000;

/// How long a running job may go on after it was asked to end, before its future is dropped.
pub const DEFAULT_CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The highest limit: each job that runs has a runner, a task that stays once it was needed.
pub const MAX_LIMIT: usize = 1_000_000;

/// The highest capacity: 20 GB of queued jobs.
pub const MAX_CAPACITY: usize = 100_000_000;

/// An isolated pool of running jobs with its own queue. Lanes cannot starve each other of slots.
///
/// A handle: clones are the same lane.
#[derive(Clone)]
pub struct Lane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) scheduler: Arc<Inner>,
}

impl Lane {
    /// Its name, unique in its scheduler.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Settings and counts, exact and consistent among each other. Takes about 5 us, whatever the backlog.
    #[must_use]
    pub fn counts(&self) -> LaneSample {
        self.shared.counts(time::now_ns())
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Settings of a lane that is about to be opened: [`Scheduler::lane`](crate::Scheduler::lane).
#[must_use = "a lane is opened by `open`"]
#[derive(Debug)]
pub struct LaneBuilder<'a> {
    scheduler: &'a Arc<Inner>,
    name: &'a str,
    settings: Settings,
}

impl<'a> LaneBuilder<'a> {
    pub(crate) fn new(scheduler: &'a Arc<Inner>, name: &'a str) -> Self {
        Self {
            scheduler,
            name,
            settings: Settings::default(),
        }
    }

    /// How many of its jobs run at once: [`DEFAULT_LIMIT`] unless set, 1 to [`MAX_LIMIT`].
    pub fn limit(mut self, limit: usize) -> Self {
        self.settings.limit = limit;
        self
    }

    /// How many of its jobs queue, beyond those that run: [`DEFAULT_CAPACITY`] unless set, 1 to [`MAX_CAPACITY`].
    /// One more is refused at once.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.settings.capacity = capacity;
        self
    }

    /// The priority of its jobs unless they set their own: 1 (last) to 100 (first), [`priority::DEFAULT`] unless set.
    pub fn priority(mut self, priority: u8) -> Self {
        self.settings.priority = priority;
        self
    }

    /// How long its jobs may run unless they set their own: from their start, without limit unless set. Rounded up to
    /// the runtime's timer, a millisecond.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// How long a running job may go on after it was asked to end, before its future is dropped:
    /// [`DEFAULT_CANCEL_GRACE`] unless set; zero drops it at once. A timeout has no grace.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = grace;
        self
    }

    /// Opens the lane, or returns the one of this name that is open with equal settings.
    ///
    /// # Errors
    ///
    /// Where a setting is out of range, where the scheduler has a lane of this name with other settings, and after the
    /// scheduler's shutdown.
    pub fn open(self) -> Result<Lane, LaneError> {
        self.check()?;
        Ok(Lane {
            shared: self.scheduler.open(self.name, self.settings)?,
            scheduler: Arc::clone(self.scheduler),
        })
    }

    fn check(&self) -> Result<(), LaneError> {
        let lane = || Box::from(self.name);
        let Settings {
            limit,
            capacity,
            priority,
            timeout,
            ..
        } = self.settings;
        if self.name.is_empty() {
            return Err(LaneError::EmptyName);
        }
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(LaneError::InvalidLimit {
                lane: lane(),
                given: limit,
            });
        }
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return Err(LaneError::InvalidCapacity {
                lane: lane(),
                given: capacity,
            });
        }
        if !priority::ALL.contains(&priority) {
            return Err(LaneError::InvalidPriority {
                lane: lane(),
                given: priority,
            });
        }
        if timeout == Some(Duration::ZERO) {
            return Err(LaneError::ZeroTimeout { lane: lane() });
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit: DEFAULT_LIMIT,
            capacity: DEFAULT_CAPACITY,
            priority: priority::DEFAULT,
            timeout: None,
            cancel_grace: DEFAULT_CANCEL_GRACE,
        }
    }
}

/// The words of an error: `limit 40, capacity 10000, ...`.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            capacity,
            priority,
            timeout,
            cancel_grace,
        } = self;
        write!(f, "limit {limit}, capacity {capacity}, priority {priority}")?;
        match timeout {
            Some(timeout) => write!(f, ", timeout {timeout:?}")?,
            None => write!(f, ", no timeout")?,
        }
        write!(f, ", cancel grace {cancel_grace:?}")
    }
}
