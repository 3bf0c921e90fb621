//! What a lane is opened with, and which of it makes no sense.

use std::{fmt, time::Duration};

use crate::{
    LaneError, Retry, RetryBudget,
    lane::{
        DEFAULT_CANCEL_GRACE, DEFAULT_CAPACITY, DEFAULT_HIGH_WATER_PERCENT, DEFAULT_LIMIT,
        DEFAULT_SLOW_PERCENT, MAX_CAPACITY, MAX_LIMIT,
    },
    limit::AdaptiveLimit,
    order::Ageing,
    policy::FullPolicy,
    priority,
    room::Load,
};

/// What a lane was opened with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) limit: usize,
    pub(crate) adaptive: Option<AdaptiveLimit>,
    pub(crate) capacity: usize,
    pub(crate) capacity_bytes: Option<usize>,
    pub(crate) high_water_percent: u8,
    pub(crate) when_full: FullPolicy,
    pub(crate) priority: u8,
    pub(crate) ageing: Option<Ageing>,
    pub(crate) turn_every: Option<u32>,
    pub(crate) preempt: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel_grace: Duration,
    /// Of single types; few, so found by walking.
    pub(crate) type_timeouts: Vec<(Box<str>, Duration)>,
    /// Percent of its timeout after which a job is slow; 0 for never.
    pub(crate) slow_percent: u8,
    pub(crate) retry: Option<Retry>,
    pub(crate) retry_budget: Option<RetryBudget>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit: DEFAULT_LIMIT,
            adaptive: None,
            capacity: DEFAULT_CAPACITY,
            capacity_bytes: None,
            high_water_percent: DEFAULT_HIGH_WATER_PERCENT,
            when_full: FullPolicy::Reject,
            priority: priority::DEFAULT,
            ageing: None,
            turn_every: None,
            preempt: false,
            timeout: None,
            cancel_grace: DEFAULT_CANCEL_GRACE,
            type_timeouts: Vec::new(),
            slow_percent: DEFAULT_SLOW_PERCENT,
            retry: None,
            retry_budget: None,
        }
    }
}

impl Settings {
    /// The bounds of the queue.
    pub(crate) fn room(&self) -> Load {
        Load {
            jobs: self.capacity,
            bytes: self.capacity_bytes.unwrap_or(usize::MAX),
        }
    }

    pub(crate) fn timeout_of_type(&self, job_type: &str) -> Option<Duration> {
        let of_type = self.type_timeouts.iter();
        let mut found = of_type.filter(|(name, _)| **name == *job_type);
        found.next().map(|(_, timeout)| *timeout)
    }

    /// How long a job with this timeout runs until it is slow; `u64::MAX` for never.
    pub(crate) fn slow_after_ns(&self, timeout_ns: u64) -> u64 {
        if timeout_ns == u64::MAX || self.slow_percent == 0 {
            return u64::MAX;
        }
        timeout_ns / 100 * u64::from(self.slow_percent)
    }

    /// Refuses what is out of range.
    pub(crate) fn check(&self, name: &str) -> Result<(), LaneError> {
        let lane = || Box::from(name);
        if name.is_empty() {
            return Err(LaneError::EmptyName);
        }
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return Err(LaneError::InvalidLimit {
                lane: lane(),
                given: self.limit,
            });
        }
        self.check_adaptive(name)?;
        if !(1..=MAX_CAPACITY).contains(&self.capacity) {
            return Err(LaneError::InvalidCapacity {
                lane: lane(),
                given: self.capacity,
            });
        }
        if self.capacity_bytes == Some(0) {
            return Err(LaneError::ZeroBytes { lane: lane() });
        }
        if !(1..=100).contains(&self.high_water_percent) {
            return Err(LaneError::InvalidHighWater {
                lane: lane(),
                given: self.high_water_percent,
            });
        }
        if !priority::ALL.contains(&self.priority) {
            return Err(LaneError::InvalidPriority {
                lane: lane(),
                given: self.priority,
            });
        }
        if self.ageing.is_some_and(|ageing| !ageing.is_valid()) {
            return Err(LaneError::InvalidAgeing { lane: lane() });
        }
        if self.turn_every.is_some_and(|every| every < 2) {
            return Err(LaneError::InvalidTurn { lane: lane() });
        }
        if self.preempt && (self.ageing.is_some() || self.turn_every.is_some()) {
            return Err(LaneError::PreemptsTheAged { lane: lane() });
        }
        let mut of_types = self.type_timeouts.iter().map(|(_, timeout)| timeout);
        if self.timeout == Some(Duration::ZERO) || of_types.any(Duration::is_zero) {
            return Err(LaneError::ZeroTimeout { lane: lane() });
        }
        if self.slow_percent > 100 {
            return Err(LaneError::InvalidSlowShare {
                lane: lane(),
                given: self.slow_percent,
            });
        }
        Ok(())
    }

    fn check_adaptive(&self, name: &str) -> Result<(), LaneError> {
        let Some(adaptive) = self.adaptive else {
            return Ok(());
        };
        let AdaptiveLimit {
            floor,
            ceiling,
            target,
        } = adaptive;
        let lane = Box::from(name);
        if floor == 0 || floor > ceiling || ceiling > MAX_LIMIT || target.is_zero() {
            return Err(LaneError::InvalidAdaptive {
                lane,
                floor,
                ceiling,
                target,
            });
        }
        if !adaptive.allows(self.limit) {
            return Err(LaneError::OutsideBounds {
                lane,
                given: self.limit,
                floor,
                ceiling,
            });
        }
        Ok(())
    }
}

/// The words of an error: `limit 40, capacity 10000, ...`. What is not set is left out.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limit,
            adaptive,
            capacity,
            capacity_bytes,
            high_water_percent,
            when_full,
            priority,
            ageing,
            turn_every,
            preempt,
            timeout,
            cancel_grace,
            type_timeouts,
            slow_percent,
            retry,
            retry_budget,
        } = self;
        write!(f, "limit {limit}")?;
        if let Some(AdaptiveLimit {
            floor,
            ceiling,
            target,
        }) = adaptive
        {
            write!(f, " (adaptive, {floor} to {ceiling} for {target:?})")?;
        }
        write!(f, ", capacity {capacity}")?;
        if let Some(bytes) = capacity_bytes {
            write!(f, " and {bytes} bytes")?;
        }
        if *high_water_percent != DEFAULT_HIGH_WATER_PERCENT {
            write!(f, ", high water {high_water_percent} %")?;
        }
        if *when_full != FullPolicy::Reject {
            write!(f, ", when full {when_full}")?;
        }
        write!(f, ", priority {priority}")?;
        if let Some(ageing) = ageing {
            write!(f, ", {ageing}")?;
        }
        if let Some(every) = turn_every {
            write!(f, ", a turn every {every}")?;
        }
        if *preempt {
            write!(f, ", preempts")?;
        }
        match timeout {
            Some(timeout) => write!(f, ", timeout {timeout:?}")?,
            None => write!(f, ", no timeout")?,
        }
        write!(f, ", cancel grace {cancel_grace:?}")?;
        for (job_type, timeout) in type_timeouts {
            write!(f, ", timeout of `{job_type}` {timeout:?}")?;
        }
        if *slow_percent != DEFAULT_SLOW_PERCENT {
            write!(f, ", slow at {slow_percent} %")?;
        }
        if let Some(retry) = retry {
            write!(f, ", {retry:?}")?;
        }
        if let Some(budget) = retry_budget {
            write!(f, ", {budget:?}")?;
        }
        Ok(())
    }
}
