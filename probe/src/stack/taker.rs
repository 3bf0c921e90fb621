//! Copy, unwind, and say in which files the addresses lie.

use std::ops::Range;

use ax_wire::stack::{Frame, Module, StackEnd};
use parking_lot::Mutex;

pub(crate) use super::capture::own_stack;
use super::{
    Taken, Untaken,
    capture::{Copied, Signal},
    modules::Modules,
    unwind::{Cache, Unwinder, unwind},
};
use crate::threads;

/// What is made at the first stack and kept.
pub(super) struct Taker {
    signal: Signal,
    modules: Modules,
    unwinder: Unwinder,
    cache: Cache,
}

/// One stack at a time in the process: there is one place to copy to. Never locked by a signal's handler.
pub(super) static TAKER: Mutex<Option<Taker>> = Mutex::new(None);

/// Takes the stack of the thread `tid`, which lies in `stack`, by one signal to it.
///
/// Blocks for as long as the thread takes to get a CPU, 25 ms at most, and some 100 us besides (5 ms the first time).
pub(crate) fn take(tid: u32, stack: &Range<u64>) -> Result<Taken, Untaken> {
    let mut taker = TAKER.lock();
    let taker = match &mut *taker {
        Some(taker) => taker,
        none => none.insert(Taker::new()?),
    };
    taker.take(tid, stack)
}

impl Taker {
    fn new() -> Result<Self, Untaken> {
        Ok(Self {
            modules: Modules::open().ok_or(Untaken::NoProc)?,
            signal: Signal::install().ok_or(Untaken::NoSignal)?,
            unwinder: Unwinder::new(),
            cache: Cache::new(),
        })
    }

    fn take(&mut self, tid: u32, stack: &Range<u64>) -> Result<Taken, Untaken> {
        let blocked = threads::blocked_signals(tid).ok_or(Untaken::Gone)?;
        if blocked & self.signal.mask() != 0 {
            return Err(Untaken::Blocked);
        }
        let copied = self.signal.copy_stack(tid, stack)?;
        // Only now: what the thread has loaded before it stood here is in the list.
        self.modules
            .refresh(&mut self.unwinder)
            .ok_or(Untaken::NoProc)?;
        Ok(self.unwind(&copied))
    }

    fn unwind(&mut self, copied: &Copied) -> Taken {
        let mut indexes = Vec::new();
        let mut frames = Vec::new();
        let end = unwind(copied, &self.unwinder, &mut self.cache, |address| {
            let found = self.modules.find(address);
            let module = found.map(|(index, _)| place_of(index, &mut indexes));
            frames.push(Frame {
                module,
                offset: found.map_or(address, |(_, offset)| offset),
                functions: Vec::new(),
            });
            // Outside all files there are no tables, and what looks like a frame beyond is a guess.
            module.is_some()
        });
        let modules: Vec<Module> = indexes
            .into_iter()
            .map(|index| self.modules.module(index))
            .collect();
        Taken {
            at_ns: copied.at_ns(),
            held_up_ns: copied.held_up_ns(),
            end: if frames.len() == 1 && copied.is_cut() {
                StackEnd::Cut
            } else {
                end
            },
            modules,
            frames,
        }
    }
}

/// Where `index` stands in the list, at whose end it is put if it is new.
fn place_of(index: usize, indexes: &mut Vec<usize>) -> u32 {
    let place = indexes.iter().position(|known| *known == index);
    place.unwrap_or_else(|| {
        indexes.push(index);
        indexes.len() - 1
    }) as u32
}
