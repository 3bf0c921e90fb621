//! The flight recorder: the last transitions of jobs, long polls and stalls, kept in memory until something goes wrong.
//!
//! Two rings: what goes well (submitted, ready, started, succeeded), and what is notable (every other end, refusals,
//! retries, polls of 5 ms and more, stalls), which happy traffic cannot push out. Both keep the newest: the bytes are
//! the bound, and the time that they cover is what comes of it. A job that goes well is three events of 40 bytes, and two
//! where it ends in its first poll; with [`DEFAULT_RECORDER_BYTES`] the recorder covers the last 3 s at 10,000 jobs a
//! second, 30 s at 1,000, and in either case the last 13,000 notable events. A dump says since when it is complete.
//!
//! Of a trace that [is sampled](ax_wire::trace::is_sampled) each poll is recorded too, so that one trace in some can be
//! looked at in full.
//!
//! Recording takes neither a lock nor a system call; only the memory itself is made by the recording threads, 16 KiB at
//! a time until all of it is there.

mod look;
mod ring;
#[cfg(test)]
mod tests;

use std::sync::{
    OnceLock,
    atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

use ax_wire::{
    JobId, TraceId,
    event::Stall,
    recorder::{RecordedEvent, RecordedKind, RecordedName, RecorderDump},
    trace::is_sampled,
};
use parking_lot::Mutex;

pub(crate) use self::look::{between, nothing_of, traces};
use self::ring::{Held, Ring, Words, Writer};
use crate::{
    clock,
    slot::{LONG_POLL_NS, Subject},
    task_type,
};

/// Memory of the recorder unless set. Twice as much covers twice the time, and is copied by a dump in twice
/// the time. It is taken as it is filled, and then kept.
pub const DEFAULT_RECORDER_BYTES: usize = 4 * 1024 * 1024;

/// The share of the memory that is for what is notable: one in so many bytes.
const NOTABLE_SHARE: usize = 8;

/// What a thread claims at a time. Smaller, more threads can record at once, and claim more often.
const SEGMENT_BYTES: usize = 16 * 1024;

/// The same for what is notable: with the default 128 threads at once, a hundred events at a time.
const NOTABLE_SEGMENT_BYTES: usize = 4 * 1024;

/// The recorder of the process, of the size that the first installed probe asked for.
static RECORDER: OnceLock<Recorder> = OnceLock::new();

thread_local! {
    static WRITERS: Writers = const {
        Writers {
            usual: Writer::new(),
            notable: Writer::new(),
        }
    };
}

struct Writers {
    usual: Writer,
    notable: Writer,
}

struct Recorder {
    on: AtomicBool,
    usual: Ring,
    notable: Ring,
    unrecorded: AtomicU64,
    /// When it was switched on for the first time.
    began_ns: u64,
    /// Held by who reads it.
    reading: Mutex<()>,
}

/// Why there is no dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    /// No probe was ever installed, or with a recorder of 0 bytes.
    #[error("there is no flight recorder in this process")]
    Off,
    /// One dump at a time: each copies all that is held.
    #[error("another dump of the flight recorder is being taken; try again")]
    Busy,
}

impl Recorder {
    fn new(bytes: usize) -> Self {
        let notable = bytes / NOTABLE_SHARE;
        Self {
            on: AtomicBool::new(false),
            usual: Ring::new(bytes - notable, SEGMENT_BYTES),
            notable: Ring::new(notable, NOTABLE_SEGMENT_BYTES),
            unrecorded: AtomicU64::new(0),
            began_ns: clock::now_ns(),
            reading: Mutex::new(()),
        }
    }

    fn dump(&self, most: usize) -> Result<RecorderDump, DumpError> {
        let _reading = self.reading.try_lock().ok_or(DumpError::Busy)?;
        let at_mono_ns = clock::now_ns();
        let mut usual = self.usual.read(most);
        let mut notable = self.notable.read(most);
        // Half of the room at most is for what is notable, unless there is more.
        let room = (most / 2).max(most.saturating_sub(usual.events.len()));
        keep_newest(&mut notable, room);
        keep_newest(&mut usual, most - notable.events.len());
        let mut events = usual.events;
        events.append(&mut notable.events);
        events.sort_unstable_by_key(|words| words[0]);
        Ok(RecorderDump {
            at_mono_ns,
            complete_since_mono_ns: usual.since_ns.max(self.began_ns),
            notable_since_mono_ns: notable.since_ns.max(self.began_ns),
            events: events.into_iter().map(decode).collect(),
            names: names(),
            left_out: (notable.left_out + usual.left_out) as u64,
            unrecorded_total: self.unrecorded.load(Relaxed),
        })
    }
}

/// Leaves the newest `most`.
fn keep_newest(held: &mut Held, most: usize) {
    let excess = held.events.len().saturating_sub(most);
    if excess > 0 {
        let (_, newest, _) = held
            .events
            .select_nth_unstable_by_key(excess - 1, |words| words[0]);
        held.since_ns = held.since_ns.max(newest[0]);
        held.left_out += excess;
        held.events.drain(..excess);
    }
}

fn names() -> Vec<RecordedName> {
    let all = task_type::all().into_iter();
    all.map(|task| RecordedName {
        name: task.name().to_owned(),
        kind: task.kind(),
        lane: task.lane().map(str::to_owned),
    })
    .collect()
}

/// Switches the recorder on, which the first call makes. Nothing is recorded where `bytes` is too little for a segment.
pub(crate) fn start(bytes: usize) {
    if bytes > 0 {
        let recorder = RECORDER.get_or_init(|| Recorder::new(bytes));
        recorder.on.store(true, Release);
    }
}

/// Nothing is recorded from now on; what is held can still be read.
pub(crate) fn stop() {
    if let Some(recorder) = RECORDER.get() {
        recorder.on.store(false, Release);
    }
}

/// Records that something happened to a job at `at_ns`; `length_ns` is what [`RecordedKind`] says. About 10 ns, 1 where
/// no probe is installed.
#[inline]
pub fn record(kind: RecordedKind, of: &Subject, at_ns: u64, length_ns: Option<u64>) {
    if let Some(recorder) = RECORDER.get().filter(|of| of.on.load(Relaxed)) {
        let event = encode(
            kind,
            Some(of.task.index()),
            of.job,
            of.trace,
            at_ns,
            length_ns,
        );
        recorder.push(kind, event);
    }
}

/// Records that a job was accepted, or queued: `kind` is `Submitted` or `Ready`. `parent` is the job inside which it was
/// submitted. About 10 ns.
#[inline]
pub fn record_begin(kind: RecordedKind, of: &Subject, at_ns: u64, parent: Option<JobId>) {
    if let Some(recorder) = RECORDER.get().filter(|of| of.on.load(Relaxed)) {
        let mut event = encode(kind, Some(of.task.index()), of.job, of.trace, at_ns, None);
        let parent = parent.filter(|parent| parent.0 <= MAX_PARENT);
        event[4] |= parent.map_or(0, |parent| parent.0) << PARENT_SHIFT;
        recorder.push(kind, event);
    }
}

/// Records a poll that has just ended, where it was a long one or its trace is sampled.
#[inline]
pub fn polled(of: &Subject, poll_ns: u64, now_ns: u64) {
    if poll_ns >= LONG_POLL_NS {
        record(RecordedKind::LongPoll, of, now_ns, Some(poll_ns));
    } else if of.job.is_some() && of.trace.is_some_and(is_sampled) {
        record(RecordedKind::Poll, of, now_ns, Some(poll_ns));
    }
}

/// By the watchdog.
pub(crate) fn record_stall(kind: RecordedKind, stall: &Stall, at_ns: u64) {
    let Some(recorder) = RECORDER.get().filter(|of| of.on.load(Relaxed)) else {
        return;
    };
    let task = stall.task.as_ref();
    let known = task.and_then(|task| task_type::find(task.kind, task.lane.as_deref(), &task.name));
    let event = encode(
        kind,
        known.map(task_type::TaskType::index),
        task.and_then(|task| task.job),
        task.and_then(|task| task.trace),
        at_ns,
        Some(stall.length_ns),
    );
    recorder.push(kind, event);
}

/// What the recorder holds, at most `most` events. Some milliseconds, on the calling thread; recording goes on.
///
/// # Errors
///
/// [`DumpError`].
pub(crate) fn dump(most: usize) -> Result<RecorderDump, DumpError> {
    RECORDER.get().ok_or(DumpError::Off)?.dump(most)
}

impl Recorder {
    #[inline]
    fn push(&'static self, kind: RecordedKind, event: Words) {
        let recorded = WRITERS.try_with(|writers| {
            if kind.is_notable() {
                writers.notable.push(&self.notable, event)
            } else {
                writers.usual.push(&self.usual, event)
            }
        });
        // A thread that ends has no writers any more.
        if recorded != Ok(true) {
            self.unrecorded.fetch_add(1, Relaxed);
        }
    }
}

/// The kinds by their number in an event.
const KINDS: [RecordedKind; 14] = [
    RecordedKind::Submitted,
    RecordedKind::Ready,
    RecordedKind::Started,
    RecordedKind::Succeeded,
    RecordedKind::Failed,
    RecordedKind::Panicked,
    RecordedKind::TimedOut,
    RecordedKind::Cancelled,
    RecordedKind::Rejected,
    RecordedKind::Retried,
    RecordedKind::LongPoll,
    RecordedKind::StallBegan,
    RecordedKind::StallEnded,
    RecordedKind::Poll,
];

/// Lengths are kept in 32 bits.
const LENGTH_UNIT_NS: u64 = 1_000;
const NO_LENGTH: u32 = u32::MAX;

/// Where the last word of a `Submitted` or `Ready`, which have no length, has the parent.
const PARENT_SHIFT: u32 = 24;

/// The largest parent that has room there: ten thousand jobs a second for three years.
const MAX_PARENT: u64 = u64::MAX >> PARENT_SHIFT;

/// Whether events of this kind have a parent in the place of a length.
const fn has_parent(kind: RecordedKind) -> bool {
    matches!(kind, RecordedKind::Submitted | RecordedKind::Ready)
}

/// The last word: the kind in its lowest byte, the type and one in the next two bytes, the length in the upper half.
#[inline]
fn encode(
    kind: RecordedKind,
    of: Option<u16>,
    job: Option<JobId>,
    trace: Option<TraceId>,
    at_ns: u64,
    length_ns: Option<u64>,
) -> Words {
    let trace = trace.map_or(0, TraceId::get);
    let of = of.map_or(0, |index| u64::from(index) + 1);
    let longest = u64::from(NO_LENGTH - 1);
    let length = match length_ns {
        _ if has_parent(kind) => 0,
        Some(ns) => (ns / LENGTH_UNIT_NS).min(longest),
        None => u64::from(NO_LENGTH),
    };
    [
        at_ns,
        job.map_or(0, |job| job.0),
        (trace >> 64) as u64,
        trace as u64,
        length << 32 | of << 8 | kind as u64,
    ]
}

fn decode([at_mono_ns, job, trace_high, trace_low, what]: Words) -> RecordedEvent {
    let kind = KINDS.get(usize::from(what as u8));
    let kind = kind.copied().unwrap_or(RecordedKind::Other);
    let of = (what >> 8) as u16;
    let (mut length, mut parent) = ((what >> 32) as u32, 0);
    if has_parent(kind) {
        (length, parent) = (NO_LENGTH, what >> PARENT_SHIFT);
    }
    RecordedEvent {
        at_mono_ns,
        kind,
        of: of.checked_sub(1).map(u32::from),
        job: (job != 0).then_some(JobId(job)),
        trace: TraceId::new(u128::from(trace_high) << 64 | u128::from(trace_low)),
        length_ns: (length != NO_LENGTH).then_some(u64::from(length) * LENGTH_UNIT_NS),
        parent: (parent != 0).then_some(JobId(parent)),
    }
}
