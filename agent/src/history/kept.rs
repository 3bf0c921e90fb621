//! The traces of jobs that were worth a look, from the exemplars that a service sends.
//!
//! At most [`MAX_FAILED`] + [`MAX_SLOW`] + [`MAX_SAMPLED`] traces, and [`MAX_BYTES`] in all. A type that fails or is slow
//! all the time does not push the others out: each has a share.

use std::collections::HashSet;

use ax_wire::{
    TraceId,
    hello::ClockAnchor,
    job::{JobRow, JobsQuery},
    recorder::{RecordedEvent, RecordedKind, RecordedName},
    trace::{Exemplar, MAX_TRACE_EVENTS, RecordedTrace, TraceList, TraceSummary, Why},
};

/// Traces of jobs that did not succeed.
const MAX_FAILED: usize = 150;

/// Of these, of one type.
const MAX_FAILED_OF_TYPE: usize = 30;

/// Traces of slow jobs.
const MAX_SLOW: usize = 100;

/// Of these, of one type: the slowest of the last 15 minutes.
const MAX_SLOW_OF_TYPE: usize = 5;

/// Traces of the sample.
const MAX_SAMPLED: usize = 50;

/// What all traces of a service may take in memory.
const MAX_BYTES: usize = 3 << 20;

/// When a slow job makes room for any other slow one of its type.
const SLOW_FOR_NS: u64 = super::HISTORY_NS;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Oldest first.
    traces: Vec<Exemplar>,
    forgotten_total: u64,
}

impl Kept {
    /// Takes an exemplar. A trace that is known already gets what is new of it.
    pub(crate) fn keep(&mut self, exemplar: Exemplar) {
        let trace = exemplar.trace.trace;
        if let Some(at) = self
            .traces
            .iter()
            .position(|kept| kept.trace.trace == trace)
        {
            let mut kept = self.traces.remove(at);
            merge(&mut kept.trace, exemplar.trace);
            if exemplar.why <= kept.why {
                (kept.why, kept.job) = (exemplar.why, exemplar.job);
            }
            self.traces.push(kept);
            return;
        }
        let (why, most, most_of_type) = match exemplar.why {
            Why::Failed => (Why::Failed, MAX_FAILED, MAX_FAILED_OF_TYPE),
            Why::Slow => (Why::Slow, MAX_SLOW, MAX_SLOW_OF_TYPE),
            Why::Sampled | Why::Other => (exemplar.why, MAX_SAMPLED, MAX_SAMPLED),
        };
        let same_type = |kept: &Exemplar| {
            kept.why == why
                && kept.job.job_type == exemplar.job.job_type
                && kept.job.lane == exemplar.job.lane
        };
        if self.traces.iter().filter(|kept| same_type(kept)).count() >= most_of_type {
            let at_ns = exemplar.trace.at_mono_ns;
            let of_type = self.traces.iter().enumerate();
            let of_type = of_type.filter(|(_, kept)| same_type(kept));
            let goes = if why == Why::Slow {
                // One that is past its time goes first, else the fastest.
                let past =
                    |kept: &Exemplar| at_ns.saturating_sub(kept.trace.at_mono_ns) > SLOW_FOR_NS;
                of_type.min_by_key(|(_, kept)| (!past(kept), kept.job.run_ns))
            } else {
                of_type.min_by_key(|(at, _)| *at)
            };
            let faster = |(_, kept): &(usize, &Exemplar)| {
                let past = at_ns.saturating_sub(kept.trace.at_mono_ns) > SLOW_FOR_NS;
                why != Why::Slow || past || kept.job.run_ns < exemplar.job.run_ns
            };
            let Some((at, _)) = goes.filter(faster) else {
                return;
            };
            self.forget(at);
        }
        self.traces.push(exemplar);
        if self.traces.iter().filter(|kept| kept.why == why).count() > most {
            self.forget_oldest(why);
        }
        let mut bytes: usize = self.traces.iter().map(bytes_of).sum();
        while bytes > MAX_BYTES {
            let before = self.traces.len();
            let most_expendable = [Why::Other, Why::Sampled, Why::Slow, Why::Failed];
            let why = most_expendable
                .into_iter()
                .find(|why| self.traces.iter().any(|kept| kept.why == *why));
            if let Some(why) = why {
                self.forget_oldest(why);
            }
            if self.traces.len() == before {
                break;
            }
            bytes = self.traces.iter().map(bytes_of).sum();
        }
    }

    fn forget_oldest(&mut self, why: Why) {
        if let Some(at) = self.traces.iter().position(|kept| kept.why == why) {
            self.forget(at);
        }
    }

    fn forget(&mut self, at: usize) {
        self.traces.remove(at);
        self.forgotten_total += 1;
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.traces.iter().map(bytes_of).sum()
    }

    /// Forgets the older half.
    pub(crate) fn forget_half(&mut self) {
        let half = self.traces.len().div_ceil(2);
        self.traces.drain(..half);
        self.forgotten_total += half as u64;
    }

    /// The jobs that match, as they would be listed now.
    pub(crate) fn jobs(&self, query: &JobsQuery, now_mono_ns: u64) -> Vec<JobRow> {
        let jobs = self.traces.iter().map(|kept| {
            let since_ns = now_mono_ns.saturating_sub(kept.trace.at_mono_ns);
            JobRow {
                age_ns: kept.job.age_ns.saturating_add(since_ns),
                ..kept.job.clone()
            }
        });
        jobs.filter(|job| query.matches(job)).collect()
    }

    /// What is kept of a trace.
    pub(crate) fn trace(&self, trace: TraceId) -> Option<&Exemplar> {
        self.traces.iter().find(|kept| kept.trace.trace == trace)
    }

    /// All of them, a line each, newest first.
    pub(crate) fn list(&self, clock: ClockAnchor) -> TraceList {
        let newest = self.traces.iter().rev();
        TraceList {
            traces: newest.map(|kept| summary(kept, clock)).collect(),
            forgotten_total: self.forgotten_total,
        }
    }
}

fn bytes_of(kept: &Exemplar) -> usize {
    let names = kept.trace.names.iter().map(|name| {
        size_of::<RecordedName>() + name.name.len() + name.lane.as_ref().map_or(0, String::len)
    });
    size_of::<Exemplar>()
        + 512
        + kept.trace.events.len() * size_of::<RecordedEvent>()
        + names.sum::<usize>()
}

fn summary(kept: &Exemplar, clock: ClockAnchor) -> TraceSummary {
    let events = &kept.trace.events;
    let begins = events.iter().map(|event| match event.kind {
        // Their length ends with them; a retry's follows.
        RecordedKind::Retried => event.at_mono_ns,
        _ => event
            .at_mono_ns
            .saturating_sub(event.length_ns.unwrap_or(0)),
    });
    let began_mono_ns = begins.min().unwrap_or(kept.trace.at_mono_ns);
    let ended_mono_ns = events
        .last()
        .map_or(began_mono_ns, |event| event.at_mono_ns);
    let jobs: HashSet<_> = events.iter().filter_map(|event| event.job).collect();
    let count =
        |of: fn(RecordedKind) -> bool| events.iter().filter(|event| of(event.kind)).count() as u64;
    TraceSummary {
        trace: kept.trace.trace,
        why: kept.why,
        job: kept.job.id,
        job_type: kept.job.job_type.clone(),
        lane: kept.job.lane.clone(),
        state: kept.job.state,
        queue_wait_ns: kept.job.queue_wait_ns,
        run_ns: kept.job.run_ns,
        jobs: jobs.len() as u64,
        unsuccessful: count(RecordedKind::is_unsuccessful),
        long_polls: count(|kind| kind == RecordedKind::LongPoll),
        began_unix_ns: clock.to_unix_ns(began_mono_ns),
        length_ns: ended_mono_ns.saturating_sub(began_mono_ns),
    }
}

/// Adds to what is known of a trace what another look at it has found.
pub(crate) fn merge(known: &mut RecordedTrace, other: RecordedTrace) {
    let mut indices = Vec::with_capacity(other.names.len());
    for name in other.names {
        let at = known.names.iter().position(|known| *known == name);
        indices.push(at.unwrap_or_else(|| {
            known.names.push(name);
            known.names.len() - 1
        }) as u32);
    }
    let same = |a: &RecordedEvent, b: &RecordedEvent| {
        a.at_mono_ns == b.at_mono_ns && a.kind == b.kind && a.job == b.job
    };
    for mut event in other.events {
        event.of = event.of.and_then(|of| indices.get(of as usize).copied());
        if !known.events.iter().any(|known| same(known, &event)) {
            known.events.push(event);
        }
    }
    known.events.sort_by_key(|event| event.at_mono_ns);
    let surplus = known.events.len().saturating_sub(MAX_TRACE_EVENTS);
    known.events.truncate(MAX_TRACE_EVENTS);
    known.left_out = known.left_out.max(other.left_out).max(surplus as u64);
    // Two looks that meet cover everything from the earlier on; between two that do not, something may be missing.
    let met = other.complete_since_mono_ns <= known.at_mono_ns
        && known.complete_since_mono_ns <= other.at_mono_ns;
    let (early, late) = (
        known
            .complete_since_mono_ns
            .min(other.complete_since_mono_ns),
        known
            .complete_since_mono_ns
            .max(other.complete_since_mono_ns),
    );
    known.complete_since_mono_ns = if met { early } else { late };
    known.at_mono_ns = known.at_mono_ns.max(other.at_mono_ns);
}

#[cfg(test)]
mod tests {
    use ax_wire::{JobId, job::JobState, sample::TaskKind};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn exemplar(number: u128, why: Why, job_type: &str, run_ms: u64, at_s: u64) -> Exemplar {
        let trace = TraceId::new(number).expect("not zero");
        let ended = RecordedEvent {
            at_mono_ns: at_s * S,
            kind: RecordedKind::Failed,
            of: Some(0),
            job: Some(JobId(number as u64)),
            trace: Some(trace),
            length_ns: Some(run_ms * 1_000_000),
            parent: None,
        };
        Exemplar {
            why,
            job: JobRow {
                id: JobId(number as u64),
                job_type: job_type.to_owned(),
                trace: Some(trace),
                state: JobState::Failed,
                run_ns: Some(run_ms * 1_000_000),
                ..JobRow::default()
            },
            trace: RecordedTrace {
                trace,
                events: vec![ended],
                names: vec![RecordedName {
                    name: job_type.to_owned(),
                    kind: TaskKind::Job,
                    lane: None,
                }],
                left_out: 0,
                complete_since_mono_ns: 0,
                at_mono_ns: at_s * S,
            },
        }
    }

    fn kept(kept: &Kept) -> Vec<u128> {
        kept.traces
            .iter()
            .map(|kept| kept.trace.trace.get())
            .collect()
    }

    #[test]
    fn the_slowest_of_each_type_stay_and_age_out() {
        let mut store = Kept::default();
        for (number, run_ms) in [(1, 50), (2, 10), (3, 40), (4, 30), (5, 20), (6, 60), (7, 5)] {
            store.keep(exemplar(number, Why::Slow, "pdf", run_ms, 10));
        }
        store.keep(exemplar(8, Why::Slow, "mail", 1, 10));
        assert_eq!(
            kept(&store),
            [1, 3, 4, 5, 6, 8],
            "the fastest went, the other type stayed"
        );
        store.keep(exemplar(9, Why::Slow, "pdf", 1, 10 + SLOW_FOR_NS / S + 1));
        assert!(kept(&store).contains(&9), "an old one made room");
        assert_eq!(
            store
                .list(ClockAnchor {
                    mono_ns: 0,
                    unix_ns: 0
                })
                .forgotten_total,
            2
        );
    }

    #[test]
    fn one_type_that_fails_all_the_time_leaves_room_for_the_others() {
        let mut store = Kept::default();
        store.keep(exemplar(1, Why::Failed, "rare", 1, 1));
        for number in 2..10_000 {
            store.keep(exemplar(number, Why::Failed, "often", 1, number as u64));
        }
        let all = kept(&store);
        assert_eq!((all[0], all.len()), (1, MAX_FAILED_OF_TYPE + 1));
        assert!(store.bytes() < MAX_BYTES);
    }

    #[test]
    fn many_types_with_long_traces_stay_within_the_bytes() {
        let mut store = Kept::default();
        for number in 1..1_000 {
            let mut long = exemplar(number, Why::Failed, &format!("type {number}"), 1, 1);
            long.trace.events = vec![long.trace.events[0]; MAX_TRACE_EVENTS];
            store.keep(long);
        }
        assert!(store.bytes() <= MAX_BYTES, "{}", store.bytes());
        assert!(kept(&store).len() > 50);
    }

    #[test]
    fn a_trace_that_comes_twice_is_one_with_all_its_events() {
        let mut store = Kept::default();
        store.keep(exemplar(1, Why::Sampled, "a", 1, 1));
        let mut again = exemplar(1, Why::Failed, "b", 2, 2);
        again.trace.events.push(store.traces[0].trace.events[0]);
        store.keep(again);
        let found = store
            .trace(TraceId::new(1).expect("not zero"))
            .expect("kept");
        assert_eq!((found.why, found.trace.events.len()), (Why::Failed, 2));
        let names = found.trace.events.iter().map(|event| {
            let name = &found.trace.names[event.of.expect("named") as usize];
            name.name.as_str()
        });
        assert_eq!(names.collect::<HashSet<_>>(), HashSet::from(["a", "b"]));
        let list = store.list(ClockAnchor {
            mono_ns: 0,
            unix_ns: 0,
        });
        assert_eq!((list.traces.len(), list.traces[0].unsuccessful), (1, 2));
    }

    #[test]
    fn kept_jobs_are_listed_as_old_as_they_are_now() {
        let mut store = Kept::default();
        store.keep(exemplar(1, Why::Failed, "a", 1, 10));
        let jobs = store.jobs(&JobsQuery::default(), 15 * S);
        assert_eq!((jobs.len(), jobs[0].age_ns), (1, 5 * S));
    }
}
