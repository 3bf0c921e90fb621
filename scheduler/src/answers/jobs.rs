//! A page of jobs that match a query.

use std::{
    collections::HashSet,
    ops::Bound::{Excluded, Unbounded},
};

use ax_wire::{
    JobId,
    job::{Facts as _, JobRow, JobSort, JobState, JobsPage, JobsQuery},
};

use super::{Candidate, LOCK_DEADLINE, ended_row};
use crate::{
    scheduler::Inner,
    shared::{Cursor, Shared},
    time,
};

/// Waiting jobs that are looked at under the ledger's lock at a time.
const SLICE: usize = 1_024;

/// Records of a lane that are looked at, newest first, and of these so many under the lock at a time.
const MAX_RECORDS: usize = 4_096;
const RECORDS_SLICE: usize = 128;

/// The best matches so far: never many more than are wanted.
pub(crate) struct Best<'a> {
    query: &'a JobsQuery,
    candidates: Vec<Candidate>,
    /// Slices overlap, so that a queue that moves meanwhile hides nothing.
    seen: HashSet<JobId>,
    matching: u64,
}

impl<'a> Best<'a> {
    fn new(query: &'a JobsQuery) -> Self {
        Self {
            query,
            candidates: Vec::new(),
            seen: HashSet::new(),
            matching: 0,
        }
    }

    /// Takes what was found in a slice, outside its lock.
    fn take(&mut self, found: Vec<Candidate>) {
        for candidate in found {
            if self.seen.insert(candidate.id()) {
                self.matching += 1;
                self.candidates.push(candidate);
            }
        }
        let limit = self.query.limit as usize;
        if self.candidates.len() > 2 * limit + SLICE {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.candidates.sort_by(|a, b| self.query.order(a, b));
        self.candidates.truncate(self.query.limit as usize);
    }
}

impl Inner {
    /// Adds the jobs that match to a page. See [`Source::jobs`](ax_probe::source::Source::jobs).
    pub(crate) fn answer_jobs(
        &self,
        query: &JobsQuery,
        now_ns: u64,
        until_ns: u64,
        page: &mut JobsPage,
    ) {
        let Some(lanes) = self.try_lanes() else {
            page.complete = false;
            page.unknown.push("lanes: one is being opened".to_owned());
            return;
        };
        page.live += lanes.iter().map(|lane| lane.live()).sum::<u64>();
        if let Some(row) = query.id().and_then(|id| self.known_by_id(id, now_ns)) {
            if query.matches(&row) {
                page.matching += 1;
                page.rows.push(row);
            }
            page.looked_at += 1;
            return;
        }
        let mut best = Best::new(query);
        if query.admits(JobState::Waiting) {
            self.look_at_waiting(&mut best, now_ns, until_ns, page);
        }
        let found = |best: &Best| query.id().is_some() && best.matching > 0;
        for lane in &lanes {
            for state in [JobState::Running, JobState::Ready] {
                if !query.admits(state) || found(&best) {
                    continue;
                }
                let mut cursor = Cursor::new(state, oldest_suffice(query));
                while !cursor.is_done() && !found(&best) {
                    if time::now_ns() >= until_ns {
                        page.complete = false;
                        break;
                    }
                    let before = cursor.looked_at();
                    let Some(found) = lane.search(query, &mut cursor, now_ns) else {
                        page.complete = false;
                        let text = format!("lane {}: its lock was held", lane.name);
                        page.unknown.push(text);
                        break;
                    };
                    best.take(found);
                    page.looked_at += cursor.looked_at() - before;
                }
            }
        }
        let ended = |state: &JobState| !state.is_live() && query.admits(*state);
        if JobState::ALL.iter().any(ended) {
            for lane in &lanes {
                look_at_records(lane, query, (now_ns, until_ns), page);
            }
        }
        best.cut();
        page.matching += best.matching;
        page.rows.extend(best.candidates.iter().map(Candidate::row));
    }

    /// A job that has ended and is remembered.
    pub(crate) fn answer_ended(&self, job: JobId, now_ns: u64) -> Option<JobRow> {
        let lanes = self.try_lanes()?;
        lanes.iter().find_map(|lane| {
            let records = lane.records.try_lock_for(LOCK_DEADLINE)?;
            let record = records.find(job)?;
            drop(records);
            Some(ended_row(&record, now_ns))
        })
    }

    /// A job that is found without a search: one that waits, or has ended and is remembered.
    fn known_by_id(&self, id: JobId, now_ns: u64) -> Option<JobRow> {
        let ledger = self.hub.ledger.try_lock_for(LOCK_DEADLINE);
        let waiting = ledger.and_then(|ledger| {
            let waiting = ledger.waiting.get(&id)?;
            Some(Candidate::waiting(waiting, now_ns))
        });
        let waiting = waiting.map(|waiting| waiting.row());
        waiting.or_else(|| self.answer_ended(id, now_ns))
    }

    fn look_at_waiting(
        &self,
        best: &mut Best<'_>,
        now_ns: u64,
        until_ns: u64,
        page: &mut JobsPage,
    ) {
        let mut after = None;
        loop {
            if time::now_ns() >= until_ns {
                page.complete = false;
                return;
            }
            let Some(ledger) = self.hub.ledger.try_lock_for(LOCK_DEADLINE) else {
                page.complete = false;
                page.unknown
                    .push("waiting jobs: their lock was held".to_owned());
                return;
            };
            let rest = ledger
                .waiting
                .range((after.map_or(Unbounded, Excluded), Unbounded));
            let mut found = Vec::new();
            let mut looked_at = 0;
            for (id, waiting) in rest.take(SLICE) {
                looked_at += 1;
                after = Some(*id);
                let candidate = Candidate::waiting(waiting, now_ns);
                if best.query.matches(&candidate) {
                    found.push(candidate);
                }
            }
            drop(ledger);
            page.looked_at += looked_at as u64;
            best.take(found);
            if looked_at < SLICE {
                return;
            }
        }
    }
}

/// The records of a lane change under a lock that its workers wait for, so they are copied a few at a time.
fn look_at_records(
    lane: &Shared,
    query: &JobsQuery,
    (now_ns, until_ns): (u64, u64),
    page: &mut JobsPage,
) {
    let mut offset = 0;
    loop {
        let Some(records) = lane.records.try_lock_for(LOCK_DEADLINE) else {
            page.complete = false;
            let text = format!("ended jobs of lane {}: their lock was held", lane.name);
            page.unknown.push(text);
            break;
        };
        let slice = records.slice(offset, RECORDS_SLICE);
        let all = records.len();
        drop(records);
        offset += RECORDS_SLICE;
        let rows = slice.iter().map(|record| ended_row(record, now_ns));
        let before = page.rows.len();
        page.rows.extend(rows.filter(|row| query.matches(row)));
        page.matching += (page.rows.len() - before) as u64;
        page.looked_at += slice.len() as u64;
        if offset >= all {
            break;
        }
        if offset >= MAX_RECORDS || time::now_ns() >= until_ns {
            page.complete = false;
            break;
        }
    }
    page.rows.sort_by(|a, b| query.order(a, b));
    page.rows.truncate(query.limit as usize);
}

/// Whether of the jobs of one priority the oldest are those that come first, so that the others need no look; and how
/// many.
fn oldest_suffice(query: &JobsQuery) -> Option<usize> {
    let by_age = matches!(query.sort, JobSort::Age | JobSort::Wait) && query.descending;
    // Running jobs come first, and then as many ready ones as still fit are as good as any.
    let by_state = query.sort == JobSort::State && !query.descending;
    (by_age || by_state).then_some(query.limit as usize)
}
