//! What a lane has counted, and what it shows of itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use ax_wire::sample::{JobCounters, LaneSample, OverloadSample, QueueBand, WaitingFor};

use super::{Core, Shared, is_live};
use crate::{cell::Header, ledger::WaitKind, limit::LaneMark, priority, snapshot::RunningJob};

/// Moves of the limit that a sample carries; all that are kept are to be had from the lane.
const MOVES_IN_SAMPLE: usize = 8;

/// Jobs of a priority that are looked at for the oldest that is live.
const LOOKS_AT_A_HEAD: usize = 16;

/// Written under the lane's lock with plain loads and stores, read by anyone.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) limit: AtomicU64,
    pub(super) paused: AtomicBool,
    pub(super) pending: AtomicU64,
    /// The same for each of [`priority::BANDS`].
    by_band: [AtomicU64; priority::BANDS.len()],
    pub(super) running: AtomicU64,
    /// Of the running jobs, those that have been begun before.
    retrying: AtomicU64,
    /// Jobs of the lane in the ledger, by [`WaitKind`]. Written under the ledger's lock, not the lane's.
    waiting_for: [AtomicU64; WaitKind::ALL.len()],
    pub(super) submitted: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) started: AtomicU64,
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) panicked: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) cancelled: AtomicU64,
    /// Included in `cancelled`.
    pub(super) shed: AtomicU64,
    /// Handed to the spill, whatever came of them.
    pub(super) spilled: AtomicU64,
    /// In the hands of the spill now.
    pub(super) spilled_now: AtomicU64,
    pub(super) high_water: AtomicU64,
    /// For a time, for others or for a person.
    pub(super) waiting: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) deferred: AtomicU64,
    pub(super) zombies: AtomicU64,
    pub(super) preempted: AtomicU64,
    /// Time that jobs have run, of those that do not run any more.
    run_ns: AtomicU64,
}

pub(super) fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

pub(super) fn decrement(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) - 1, Relaxed);
}

impl Counts {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: AtomicU64::new(limit as u64),
            ..Self::default()
        }
    }

    pub(super) fn queued(&self, priority: u8) {
        increment(&self.pending);
        increment(&self.by_band[priority::band(priority)]);
    }

    pub(super) fn unqueued(&self, priority: u8) {
        decrement(&self.pending);
        decrement(&self.by_band[priority::band(priority)]);
    }

    /// An attempt begins, which its header counts already.
    pub(super) fn begun(&self, header: &Header) {
        increment(&self.running);
        if header.attempt() > 1 {
            increment(&self.retrying);
        }
    }

    /// The attempt that its header counts still is over.
    pub(super) fn stopped(&self, header: &Header) {
        decrement(&self.running);
        if header.attempt() > 1 {
            decrement(&self.retrying);
        }
    }

    fn waiting_for(&self) -> WaitingFor {
        let get = |kind: WaitKind| self.waiting_for[kind as usize].load(Relaxed);
        WaitingFor {
            time: get(WaitKind::Time),
            dependencies: get(WaitKind::Dependencies),
            retry: get(WaitKind::Retry),
            budget: get(WaitKind::Budget),
            person: get(WaitKind::Person),
        }
    }

    pub(super) fn add_run(&self, run_ns: u64) {
        let total = self.run_ns.load(Relaxed).saturating_add(run_ns);
        self.run_ns.store(total, Relaxed);
    }

    fn jobs(&self) -> JobCounters {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        JobCounters {
            submitted_total: get(&self.submitted),
            rejected_total: get(&self.rejected),
            started_total: get(&self.started),
            succeeded_total: get(&self.succeeded),
            failed_total: get(&self.failed),
            panicked_total: get(&self.panicked),
            timed_out_total: get(&self.timed_out),
            cancelled_total: get(&self.cancelled),
        }
    }
}

impl Shared {
    /// Under the ledger's lock: one more of its jobs waits for this, or one less.
    pub(crate) fn count_waiting(&self, kind: WaitKind, more: bool) {
        let counter = &self.counts.waiting_for[kind as usize];
        if more {
            increment(counter);
        } else {
            decrement(counter);
        }
    }

    /// The bands that hold jobs. Looks at the heads alone, and where cancelled jobs stand among the queued ones at no
    /// more than [`LOOKS_AT_A_HEAD`] for each priority.
    fn bands(&self, core: Option<&Core>, now_ns: u64) -> Vec<QueueBand> {
        let mut oldest_ns = [None; priority::BANDS.len()];
        if let Some(core) = core {
            let all_live = core.queue.len() as u64 == self.counts.pending.load(Relaxed);
            for (priority, head_ns, mut jobs) in core.queue.heads() {
                let live_ns = if all_live {
                    Some(head_ns)
                } else {
                    let found = jobs.by_ref().take(LOOKS_AT_A_HEAD).find(|job| is_live(job));
                    found.map(|job| job.header().ready_ns())
                };
                let oldest = &mut oldest_ns[priority::band(priority)];
                *oldest = [*oldest, live_ns].into_iter().flatten().min();
            }
        }
        let counts = self.counts.by_band.iter().map(|count| count.load(Relaxed));
        let bands = priority::BANDS.iter().zip(counts).zip(oldest_ns);
        bands
            .filter(|((_, pending), _)| *pending > 0)
            .map(|((band, pending), oldest_ns)| QueueBand {
                lowest: *band.start(),
                highest: *band.end(),
                pending,
                oldest_ns: oldest_ns.map(|ready_ns| now_ns.saturating_sub(ready_ns)),
            })
            .collect()
    }

    /// Counts, consistent among each other, and the running jobs.
    pub(crate) fn look(&self, now_ns: u64) -> (LaneSample, Vec<RunningJob>) {
        let core = self.core.lock();
        let jobs = core.runners.iter().filter_map(|entry| entry.job.as_deref());
        let running = jobs.map(|job| RunningJob::new(job.header(), now_ns));
        let running = running.collect();
        (self.sample(Some(&core), now_ns), running)
    }

    /// Counts, consistent among each other.
    pub(crate) fn counts(&self, now_ns: u64) -> LaneSample {
        self.sample(Some(&self.core.lock()), now_ns)
    }

    /// Counts without waiting: while the lock is held by another, each is exact, but they may be of different instants,
    /// and the age of the head and what else stands behind the lock are unknown.
    pub(crate) fn try_counts(&self, now_ns: u64) -> LaneSample {
        self.sample(self.core.try_lock().as_deref(), now_ns)
    }

    /// Where a measurement begins, or ends.
    pub(crate) fn mark(&self, now_ns: u64) -> LaneMark {
        let _consistent = self.core.lock();
        LaneMark {
            at_ns: now_ns,
            submitted: self.counts.submitted.load(Relaxed),
            finished: self.counts.jobs().finished_total(),
            run_ns: self.counts.run_ns.load(Relaxed),
        }
    }

    fn sample(&self, core: Option<&Core>, now_ns: u64) -> LaneSample {
        let counts = &self.counts;
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let head = core.and_then(|core| {
            // A bounded look: the head may stand behind cancelled jobs.
            let mut jobs = core.queue.iter().take(64);
            jobs.find(|job| is_live(job)).map(|job| job.header())
        });
        let limit = core.map(|core| core.limit.peek(now_ns) as u64);
        LaneSample {
            name: self.name.to_string(),
            scheduler: self.hub.number,
            limit: limit.unwrap_or_else(|| get(&counts.limit)),
            capacity: self.settings.capacity as u64,
            running: get(&counts.running),
            pending: get(&counts.pending),
            waiting: get(&counts.waiting),
            retried_total: get(&counts.retried),
            deferred_total: get(&counts.deferred),
            zombies_total: get(&counts.zombies),
            preempted_total: get(&counts.preempted),
            head_age_ns: head.map(|header| now_ns.saturating_sub(header.ready_ns())),
            counters: counts.jobs(),
            run_ns_total: get(&counts.run_ns),
            paused: counts.paused.load(Relaxed),
            overload: OverloadSample {
                queued_bytes: core.map(|core| core.room.taken().bytes as u64),
                capacity_bytes: self.settings.capacity_bytes.map(|bytes| bytes as u64),
                submitters_waiting: core.map(|core| core.room.waiting() as u64),
                shed_total: get(&counts.shed),
                spilled_total: get(&counts.spilled),
                spilled: get(&counts.spilled_now),
                high_water_total: get(&counts.high_water),
            },
            limit_moves: core.map_or_else(Vec::new, |core| {
                core.limit.last_moves(MOVES_IN_SAMPLE, now_ns)
            }),
            queue: Some(self.bands(core, now_ns)),
            waiting_for: Some(counts.waiting_for()),
            retrying: Some(get(&counts.retrying)),
        }
    }
}
