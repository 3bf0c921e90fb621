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
        if let Some(ended) = self.ended_boost(now_ns) {
            self.boost = None;
            self.record(ended);
        }
        self.peek(now_ns)
    }

    /// The end of a boost whose time is over, and which is still to be recorded.
    fn ended_boost(&self, now_ns: u64) -> Option<LimitMove> {
        let boost = self.boost.as_ref()?;
        (boost.until_ns <= now_ns).then(|| LimitMove {
            seq: self.next_seq,
            at_mono_ns: boost.until_ns,
            from: boost.of(self.base) as u64,
            to: self.base as u64,
            reason: LimitReason::BoostEnded,
        })
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
        self.moved(now_ns, from, reason)
    }

    /// Begins a boost, in the place of one that still holds.
    pub(crate) fn begin_boost(&mut self, boost: Boost, now_ns: u64) -> usize {
        let from = self.effective(now_ns);
        self.boost = Some(boost);
        self.moved(now_ns, from, LimitReason::Boost)
    }

    /// A job has ended; the limit that follows, where it moves by that.
    pub(crate) fn job_ended(&mut self, run: &Run, now_ns: u64) -> Option<usize> {
        let (base, reason) = self.adaptive.as_mut()?.job_ended(self.base, run, now_ns)?;
        Some(self.resize(base, reason, now_ns))
    }

    pub(crate) fn adaptive(&self) -> Option<AdaptiveLimit> {
        self.adaptive.as_ref().map(Adaptive::settings)
    }

    /// Records that the limit was `from` and is what it is now, which it says.
    fn moved(&mut self, now_ns: u64, from: usize, reason: LimitReason) -> usize {
        let to = self.peek(now_ns);
        self.record(LimitMove {
            seq: self.next_seq,
            at_mono_ns: now_ns,
            from: from as u64,
            to: to as u64,
            reason,
        });
        to
    }

    fn record(&mut self, step: LimitMove) {
        if step.from == step.to {
            return;
        }
        if self.moves.len() == MOVES_KEPT {
            self.moves.pop_front();
        }
        self.moves.push_back(step);
        self.next_seq += 1;
    }

    /// The last `count` moves, oldest first. In a lane at rest nobody has recorded yet that a boost is over: a look tells
    /// it all the same, as it will be recorded.
    pub(crate) fn last_moves(&self, count: usize, now_ns: u64) -> Vec<LimitMove> {
        let ended = self.ended_boost(now_ns);
        let ended = ended.filter(|step| step.from != step.to);
        let skipped = (self.moves.len() + usize::from(ended.is_some())).saturating_sub(count);
        let moves = self.moves.iter().copied().chain(ended);
        moves.skip(skipped).collect()
    }
}
