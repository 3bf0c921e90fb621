//! The stalls of a service: those going on, and the latest that ended.

use std::collections::VecDeque;

use ax_wire::{
    event::{Stall, StallKind},
    sample::{Sample, WorkerState},
    stack::ThreadStack,
};

/// Stalls kept at most.
const MAX_STALLS: usize = 64;

/// A stall as it was last told.
#[derive(Clone, Debug)]
pub(crate) struct TrackedStall {
    pub(crate) stall: Stall,
    pub(crate) ongoing: bool,
    /// The newest stack that was taken of it, with or without names.
    pub(crate) stack: Option<Box<ThreadStack>>,
    /// The last sample showed its worker moving, but no word of its end has come.
    seen_moving: bool,
}

impl TrackedStall {
    /// Whether it is a stall proper, and not one of its look-alikes.
    pub(crate) fn is_proper(&self) -> bool {
        self.stall.kind == StallKind::Stall
    }
}

/// The stalls of one service, in the order in which they were first told.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    known: VecDeque<TrackedStall>,
}

impl Stalls {
    pub(crate) fn began(&mut self, stall: Stall) {
        self.tell(stall, true);
    }

    pub(crate) fn ended(&mut self, stall: Stall) {
        self.tell(stall, false);
    }

    fn tell(&mut self, stall: Stall, ongoing: bool) {
        let mut told = TrackedStall {
            stall,
            ongoing,
            stack: None,
            seen_moving: false,
        };
        let mut known = self.known.iter_mut();
        if let Some(known) = known.find(|known| known.stall.id == told.stall.id) {
            told.stack = known.stack.take();
            *known = told;
            return;
        }
        if self.known.len() >= MAX_STALLS {
            let oldest_ended = self.known.iter().position(|known| !known.ongoing);
            self.known.remove(oldest_ended.unwrap_or(0));
        }
        self.known.push_back(told);
    }

    /// A stack of one of them, or the same stack with names. One of a stall that is not known is not kept.
    pub(crate) fn saw_stack(&mut self, stack: &ThreadStack) {
        let mut known = self.known.iter_mut();
        if let Some(known) = known.find(|known| known.stall.id == stack.stall) {
            known.stack = Some(Box::new(stack.clone()));
        }
    }

    /// Brings the stalls going on up to a sample: they are as old as the sample says. One whose worker is shown moving or
    /// gone has ended, and the word of it, with the exact length, is on its way; where a second sample has come before
    /// it, the word was lost, and the stall is over with the length that was last known.
    pub(crate) fn settle(&mut self, sample: &Sample) {
        for known in self.known.iter_mut().filter(|known| known.ongoing) {
            let stall = &mut known.stall;
            let runtime = sample.runtimes.iter().find(|r| r.info.id == stall.runtime);
            let goes_on = match (runtime, stall.worker) {
                (None, _) => false,
                // Outside the workers only the event can say.
                (Some(_), None) => true,
                (Some(runtime), Some(index)) => {
                    let mut workers = runtime.workers.iter();
                    workers.any(|w| w.index == index && w.state == WorkerState::Stalled)
                }
            };
            if goes_on {
                let age_ns = sample.at_mono_ns.saturating_sub(stall.began_mono_ns);
                stall.length_ns = stall.length_ns.max(age_ns);
                known.seen_moving = false;
            } else if known.seen_moving {
                known.ongoing = false;
            } else {
                known.seen_moving = true;
            }
        }
    }

    /// Those going on first, then the ended ones; newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &TrackedStall> {
        let of = |ongoing| move |known: &&TrackedStall| known.ongoing == ongoing;
        let newest = || self.known.iter().rev();
        newest().filter(of(true)).chain(newest().filter(of(false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_wire::RuntimeId;

    fn stall(id: u64) -> Stall {
        Stall {
            id,
            runtime: RuntimeId(1),
            worker: None,
            tid: None,
            kind: StallKind::Stall,
            began_mono_ns: id,
            length_ns: 50_000_000,
            run_queue_ns: None,
            on_cpu_ns: None,
            task: None,
            thread: None,
        }
    }

    fn ids(stalls: &Stalls) -> Vec<u64> {
        stalls.newest_first().map(|known| known.stall.id).collect()
    }

    #[test]
    fn those_going_on_come_first_and_outlive_the_ended_ones() {
        let mut stalls = Stalls::default();
        stalls.began(stall(1));
        stalls.began(stall(2));
        stalls.ended(stall(2));
        stalls.began(stall(3));
        assert_eq!(ids(&stalls), [3, 1, 2]);
        for id in 4..200 {
            stalls.ended(stall(id));
        }
        let ids = ids(&stalls);
        assert_eq!(ids.len(), MAX_STALLS);
        assert_eq!(&ids[..3], [3, 1, 199]);
    }
}
