//! An incident, made safe like a sample: what goes into a file is later shown on a terminal, too.

use ax_wire::{
    incident::{Incident, MAX_QUEUED_JOBS, MAX_RUNNING_JOBS, QueueFacts, Reason, RunningJob},
    recorder::{MAX_RECORDED_EVENTS, RecorderDump},
};

use super::{
    clean_lane, clean_runtimes, clean_stack, clean_stall, clean_task, cut, cut_oldest,
    diagnosed::clean_waiting,
};
use crate::{
    config::{MAX_LAG_POINTS, MAX_LANES, MAX_TYPES},
    text::{clean, clean_some},
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
    if let Reason::Code { label: text } | Reason::Alert { rule: text } = &mut incident.reason {
        clean(text);
    }
    cut(&mut incident.stalls, MAX_STALLS, &mut folded);
    incident.stalls.iter_mut().for_each(clean_stall);
    cut(&mut incident.stacks, MAX_STALLS, &mut folded);
    incident.stacks.iter_mut().for_each(clean_stack);
    clean_runtimes(&mut incident.runtimes, &mut folded);
    cut(&mut incident.lanes, MAX_LANES, &mut folded);
    for lane in &mut incident.lanes {
        clean_lane(lane, &mut folded);
    }
    cut(&mut incident.running, MAX_RUNNING_JOBS, &mut folded);
    incident.running.iter_mut().for_each(clean_job);
    clean_waiting(&mut incident.waiting, &mut folded);
    cut(&mut incident.queues, MAX_LANES, &mut folded);
    for queue in &mut incident.queues {
        clean_queue(queue, &mut folded);
    }
    cut_oldest(&mut incident.lag, MAX_LAG_POINTS, &mut folded);
    if let Some(recorder) = &mut incident.recorder {
        clean_recorder(recorder, &mut folded);
    }
    cut(&mut incident.unknown, MAX_UNKNOWN, &mut folded);
    incident.unknown.iter_mut().for_each(clean);
    if folded > 0 {
        let said = format!("{folded} entries were more than are kept of one incident");
        incident.unknown.push(said);
    }
}

pub(super) fn clean_job(job: &mut RunningJob) {
    clean_task(&mut job.task);
    if let Some(waits_for) = &mut job.waits_for {
        clean(&mut waits_for.label);
    }
}

/// The names are those of the types. An event whose name is cut is one without a name.
fn clean_recorder(recorder: &mut RecorderDump, folded: &mut u64) {
    cut(&mut recorder.names, MAX_TYPES, folded);
    for name in &mut recorder.names {
        clean(&mut name.name);
        clean_some(&mut name.lane);
    }
    cut_oldest(&mut recorder.events, MAX_RECORDED_EVENTS, folded);
    let known = recorder.names.len();
    for event in &mut recorder.events {
        event.of = event.of.filter(|name| (*name as usize) < known);
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
