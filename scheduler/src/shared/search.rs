//! Looks at the jobs of a lane a slice at a time, for a thread of the probe.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use ax_wire::job::{JobState, JobsQuery};

use super::Shared;
use crate::{
    JobState as State,
    answers::{Candidate, LOCK_DEADLINE},
    cell::Job,
};

/// Jobs that are looked at under the lock at a time: some hundred microseconds where each lies elsewhere in memory.
const SLICE: usize = 2_048;

/// So many of a slice are looked at again with the next one: by then jobs have left the front of the queue, and the
/// others have moved up.
const OVERLAP: usize = 128;

/// Where a look at a lane has come to.
pub(crate) struct Cursor {
    state: JobState,
    /// Of each priority, so many matches are enough, the oldest ones.
    enough: Option<usize>,
    /// The priority that is being looked at, and how many of its jobs have been; of running jobs, the runner.
    priority: u8,
    offset: usize,
    /// Of that priority, as far as it has been looked at: what is looked at again is not counted again.
    reached: usize,
    matches: usize,
    looked_at: u64,
    done: bool,
}

impl Cursor {
    pub(crate) fn new(state: JobState, enough: Option<usize>) -> Self {
        Self {
            state,
            enough,
            priority: u8::MAX,
            offset: 0,
            reached: 0,
            matches: 0,
            looked_at: 0,
            done: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    fn next_priority(&mut self, priority: u8) {
        self.priority = priority;
        (self.offset, self.reached, self.matches) = (0, 0, 0);
    }
}

impl Shared {
    #[cfg(test)]
    pub(crate) fn hold_for_tests(&self) -> impl Drop + '_ {
        self.core.lock()
    }

    /// Jobs that have not ended.
    pub(crate) fn live(&self) -> u64 {
        let counts = &self.counts;
        let of = [&counts.running, &counts.pending, &counts.waiting];
        of.into_iter().map(|count| count.load(Relaxed)).sum()
    }

    /// The matches among the next jobs; `None` where the lane's lock is held.
    pub(crate) fn search(
        &self,
        query: &JobsQuery,
        cursor: &mut Cursor,
        now_ns: u64,
    ) -> Option<Vec<Candidate>> {
        let core = self.core.try_lock_for(LOCK_DEADLINE)?;
        let mut found = Vec::new();
        let mut look = |job: &Arc<dyn Job>, state: JobState| {
            let candidate = Candidate::live(job, state, now_ns);
            let matches = query.matches(&candidate);
            if matches {
                found.push(candidate);
            }
            matches
        };
        if cursor.state == JobState::Running {
            let runners = core.runners.iter().skip(cursor.offset).take(SLICE);
            for job in runners.filter_map(|entry| entry.job.as_ref()) {
                cursor.looked_at += 1;
                look(job, JobState::Running);
            }
            cursor.offset += SLICE;
            cursor.done = cursor.offset >= core.runners.len();
            return Some(found);
        }
        let mut left = SLICE;
        cursor.offset = cursor.offset.saturating_sub(OVERLAP);
        let from = cursor.priority;
        let levels = core.queue.levels();
        for (priority, len, jobs) in levels.filter(|(priority, ..)| *priority <= from) {
            if priority < cursor.priority {
                cursor.next_priority(priority);
            }
            for job in jobs.skip(cursor.offset) {
                if left == 0 || cursor.enough.is_some_and(|enough| cursor.matches >= enough) {
                    break;
                }
                left -= 1;
                let new = cursor.offset >= cursor.reached;
                cursor.offset += 1;
                cursor.reached = cursor.reached.max(cursor.offset);
                if job.header().state.get() == State::Ready {
                    let matches = look(job, JobState::Ready);
                    cursor.looked_at += u64::from(new);
                    cursor.matches += usize::from(new && matches);
                }
            }
            let enough = cursor.enough.is_some_and(|enough| cursor.matches >= enough);
            if cursor.offset < len && !enough {
                return Some(found);
            }
        }
        cursor.done = true;
        Some(found)
    }
}
