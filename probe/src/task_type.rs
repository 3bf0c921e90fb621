//! What is counted and timed under one name: a job type, a named task, a kind of blocking closure.
//!
//! Types belong to the process, like threads do: they are made on first use, never dropped, and at most
//! [`MAX_TYPES`] of them, so that their memory is bounded; the rest is counted together as `other`.

use std::{
    collections::HashMap,
    panic::Location,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use ax_wire::{
    LatencyHistogram,
    incident::CountOf,
    sample::{JobCounters, TaskKind, TypeSample},
};
use parking_lot::{Mutex, RwLock};

use crate::{histogram::AtomicHistogram, slot};

/// Most types that are told apart. Each takes up to 45 KiB for each worker that runs it.
pub const MAX_TYPES: usize = 128;

/// The name under which everything beyond [`MAX_TYPES`] is counted.
pub const OTHER: &str = "other";

/// Shards of each type. Threads beyond that many share them, which costs them a contended cache line, not counts.
const SHARDS: usize = 16;

/// One name. Recording never blocks and costs some nanoseconds.
pub struct TaskType {
    /// Its place among all.
    index: u16,
    name: Box<str>,
    kind: TaskKind,
    lane: Option<Box<str>>,
    place: Option<&'static Location<'static>>,
    /// Whether a poll of it outside the workers holds up its runtime: see [`TaskType::set_root`].
    root: AtomicBool,
    /// The run times that samples have taken out of the shards.
    told_runs: Mutex<Option<LatencyHistogram>>,
    /// Measured too rarely for threads to stand in each other's way.
    schedule_delay: OnceLock<AtomicHistogram>,
    shards: [OnceLock<Box<Shard>>; SHARDS],
}

/// What the threads with one shard number recorded. A job may be queued by one thread and ended by another, so that
/// only the sums over all shards mean something.
#[derive(Default)]
struct Shard {
    queue_wait: OnceLock<AtomicHistogram>,
    run: OnceLock<AtomicHistogram>,
    poll: OnceLock<AtomicHistogram>,
    submitted: AtomicU64,
    rejected: AtomicU64,
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    panicked: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    /// Of the cancelled, those that were queued.
    left_queue: AtomicU64,
    /// Of the cancelled, those that waited for a time or for others.
    left_waiting: AtomicU64,
    /// Accepted, to wait before they are queued.
    parked: AtomicU64,
    /// Queued after they had waited.
    readied: AtomicU64,
    /// Attempts that ended and were followed by a wait.
    retried: AtomicU64,
}

/// What is queued and what runs follow from the other counts, so that a job writes each of its steps once.
#[derive(Default)]
struct Flow {
    pending: i64,
    running: i64,
}

impl Flow {
    fn add(&mut self, shard: &Shard) {
        let get = |counter: &AtomicU64| counter.load(Relaxed).cast_signed();
        let (started, left_queue) = (get(&shard.started), get(&shard.left_queue));
        self.pending += get(&shard.submitted) - get(&shard.parked) + get(&shard.readied);
        self.pending -= started + left_queue;
        let ends = [
            &shard.succeeded,
            &shard.failed,
            &shard.panicked,
            &shard.timed_out,
            &shard.cancelled,
            &shard.retried,
        ];
        self.running += started + left_queue + get(&shard.left_waiting);
        self.running -= ends.into_iter().map(get).sum::<i64>();
    }

    /// The shards are read one after the other, so a sum may be off by what moved meanwhile, even below zero. Tasks
    /// start without having been submitted.
    fn pending(&self) -> u64 {
        self.pending.max(0) as u64
    }

    fn running(&self) -> u64 {
        self.running.max(0) as u64
    }
}

/// How a job or task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With `Ok`, or a value that is not a `Result`.
    Succeeded,
    /// With an error of its own.
    Failed,
    /// By a panic.
    Panicked,
    /// By its timeout.
    TimedOut,
    /// By cancellation, or because its future was dropped.
    Cancelled,
}

impl TaskType {
    /// Where it was first started.
    pub(crate) fn place_text(&self) -> Option<String> {
        self.place.map(place_text)
    }

    /// Its place in [`all`].
    pub(crate) fn index(&self) -> u16 {
        self.index
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> TaskKind {
        self.kind
    }

    /// The lane, for a job type.
    #[must_use]
    pub fn lane(&self) -> Option<&str> {
        self.lane.as_deref()
    }

    /// A job was accepted and is queued.
    pub fn submitted(&self) {
        self.shard().submitted.fetch_add(1, Relaxed);
    }

    /// A job was accepted, and waits before it is queued.
    pub fn submitted_waiting(&self) {
        let shard = self.shard();
        shard.submitted.fetch_add(1, Relaxed);
        shard.parked.fetch_add(1, Relaxed);
    }

    /// A job that has waited is queued.
    pub fn readied(&self) {
        self.shard().readied.fetch_add(1, Relaxed);
    }

    /// A job was refused.
    pub fn rejected(&self) {
        self.shard().rejected.fetch_add(1, Relaxed);
    }

    /// A queued job begins, after `queue_wait_ns` in the queue.
    pub fn started_after(&self, queue_wait_ns: u64) {
        let shard = self.shard();
        shard
            .queue_wait
            .get_or_init(AtomicHistogram::new)
            .record_ns(queue_wait_ns);
        shard.started.fetch_add(1, Relaxed);
    }

    /// A task, which knows no queue, begins.
    pub fn started(&self) {
        self.shard().started.fetch_add(1, Relaxed);
    }

    /// A queued job was cancelled before it began.
    pub fn cancelled_in_queue(&self) {
        let shard = self.shard();
        shard.left_queue.fetch_add(1, Relaxed);
        shard.cancelled.fetch_add(1, Relaxed);
    }

    /// A job was cancelled while it waited for a time or for others.
    pub fn cancelled_while_waiting(&self) {
        let shard = self.shard();
        shard.left_waiting.fetch_add(1, Relaxed);
        shard.cancelled.fetch_add(1, Relaxed);
    }

    /// An attempt has ended after `run_ns`, and the job waits again.
    pub fn retried(&self, run_ns: u64) {
        let shard = self.shard();
        shard
            .run
            .get_or_init(AtomicHistogram::new)
            .record_ns(run_ns);
        shard.retried.fetch_add(1, Relaxed);
    }

    /// What began has ended, after `run_ns`.
    pub fn ended(&self, end: End, run_ns: u64) {
        let shard = self.shard();
        shard
            .run
            .get_or_init(AtomicHistogram::new)
            .record_ns(run_ns);
        let counter = match end {
            End::Succeeded => &shard.succeeded,
            End::Failed => &shard.failed,
            End::Panicked => &shard.panicked,
            End::TimedOut => &shard.timed_out,
            End::Cancelled => &shard.cancelled,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// One poll took `poll_ns`. To be called by the thread that polled.
    #[inline]
    pub fn polled(&self, poll_ns: u64) {
        if poll_ns >= slot::LONG_POLL_NS {
            slot::note_long_poll(poll_ns);
        }
        self.shard()
            .poll
            .get_or_init(AtomicHistogram::new)
            .record_ns(poll_ns);
    }

    /// It was polled so long after it had been woken.
    pub(crate) fn delayed(&self, delay_ns: u64) {
        self.schedule_delay
            .get_or_init(AtomicHistogram::new)
            .record_ns(delay_ns);
    }

    /// It is the body of a `block_on`: a long poll of it is a stall although its thread is no worker, as it would not be
    /// for a blocking closure.
    pub(crate) fn set_root(&self) {
        self.root.store(true, Relaxed);
    }

    pub(crate) fn is_root(&self) -> bool {
        self.root.load(Relaxed)
    }

    fn shard(&self) -> &Shard {
        self.shards[slot::thread_number() % SHARDS].get_or_init(Box::default)
    }

    /// Queued now.
    fn pending(&self) -> u64 {
        let mut flow = Flow::default();
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            flow.add(shard);
        }
        flow.pending()
    }

    /// How long the runs took that ended since the process started; `None` before the first. Copies up to 15 KiB a
    /// worker.
    #[must_use]
    pub fn run_times(&self) -> Option<LatencyHistogram> {
        let mut all = self.told_runs.lock().clone();
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            if let Some(run) = shard.run.get() {
                run.copy_into(all.get_or_insert_default());
            }
        }
        all.filter(|all| !all.is_empty())
    }

    /// The counts so far, and the histograms since the last call.
    pub(crate) fn sample(&self) -> TypeSample {
        let sample = self.gather(AtomicHistogram::drain_into);
        if let Some(run) = &sample.run {
            self.told_runs.lock().get_or_insert_default().merge(run);
        }
        sample
    }

    /// The same, with the histograms left for the next sample.
    fn peek(&self) -> TypeSample {
        self.gather(AtomicHistogram::copy_into)
    }

    fn gather(&self, read: fn(&AtomicHistogram, &mut LatencyHistogram)) -> TypeSample {
        let mut counters = JobCounters::default();
        let mut flow = Flow::default();
        let mut histograms: [Option<LatencyHistogram>; 3] = [None, None, None];
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            counters.submitted_total += shard.submitted.load(Relaxed);
            counters.rejected_total += shard.rejected.load(Relaxed);
            counters.started_total += shard.started.load(Relaxed);
            counters.succeeded_total += shard.succeeded.load(Relaxed);
            counters.failed_total += shard.failed.load(Relaxed);
            counters.panicked_total += shard.panicked.load(Relaxed);
            counters.timed_out_total += shard.timed_out.load(Relaxed);
            counters.cancelled_total += shard.cancelled.load(Relaxed);
            flow.add(shard);
            let sources = [&shard.queue_wait, &shard.run, &shard.poll];
            for (merged, source) in histograms.iter_mut().zip(sources) {
                if let Some(source) = source.get() {
                    read(source, merged.get_or_insert_default());
                }
            }
        }
        let [queue_wait, run, poll] = histograms.map(|h| h.filter(|h| !h.is_empty()));
        let schedule_delay = self.schedule_delay.get().map(|source| {
            let mut copy = LatencyHistogram::default();
            read(source, &mut copy);
            copy
        });
        TypeSample {
            name: self.name.to_string(),
            kind: self.kind,
            lane: self.lane.as_deref().map(str::to_owned),
            place: self.place_text(),
            running: flow.running(),
            pending: flow.pending(),
            counters,
            queue_wait,
            run,
            poll,
            schedule_delay: schedule_delay.filter(|delay| !delay.is_empty()),
        }
    }
}

/// `file:line`, the form in which places are shown everywhere.
#[must_use]
pub fn place_text(place: &'static Location<'static>) -> String {
    format!("{}:{}", place.file(), place.line())
}

#[derive(Default)]
struct Registry {
    /// By name, then one for each kind and lane that uses it.
    by_name: HashMap<Box<str>, Vec<&'static TaskType>>,
    all: Vec<&'static TaskType>,
    folded: u64,
}

impl Registry {
    fn find(&self, kind: TaskKind, lane: Option<&str>, name: &str) -> Option<&'static TaskType> {
        let same_name = self.by_name.get(name)?;
        let found = same_name
            .iter()
            .find(|task| task.kind == kind && task.lane.as_deref() == lane);
        found.copied()
    }

    fn add(
        &mut self,
        kind: TaskKind,
        lane: Option<&str>,
        name: &str,
        place: Option<&'static Location<'static>>,
    ) -> &'static TaskType {
        // Leaked on purpose: the slot of a thread names its type without counting references on each poll. At most
        // `MAX_TYPES` and one `other` for each kind.
        let made: &'static TaskType = Box::leak(Box::new(TaskType {
            index: self.all.len() as u16,
            name: Box::from(name),
            kind,
            lane: lane.map(Box::from),
            place,
            root: AtomicBool::new(false),
            told_runs: Mutex::default(),
            schedule_delay: OnceLock::new(),
            shards: [const { OnceLock::new() }; SHARDS],
        }));
        self.by_name.entry(Box::from(name)).or_default().push(made);
        self.all.push(made);
        made
    }
}

// A lock on the way of every submit and spawn, but a reader's: it is written at most `MAX_TYPES` times.
static REGISTRY: OnceLock<RwLock<Registry>> = OnceLock::new();

fn registry() -> &'static RwLock<Registry> {
    REGISTRY.get_or_init(RwLock::default)
}

/// The type of this name, kind and lane, made on first use; `other` once there are [`MAX_TYPES`]. `place` is where it
/// was first started.
///
/// Cost: a hash of the name under a read lock, some 50 ns. Keep what it returns.
#[must_use]
pub fn task_type(
    kind: TaskKind,
    lane: Option<&str>,
    name: &str,
    place: &'static Location<'static>,
) -> &'static TaskType {
    if let Some(found) = registry().read().find(kind, lane, name) {
        return found;
    }
    let mut registry = registry().write();
    if let Some(found) = registry.find(kind, lane, name) {
        return found;
    }
    if registry.all.len() < MAX_TYPES {
        return registry.add(kind, lane, name, Some(place));
    }
    registry.folded += 1;
    match registry.find(kind, None, OTHER) {
        Some(other) => other,
        None => registry.add(kind, None, OTHER, None),
    }
}

/// Every type that was ever used, in the order of their first use.
pub(crate) fn all() -> Vec<&'static TaskType> {
    registry().read().all.clone()
}

/// The type of this name, kind and lane, where there is one.
pub(crate) fn find(kind: TaskKind, lane: Option<&str>, name: &str) -> Option<&'static TaskType> {
    registry().read().find(kind, lane, name)
}

/// A sample of every type that was ever used.
pub(crate) fn sample_all() -> Vec<TypeSample> {
    all().into_iter().map(TaskType::sample).collect()
}

/// The same, with the histograms left for the next sample.
pub(crate) fn peek_all() -> Vec<TypeSample> {
    all().into_iter().map(TaskType::peek).collect()
}

/// How many jobs of each type are queued in the lanes of this name, those of none left out. Without histograms, and so
/// a microsecond for each type, whatever the backlog. `None` where the list of types is held for longer than a
/// millisecond.
#[must_use]
pub fn queued_in_lane(lane: &str) -> Option<Vec<CountOf>> {
    let all = registry()
        .try_read_for(Duration::from_millis(1))?
        .all
        .clone();
    let of_lane = all.into_iter().filter(|task| task.lane() == Some(lane));
    let counts = of_lane.map(|task| CountOf {
        name: task.name.to_string(),
        count: task.pending(),
    });
    Some(counts.filter(|of| of.count > 0).collect())
}

/// How many requests for a type were answered with `other`.
pub(crate) fn folded_total() -> u64 {
    registry().read().folded
}
