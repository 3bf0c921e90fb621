//! The states of a job and the one table of legal moves between them.

use std::{
    fmt,
    sync::atomic::{
        AtomicU8,
        Ordering::{Acquire, Release},
    },
};

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum JobState {
    /// Made, and not yet accepted by its lane.
    Pending,
    /// Waits for a time or for other jobs; holds no place in the ready queue.
    Waiting,
    /// Queued: it runs as soon as its lane has room.
    Ready,
    /// Begun, and not ended.
    Running,
    /// Ended with `Ok`.
    Success,
    /// Ended with an error, by a panic or by its timeout.
    Failed,
    /// Ended by cancellation, or because the scheduler or its runtime went away.
    Cancelled,
}

use JobState::{Cancelled, Failed, Pending, Ready, Running, Success, Waiting};

/// From each state (in the order of the enum), the states that may follow.
const MOVES: [(JobState, &[JobState]); 7] = [
    (Pending, &[Waiting, Ready, Cancelled]),
    (Waiting, &[Ready, Cancelled]),
    (Ready, &[Running, Cancelled]),
    // Back to waiting for a retry, back to ready when preempted.
    (Running, &[Success, Failed, Cancelled, Waiting, Ready]),
    (Success, &[]),
    (Failed, &[]),
    (Cancelled, &[]),
];

impl JobState {
    /// Whether nothing follows.
    #[must_use]
    pub const fn is_end(self) -> bool {
        MOVES[self as usize].1.is_empty()
    }

    /// The word for it, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pending => "pending",
            Waiting => "waiting",
            Ready => "ready",
            Running => "running",
            Success => "success",
            Failed => "failed",
            Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A legal move. Each is a constant, so that one which the table forbids does not compile.
#[derive(Clone, Copy)]
pub(crate) struct Move {
    from: JobState,
    to: JobState,
}

/// The lane takes the job.
pub(crate) const ACCEPT: Move = Move::new(Pending, Ready);
/// Its attempt failed, and there is another.
pub(crate) const TRY_AGAIN: Move = Move::new(Running, Waiting);
/// It is stopped for a job of a higher priority, and queued again.
pub(crate) const PREEMPT: Move = Move::new(Running, Ready);
/// A runner takes it out of the queue.
pub(crate) const START: Move = Move::new(Ready, Running);
/// It is cancelled while queued.
pub(crate) const WITHDRAW: Move = Move::new(Ready, Cancelled);
/// The lane takes the job, which waits: for a time, for others, or spilled from a full queue.
pub(crate) const PUT_ASIDE: Move = Move::new(Pending, Waiting);
/// It has waited long enough, or comes back from where it was spilled to.
pub(crate) const COME_BACK: Move = Move::new(Waiting, Ready);
/// It is cancelled while it waits.
pub(crate) const GIVE_UP: Move = Move::new(Waiting, Cancelled);
/// It ends with `Ok`.
pub(crate) const SUCCEED: Move = Move::new(Running, Success);
/// It ends without success by its own doing.
pub(crate) const FAIL: Move = Move::new(Running, Failed);
/// It is stopped from outside while running.
pub(crate) const STOP: Move = Move::new(Running, Cancelled);

impl Move {
    const fn new(from: JobState, to: JobState) -> Self {
        let legal = MOVES[from as usize].1;
        let mut index = 0;
        while index < legal.len() && legal[index] as u8 != to as u8 {
            index += 1;
        }
        assert!(index < legal.len(), "the table of moves forbids this one");
        Self { from, to }
    }

    pub(crate) const fn states(self) -> (JobState, JobState) {
        (self.from, self.to)
    }
}

/// The state of one job. Moved only under the lane's lock; read at any time.
pub(crate) struct StateCell(AtomicU8);

impl StateCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(Pending as u8))
    }

    pub(crate) fn get(&self) -> JobState {
        // Pairs with the release in `apply`: who sees an end also sees what was written before it.
        MOVES[usize::from(self.0.load(Acquire))].0
    }

    pub(crate) fn apply(&self, step: Move) {
        debug_assert_eq!(self.get(), step.from);
        self.0.store(step.to as u8, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_one_row_for_each_state_in_order() {
        for (index, (state, _)) in MOVES.iter().enumerate() {
            assert_eq!(*state as usize, index);
        }
    }

    /// F5: the table; that no other move can be written is [`Move::new`]'s, when it compiles.
    #[test]
    fn every_state_reaches_an_end_and_ends_are_final() {
        fn reaches_end(state: JobState, depth: usize) -> bool {
            let follow = MOVES[state as usize].1;
            state.is_end() || depth > 0 && follow.iter().any(|next| reaches_end(*next, depth - 1))
        }
        for (state, _) in MOVES {
            assert!(reaches_end(state, 3), "{state}");
        }
        assert_eq!(MOVES.iter().filter(|(state, _)| state.is_end()).count(), 3);
    }
}
