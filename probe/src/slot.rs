//! What each thread is doing right now: a slot that its owner writes on every wrapped poll and the watchdog reads.
//!
//! A slot belongs to a *thread*, not to a task: one worker polls one wrapped future at a time (the innermost, when they
//! nest). The slot also carries the trace id that jobs and spawns inside the poll inherit.

use std::{
    cell::OnceCell,
    marker::PhantomData,
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

use crate::task_type::{TaskType, place_text};

/// Most threads whose slots the watchdog reads, at about 150 bytes each. Threads beyond that work as ever, but their
/// polls have no name; they are counted.
pub const MAX_THREADS: usize = 1024;

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
    /// Set when the thread has ended; the slot is then taken out of the list.
    gone: AtomicBool,
    /// [`RuntimeId`] of the runtime whose worker the thread is; 0 when none that the probe knows.
    runtime: AtomicU32,
    /// Worker index; [`NO_WORKER`] when none.
    worker: AtomicU32,
    /// Orders the threads that have claimed one worker (after `block_in_place` the index moves to another thread): the
    /// highest is the one that has it.
    claim: AtomicU64,
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

    /// Which worker of which runtime the thread is, and how new that claim is.
    pub(crate) fn worker(&self) -> Option<(RuntimeId, u32, u64)> {
        let claim = self.claim.load(Acquire);
        let (runtime, worker) = (self.runtime.load(Relaxed), self.worker.load(Relaxed));
        (runtime != 0 && worker != NO_WORKER).then_some((RuntimeId(runtime), worker, claim))
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
        let known = worker.and_then(|index| {
            let handle = runtime::Handle::try_current().ok()?;
            let runtime = crate::runtime::id_of(&handle)?;
            Some((runtime.0, u32::try_from(index).ok()?))
        });
        let (runtime, index) = known.unwrap_or((0, NO_WORKER));
        self.runtime.store(runtime, Relaxed);
        self.worker.store(index, Relaxed);
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
    /// What [`Slot::claim_worker`] was last told: `worker_index() + 1`, 0 for none, `usize::MAX` at first.
    claimed: std::cell::Cell<usize>,
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
        claimed: std::cell::Cell::new(usize::MAX),
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

/// Threads that found [`MAX_THREADS`] slots taken.
pub(crate) fn unseen_total() -> u64 {
    UNSEEN.load(Relaxed)
}

/// Tells the slot which worker its thread is, for code that runs on a worker but is no wrapped poll: the probe's own
/// tasks and the runtime's hooks.
pub(crate) fn refresh_worker() {
    with_local(|local| {
        let index = runtime::worker_index();
        local.claimed.set(index.map_or(0, |index| index + 1));
        local.slot.claim_worker(index);
    });
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
        let index = runtime::worker_index();
        let claim = index.map_or(0, |index| index + 1);
        if local.claimed.get() != claim {
            local.claimed.set(claim);
            local.slot.claim_worker(index);
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
