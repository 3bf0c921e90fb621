//! What each thread is doing right now: a slot that its owner writes on every wrapped poll and the watchdog reads.
//!
//! A slot belongs to a *thread*, not to a task: one worker polls one wrapped future at a time (the innermost, when they
//! nest). The slot also carries the trace id that jobs and spawns inside the poll inherit.

use std::{
    cell::{Cell, OnceCell},
    collections::HashMap,
    marker::PhantomData,
    ops::Range,
    panic::Location,
    ptr,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
            fence,
        },
    },
};

use ax_wire::{
    JobId, RuntimeId, TraceId,
    sample::{CurrentPoll, TaskRef},
};
use parking_lot::Mutex;
use tokio::runtime;

use crate::{
    stack,
    task_type::{TaskType, place_text},
};

/// Most threads whose slots the watchdog reads, at about 150 bytes each. Threads beyond that work as ever, but their
/// polls have no name; they are counted.
pub const MAX_THREADS: usize = 1024;

/// From which length on a poll leaves its own length in the slot, where the watchdog finds it when it ends a stall.
/// Below any sensible stall threshold, and far above the polls of a healthy service, which pay nothing for it.
pub(crate) const LONG_POLL_NS: u64 = 5_000_000;

/// In [`Slot::worker`]: not a worker of a runtime.
const NO_WORKER: u32 = u32::MAX;

/// Whose poll it is.
#[derive(Clone, Copy)]
pub struct Subject {
    /// Its type.
    pub task: &'static TaskType,
    /// The job, where it is one.
    pub job: Option<JobId>,
    /// The trace that everything started inside inherits.
    pub trace: Option<TraceId>,
    /// Where it was started.
    pub place: &'static Location<'static>,
}

/// The state of one thread.
#[derive(Default)]
pub(crate) struct Slot {
    /// Kernel thread id.
    tid: AtomicU32,
    /// Where the thread's stack lies; 0 where that is unknown.
    stack_low: AtomicU64,
    stack_high: AtomicU64,
    /// Set when the thread has ended; the slot is then taken out of the list.
    gone: AtomicBool,
    /// [`RuntimeId`] of the runtime inside which the thread is, as a worker or not; 0 when none that the probe knows.
    runtime: AtomicU32,
    /// Worker index; [`NO_WORKER`] when none.
    worker: AtomicU32,
    /// Orders the threads that have claimed one worker (after `block_in_place` the index moves to another thread): the
    /// highest is the one that has it.
    claim: AtomicU64,
    /// Length of the latest poll that was at least [`LONG_POLL_NS`]; 0 when none was.
    long_poll_ns: AtomicU64,
    poll: PollWords,
}

/// A [`Subject`] and its poll's start, as words that can be read while the owner writes them.
///
/// A sequence lock whose sequence is the start time: the owner stores 0, then the subject, then the start; a reader
/// that finds the same start that is not 0 before and after has read one poll's subject.
#[derive(Default)]
struct PollWords {
    start_ns: AtomicU64,
    task: AtomicPtr<TaskType>,
    job: AtomicU64,
    trace_high: AtomicU64,
    trace_low: AtomicU64,
    place: AtomicPtr<Location<'static>>,
}

/// A copy of [`PollWords`].
#[derive(Clone, Copy)]
struct Words {
    start_ns: u64,
    task: *mut TaskType,
    job: u64,
    trace_high: u64,
    trace_low: u64,
    place: *mut Location<'static>,
}

impl PollWords {
    /// By the owner, or between the two looks of a reader.
    fn load(&self, start_ns: u64) -> Words {
        Words {
            start_ns,
            task: self.task.load(Relaxed),
            job: self.job.load(Relaxed),
            trace_high: self.trace_high.load(Relaxed),
            trace_low: self.trace_low.load(Relaxed),
            place: self.place.load(Relaxed),
        }
    }

    /// By the owner only.
    fn store(&self, words: Words) {
        self.start_ns.store(0, Relaxed);
        // A reader that sees any of the new words also sees the 0 before them.
        fence(Release);
        self.task.store(words.task, Relaxed);
        self.job.store(words.job, Relaxed);
        self.trace_high.store(words.trace_high, Relaxed);
        self.trace_low.store(words.trace_low, Relaxed);
        self.place.store(words.place, Relaxed);
        self.start_ns.store(words.start_ns, Release);
    }

    /// By any thread: the poll going on.
    fn read(&self) -> Option<Words> {
        let start_ns = self.start_ns.load(Acquire);
        let words = self.load(start_ns);
        fence(Acquire);
        (start_ns != 0 && self.start_ns.load(Relaxed) == start_ns).then_some(words)
    }
}

impl Words {
    #[expect(
        unsafe_code,
        reason = "a slot names its type and place by address, without counting references on each poll"
    )]
    fn subject(self) -> Option<Subject> {
        // SAFETY: `PollWords` is written only by `enter` (from the `&'static` fields of a `Subject`) and by restoring
        // what `enter` found, so each pointer is null or came from a `&'static`, whose target is never written.
        let (task, place) = unsafe { (self.task.as_ref()?, self.place.as_ref()?) };
        Some(Subject {
            task,
            job: (self.job != 0).then_some(JobId(self.job)),
            trace: self.trace(),
            place,
        })
    }

    fn trace(self) -> Option<TraceId> {
        TraceId::new(u128::from(self.trace_high) << 64 | u128::from(self.trace_low))
    }
}

/// A wrapped poll, as the watchdog sees it.
#[derive(Clone, Copy)]
pub(crate) struct PollInProgress {
    pub(crate) subject: Subject,
    pub(crate) start_ns: u64,
}

impl PollInProgress {
    pub(crate) fn task_ref(&self) -> TaskRef {
        let task = self.subject.task;
        TaskRef {
            name: task.name().to_owned(),
            kind: task.kind(),
            job: self.subject.job,
            lane: task.lane().map(str::to_owned),
            place: Some(place_text(self.subject.place)),
            trace: self.subject.trace,
        }
    }

    pub(crate) fn at(&self, now_ns: u64) -> CurrentPoll {
        CurrentPoll {
            task: self.task_ref(),
            age_ns: now_ns.saturating_sub(self.start_ns),
        }
    }
}

impl Slot {
    pub(crate) fn tid(&self) -> Option<u32> {
        Some(self.tid.load(Relaxed)).filter(|tid| *tid != 0)
    }

    /// Where the thread's stack lies.
    pub(crate) fn stack(&self) -> Option<Range<u64>> {
        let (low, high) = (self.stack_low.load(Relaxed), self.stack_high.load(Relaxed));
        (high != 0).then_some(low..high)
    }

    /// Which worker of which runtime the thread is, and how new that claim is.
    pub(crate) fn worker(&self) -> Option<(RuntimeId, u32, u64)> {
        let claim = self.claim.load(Acquire);
        let (runtime, worker) = (self.runtime.load(Relaxed), self.worker.load(Relaxed));
        (runtime != 0 && worker != NO_WORKER).then_some((RuntimeId(runtime), worker, claim))
    }

    /// The runtime inside which a thread polls that is none of its workers: the body of `block_on`.
    pub(crate) fn runtime_outside_workers(&self) -> Option<RuntimeId> {
        let runtime = self.runtime.load(Relaxed);
        (runtime != 0 && self.worker.load(Relaxed) == NO_WORKER).then_some(RuntimeId(runtime))
    }

    /// The length of the latest long poll.
    pub(crate) fn long_poll_ns(&self) -> Option<u64> {
        Some(self.long_poll_ns.load(Relaxed)).filter(|ns| *ns != 0)
    }

    pub(crate) fn poll_in_progress(&self) -> Option<PollInProgress> {
        let words = self.poll.read()?;
        Some(PollInProgress {
            subject: words.subject()?,
            start_ns: words.start_ns,
        })
    }

    /// Writes down which worker this thread is now.
    fn claim_worker(&self, worker: Option<usize>) {
        static CLAIMS: AtomicU64 = AtomicU64::new(1);
        let runtime = crate::runtime::current().map_or(0, |watched| watched.info.id.0);
        let index = worker.and_then(|index| u32::try_from(index).ok());
        self.runtime.store(runtime, Relaxed);
        self.worker.store(index.unwrap_or(NO_WORKER), Relaxed);
        self.claim.store(CLAIMS.fetch_add(1, Relaxed), Release);
    }
}

/// All slots that the watchdog reads. Locked by a thread's first wrapped poll, and by the watchdog and publisher for
/// as long as it takes to copy the list.
static ALL: OnceLock<Mutex<Vec<Arc<Slot>>>> = OnceLock::new();
static UNSEEN: AtomicU64 = AtomicU64::new(0);
static THREADS: AtomicUsize = AtomicUsize::new(0);

struct Local {
    slot: Arc<Slot>,
    /// Counts up from 0 over the threads of the process: spreads threads over shards.
    number: usize,
    /// What the slot was last told.
    claimed: Cell<Option<Claim>>,
}

/// What [`Slot::claim_worker`] writes down stays true as long as these two stay the same.
#[derive(Clone, Copy, PartialEq)]
struct Claim {
    worker: Option<usize>,
    /// Of the list of runtimes: a thread that began before its runtime was watched has to say it again.
    generation: usize,
}

impl Claim {
    #[inline]
    fn now() -> Self {
        Self {
            worker: runtime::worker_index(),
            generation: crate::runtime::generation(),
        }
    }
}

impl Local {
    fn write_claim(&self, claim: Claim) {
        self.claimed.set(Some(claim));
        self.slot.claim_worker(claim.worker);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.slot.gone.store(true, Relaxed);
    }
}

thread_local! {
    static LOCAL: OnceCell<Local> = const { OnceCell::new() };
}

fn new_local() -> Local {
    let slot = Arc::new(Slot::default());
    let tid = rustix::thread::gettid().as_raw_pid();
    slot.tid.store(tid.unsigned_abs(), Relaxed);
    slot.worker.store(NO_WORKER, Relaxed);
    if let Some(stack) = stack::own_stack() {
        slot.stack_low.store(stack.start, Relaxed);
        slot.stack_high.store(stack.end, Relaxed);
    }
    let mut all = ALL.get_or_init(Mutex::default).lock();
    all.retain(|slot| !slot.gone.load(Relaxed));
    if all.len() < MAX_THREADS {
        all.push(Arc::clone(&slot));
    } else {
        UNSEEN.fetch_add(1, Relaxed);
    }
    Local {
        slot,
        number: THREADS.fetch_add(1, Relaxed),
        claimed: Cell::new(None),
    }
}

/// Runs `f` on this thread's slot; `None` while the thread's locals are being destroyed.
fn with_local<R>(f: impl FnOnce(&Local) -> R) -> Option<R> {
    LOCAL.try_with(|cell| f(cell.get_or_init(new_local))).ok()
}

/// A number that spreads threads over shards.
pub(crate) fn thread_number() -> usize {
    with_local(|local| local.number).unwrap_or(0)
}

/// A copy of the list of slots, the ended threads left out.
pub(crate) fn all() -> Vec<Arc<Slot>> {
    let mut all = ALL.get_or_init(Mutex::default).lock();
    all.retain(|slot| !slot.gone.load(Relaxed));
    all.clone()
}

/// The slot of each worker whose thread the probe has met, with its claim.
pub(crate) type ByWorker<'a> = HashMap<(RuntimeId, u32), (u64, &'a Slot)>;

/// Sorts slots by the worker that their thread is. After `block_in_place` two threads say that they are one worker: the
/// one that said so last is.
pub(crate) fn by_worker(slots: &[Arc<Slot>]) -> ByWorker<'_> {
    let mut by_worker = ByWorker::new();
    for slot in slots {
        if let Some((runtime, worker, claim)) = slot.worker() {
            let found = by_worker.entry((runtime, worker)).or_insert((claim, slot));
            if found.0 < claim {
                *found = (claim, slot);
            }
        }
    }
    by_worker
}

/// For how long each job that is being polled has been.
pub(crate) fn poll_ages(slots: &[Arc<Slot>], now_ns: u64) -> HashMap<JobId, u64> {
    let polls = slots.iter().filter_map(|slot| slot.poll_in_progress());
    polls
        .filter_map(|poll| Some((poll.subject.job?, now_ns.saturating_sub(poll.start_ns))))
        .collect()
}

/// Threads that found [`MAX_THREADS`] slots taken.
pub(crate) fn unseen_total() -> u64 {
    UNSEEN.load(Relaxed)
}

/// Tells the slot which worker its thread is, for code that runs on a worker but is no wrapped poll: the probe's own
/// tasks and the runtime's hooks.
pub(crate) fn refresh_worker() {
    with_local(|local| local.write_claim(Claim::now()));
}

/// Leaves the length of a poll of at least [`LONG_POLL_NS`] that has just ended on this thread.
#[cold]
pub(crate) fn note_long_poll(poll_ns: u64) {
    with_local(|local| local.slot.long_poll_ns.store(poll_ns, Relaxed));
}

/// The trace of the job or wrapped task that is being polled on this thread.
#[must_use]
pub fn current_trace() -> Option<TraceId> {
    with_local(|local| local.slot.poll.load(1).trace()).flatten()
}

/// The job that is being polled on this thread.
#[must_use]
pub fn current_job() -> Option<JobId> {
    let job = with_local(|local| local.slot.poll.job.load(Relaxed))?;
    (job != 0).then_some(JobId(job))
}

/// What is being polled on this thread: the innermost job, request or named task.
#[must_use]
pub fn current_subject() -> Option<Subject> {
    with_local(|local| local.slot.poll.load(1).subject()).flatten()
}

/// A poll that has begun: put the slot back by [`Entered::leave`], or by dropping it (a panic).
#[must_use]
pub struct Entered {
    before: Words,
    /// Of this thread only.
    _not_send: PhantomData<*const ()>,
}

/// Writes into this thread's slot that a poll of `subject` begins at `now_ns`. About 5 ns.
#[inline]
pub fn enter(subject: &Subject, now_ns: u64) -> Entered {
    let before = with_local(|local| {
        let claim = Claim::now();
        if local.claimed.get() != Some(claim) {
            local.write_claim(claim);
        }
        let poll = &local.slot.poll;
        let before = poll.load(poll.start_ns.load(Relaxed));
        let trace = subject.trace.map_or(0, TraceId::get);
        poll.store(Words {
            start_ns: now_ns.max(1),
            task: ptr::from_ref(subject.task).cast_mut(),
            job: subject.job.map_or(0, |job| job.0),
            trace_high: (trace >> 64) as u64,
            trace_low: trace as u64,
            place: ptr::from_ref(subject.place).cast_mut(),
        });
        before
    });
    Entered {
        before: before.unwrap_or(Words {
            start_ns: 0,
            task: ptr::null_mut(),
            job: 0,
            trace_high: 0,
            trace_low: 0,
            place: ptr::null_mut(),
        }),
        _not_send: PhantomData,
    }
}

impl Entered {
    /// The poll has returned: the slot shows the outer poll again, if there is one.
    pub fn leave(self) {}
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        with_local(|local| local.slot.poll.store(self.before));
    }
}
