//! The ready queue of a lane: one FIFO for each priority and a map of those that are not empty.
//!
//! Push and pop are O(1) whatever the backlog: the highest set bit of the map is the next priority.

use std::collections::VecDeque;

use crate::priority;

/// Jobs in one chunk of a FIFO (16 KiB of pointers).
const CHUNK: usize = 1024;

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

    fn pop(&mut self) -> Option<T> {
        let first = self.chunks.front_mut()?;
        let item = first.pop_front();
        // The last chunk stays, so that a queue that fills and empties does not allocate.
        if first.is_empty() && self.chunks.len() > 1 {
            self.chunks.pop_front();
        }
        item
    }

    fn is_empty(&self) -> bool {
        self.chunks.front().is_none_or(VecDeque::is_empty)
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
    len: usize,
}

impl<T> Buckets<T> {
    pub(crate) fn new() -> Self {
        Self {
            filled: 0,
            fifos: (0..=*priority::ALL.end()).map(|_| Fifo::new()).collect(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends to the FIFO of a priority from [`priority::ALL`].
    pub(crate) fn push(&mut self, priority: u8, item: T) {
        self.fifos[usize::from(priority)].push(item);
        self.filled |= 1 << priority;
        self.len += 1;
    }

    /// The oldest of the highest priority.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let priority = self.filled.checked_ilog2()?;
        let fifo = &mut self.fifos[priority as usize];
        let item = fifo.pop();
        if fifo.is_empty() {
            self.filled &= !(1 << priority);
        }
        self.len -= 1;
        item
    }

    /// In the order of [`Self::pop`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.fifos.iter().rev().flat_map(Fifo::iter)
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
            self.filled |= u128::from(!fifo.is_empty()) << priority;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_first_and_fifo_among_equals_across_chunks() {
        let mut buckets = Buckets::new();
        let count = 5 * CHUNK;
        for number in 0..count {
            buckets.push([1, 50, 100][number % 3], number);
        }
        let order: Vec<_> = buckets.iter().copied().collect();
        let mut expected: Vec<_> = (0..count).collect();
        expected.sort_by_key(|number| (2 - number % 3, *number));
        assert_eq!(order, expected);
        let popped: Vec<_> = std::iter::from_fn(|| buckets.pop()).collect();
        assert_eq!(popped, expected);
        assert_eq!(buckets.len(), 0);
    }

    #[test]
    fn what_is_not_kept_leaves_no_trace() {
        let mut buckets = Buckets::new();
        for number in 0..3 * CHUNK {
            buckets.push(if number < 10 { 90 } else { 10 }, number);
        }
        buckets.retain(|number| number % CHUNK == 11);
        assert_eq!(buckets.len(), 3);
        let levels = buckets.levels().map(|(priority, len, _)| (priority, len));
        assert_eq!(levels.collect::<Vec<_>>(), [(10, 3)]);
        let left: Vec<_> = std::iter::from_fn(|| buckets.pop()).collect();
        assert_eq!(left, [11, CHUNK + 11, 2 * CHUNK + 11]);
    }
}
