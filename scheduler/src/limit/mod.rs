//! The limit of a lane: how many of its jobs may run at once, who moves it, and why.
//!
//! A limit is set when the lane is opened ([`LaneBuilder::limit`](crate::LaneBuilder::limit)) and may be set anew while
//! it runs ([`Lane::resize`](crate::Lane::resize)), move by itself with the latency of the jobs ([`AdaptiveLimit`]), or
//! rise for a while ([`Lane::boost`](crate::Lane::boost)). Every move is kept, with its reason, in a list of the last
//! [`MOVES_KEPT`].
//!
//! From the moment that a limit falls no job begins while as many run as the new limit allows, or more; jobs that
//! run already are let be.
//!
//! What to set it to: [`of_capacity`], [`of_rate`] and [`at_knee`] reckon it; [`Lane::advise_limit`](crate::Lane::advise_limit)
//! reckons it from what the lane has measured.

mod adaptive;
mod advice;
mod boost;

use std::collections::VecDeque;

pub use adaptive::AdaptiveLimit;
pub use advice::{LaneMark, LimitAdvice, SweepStep, at_knee, of_capacity, of_rate};
pub use ax_wire::sample::{LimitMove, LimitReason};
pub use boost::MAX_BOOST_PERCENT;

pub(crate) use adaptive::{Adaptive, Run};
pub(crate) use boost::Boost;

/// Moves that a lane remembers: a day of one boost every half hour, or some minutes of an adaptive limit that swings.
pub const MOVES_KEPT: usize = 64;

/// What the limit of a lane is made of.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Without boost.
    base: usize,
    adaptive: Option<Adaptive>,
    boost: Option<Boost>,
    moves: VecDeque<LimitMove>,
    next_seq: u64,
}

impl Limit {
    pub(crate) fn new(base: usize, adaptive: Option<AdaptiveLimit>) -> Self {
        Self {
            base,
            adaptive: adaptive.map(Adaptive::new),
            boost: None,
            moves: VecDeque::new(),
            next_seq: 1,
        }
    }

    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// The limit now. A boost whose time is over ends here.
    pub(crate) fn effective(&mut self, now_ns: u64) -> usize {
        let Some(boost) = &self.boost else {
            return self.base;
        };
        let boosted = boost.of(self.base);
        if now_ns < boost.until_ns {
            return boosted;
        }
        let ended_ns = boost.until_ns;
        self.boost = None;
        self.record(ended_ns, boosted, self.base, LimitReason::BoostEnded);
        self.base
    }

    /// The limit now, as a look that changes nothing.
    pub(crate) fn peek(&self, now_ns: u64) -> usize {
        match &self.boost {
            Some(boost) if now_ns < boost.until_ns => boost.of(self.base),
            _ => self.base,
        }
    }

    /// Sets the base and says the limit that follows.
    pub(crate) fn resize(&mut self, base: usize, reason: LimitReason, now_ns: u64) -> usize {
        let from = self.effective(now_ns);
        self.base = base;
        let to = self.peek(now_ns);
        self.record(now_ns, from, to, reason);
        to
    }

    /// Begins a boost, in the place of one that still holds.
    pub(crate) fn begin_boost(&mut self, boost: Boost, now_ns: u64) -> usize {
        let from = self.effective(now_ns);
        self.boost = Some(boost);
        let to = self.peek(now_ns);
        self.record(now_ns, from, to, LimitReason::Boost);
        to
    }

    /// A job has ended; the limit that follows, where it moves by that.
    pub(crate) fn job_ended(&mut self, run: &Run, now_ns: u64) -> Option<usize> {
        let (base, reason) = self.adaptive.as_mut()?.job_ended(self.base, run, now_ns)?;
        Some(self.resize(base, reason, now_ns))
    }

    pub(crate) fn adaptive(&self) -> Option<AdaptiveLimit> {
        self.adaptive.as_ref().map(Adaptive::settings)
    }

    fn record(&mut self, at_mono_ns: u64, from: usize, to: usize, reason: LimitReason) {
        if from == to {
            return;
        }
        if self.moves.len() == MOVES_KEPT {
            self.moves.pop_front();
        }
        self.moves.push_back(LimitMove {
            seq: self.next_seq,
            at_mono_ns,
            from: from as u64,
            to: to as u64,
            reason,
        });
        self.next_seq += 1;
    }

    /// The last `count` moves, oldest first.
    pub(crate) fn last_moves(&self, count: usize) -> Vec<LimitMove> {
        let skipped = self.moves.len().saturating_sub(count);
        self.moves.iter().skip(skipped).copied().collect()
    }
}
