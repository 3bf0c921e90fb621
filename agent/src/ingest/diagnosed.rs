//! The lists of a sample that only diagnosis reads, made safe like the others.

use ax_wire::sample::{MAX_THREAD_GROUPS, MAX_WAITED_FOR, Sample, WaitingJob};

use super::{clean_task, cut, incident::clean_job};
use crate::text::{clean, clean_some};

/// Jobs of each kind that are kept of one sample: what a probe sends.
const MAX_JOBS: usize = 256;

pub(super) fn clean_facts(sample: &mut Sample, folded: &mut u64) {
    cut(&mut sample.threads, MAX_THREAD_GROUPS, folded);
    for group in &mut sample.threads {
        clean(&mut group.name);
    }
    cut(&mut sample.oldest_jobs, MAX_JOBS, folded);
    sample.oldest_jobs.iter_mut().for_each(clean_job);
    clean_waiting(&mut sample.waiting_jobs, folded);
}

pub(super) fn clean_waiting(jobs: &mut Vec<WaitingJob>, folded: &mut u64) {
    cut(jobs, MAX_JOBS, folded);
    for job in jobs {
        clean_task(&mut job.task);
        clean_some(&mut job.name);
        cut(&mut job.on, MAX_WAITED_FOR, folded);
        for on in &mut job.on {
            clean_some(&mut on.name);
        }
    }
}
