//! Jobs that are worth a look: picked once a second out of the flight recorder, and sent with all that it has of their
//! traces. Nothing is done for them while they run.

use std::collections::{HashMap, HashSet};

use ax_wire::{
    JobId, TraceId,
    event::Event,
    job::{JobRow, JobState},
    recorder::{RecordedEvent, RecordedKind, RecordedName},
    trace::{Exemplar, MAX_TRACE_EVENTS, RecordedTrace, Why, is_sampled},
};

use crate::{recorder, source, task_type};

/// An event is recorded a little after its time: the newest are left for the next look.
const SETTLES_NS: u64 = 100_000_000;

/// A look goes back so far at most, such as when an agent has just connected: the recorder's usual seconds.
const LOOKS_BACK_NS: u64 = 3_000_000_000;

/// No job is slow that took less.
const SLOW_NS: u64 = 10_000_000;

/// Jobs without success in one look, and of one type among them.
const MAX_FAILED: usize = 8;
const MAX_FAILED_OF_TYPE: usize = 2;

/// Slow jobs in one look, each the slowest of its type.
const MAX_SLOW: usize = 6;

/// Traces of the sample in one look.
const MAX_SAMPLED: usize = 4;

/// Events of all traces of one look: about 200 KiB on the way.
const MAX_EVENTS: usize = 4 * MAX_TRACE_EVENTS;

/// See the module.
#[derive(Default)]
pub(super) struct Exemplars {
    /// Events up to there have been looked at.
    looked_ns: u64,
}

/// How a job ended.
struct Ended<'a> {
    event: &'a RecordedEvent,
    job: JobId,
    trace: TraceId,
    why: Why,
    /// Of its last attempt, where the look saw it begin.
    wait_ns: Option<u64>,
}

impl Ended<'_> {
    fn took_ns(&self) -> u64 {
        self.wait_ns.unwrap_or(0) + self.event.length_ns.unwrap_or(0)
    }
}

impl Exemplars {
    /// What has been worth a look since the last call. Less than a millisecond at a thousand jobs a second.
    pub(super) fn take(&mut self, now_ns: u64) -> Vec<Event> {
        let until_ns = now_ns.saturating_sub(SETTLES_NS);
        let since_ns = self.looked_ns.max(now_ns.saturating_sub(LOOKS_BACK_NS));
        self.looked_ns = until_ns;
        let events = recorder::between(since_ns, until_ns);
        let picked = pick(&events);
        let traces: Vec<_> = picked.iter().map(|ended| ended.trace).collect();
        let mut room = MAX_EVENTS;
        let found = recorder::traces(&traces).into_iter().zip(&picked);
        let exemplars = found.map_while(|(trace, ended)| {
            room = room.checked_sub(trace.events.len())?;
            let job = source::ended_job(ended.job, now_ns);
            let job = job.unwrap_or_else(|| row(ended, &trace));
            let why = ended.why;
            Some(Event::Exemplar(Box::new(Exemplar { why, job, trace })))
        });
        exemplars.collect()
    }
}

/// The jobs to be shown: at most one of a trace.
fn pick(events: &[RecordedEvent]) -> Vec<Ended<'_>> {
    let mut waits = HashMap::new();
    let mut failed: Vec<Ended> = Vec::new();
    let mut slowest: HashMap<Option<u32>, Ended> = HashMap::new();
    let mut sampled: Vec<Ended> = Vec::new();
    for event in events {
        let (Some(job), Some(trace)) = (event.job, event.trace) else {
            continue;
        };
        let mut ended = Ended {
            event,
            job,
            trace,
            why: Why::Failed,
            wait_ns: waits.get(&job).copied(),
        };
        match event.kind {
            RecordedKind::Started => {
                waits.insert(job, event.length_ns.unwrap_or(0));
            }
            RecordedKind::Succeeded => {
                let slower = |known: &Ended| known.took_ns() < ended.took_ns();
                if is_sampled(trace) && sampled.len() < MAX_SAMPLED {
                    ended.why = Why::Sampled;
                    sampled.push(ended);
                } else if ended.took_ns() >= SLOW_NS && slowest.get(&event.of).is_none_or(slower) {
                    ended.why = Why::Slow;
                    slowest.insert(event.of, ended);
                }
            }
            // Not over yet: there is another attempt.
            RecordedKind::Retried => {}
            kind if kind.is_unsuccessful() => {
                let of_type = failed.iter().filter(|known| known.event.of == event.of);
                if failed.len() < MAX_FAILED && of_type.count() < MAX_FAILED_OF_TYPE {
                    failed.push(ended);
                }
            }
            _ => {}
        }
    }
    let mut slowest: Vec<_> = slowest.into_values().collect();
    slowest.sort_by_key(|ended| std::cmp::Reverse(ended.took_ns()));
    slowest.truncate(MAX_SLOW);
    let mut seen = HashSet::new();
    let all = failed.into_iter().chain(slowest).chain(sampled);
    all.filter(|ended| seen.insert(ended.trace)).collect()
}

/// What the recorder alone tells of a job that has ended.
fn row(ended: &Ended<'_>, trace: &RecordedTrace) -> JobRow {
    let own = || {
        let events = trace.events.iter();
        events.filter(|event| event.job == Some(ended.job))
    };
    let name: Option<&RecordedName> = own().find_map(|event| trace.names.get(event.of? as usize));
    let started = || own().filter(|event| event.kind == RecordedKind::Started);
    let never_ran = matches!(
        ended.event.kind,
        RecordedKind::Rejected | RecordedKind::Cancelled
    );
    JobRow {
        id: ended.job,
        job_type: name.map_or_else(String::new, |name| name.name.clone()),
        lane: name.and_then(|name| name.lane.clone()),
        trace: Some(ended.trace),
        place: name.and_then(place),
        parent: own().find_map(|event| event.parent),
        state: state(ended.event.kind),
        age_ns: trace.at_mono_ns.saturating_sub(ended.event.at_mono_ns),
        // A job that ends well in its first poll tells its end only.
        attempt: (started().count() as u32).max(u32::from(!never_ran)),
        queue_wait_ns: started()
            .next_back()
            .map_or(ended.wait_ns, |event| event.length_ns),
        run_ns: ended.event.length_ns,
        ..JobRow::default()
    }
}

/// Where jobs of this type were first submitted.
fn place(of: &RecordedName) -> Option<String> {
    task_type::find(of.kind, of.lane.as_deref(), &of.name)?.place_text()
}

fn state(kind: RecordedKind) -> JobState {
    match kind {
        RecordedKind::Succeeded => JobState::Succeeded,
        RecordedKind::Failed => JobState::Failed,
        RecordedKind::Panicked => JobState::Panicked,
        RecordedKind::TimedOut => JobState::TimedOut,
        RecordedKind::Cancelled => JobState::Cancelled,
        RecordedKind::Rejected => JobState::Rejected,
        _ => JobState::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn event(kind: RecordedKind, job: u64, of: u32, ms: u64) -> RecordedEvent {
        // None of these is of the sample.
        let mut traces = (1..=u128::MAX)
            .filter_map(TraceId::new)
            .filter(|id| !is_sampled(*id));
        RecordedEvent {
            at_mono_ns: job,
            kind,
            of: Some(of),
            job: Some(JobId(job)),
            trace: traces.nth(job as usize),
            length_ns: Some(ms * MS),
            parent: None,
        }
    }

    fn picked(events: &[RecordedEvent]) -> Vec<(Why, u64)> {
        let picked = pick(events).into_iter();
        picked.map(|ended| (ended.why, ended.job.0)).collect()
    }

    #[test]
    fn failures_come_first_and_no_type_takes_all_the_room() {
        use RecordedKind::{Failed, Rejected, Retried, Succeeded};
        let mut events: Vec<_> = (1..100).map(|job| event(Failed, job, 0, 1)).collect();
        events.push(event(Retried, 200, 1, 1));
        events.push(event(Rejected, 201, 1, 0));
        events.push(event(Succeeded, 202, 2, 900));
        events.push(event(Succeeded, 203, 2, 1_000));
        events.push(event(Succeeded, 204, 3, 9));
        let expected = [
            (Why::Failed, 1),
            (Why::Failed, 2),
            (Why::Failed, 201),
            (Why::Slow, 203),
        ];
        assert_eq!(picked(&events), expected);
    }

    #[test]
    fn a_job_that_waited_long_is_slow_though_it_ran_for_a_moment() {
        use RecordedKind::{Started, Succeeded};
        let events = [
            event(Started, 1, 0, 500),
            event(Succeeded, 1, 0, 1),
            event(Succeeded, 2, 0, 30),
        ];
        assert_eq!(picked(&events), [(Why::Slow, 1)]);
    }

    #[test]
    fn a_trace_is_sent_once_and_the_sample_is_bounded() {
        let mut twin = event(RecordedKind::Failed, 1, 0, 1);
        twin.job = Some(JobId(2));
        let events = [event(RecordedKind::Failed, 1, 0, 1), twin];
        assert_eq!(picked(&events), [(Why::Failed, 1)]);
        let sampled = (1..10_000)
            .filter_map(TraceId::new)
            .filter(|id| is_sampled(*id));
        let events: Vec<_> = sampled
            .take(20)
            .map(|trace| RecordedEvent {
                trace: Some(trace),
                ..event(RecordedKind::Succeeded, 7, 0, 0)
            })
            .collect();
        assert_eq!(picked(&events), [(Why::Sampled, 7); MAX_SAMPLED]);
    }
}
