//! Changing a lane while it runs: its limit, and whether it begins anything.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ax_probe::clock::duration_ns;

use super::{After, Core, Shared};
use crate::{
    LaneError,
    lane::MAX_LIMIT,
    limit::{Boost, LimitMove, LimitReason, MAX_BOOST_PERCENT, MOVES_KEPT},
};

impl Shared {
    pub(crate) fn resize(self: &Arc<Self>, limit: usize, now_ns: u64) -> Result<(), LaneError> {
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(LaneError::InvalidLimit {
                lane: self.name.clone(),
                given: limit,
            });
        }
        self.steer(|core| {
            if let Some(adaptive) = core.limit.adaptive()
                && !adaptive.allows(limit)
            {
                return Err(LaneError::OutsideBounds {
                    lane: self.name.clone(),
                    given: limit,
                    floor: adaptive.floor,
                    ceiling: adaptive.ceiling,
                });
            }
            let limit = core.limit.resize(limit, LimitReason::Resized, now_ns);
            self.set_limit(core, limit);
            Ok(())
        })
    }

    /// Returns the limit for that time.
    pub(crate) fn boost(
        self: &Arc<Self>,
        percent: u8,
        lasting: Duration,
        now_ns: u64,
    ) -> Result<usize, LaneError> {
        let boost = Boost {
            percent,
            until_ns: now_ns.saturating_add(duration_ns(lasting)),
        };
        self.steer(|core| {
            let base = core.limit.base();
            let in_range = (1..=MAX_BOOST_PERCENT).contains(&percent) && !lasting.is_zero();
            if !in_range || boost.of(base) == base {
                return Err(LaneError::InvalidBoost {
                    lane: self.name.clone(),
                    percent,
                    lasting,
                    limit: base,
                });
            }
            let limit = core.limit.begin_boost(boost, now_ns);
            self.set_limit(core, limit);
            Ok(limit)
        })
    }

    pub(crate) fn set_paused(self: &Arc<Self>, paused: bool) {
        self.steer(|core| {
            core.slots.set_paused(paused);
            self.counts.paused.store(paused, Relaxed);
        });
    }

    pub(crate) fn limit_moves(&self, now_ns: u64) -> Vec<LimitMove> {
        self.core.lock().limit.last_moves(MOVES_KEPT, now_ns)
    }

    /// Holds from the next start on.
    pub(super) fn set_limit(&self, core: &mut Core, limit: usize) {
        core.slots.set_limit(limit);
        self.counts.limit.store(limit as u64, Relaxed);
    }

    /// Changes the lane, and wakes a runner where jobs may begin by that.
    fn steer<R>(self: &Arc<Self>, change: impl FnOnce(&mut Core) -> R) -> R {
        let (result, wake) = {
            let mut core = self.core.lock();
            let result = change(&mut core);
            let queued = core.room.taken().jobs > 0;
            let wake = queued.then(|| Self::next_wake(&mut core, 0)).flatten();
            (result, wake)
        };
        self.finish(After {
            wake,
            ..After::default()
        });
        result
    }
}
