//! An incident, made safe like a sample: what goes into a file is later shown on a terminal, too.

use ax_wire::incident::{Incident, MAX_QUEUED_JOBS, MAX_RUNNING_JOBS, QueueFacts, Reason};

use super::{clean_counters, clean_runtimes, clean_stall, clean_task, cut};
use crate::{
    config::{MAX_LAG_POINTS, MAX_LANES, MAX_TYPES},
    text::clean,
};

/// Stalls going on at once: a worker has one, and a few watched futures.
const MAX_STALLS: usize = 512;

/// Priorities are 1 to 100.
const MAX_PRIORITIES: usize = 100;

/// Things that could not be looked at.
const MAX_UNKNOWN: usize = 64;

/// Cleans every text of an incident, and cuts its lists. What was cut is said among what is unknown.
pub(crate) fn clean_incident(incident: &mut Incident) {
    let mut folded = 0;
    if let Reason::Code { label } = &mut incident.reason {
        clean(label);
    }
    cut(&mut incident.stalls, MAX_STALLS, &mut folded);
    incident.stalls.iter_mut().for_each(clean_stall);
    clean_runtimes(&mut incident.runtimes, &mut folded);
    cut(&mut incident.lanes, MAX_LANES, &mut folded);
    for lane in &mut incident.lanes {
        clean(&mut lane.name);
        clean_counters(&mut lane.counters);
    }
    cut(&mut incident.running, MAX_RUNNING_JOBS, &mut folded);
    for job in &mut incident.running {
        clean_task(&mut job.task);
    }
    cut(&mut incident.queues, MAX_LANES, &mut folded);
    for queue in &mut incident.queues {
        clean_queue(queue, &mut folded);
    }
    cut(&mut incident.lag, MAX_LAG_POINTS, &mut folded);
    cut(&mut incident.unknown, MAX_UNKNOWN, &mut folded);
    incident.unknown.iter_mut().for_each(clean);
    if folded > 0 {
        let said = format!("{folded} entries were more than are kept of one incident");
        incident.unknown.push(said);
    }
}

fn clean_queue(queue: &mut QueueFacts, folded: &mut u64) {
    clean(&mut queue.lane);
    if let Some(types) = &mut queue.by_type {
        cut(types, MAX_TYPES, folded);
        for of in types {
            clean(&mut of.name);
        }
    }
    if let Some(priorities) = &mut queue.by_priority {
        cut(priorities, MAX_PRIORITIES, folded);
    }
    for jobs in [&mut queue.oldest, &mut queue.next] {
        cut(jobs, MAX_QUEUED_JOBS, folded);
        for job in jobs {
            clean(&mut job.name);
        }
    }
}
