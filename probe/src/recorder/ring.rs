//! A ring of segments, each written by one thread at a time.
//!
//! ```text
//!  thread A --writes--> [segment 4]      claimed in turn; the one that comes
//!  thread B --writes--> [segment 5]      round again is the oldest, and its
//!                       [segment 6] <--  next events are forgotten
//! ```
//!
//! A thread claims a segment, fills it from front to back, and claims the next. So threads share nothing but a counter
//! once in a segment, and a thread that records little keeps its own events longer. Nothing waits: a segment that
//! another thread still writes is passed over, and where all that were looked at are, the event is not recorded.

use std::{
    cell::Cell,
    cmp::Reverse,
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
            fence,
        },
    },
};

/// An event: when, the job, the two halves of its trace, and what happened.
pub(super) type Words = [u64; 5];

/// An event where it is kept.
type Place = [AtomicU64; 5];

/// Segments that are looked at for one that nobody writes.
const LOOKS: usize = 16;

pub(super) struct Ring {
    segments: Box<[Segment]>,
    /// Events in a segment.
    capacity: usize,
    /// Claims so far: the next one looks at this segment first.
    claims: AtomicUsize,
    /// The time of the newest event that was forgotten; 0 for none.
    forgotten_ns: AtomicU64,
}

/// Events of one thread, made at the first claim.
// Aligned so that threads that write neighbouring segments share no cache line.
#[derive(Default)]
#[repr(align(128))]
struct Segment {
    /// A thread writes it.
    taken: AtomicBool,
    /// Changes whenever the events so far are forgotten: who reads finds out that way.
    life: AtomicU64,
    /// Events in it.
    len: AtomicUsize,
    places: OnceLock<Box<[Place]>>,
}

impl Ring {
    /// One of `bytes` at most, in segments of `segment_bytes`, none of which takes memory yet.
    pub(super) fn new(bytes: usize, segment_bytes: usize) -> Self {
        let segments = bytes / segment_bytes;
        Self {
            segments: (0..segments).map(|_| Segment::default()).collect(),
            capacity: segment_bytes / size_of::<Place>(),
            claims: AtomicUsize::new(0),
            forgotten_ns: AtomicU64::new(0),
        }
    }

    /// The segment claimed longest ago that no thread writes, emptied.
    #[cold]
    fn claim(&'static self) -> Option<(&'static Segment, &'static [Place])> {
        for _ in 0..LOOKS.min(self.segments.len()) {
            let claim = self.claims.fetch_add(1, Relaxed);
            let segment = &self.segments[claim % self.segments.len()];
            if segment.taken.swap(true, Acquire) {
                continue;
            }
            let made = || (0..self.capacity).map(|_| Place::default()).collect();
            let places = segment.places.get_or_init(made);
            if let Some(last) = segment.len.load(Relaxed).checked_sub(1) {
                let last_ns = places[last][0].load(Relaxed);
                self.forgotten_ns.fetch_max(last_ns, Relaxed);
            }
            segment.len.store(0, Relaxed);
            segment.life.fetch_add(1, Release);
            // A reader that sees any word written from here on also sees the new life.
            fence(Release);
            return Some((segment, places));
        }
        None
    }

    /// Copies the newest events that the ring holds: at least `most`, where there are so many, and a few hundred more. May
    /// be called while threads record.
    pub(super) fn read(&self, most: usize) -> Held {
        let mut segments: Vec<_> = self.segments.iter().filter_map(Segment::last).collect();
        segments.sort_unstable_by_key(|(_, last_ns)| Reverse(*last_ns));
        let mut held = Held::default();
        for (segment, last_ns) in segments {
            if held.events.len() < most {
                segment.copy(&mut held.events);
            } else {
                held.left_out += segment.len.load(Relaxed);
                held.since_ns = held.since_ns.max(last_ns);
            }
        }
        held.since_ns = held.since_ns.max(self.forgotten_ns.load(Relaxed));
        held
    }
}

impl Ring {
    /// Copies the events that are wanted, of the segments in which something happened at `since_ns` or later. In no
    /// order. About 2 ns for each event that is looked at.
    pub(super) fn select(&self, since_ns: u64, wanted: impl Fn(&Words) -> bool) -> Vec<Words> {
        let mut events = Vec::new();
        for segment in &self.segments {
            if segment
                .last()
                .is_some_and(|(_, last_ns)| last_ns >= since_ns)
            {
                segment.copy_if(&wanted, &mut events);
            }
        }
        events
    }

    /// The time of the newest event that was forgotten; 0 for none.
    pub(super) fn forgotten_ns(&self) -> u64 {
        self.forgotten_ns.load(Relaxed)
    }
}

/// What a ring held.
#[derive(Default)]
pub(super) struct Held {
    /// In no order.
    pub(super) events: Vec<Words>,
    /// No newer event than this is missing.
    pub(super) since_ns: u64,
    /// Events that were there and are not among these.
    pub(super) left_out: usize,
}

impl Segment {
    /// The segment and the time of its last event, where it has one.
    fn last(&self) -> Option<(&Self, u64)> {
        let last = self.len.load(Acquire).checked_sub(1)?;
        Some((self, self.places.get()?[last][0].load(Relaxed)))
    }

    /// Copies its events, unless they are forgotten meanwhile, as the oldest are.
    fn copy(&self, out: &mut Vec<Words>) {
        self.copy_if(|_| true, out);
    }

    /// The same for those of its events that are wanted.
    fn copy_if(&self, wanted: impl Fn(&Words) -> bool, out: &mut Vec<Words>) {
        let life = self.life.load(Acquire);
        let len = self.len.load(Acquire);
        let Some(places) = self.places.get() else {
            return;
        };
        let before = out.len();
        for [at_ns, job, trace_high, trace_low, what] in &places[..len] {
            let words = [
                at_ns.load(Relaxed),
                job.load(Relaxed),
                trace_high.load(Relaxed),
                trace_low.load(Relaxed),
                what.load(Relaxed),
            ];
            if wanted(&words) {
                out.push(words);
            }
        }
        fence(Acquire);
        if self.life.load(Relaxed) != life {
            out.truncate(before);
        }
    }
}

/// A thread's place in a ring.
pub(super) struct Writer {
    segment: Cell<Option<&'static Segment>>,
    places: Cell<&'static [Place]>,
    len: Cell<usize>,
}

impl Writer {
    pub(super) const fn new() -> Self {
        Self {
            segment: Cell::new(None),
            places: Cell::new(&[]),
            len: Cell::new(0),
        }
    }

    /// Records an event; false where there was no room.
    #[inline]
    pub(super) fn push(&self, ring: &'static Ring, event: Words) -> bool {
        let mut at = self.len.get();
        if at == self.places.get().len() {
            self.claim(ring);
            at = 0;
        }
        let (Some(segment), Some(place)) = (self.segment.get(), self.places.get().get(at)) else {
            return false;
        };
        for (word, value) in place.iter().zip(event) {
            word.store(value, Relaxed);
        }
        self.len.set(at + 1);
        segment.len.store(at + 1, Release);
        true
    }

    #[cold]
    fn claim(&self, ring: &'static Ring) {
        self.release();
        if let Some((segment, places)) = ring.claim() {
            self.segment.set(Some(segment));
            self.places.set(places);
        }
    }

    fn release(&self) {
        if let Some(segment) = self.segment.take() {
            segment.taken.store(false, Release);
        }
        self.places.set(&[]);
        self.len.set(0);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    /// Five events a segment.
    fn ring(segments: usize) -> &'static Ring {
        Box::leak(Box::new(Ring::new(segments * 200, 200)))
    }

    fn event(at_ns: u64) -> Words {
        [at_ns, at_ns + 1, at_ns + 2, at_ns + 3, at_ns + 4]
    }

    fn times(ring: &Ring) -> (Vec<u64>, u64) {
        let Held {
            events,
            since_ns: since,
            ..
        } = ring.read(usize::MAX);
        assert!(events.iter().all(|words| *words == event(words[0])));
        let mut times: Vec<_> = events.iter().map(|words| words[0]).collect();
        times.sort_unstable();
        (times, since)
    }

    #[test]
    fn the_oldest_are_forgotten_and_the_receipt_says_since_when() {
        let ring = ring(3);
        let writer = Writer::new();
        (1..=15).for_each(|at| assert!(writer.push(ring, event(at))));
        assert_eq!(times(ring), ((1..=15).collect(), 0));
        assert!(writer.push(ring, event(16)));
        assert_eq!(times(ring), ((6..=16).collect(), 5));
    }

    #[test]
    fn a_bounded_read_takes_the_newest_segments() {
        let ring = ring(3);
        let writer = Writer::new();
        (1..=15).for_each(|at| assert!(writer.push(ring, event(at))));
        let held = ring.read(6);
        assert_eq!(
            (held.events.len(), held.left_out, held.since_ns),
            (10, 5, 5)
        );
    }

    #[test]
    fn a_thread_that_records_little_keeps_its_events() {
        let ring = ring(3);
        let (rare, busy) = (Writer::new(), Writer::new());
        assert!(rare.push(ring, event(1)));
        (2..=100).for_each(|at| assert!(busy.push(ring, event(at))));
        let (kept, _) = times(ring);
        assert_eq!((kept[0], kept[1] > 90), (1, true), "{kept:?}");
        // What an ended thread has left is the next to go.
        drop(rare);
        (101..=120).for_each(|at| assert!(busy.push(ring, event(at))));
        assert!(times(ring).0[0] > 100);
    }

    #[test]
    fn with_more_threads_than_segments_some_are_turned_away() {
        let ring = ring(2);
        let writers = [Writer::new(), Writer::new(), Writer::new()];
        let recorded = writers.each_ref().map(|writer| writer.push(ring, event(1)));
        assert_eq!(recorded, [true, true, false]);
        assert!(!Writer::new().push(self::ring(0), event(1)), "switched off");
    }

    /// Each event that a reader gets is one that was written, whole, whatever the writers do meanwhile.
    #[test]
    fn readers_see_whole_events_while_threads_write() {
        const WRITERS: u64 = 4;
        const EACH: u64 = 200_000;
        let ring = ring(12);
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|number| {
                    scope.spawn(move || {
                        let writer = Writer::new();
                        for at in 0..EACH {
                            assert!(writer.push(ring, event(at * WRITERS + number + 1)));
                        }
                    })
                })
                .collect();
            let mut reads = 0;
            while reads == 0 || writers.iter().any(|writer| !writer.is_finished()) {
                let (times, _) = times(ring);
                let mut seen = HashSet::new();
                for at in times {
                    assert!(seen.insert(at), "twice: {at}");
                }
                reads += 1;
            }
            println!("{reads} reads while {WRITERS} threads wrote {EACH} events each");
        });
        let (kept, since) = times(ring);
        assert!(kept.len() as u64 >= 8 * 5 && since > 0);
    }
}
