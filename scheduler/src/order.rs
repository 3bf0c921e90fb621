//! What the order of a lane's queue depends on besides priority: age, and guaranteed turns.

use std::{fmt, time::Duration};

use crate::priority;

/// A queued job's priority rises while it waits, so that nothing waits for ever behind what is more urgent.
///
/// The rise is reckoned when a runner picks its next job; the priority that the job was given, and shows, stays. A job
/// above the ceiling keeps its own priority. Among equals the one that has waited longest goes first. Picking costs a
/// look at the oldest job of each priority that is in use (100 ns where all 100 are), whatever the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    levels: u8,
    per: Duration,
    ceiling: u8,
    steps: bool,
}

impl Ageing {
    /// How long a job is queued for each level of [`Ageing::step`] unless told otherwise.
    pub const DEFAULT_STEP: Duration = Duration::from_secs(10);

    /// The time in which [`Ageing::slope`] rises by one level unless told otherwise.
    pub const DEFAULT_SLOPE: Duration = Duration::from_mins(10);

    /// Where [`Ageing::slope`] ends unless told otherwise: below the urgent band.
    pub const DEFAULT_CEILING: u8 = 90;

    /// One level up each time that the job has been queued for `every` more: [`Ageing::DEFAULT_STEP`] is the usual
    /// choice. Up to 100 unless [`Ageing::ceiling`] says less.
    #[must_use]
    pub const fn step(every: Duration) -> Self {
        Self {
            levels: 1,
            per: every,
            ceiling: *priority::ALL.end(),
            steps: true,
        }
    }

    /// A steady rise of `levels` in `per`, fractions counted: 1 in [`Ageing::DEFAULT_SLOPE`] is the usual choice. Up to
    /// [`Ageing::DEFAULT_CEILING`] unless [`Ageing::ceiling`] says otherwise.
    #[must_use]
    pub const fn slope(levels: u8, per: Duration) -> Self {
        Self {
            levels,
            per,
            ceiling: Self::DEFAULT_CEILING,
            steps: false,
        }
    }

    /// The highest priority that age alone leads to, 1 to 100.
    #[must_use]
    pub const fn ceiling(mut self, ceiling: u8) -> Self {
        self.ceiling = ceiling;
        self
    }

    /// Whether it can be: it rises, in some time, to a priority that exists.
    pub(crate) fn is_valid(&self) -> bool {
        self.levels > 0 && !self.per.is_zero() && priority::ALL.contains(&self.ceiling)
    }

    /// What a job of this priority counts as after `age_ns` in the queue.
    pub(crate) fn rank(&self, priority: u8, age_ns: u64) -> f64 {
        let periods = age_ns as f64 / self.per.as_nanos() as f64;
        let periods = if self.steps { periods.floor() } else { periods };
        let own = f64::from(priority);
        let aged = own + periods * f64::from(self.levels);
        own.max(aged.min(f64::from(self.ceiling)))
    }
}

impl fmt::Display for Ageing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            levels,
            per,
            ceiling,
            steps,
        } = self;
        let how = if *steps { "in steps" } else { "steadily" };
        write!(f, "ageing by {levels} per {per:?} {how} up to {ceiling}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// F31, F32: the defaults, the whole levels of the one and the fractions of the other, the ceilings.
    #[test]
    fn both_modes_rise_as_told_and_end_at_their_ceiling() {
        // In thousandths of a level.
        let rank = |ageing: &Ageing, priority, age_s: u64| {
            (ageing.rank(priority, age_s * S) * 1_000.0).round() as u64
        };
        let step = Ageing::step(Ageing::DEFAULT_STEP);
        let ranks = [0, 9, 10, 19, 25].map(|age_s| rank(&step, 30, age_s));
        assert_eq!(ranks, [30_000, 30_000, 31_000, 31_000, 32_000]);
        assert_eq!(rank(&step, 30, 10_000), 100_000);

        let slope = Ageing::slope(1, Ageing::DEFAULT_SLOPE);
        let ranks = [0, 300, 600, 900].map(|age_s| rank(&slope, 30, age_s));
        assert_eq!(ranks, [30_000, 30_500, 31_000, 31_500]);
        assert_eq!(rank(&slope, 89, 100_000), 90_000);
        assert_eq!(rank(&slope, 95, 100_000), 95_000);
    }
}
