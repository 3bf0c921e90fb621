//! Room in a lane's queue: what is taken, what is promised, and who waits for it, first come first served. Pure state,
//! kept under the lane's lock; the tests put it under a model checker.
//!
//! 1. Taken and promised room together never exceed the capacity, in count or in bytes.
//! 2. Nobody overtakes a submitter that waits in line, and whoever is in line is there because there is no room for
//!    the first of them.
//! 3. A promise is kept until it is used or given up; given up, it goes to the next in line.

use std::collections::BTreeMap;

/// Places in the queue, or those of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) jobs: usize,
    pub(crate) bytes: usize,
}

impl Load {
    pub(crate) fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Self) {
        self.jobs -= other.jobs;
        self.bytes -= other.bytes;
    }

    /// Whether this and `other` fit into `capacity`.
    fn fits(self, other: Self, capacity: Self) -> bool {
        self.jobs.saturating_add(other.jobs) <= capacity.jobs
            && self.bytes.saturating_add(other.bytes) <= capacity.bytes
    }
}

/// A place in the line.
pub(crate) type Ticket = u64;

#[derive(Debug)]
struct Waiter<W> {
    load: Load,
    waker: W,
}

#[derive(Debug)]
pub(crate) struct Room<W> {
    capacity: Load,
    /// By queued jobs.
    taken: Load,
    /// To submitters that stood in line and have not submitted yet.
    promised: Load,
    line: BTreeMap<Ticket, Waiter<W>>,
    next_ticket: Ticket,
}

impl<W> Room<W> {
    pub(crate) fn new(capacity: Load) -> Self {
        Self {
            capacity,
            taken: Load::default(),
            promised: Load::default(),
            line: BTreeMap::new(),
            next_ticket: 0,
        }
    }

    pub(crate) fn taken(&self) -> Load {
        self.taken
    }

    /// How many stand in line.
    pub(crate) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Whether a job of this load could ever be queued.
    pub(crate) fn can_hold(&self, load: Load) -> bool {
        Load::default().fits(load, self.capacity)
    }

    fn has(&self, load: Load) -> bool {
        let mut used = self.taken;
        used.add(self.promised);
        used.fits(load, self.capacity)
    }

    /// Takes room for a job at once; false where there is none, or where others wait for it.
    pub(crate) fn take(&mut self, load: Load) -> bool {
        let free = self.line.is_empty() && self.has(load);
        if free {
            self.taken.add(load);
        }
        free
    }

    /// Takes room whether there is some or not, for a job that was accepted long ago.
    pub(crate) fn take_anyway(&mut self, load: Load) {
        self.taken.add(load);
    }

    /// A queued job has left.
    pub(crate) fn leave(&mut self, load: Load) {
        self.taken.remove(load);
    }

    /// Promises room at once where nobody waits, and returns the waker; else gives a place at the end of the line.
    pub(crate) fn wait(&mut self, load: Load, waker: W) -> Result<W, Ticket> {
        if self.line.is_empty() && self.has(load) {
            self.promised.add(load);
            return Ok(waker);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.line.insert(ticket, Waiter { load, waker });
        Err(ticket)
    }

    /// Whether room has been promised to this ticket: then returns the waker. If not, it takes the place of the one
    /// before, which is the error.
    pub(crate) fn check(&mut self, ticket: Ticket, waker: W) -> Result<W, W> {
        match self.line.get_mut(&ticket) {
            None => Ok(waker),
            Some(waiter) => Err(std::mem::replace(&mut waiter.waker, waker)),
        }
    }

    /// A waiter goes away: out of the line, or with a promise that it does not use.
    pub(crate) fn give_up(&mut self, ticket: Ticket, load: Load) -> Option<W> {
        if let Some(waiter) = self.line.remove(&ticket) {
            return Some(waiter.waker);
        }
        self.promised.remove(load);
        None
    }

    /// Takes room before those in line: what was promised to the caller, and has just been returned by it.
    pub(crate) fn take_first(&mut self, load: Load) -> bool {
        let free = self.has(load);
        if free {
            self.taken.add(load);
        }
        free
    }

    /// Takes room for a job in the place of queued ones, who leave where that is enough. Those in line lose nothing by
    /// it, since the room was not free.
    pub(crate) fn take_in_place_of(&mut self, leaving: Load, load: Load) -> bool {
        if leaving == Load::default() {
            return false;
        }
        self.taken.remove(leaving);
        let free = self.has(load);
        self.taken.add(if free { load } else { leaving });
        free
    }

    /// A promise is given back, to be used in this very moment or not at all.
    pub(crate) fn return_promise(&mut self, promised: Load) {
        self.promised.remove(promised);
    }

    /// Promises what room there is to the first in line. To be called until it returns `None` whenever room may have
    /// come free: each call lets one more go on.
    pub(crate) fn promise_next(&mut self) -> Option<W> {
        let load = self.line.first_key_value()?.1.load;
        if !self.has(load) {
            return None;
        }
        let (_, waiter) = self.line.pop_first()?;
        self.promised.add(load);
        Some(waiter.waker)
    }

    /// The wakers of all in line, who keep their place: to see that the lane has closed.
    pub(crate) fn wakers(&self) -> impl Iterator<Item = &W> {
        self.line.values().map(|waiter| &waiter.waker)
    }
}
