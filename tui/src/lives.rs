//! The lives of jobs, as far as a snapshot tells them: from its flight recorder, and from the list of those that ran.

use std::collections::BTreeMap;

use ax_wire::{
    JobId, TraceId,
    incident::{Incident, RunningJob},
    recorder::{RecordedEvent, RecordedKind, RecorderDump},
};

use crate::opened::Opened;

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Which; `None` for a task that is no job.
    pub job: Option<JobId>,
    pub name: String,
    pub lane: Option<String>,
    pub trace: Option<TraceId>,
    /// When it could have begun for the first time.
    pub ready_unix_ns: Option<u64>,
    /// Each time that it began, oldest first.
    pub attempts: Vec<Attempt>,
    /// Polls of 5 ms and more, from when to when.
    pub long_polls: Vec<(u64, u64)>,
}

/// One time that a job began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub ready_unix_ns: u64,
    pub started_unix_ns: u64,
    /// When and how it ended; `None`: it went on when the evidence was taken.
    pub ended: Option<(u64, End)>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Succeeded,
    /// With the word for it.
    Unsuccessful(&'static str),
}

impl Life {
    /// The first instant that is known.
    pub fn begin_unix_ns(&self) -> Option<u64> {
        let first = self.attempts.first().map(|attempt| attempt.ready_unix_ns);
        self.ready_unix_ns.into_iter().chain(first).min()
    }

    /// The last instant, for which `now` stands in where it had not ended.
    pub fn end_unix_ns(&self, now: u64) -> u64 {
        let ended = self.attempts.last().and_then(|attempt| attempt.ended);
        ended.map_or(now, |(at, _)| at)
    }
}

/// All that are known, in the order of their beginning.
pub fn lives(opened: &Opened) -> Vec<Life> {
    let Some(incident) = &opened.snapshot.incident else {
        return Vec::new();
    };
    let mut jobs = BTreeMap::new();
    if let Some(dump) = &incident.recorder {
        for event in &dump.events {
            take(&mut jobs, dump, event, opened.unix_ns(event.at_mono_ns));
        }
    }
    let mut tasks = Vec::new();
    for running in &incident.running {
        let Some(job) = running.task.job else {
            let mut life = Life::default();
            goes_on(&mut life, running, opened.at_unix_ns());
            tasks.push(life);
            continue;
        };
        goes_on(jobs.entry(job).or_default(), running, opened.at_unix_ns());
    }
    let mut all: Vec<Life> = jobs.into_values().chain(tasks).collect();
    all.retain(|life| life.begin_unix_ns().is_some());
    all.sort_by_key(Life::begin_unix_ns);
    all
}

fn take(
    jobs: &mut BTreeMap<JobId, Life>,
    dump: &RecorderDump,
    event: &RecordedEvent,
    at_unix_ns: u64,
) {
    let (Some(job), Some(of)) = (event.job, event.of) else {
        return;
    };
    let Some(named) = dump.names.get(of as usize) else {
        return;
    };
    let life = jobs.entry(job).or_default();
    life.job = Some(job);
    life.name.clone_from(&named.name);
    life.lane.clone_from(&named.lane);
    life.trace = life.trace.or(event.trace);
    let before = |length_ns: Option<u64>| at_unix_ns.saturating_sub(length_ns.unwrap_or(0));
    match event.kind {
        RecordedKind::Submitted | RecordedKind::Ready => {
            life.ready_unix_ns.get_or_insert(at_unix_ns);
        }
        RecordedKind::Started => life.attempts.push(Attempt {
            ready_unix_ns: before(event.length_ns),
            started_unix_ns: at_unix_ns,
            ended: None,
        }),
        RecordedKind::LongPoll => {
            let begun = before(event.length_ns);
            life.long_polls.push((begun, at_unix_ns));
        }
        kind => {
            if let Some(end) = end(kind) {
                // The length of a retry is the backoff that follows it.
                let ran = event.length_ns.filter(|_| kind != RecordedKind::Retried);
                close(life, at_unix_ns, ran, end);
            }
        }
    }
}

fn end(kind: RecordedKind) -> Option<End> {
    Some(match kind {
        RecordedKind::Succeeded => End::Succeeded,
        RecordedKind::Failed => End::Unsuccessful("failed"),
        RecordedKind::Retried => End::Unsuccessful("failed, to be tried again"),
        RecordedKind::Panicked => End::Unsuccessful("panicked"),
        RecordedKind::TimedOut => End::Unsuccessful("timed out"),
        RecordedKind::Cancelled => End::Unsuccessful("cancelled"),
        RecordedKind::Rejected => End::Unsuccessful("refused"),
        _ => return None,
    })
}

/// Ends the attempt that goes on. Where its beginning was pushed out, its length tells it; a job that never began ends
/// where it began.
fn close(life: &mut Life, at_unix_ns: u64, ran_ns: Option<u64>, end: End) {
    let ended = Some((at_unix_ns, end));
    if let Some(open) = life.attempts.last_mut().filter(|open| open.ended.is_none()) {
        open.ended = ended;
        return;
    }
    let started_unix_ns = at_unix_ns.saturating_sub(ran_ns.unwrap_or(0));
    life.attempts.push(Attempt {
        ready_unix_ns: life.ready_unix_ns.unwrap_or(started_unix_ns),
        started_unix_ns,
        ended,
    });
}

/// Adds what the list of running jobs knows: it is exact where the recorder has lost the beginning.
fn goes_on(life: &mut Life, running: &RunningJob, at_unix_ns: u64) {
    life.job = running.task.job;
    life.name.clone_from(&running.task.name);
    life.lane.clone_from(&running.task.lane);
    life.trace = life.trace.or(running.task.trace);
    if life.attempts.last().is_none_or(|last| last.ended.is_some()) {
        let started_unix_ns = at_unix_ns.saturating_sub(running.elapsed_ns);
        life.attempts.push(Attempt {
            ready_unix_ns: started_unix_ns.saturating_sub(running.queue_wait_ns),
            started_unix_ns,
            ended: None,
        });
    }
}

/// The traces to look at: those of what was stuck, then those of the jobs that ran longest.
pub fn traces(incident: &Incident) -> Vec<TraceId> {
    let stuck = incident
        .stalls
        .iter()
        .filter_map(|stall| stall.task.as_ref()?.trace);
    let running = incident.running.iter().filter_map(|job| job.task.trace);
    let mut traces = Vec::new();
    for trace in stuck.chain(running) {
        if !traces.contains(&trace) {
            traces.push(trace);
        }
    }
    traces
}

#[cfg(test)]
mod tests {
    use ax_wire::{recorder::RecordedName, sample::TaskKind};

    use super::*;
    use crate::opened::tests::fixture;

    const MS: u64 = 1_000_000;

    fn told(events: &[(u64, RecordedKind, Option<u64>)]) -> Vec<Life> {
        let mut opened = fixture();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        incident.running.clear();
        let zero = incident.at_mono_ns - 1_000 * MS;
        incident.recorder = Some(RecorderDump {
            events: events
                .iter()
                .map(|(at_ms, kind, length_ms)| RecordedEvent {
                    at_mono_ns: zero + at_ms * MS,
                    kind: *kind,
                    of: Some(0),
                    job: Some(JobId(1)),
                    trace: None,
                    length_ns: length_ms.map(|ms| ms * MS),
                })
                .collect(),
            names: vec![RecordedName {
                name: "query".to_owned(),
                kind: TaskKind::Job,
                lane: Some("db".to_owned()),
            }],
            ..RecorderDump::default()
        });
        lives(&opened)
    }

    /// When an attempt could begin, began, and how it ended.
    type Span = (u64, u64, Option<(u64, End)>);

    fn spans(life: &Life) -> Vec<Span> {
        let opened = fixture();
        let ms = |at: u64| 1_000 - (opened.at_unix_ns() - at) / MS;
        let attempts = life.attempts.iter();
        attempts
            .map(|attempt| {
                let ended = attempt.ended.map(|(at, end)| (ms(at), end));
                (
                    ms(attempt.ready_unix_ns),
                    ms(attempt.started_unix_ns),
                    ended,
                )
            })
            .collect()
    }

    #[test]
    fn a_job_that_is_tried_again_has_two_attempts() {
        let lives = told(&[
            (10, RecordedKind::Ready, None),
            (15, RecordedKind::Started, Some(5)),
            (25, RecordedKind::Retried, Some(50)),
            (80, RecordedKind::Started, Some(3)),
            (90, RecordedKind::LongPoll, Some(8)),
            (95, RecordedKind::Succeeded, Some(15)),
        ]);
        assert_eq!(lives.len(), 1);
        let again = End::Unsuccessful("failed, to be tried again");
        let expected = [
            (10, 15, Some((25, again))),
            (77, 80, Some((95, End::Succeeded))),
        ];
        assert_eq!(spans(&lives[0]), expected);
        assert_eq!(lives[0].long_polls.len(), 1);
    }

    #[test]
    fn a_beginning_that_was_pushed_out_is_made_of_the_length() {
        let lives = told(&[(95, RecordedKind::TimedOut, Some(15))]);
        let ended = Some((95, End::Unsuccessful("timed out")));
        assert_eq!(spans(&lives[0]), [(80, 80, ended)]);
    }

    #[test]
    fn a_job_that_only_waits_has_no_attempt_and_strangers_are_left_out() {
        let lives = told(&[
            (95, RecordedKind::Ready, None),
            (96, RecordedKind::Other, None),
        ]);
        assert_eq!(spans(&lives[0]), []);
        assert!(told(&[(95, RecordedKind::StallBegan, None)]).is_empty());
    }

    #[test]
    fn what_runs_is_known_without_a_recorder() {
        let opened = fixture();
        let lives = lives(&opened);
        let incident = opened.snapshot.incident.as_ref().expect("has one");
        assert_eq!(lives.len(), incident.running.len());
        assert!(
            lives.iter().all(|life| life.end_unix_ns(7) == 7),
            "none has ended"
        );
        assert!(traces(incident).len() > 3);
    }
}
