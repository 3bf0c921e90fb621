//! The lives of jobs, as far as they are told: by the flight recorder, and by the list of those that run.

use std::collections::BTreeMap;

use ax_wire::{
    JobId, TraceId,
    incident::{Incident, RunningJob},
    job::{JobRow, JobState},
    recorder::{RecordedEvent, RecordedKind, RecordedName},
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
    /// The job inside which it was submitted.
    pub parent: Option<JobId>,
    /// When it was accepted, where it had to wait for something then.
    pub submitted_unix_ns: Option<u64>,
    /// When it could have begun for the first time.
    pub ready_unix_ns: Option<u64>,
    /// Each time that it began, oldest first.
    pub attempts: Vec<Attempt>,
    /// Polls of 5 ms and more, from when to when.
    pub long_polls: Vec<(u64, u64)>,
    /// The shorter ones, where its trace is one of the sample.
    pub polls: Vec<(u64, u64)>,
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

/// The word for the end of a job that its lane has not taken.
pub const REFUSED: &str = "refused";

impl Life {
    /// The first instant that is known.
    pub fn begin_unix_ns(&self) -> Option<u64> {
        let first = self.attempts.first().map(|attempt| attempt.ready_unix_ns);
        let known = [self.submitted_unix_ns, self.ready_unix_ns, first];
        known.into_iter().flatten().min()
    }

    /// The last instant, for which `now` stands in where it had not ended.
    pub fn end_unix_ns(&self, now: u64) -> u64 {
        self.ended().map_or(now, |(at, _)| at)
    }

    /// When and how it ended, if it has.
    pub fn ended(&self) -> Option<(u64, End)> {
        self.attempts.last().and_then(|attempt| attempt.ended)
    }
}

/// All that a snapshot knows, in the order of their beginning.
pub fn lives(opened: &Opened) -> Vec<Life> {
    let Some(incident) = &opened.snapshot.incident else {
        return Vec::new();
    };
    let mut lives = incident
        .recorder
        .as_ref()
        .map_or_else(Lives::default, |dump| {
            Lives::told(&dump.events, &dump.names, |mono_ns| opened.unix_ns(mono_ns))
        });
    for running in &incident.running {
        lives.run(running, opened.at_unix_ns());
    }
    lives.in_order()
}

/// Lives that are being told.
#[derive(Debug, Default)]
pub struct Lives {
    jobs: BTreeMap<JobId, Life>,
    /// Tasks that are no jobs.
    tasks: Vec<Life>,
}

impl Lives {
    /// What these events tell, oldest first. `unix_ns` turns the service's monotonic clock into wall time.
    pub fn told(
        events: &[RecordedEvent],
        names: &[RecordedName],
        unix_ns: impl Fn(u64) -> u64,
    ) -> Self {
        let mut lives = Self::default();
        for event in events {
            lives.take(names, event, unix_ns(event.at_mono_ns));
        }
        lives
    }

    fn take(&mut self, names: &[RecordedName], event: &RecordedEvent, at_unix_ns: u64) {
        let (Some(job), Some(of)) = (event.job, event.of) else {
            return;
        };
        let Some(of_type) = names.get(of as usize) else {
            return;
        };
        let life = self.jobs.entry(job).or_default();
        life.job = Some(job);
        life.name.clone_from(&of_type.name);
        life.lane.clone_from(&of_type.lane);
        life.trace = life.trace.or(event.trace);
        life.parent = life.parent.or(event.parent);
        let before = |length_ns: Option<u64>| at_unix_ns.saturating_sub(length_ns.unwrap_or(0));
        match event.kind {
            RecordedKind::Submitted => {
                life.submitted_unix_ns.get_or_insert(at_unix_ns);
            }
            RecordedKind::Ready => {
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
            RecordedKind::Poll => {
                let begun = before(event.length_ns);
                life.polls.push((begun, at_unix_ns));
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

    /// Adds what the list of running jobs knows: it is exact where the recorder has lost the beginning.
    fn run(&mut self, running: &RunningJob, at_unix_ns: u64) {
        let mut task = Life::default();
        let life = match running.task.job {
            Some(job) => self.jobs.entry(job).or_default(),
            None => &mut task,
        };
        life.job = running.task.job;
        life.name.clone_from(&running.task.name);
        life.lane.clone_from(&running.task.lane);
        life.trace = life.trace.or(running.task.trace);
        life.runs(at_unix_ns, running.elapsed_ns, running.queue_wait_ns);
        if running.task.job.is_none() {
            self.tasks.push(task);
        }
    }

    /// Adds what the list of jobs knows, as of `at_unix_ns`.
    pub fn listed(&mut self, row: &JobRow, at_unix_ns: u64) {
        let life = self.jobs.entry(row.id).or_default();
        life.job = Some(row.id);
        life.name.clone_from(&row.job_type);
        life.lane.clone_from(&row.lane);
        life.trace = life.trace.or(row.trace);
        life.parent = life.parent.or(row.parent);
        let since = at_unix_ns.saturating_sub(row.age_ns);
        match row.state {
            JobState::Running => life.runs(at_unix_ns, row.age_ns, row.queue_wait_ns.unwrap_or(0)),
            JobState::Ready => {
                life.ready_unix_ns.get_or_insert(since);
            }
            JobState::Waiting if life.attempts.is_empty() => {
                life.submitted_unix_ns.get_or_insert(since);
            }
            // Its end is known from the recorder, unless that was off or has lost it.
            state if life.begin_unix_ns().is_none() => {
                let end = match state {
                    JobState::Succeeded => End::Succeeded,
                    state => End::Unsuccessful(state.word()),
                };
                close(life, since, row.run_ns, end);
            }
            _ => {}
        }
    }

    /// Those of which anything is known, in the order of their beginning.
    pub fn in_order(self) -> Vec<Life> {
        let mut all: Vec<Life> = self.jobs.into_values().chain(self.tasks).collect();
        all.retain(|life| life.begin_unix_ns().is_some());
        all.sort_by_key(Life::begin_unix_ns);
        all
    }
}

impl Life {
    /// It has run for so long, and waited before that.
    fn runs(&mut self, at_unix_ns: u64, elapsed_ns: u64, queue_wait_ns: u64) {
        if self.attempts.last().is_none_or(|last| last.ended.is_some()) {
            let started_unix_ns = at_unix_ns.saturating_sub(elapsed_ns);
            self.attempts.push(Attempt {
                ready_unix_ns: started_unix_ns.saturating_sub(queue_wait_ns),
                started_unix_ns,
                ended: None,
            });
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
        RecordedKind::Rejected => End::Unsuccessful(REFUSED),
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
    use ax_wire::{
        recorder::{RecordedName, RecorderDump},
        sample::TaskKind,
    };

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
                    parent: None,
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
