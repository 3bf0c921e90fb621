//! What an incident keeps of a lane: the running jobs, and who is queued.
//!
//! Read by the probe's watchdog while the service may be in trouble, so that the lock is asked for with a deadline, held
//! for a bounded number of looks, and nothing is allocated for a text before it is free again.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use ax_probe::task_type::{self, OTHER, TaskType, place_text};
use ax_wire::{
    JobId,
    incident::{
        CountAt, CountOf, MAX_QUEUED_JOBS, MAX_RUNNING_JOBS, QueueFacts, QueuedJob, RunningJob,
    },
    sample::TaskRef,
};

use super::{Core, Shared};
use crate::{JobState, cell::Header};

/// How long the lane's lock is asked for. Its holders keep it for microseconds.
const LOCK_DEADLINE: Duration = Duration::from_millis(1);

/// Jobs that are looked at to find the live ones at the ends of a queue, where cancelled ones may stand before them.
const LOOKS_AT_AN_END: usize = 64;

/// Jobs that are looked at to count the live ones of a queue that holds cancelled ones: about a millisecond.
const LOOKS_TO_COUNT: usize = 16_384;

/// Runners that are looked at for their jobs: about a millisecond.
const RUNNERS: usize = 16_384;

/// What is copied of a queued job under the lock.
#[derive(Clone, Copy)]
struct Queued {
    job: JobId,
    task: &'static TaskType,
    priority: u8,
    ready_ns: u64,
}

impl Queued {
    fn new(header: &Header) -> Self {
        Self {
            job: header.id,
            task: header.task,
            priority: header.priority,
            ready_ns: header.ready_ns(),
        }
    }

    fn told(self, now_ns: u64) -> QueuedJob {
        QueuedJob {
            job: self.job,
            name: self.task.name().to_owned(),
            priority: self.priority,
            age_ns: now_ns.saturating_sub(self.ready_ns),
        }
    }
}

/// What is copied of a queue under the lock.
struct Copied {
    by_priority: Option<Vec<CountAt>>,
    oldest: Vec<Queued>,
    next: Vec<Queued>,
}

impl Shared {
    /// Appends the running jobs of this lane, the longest first and at most [`MAX_RUNNING_JOBS`]; returns how many run.
    ///
    /// Of more than [`RUNNERS`] runners the first so many are looked at. Where the lock is held, none is appended.
    pub(crate) fn running_facts(&self, now_ns: u64, out: &mut Vec<RunningJob>) -> u64 {
        let total = self.running();
        let Some(core) = self.core.try_lock_for(LOCK_DEADLINE) else {
            return total;
        };
        let entries = core.runners.iter().take(RUNNERS);
        // A reference is counted for each; the text is made outside the lock.
        let mut jobs: Vec<_> = entries.filter_map(|entry| entry.job.clone()).collect();
        drop(core);
        jobs.sort_unstable_by_key(|job| job.header().started_ns());
        let longest = jobs.iter().take(MAX_RUNNING_JOBS);
        out.extend(longest.map(|job| told(job.header(), now_ns)));
        total
    }

    /// What is queued. By type it is exact but for what moves meanwhile, and covers all lanes of this name in the process,
    /// as the counters of a type do; types beyond the 128th are counted together.
    ///
    /// What stands behind the lock is unknown where it is held; so are the counts by priority where more than
    /// [`LOOKS_TO_COUNT`] jobs are queued and cancelled ones among them.
    pub(crate) fn queue_facts(&self, now_ns: u64) -> QueueFacts {
        let pending = self.counts.pending.load(Relaxed);
        let copied = self
            .core
            .try_lock_for(LOCK_DEADLINE)
            .map(|core| self.copy_queue(&core, now_ns));
        let told = |jobs: &[Queued]| jobs.iter().map(|job| job.told(now_ns)).collect();
        QueueFacts {
            lane: self.name.to_string(),
            scheduler: self.hub.number,
            pending,
            by_type: self.queued_by_type(pending),
            oldest: copied.as_ref().map_or_else(Vec::new, |of| told(&of.oldest)),
            next: copied.as_ref().map_or_else(Vec::new, |of| told(&of.next)),
            by_priority: copied.and_then(|of| of.by_priority),
        }
    }

    fn queued_by_type(&self, pending: u64) -> Option<Vec<CountOf>> {
        let mut counts = task_type::queued_in_lane(&self.name)?;
        let named: u64 = counts.iter().map(|of| of.count).sum();
        if let Some(count) = pending.checked_sub(named).filter(|count| *count > 0) {
            counts.push(CountOf {
                name: OTHER.to_owned(),
                count,
            });
        }
        counts.sort_by_key(|of| std::cmp::Reverse(of.count));
        Some(counts)
    }

    fn copy_queue(&self, core: &Core, now_ns: u64) -> Copied {
        let all_live = core.queue.len() as u64 == self.counts.pending.load(Relaxed);
        let countable = all_live || core.queue.len() <= LOOKS_TO_COUNT;
        let mut by_priority = Vec::new();
        let mut oldest = Vec::new();
        for (priority, len, jobs) in core.queue.levels() {
            let jobs = jobs.map(|job| job.header());
            let live = |header: &&Header| header.state.get() == JobState::Ready;
            let first = jobs.clone().take(LOOKS_AT_AN_END).filter(live);
            let before = oldest.len();
            oldest.extend(first.take(MAX_QUEUED_JOBS).map(Queued::new));
            let count = if all_live {
                len
            } else if countable {
                jobs.filter(live).count()
            } else {
                continue;
            };
            if count > 0 {
                by_priority.push(CountAt {
                    priority,
                    count: count as u64,
                    oldest_ns: oldest
                        .get(before)
                        .map(|job: &Queued| now_ns.saturating_sub(job.ready_ns)),
                });
            }
        }
        // The levels come highest first, each in the order of its turn: the next ones are the first found.
        let next = oldest.iter().take(MAX_QUEUED_JOBS).copied().collect();
        oldest.sort_by_key(|job| job.ready_ns);
        oldest.truncate(MAX_QUEUED_JOBS);
        Copied {
            by_priority: countable.then_some(by_priority),
            oldest,
            next,
        }
    }
}

pub(super) fn told(header: &Header, now_ns: u64) -> RunningJob {
    let started_ns = header.started_ns();
    RunningJob {
        task: TaskRef {
            name: header.task.name().to_owned(),
            kind: header.task.kind(),
            job: Some(header.id),
            lane: Some(header.lane.name.to_string()),
            place: Some(place_text(header.place)),
            trace: Some(header.trace()),
        },
        elapsed_ns: now_ns.saturating_sub(started_ns),
        queue_wait_ns: started_ns.saturating_sub(header.ready_ns()),
        attempt: header.attempt().max(1),
        priority: header.priority,
        // The probe knows which threads poll.
        poll_age_ns: None,
        unpolled_ns: header
            .last_poll_ns()
            .map(|at_ns| now_ns.saturating_sub(at_ns)),
        waits_for: header.waits_for(now_ns),
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending, time::Instant};

    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::{JobHandle, Lane, Scheduler, time};

    /// A lane whose runtime nobody drives: what is submitted stays queued.
    fn lane(name: &str) -> (Runtime, Scheduler, Lane) {
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("builds");
        let ax = Scheduler::builder();
        let ax = ax.runtime(runtime.handle().clone()).build();
        let lane = ax.lane(name).limit(2).capacity(2_000_000).open();
        (runtime, ax, lane.expect("opens"))
    }

    fn submit(ax: &Scheduler, lane: &Lane, name: &str, priority: u8) -> JobHandle<()> {
        let job = ax.job(name, |_| pending::<Result<(), Infallible>>());
        let job = job.lane(lane).priority(priority).submit();
        job.expect("the lane has room")
    }

    fn counts(of: &[CountOf]) -> Vec<(&str, u64)> {
        of.iter().map(|of| (of.name.as_str(), of.count)).collect()
    }

    #[test]
    fn a_queue_is_told_by_type_priority_and_age() {
        let (_runtime, ax, lane) = lane("facts-queue");
        let first = submit(&ax, &lane, "slow", 10);
        let jobs: Vec<_> = (0..30).map(|_| submit(&ax, &lane, "fast", 90)).collect();
        let facts = lane.shared.queue_facts(time::now_ns());
        assert_eq!(facts.pending, 31);
        let by_type = facts.by_type.expect("not held");
        assert_eq!(counts(&by_type), [("fast", 30), ("slow", 1)]);
        let by_priority = facts.by_priority.expect("not held");
        let levels: Vec<_> = by_priority
            .iter()
            .map(|of| (of.priority, of.count))
            .collect();
        assert_eq!(levels, [(90, 30), (10, 1)]);
        assert!(by_priority.iter().all(|of| of.oldest_ns.is_some()));
        assert_eq!(facts.oldest.len(), MAX_QUEUED_JOBS);
        assert_eq!(facts.oldest[0].job, first.id());
        assert_eq!(facts.next.len(), MAX_QUEUED_JOBS);
        assert_eq!(facts.next[0].job, jobs[0].id());

        // Cancelled jobs stay in the queue for a while and count no more.
        jobs[..10].iter().for_each(JobHandle::cancel);
        let facts = lane.shared.queue_facts(time::now_ns());
        let by_priority = facts.by_priority.expect("countable");
        assert_eq!(by_priority[0].count, 20);
        assert_eq!(facts.next[0].job, jobs[10].id());
        assert_eq!(counts(&facts.by_type.expect("not held"))[0].1, 20);
    }

    #[test]
    fn what_stands_behind_a_lock_that_is_held_is_unknown() {
        let (_runtime, ax, lane) = lane("facts-held");
        let _job = submit(&ax, &lane, "queued", 50);
        let held = lane.shared.core.lock();
        let facts = lane.shared.queue_facts(time::now_ns());
        let mut running = Vec::new();
        lane.shared.running_facts(time::now_ns(), &mut running);
        drop(held);
        assert_eq!((facts.pending, facts.by_priority), (1, None));
        assert!(facts.oldest.is_empty() && facts.next.is_empty() && running.is_empty());
    }

    #[test]
    fn running_jobs_come_longest_first() {
        let (runtime, ax, lane) = lane("facts-running");
        let jobs: Vec<_> = (0..3).map(|_| submit(&ax, &lane, "runs", 50)).collect();
        runtime.block_on(async {
            while lane.counts().running < 2 {
                tokio::task::yield_now().await;
            }
        });
        let mut running = Vec::new();
        assert_eq!(lane.shared.running_facts(time::now_ns(), &mut running), 2);
        assert_eq!(running[0].task.job, Some(jobs[0].id()));
        assert!(running[0].elapsed_ns >= running[1].elapsed_ns);
        let place = running[0].task.place.as_deref().expect("known");
        assert!(place.contains("facts.rs:"), "{place}");
    }

    /// The lane's lock is held for a bounded number of looks, whatever the backlog.
    #[test]
    fn a_long_queue_is_looked_at_in_no_time() {
        let (_runtime, ax, lane) = lane("facts-long");
        for number in 0..300_000_u32 {
            let name = ["a", "b", "c"][number as usize % 3];
            // The job stays without its handle.
            drop(submit(&ax, &lane, name, (number % 100) as u8 + 1));
        }
        let began = Instant::now();
        let facts = lane.shared.queue_facts(time::now_ns());
        let took = began.elapsed();
        println!("a queue of {}: {took:?}", facts.pending);
        assert!(took < Duration::from_millis(50), "{took:?}");
        let by_type = facts.by_type.expect("not held");
        assert_eq!(counts(&by_type).iter().map(|of| of.1).sum::<u64>(), 300_000);
        assert_eq!(facts.by_priority.expect("exact").len(), 100);
    }
}
