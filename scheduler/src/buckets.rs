//! The ready queue of a lane: one FIFO for each priority and a map of those that are not empty.
//!
//! Push and pop are O(1) whatever the backlog. Without ageing the highest set bit of the map is the next priority. With
//! it, the next is the one whose oldest job ranks highest now: one FIFO holds jobs of one priority in the order of
//! their age, so its head outranks all behind it, and 100 heads are looked at instead of a million jobs. Nothing is
//! moved from FIFO to FIFO as time goes by.
//!
//! The queue holds tombstones too (jobs that were cancelled since), which the caller's `live` tells apart.

use std::collections::VecDeque;

use crate::{order::Ageing, priority};

/// Jobs in one chunk of a FIFO (16 KiB of pointers).
const CHUNK: usize = 1024;

/// Priorities, and the unused 0.
const FIFOS: usize = *priority::ALL.end() as usize + 1;

/// Something that knows since when it has been ready.
pub(crate) trait Queued {
    /// Does not change while it is queued.
    fn ready_ns(&self) -> u64;
}

/// A queue that grows by chunks: growing a single buffer would move megabytes under the lane's lock.
struct Fifo<T> {
    chunks: VecDeque<VecDeque<T>>,
}

impl<T> Fifo<T> {
    const fn new() -> Self {
        Self {
            chunks: VecDeque::new(),
        }
    }

    fn push(&mut self, item: T) {
        match self.chunks.back_mut() {
            Some(last) if last.len() < CHUNK => last.push_back(item),
            full => {
                // The first chunk grows as needed: most queues stay short. The next ones are made whole.
                let room = if full.is_some() { CHUNK } else { 0 };
                let mut chunk = VecDeque::with_capacity(room);
                chunk.push_back(item);
                self.chunks.push_back(chunk);
            }
        }
    }

    fn push_front(&mut self, item: T) {
        match self.chunks.front_mut() {
            Some(first) if first.len() < CHUNK => first.push_front(item),
            _ => self.chunks.push_front(VecDeque::from([item])),
        }
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.chunks.front_mut()?;
        let item = first.pop_front();
        // The last chunk stays, so that a queue that fills and empties does not allocate.
        if first.is_empty() && self.chunks.len() > 1 {
            self.chunks.pop_front();
        }
        item
    }

    fn pop_back(&mut self) -> Option<T> {
        let last = self.chunks.back_mut()?;
        let item = last.pop_back();
        if last.is_empty() && self.chunks.len() > 1 {
            self.chunks.pop_back();
        }
        item
    }

    fn front(&self) -> Option<&T> {
        self.chunks.front()?.front()
    }

    fn len(&self) -> usize {
        self.chunks.iter().map(VecDeque::len).sum()
    }

    fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flatten()
    }

    fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        for chunk in &mut self.chunks {
            chunk.retain(&keep);
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
    }
}

/// Queues for the priorities 1 to 100.
pub(crate) struct Buckets<T> {
    /// Bit `p` is set while the FIFO of priority `p` is not empty.
    filled: u128,
    fifos: Box<[Fifo<T>]>,
    /// Since when the head of each FIFO has been ready: a look at all heads touches no job.
    heads_ns: Box<[u64; FIFOS]>,
    len: usize,
    ageing: Option<Ageing>,
    /// One start of so many goes to a lower priority, where one is queued.
    turn_every: Option<u32>,
    /// Starts in a row that passed over a lower priority.
    passed: u32,
}

impl<T: Queued> Buckets<T> {
    pub(crate) fn new(ageing: Option<Ageing>, turn_every: Option<u32>) -> Self {
        Self {
            filled: 0,
            fifos: (0..FIFOS).map(|_| Fifo::new()).collect(),
            heads_ns: Box::new([0; FIFOS]),
            len: 0,
            ageing,
            turn_every,
            passed: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends to the FIFO of a priority from [`priority::ALL`].
    pub(crate) fn push(&mut self, priority: u8, item: T) {
        if self.filled & (1 << priority) == 0 {
            self.filled |= 1 << priority;
            self.heads_ns[usize::from(priority)] = item.ready_ns();
        }
        self.fifos[usize::from(priority)].push(item);
        self.len += 1;
    }

    /// Puts before all others of its priority what was taken from there.
    pub(crate) fn push_front(&mut self, priority: u8, item: T) {
        self.filled |= 1 << priority;
        self.heads_ns[usize::from(priority)] = item.ready_ns();
        self.fifos[usize::from(priority)].push_front(item);
        self.len += 1;
    }

    /// The next that is live, by rank and turn; tombstones on the way are dropped.
    pub(crate) fn pop(&mut self, now_ns: u64, live: impl Fn(&T) -> bool) -> Option<T> {
        loop {
            let front = self.filled.checked_ilog2()? as u8;
            let others = self.filled & !(1 << front);
            let turn = self
                .turn_every
                .is_some_and(|every| self.passed + 1 >= every);
            let priority = match self.ageing {
                _ if turn && others != 0 => self.longest_waiting(others),
                Some(ageing) if others != 0 => self.highest_rank(ageing, now_ns),
                _ => front,
            };
            let item = self.take(priority, Fifo::pop)?;
            if !live(&item) {
                continue;
            }
            if priority != front {
                self.passed = 0;
            } else if others != 0 {
                self.passed = self.passed.saturating_add(1);
            }
            return Some(item);
        }
    }

    /// Takes out the newest of the lowest priority that is live and below `priority`.
    pub(crate) fn pop_lowest_below(
        &mut self,
        priority: u8,
        live: impl Fn(&T) -> bool,
    ) -> Option<T> {
        loop {
            let lowest = self.filled.trailing_zeros() as u8;
            if lowest >= priority {
                return None;
            }
            let item = self.take(lowest, Fifo::pop_back)?;
            if live(&item) {
                return Some(item);
            }
        }
    }

    fn take(&mut self, priority: u8, end: fn(&mut Fifo<T>) -> Option<T>) -> Option<T> {
        let fifo = &mut self.fifos[usize::from(priority)];
        let item = end(fifo)?;
        match fifo.front() {
            Some(head) => self.heads_ns[usize::from(priority)] = head.ready_ns(),
            None => self.filled &= !(1 << priority),
        }
        self.len -= 1;
        Some(item)
    }

    /// Of the priorities in the map, the one whose head has waited longest; the higher of equals.
    fn longest_waiting(&self, map: u128) -> u8 {
        let mut chosen = (0, u64::MAX);
        for priority in descending(map) {
            let head_ns = self.heads_ns[usize::from(priority)];
            if head_ns < chosen.1 {
                chosen = (priority, head_ns);
            }
        }
        chosen.0
    }

    /// The priority whose head ranks highest now; of equals the one that has waited longest.
    fn highest_rank(&self, ageing: Ageing, now_ns: u64) -> u8 {
        let mut chosen = (0, 0.0, u64::MAX);
        for priority in descending(self.filled) {
            let head_ns = self.heads_ns[usize::from(priority)];
            let rank = ageing.rank(priority, now_ns.saturating_sub(head_ns));
            if rank > chosen.1 || (rank >= chosen.1 && head_ns < chosen.2) {
                chosen = (priority, rank, head_ns);
            }
        }
        chosen.0
    }

    /// From the highest priority down, each in its own order, without regard to age and turns.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.fifos.iter().rev().flat_map(Fifo::iter)
    }

    /// Those of the priorities above this one.
    pub(crate) fn above(&self, priority: u8) -> impl Iterator<Item = &T> {
        self.fifos[usize::from(priority) + 1..]
            .iter()
            .flat_map(Fifo::iter)
    }

    /// Each priority that is not empty: the priority, since when its head has been ready, and its jobs in their order.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (u8, u64, impl Iterator<Item = &T>)> {
        descending(self.filled).map(|priority| {
            let at = usize::from(priority);
            (priority, self.heads_ns[at], self.fifos[at].iter())
        })
    }

    /// Each priority that is not empty, highest first: the priority, how many, and those in the order of their turn.
    pub(crate) fn levels(
        &self,
    ) -> impl Iterator<Item = (u8, usize, impl Iterator<Item = &T> + Clone)> {
        let filled = priority::ALL
            .rev()
            .filter(|priority| self.filled >> priority & 1 == 1);
        filled.map(|priority| {
            let fifo = &self.fifos[usize::from(priority)];
            (priority, fifo.len(), fifo.iter())
        })
    }

    /// Keeps only some, in O(n).
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.len = 0;
        self.filled = 0;
        for (priority, fifo) in self.fifos.iter_mut().enumerate() {
            fifo.retain(&keep);
            self.len += fifo.iter().count();
            if let Some(head) = fifo.front() {
                self.filled |= 1 << priority;
                self.heads_ns[priority] = head.ready_ns();
            }
        }
    }
}

/// The numbers of the set bits, the highest first.
fn descending(mut map: u128) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let highest = map.checked_ilog2()?;
        map &= !(1 << highest);
        Some(highest as u8)
    })
}

#[cfg(test)]
mod tests;
