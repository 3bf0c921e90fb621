//! What every job has, whatever its closure: who it is, where it stands, and marks.

use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed},
        },
    },
    time::Duration,
};

use ax_probe::{slot::Subject, task_type::TaskType, trace::Inherited};
use ax_wire::{JobId, TraceId};
use once_cell::race::OnceBox;

use crate::{JobError, plan::Plan, room::Load, shared::Shared, state::StateCell};

const NS_PER_MS: u64 = 1_000_000;

/// Of [`Header::marks`]: it was cancelled while it ran, so that no other attempt follows.
const CANCEL_WANTED: u8 = 1;
/// Its end is to be told to the ledger.
const WATCHED: u8 = 2;
/// It waits in the hands of its lane's spill.
const SPILLED: u8 = 4;
/// Its attempt is to end for a job of a higher priority.
const PREEMPTING: u8 = 8;

/// Rounded up to the runtime's timer; at most 49 days, beyond which it is none.
fn whole_ms(timeout: Duration) -> u32 {
    let ms = timeout.as_nanos().div_ceil(u128::from(NS_PER_MS));
    u32::try_from(ms).unwrap_or(u32::MAX)
}

/// What every job has, whatever its closure.
pub(crate) struct Header {
    pub(crate) id: JobId,
    /// As words, which align to 8 bytes.
    trace: [u64; 2],
    pub(crate) inherited: Inherited,
    pub(crate) task: &'static TaskType,
    pub(crate) place: &'static Location<'static>,
    pub(crate) lane: Arc<Shared>,
    /// From its start; `u32::MAX` for none.
    timeout_ms: u32,
    /// When it was queued; until then, when it was submitted. Written under the lane's lock while it is not queued.
    ready_ns: AtomicU64,
    /// Written under the lane's lock, before the state says running.
    pub(crate) started_ns: AtomicU64,
    /// When its last poll ended, after its start and plus one; 0 before that.
    polled_ms: AtomicU32,
    /// The runner that has it, written as `started_ns` is.
    pub(crate) runner: AtomicU32,
    /// Runs begun. Written as `started_ns` is.
    attempt: AtomicU16,
    /// What it takes of the queue's bytes.
    bytes: u32,
    pub(crate) priority: u8,
    pub(crate) state: StateCell,
    /// Its attempt is to end: it was cancelled, or its timeout passed.
    pub(super) cancelling: AtomicBool,
    /// [`CANCEL_WANTED`] and so on. Written under the lane's lock, or before the job is submitted.
    marks: AtomicU8,
    /// The handle is gone. Written under the cell's lock.
    pub(super) detached: AtomicBool,
    /// The handle has had the outcome. Of the handle's thread.
    pub(super) taken: AtomicBool,
    /// What only some jobs have. One word, where a `OnceLock` takes two.
    plan: OnceBox<Plan>,
}

impl Header {
    #[expect(
        clippy::too_many_arguments,
        reason = "the one place that makes it, with each argument named like its field"
    )]
    pub(crate) fn new(
        id: JobId,
        trace: TraceId,
        inherited: Inherited,
        task: &'static TaskType,
        place: &'static Location<'static>,
        lane: Arc<Shared>,
        timeout: Option<Duration>,
        ready_ns: u64,
        priority: u8,
        plan: Option<Box<Plan>>,
        bytes: u32,
    ) -> Self {
        let ledger_knows = plan
            .as_ref()
            .is_some_and(|plan| plan.name.is_some() || plan.key.is_some());
        Self {
            id,
            trace: [(trace.get() >> 64) as u64, trace.get() as u64],
            inherited,
            task,
            place,
            lane,
            timeout_ms: timeout.map_or(u32::MAX, whole_ms),
            ready_ns: AtomicU64::new(ready_ns),
            started_ns: AtomicU64::new(0),
            polled_ms: AtomicU32::new(0),
            runner: AtomicU32::new(0),
            attempt: AtomicU16::new(0),
            bytes,
            priority,
            state: StateCell::new(),
            cancelling: AtomicBool::new(false),
            marks: AtomicU8::new(if ledger_knows { WATCHED } else { 0 }),
            detached: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            plan: plan.map_or_else(OnceBox::new, OnceBox::with_value),
        }
    }

    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.plan.get()
    }

    pub(crate) fn plan_or_new(&self) -> &Plan {
        self.plan.get_or_init(Box::default)
    }

    pub(crate) fn attempt(&self) -> u32 {
        u32::from(self.attempt.load(Relaxed))
    }

    pub(crate) fn begin_attempt(&self) {
        let before = self.attempt.load(Relaxed);
        self.attempt.store(before.saturating_add(1), Relaxed);
    }

    /// The attempt does not count: it was stopped for others.
    pub(crate) fn uncharge_attempt(&self) {
        let before = self.attempt.load(Relaxed);
        self.attempt.store(before.saturating_sub(1), Relaxed);
    }

    /// A person has decided that all attempts begin anew.
    pub(crate) fn forget_attempts(&self) {
        self.attempt.store(0, Relaxed);
    }

    pub(crate) fn ready_ns(&self) -> u64 {
        self.ready_ns.load(Relaxed)
    }

    pub(crate) fn set_ready_ns(&self, ready_ns: u64) {
        self.ready_ns.store(ready_ns, Relaxed);
    }

    pub(crate) fn last_poll_ns(&self) -> Option<u64> {
        let after_ms = self.polled_ms.load(Relaxed).checked_sub(1)?;
        Some(self.started_ns() + u64::from(after_ms) * NS_PER_MS)
    }

    pub(crate) fn set_polled(&self, now_ns: u64) {
        let after_ms = self.run_ns(now_ns) / NS_PER_MS + 1;
        let after_ms = u32::try_from(after_ms).unwrap_or(u32::MAX);
        self.polled_ms.store(after_ms, Relaxed);
    }

    /// Its writers hold the lane's lock, so that load and store are one step.
    fn mark(&self, mark: u8, set: bool) {
        let others = self.marks.load(Relaxed) & !mark;
        self.marks
            .store(if set { others | mark } else { others }, Relaxed);
    }

    fn has_mark(&self, mark: u8) -> bool {
        self.marks.load(Relaxed) & mark != 0
    }

    pub(crate) fn want_cancel(&self) {
        self.mark(CANCEL_WANTED, true);
    }

    pub(crate) fn is_cancel_wanted(&self) -> bool {
        self.has_mark(CANCEL_WANTED)
    }

    /// Whether its lane may stop it for a job of a higher priority.
    pub(crate) fn is_preemptible(&self) -> bool {
        self.plan().is_some_and(|plan| plan.preemptible)
    }

    pub(crate) fn set_preempting(&self, preempting: bool) {
        self.mark(PREEMPTING, preempting);
    }

    pub(crate) fn is_preempting(&self) -> bool {
        self.has_mark(PREEMPTING)
    }

    pub(crate) fn watch(&self) {
        self.mark(WATCHED, true);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.has_mark(WATCHED)
    }

    pub(crate) fn set_spilled(&self, spilled: bool) {
        self.mark(SPILLED, spilled);
    }

    pub(crate) fn is_spilled(&self) -> bool {
        self.has_mark(SPILLED)
    }

    pub(crate) fn trace(&self) -> TraceId {
        let [high, low] = self.trace.map(u128::from);
        TraceId::new(high << 64 | low).expect("the words were made from an id")
    }

    /// `u64::MAX` for none.
    pub(crate) fn timeout_ns(&self) -> u64 {
        match self.timeout_ms {
            u32::MAX => u64::MAX,
            ms => u64::from(ms) * NS_PER_MS,
        }
    }

    /// Whether it is remembered however it ends.
    pub(crate) fn keeps_record(&self) -> bool {
        self.plan()
            .is_some_and(|plan| plan.keep || plan.name.is_some() || plan.key.is_some())
    }

    pub(crate) fn subject(&self) -> Subject {
        Subject {
            task: self.task,
            job: Some(self.id),
            trace: Some(self.trace()),
            place: self.place,
        }
    }

    pub(crate) fn is_cancelling(&self) -> bool {
        self.cancelling.load(Acquire)
    }

    /// What it takes of its lane's room.
    pub(crate) fn load(&self) -> Load {
        Load {
            jobs: 1,
            bytes: self.bytes as usize,
        }
    }

    pub(crate) fn started_ns(&self) -> u64 {
        self.started_ns.load(Relaxed)
    }

    /// How long the attempt has run.
    pub(crate) fn run_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.started_ns())
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout_ns())
    }

    pub(crate) fn timed_out(&self) -> JobError {
        JobError::TimedOut {
            after: self.timeout(),
        }
    }
}
