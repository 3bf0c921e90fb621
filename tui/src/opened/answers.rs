//! What the screens that ask are told by a snapshot file: the jobs, the traces and the waits that it holds, in the shape in
//! which an agent would tell them, and what it does not hold in words.

mod graph;

use std::{cmp::Reverse, collections::BTreeMap};

use ax_wire::{
    JobId, TraceId,
    incident::{Incident, RunningJob},
    job::{JobRow, JobState, JobWait, JobsPage, JobsQuery, WaitKind},
    query::{Answered, Compared, Question, TypeHistograms, TypeKey},
    recorder::{RecordedKind, RecorderDump},
    sample::{TaskRef, WaitingJob, WaitingReason},
    trace::{MAX_TRACES, RecordedTrace, TraceList, TraceSummary, TraceView, Why},
};

use super::{Opened, WINDOW_NS};
use crate::lives::{self, End, Life};

impl Opened {
    /// Answers a question from what the file holds.
    ///
    /// # Errors
    ///
    /// It holds nothing of it: the text says why.
    pub fn answer(&self, question: &Question) -> Result<Answered, String> {
        if let Question::Histograms(of) = question {
            return self.type_histograms(of);
        }
        let Some(incident) = &self.snapshot.incident else {
            return Err(
                "the file holds no single jobs: its service had gone when it was written"
                    .to_owned(),
            );
        };
        match question {
            Question::Jobs(query) => Ok(Answered::Jobs(self.jobs_page(query, incident))),
            Question::Traces => Ok(Answered::Traces(
                self.trace_list(recorder(incident)?, incident),
            )),
            Question::Trace { trace } => Ok(Answered::Trace(self.trace(*trace, incident))),
            Question::Graph(query) => Ok(Answered::Graph(self.graph(query, incident))),
            Question::Histograms(_) | Question::Unknown => Err("unknown".to_owned()),
        }
    }

    fn type_histograms(&self, of: &TypeKey) -> Result<Answered, String> {
        let mut types = self.snapshot.types.iter();
        let found = types
            .find(|known| (&known.name, known.kind, &known.lane) == (&of.name, of.kind, &of.lane));
        let found = found.ok_or("the file holds no histograms of this type")?;
        let compared = |histogram: &Option<_>| Compared {
            lately: histogram.clone(),
            all: histogram.clone(),
        };
        Ok(Answered::Histograms(Box::new(TypeHistograms {
            of: of.clone(),
            lately_ns: WINDOW_NS,
            all_ns: WINDOW_NS,
            queue_wait: compared(&found.queue_wait),
            run: compared(&found.run),
            poll: compared(&found.poll),
            schedule_delay: compared(&found.schedule_delay),
        })))
    }

    /// Every job that the file knows of: those that run, of those that are queued the ones that were taken down, those that
    /// wait, and those whose end the recorder still had.
    fn job_rows(&self, incident: &Incident) -> Vec<JobRow> {
        let mut rows: BTreeMap<JobId, JobRow> = BTreeMap::new();
        let running = incident.running.iter().filter_map(running_row);
        let waiting = incident.waiting.iter().filter_map(waiting_row);
        let queued = incident.queues.iter().flat_map(|queue| {
            let jobs = queue.oldest.iter().chain(&queue.next);
            jobs.map(|job| JobRow {
                id: job.job,
                job_type: job.name.clone(),
                lane: Some(queue.lane.clone()),
                priority: Some(job.priority),
                state: JobState::Ready,
                age_ns: job.age_ns,
                queue_wait_ns: Some(job.age_ns),
                ..JobRow::default()
            })
        });
        for row in running.chain(queued).chain(waiting) {
            rows.entry(row.id).or_insert(row);
        }
        let now = self.at_unix_ns();
        for life in lives::lives(self) {
            let Some(row) = lived_row(&life, now) else {
                continue;
            };
            match rows.get_mut(&row.id) {
                // What was listed is exact; the recorder knows whose child it is, and of which trace.
                Some(known) => {
                    known.trace = known.trace.or(row.trace);
                    known.parent = known.parent.or(row.parent);
                }
                None => {
                    rows.insert(row.id, row);
                }
            }
        }
        rows.into_values().collect()
    }

    fn jobs_page(&self, query: &JobsQuery, incident: &Incident) -> JobsPage {
        let all = self.job_rows(incident);
        let looked_at = all.len() as u64;
        let listed = all
            .iter()
            .filter(|row| row.state == JobState::Ready)
            .count() as u64;
        let queued: u64 = incident.queues.iter().map(|queue| queue.pending).sum();
        let mut rows: Vec<_> = all.into_iter().filter(|row| query.matches(row)).collect();
        rows.sort_by(|a, b| query.order(a, b));
        let matching = rows.len() as u64;
        let rows = rows
            .into_iter()
            .skip(query.offset as usize)
            .take(query.limit as usize);
        let mut unknown = Vec::new();
        if queued > listed {
            unknown.push(format!(
                "{} jobs that were queued: the file lists the oldest and the next of each lane",
                queued - listed
            ));
        }
        let running = incident.running.len() as u64;
        if incident.running_total > running {
            let more = incident.running_total - running;
            unknown.push(format!("{more} jobs that ran less long"));
        }
        let waiting: u64 = incident.lanes.iter().map(|lane| lane.waiting).sum();
        JobsPage {
            rows: rows.collect(),
            matching,
            live: queued + incident.running_total + waiting,
            looked_at,
            complete: unknown.is_empty(),
            unknown,
        }
    }

    fn trace_list(&self, recorder: &RecorderDump, incident: &Incident) -> TraceList {
        let mut told: BTreeMap<TraceId, Told> = BTreeMap::new();
        let all = lives::lives(self);
        for life in &all {
            if let Some(trace) = life.trace {
                told.entry(trace).or_default().lives.push(life);
            }
        }
        for event in &recorder.events {
            let told = event.trace.and_then(|trace| told.get_mut(&trace));
            if let Some(told) = told {
                told.unsuccessful += u64::from(event.kind.is_unsuccessful());
                told.long_polls += u64::from(event.kind == RecordedKind::LongPoll);
            }
        }
        for trace in lives::traces(incident) {
            told.entry(trace).or_default().stuck = true;
        }
        let now = self.at_unix_ns();
        let told = told.into_iter();
        let mut traces: Vec<_> = told
            .filter_map(|(trace, told)| told.summary(trace, now))
            .collect();
        traces.sort_by_key(|trace| Reverse(trace.began_unix_ns + trace.length_ns));
        let forgotten_total = traces.len().saturating_sub(MAX_TRACES) as u64;
        traces.truncate(MAX_TRACES);
        TraceList {
            traces,
            forgotten_total,
        }
    }

    fn trace(&self, trace: TraceId, incident: &Incident) -> TraceView {
        let recorder = incident.recorder.as_ref();
        let events = recorder.map_or(&[][..], |recorder| &recorder.events).iter();
        let jobs = self.job_rows(incident).into_iter();
        TraceView {
            recorded: RecordedTrace {
                trace,
                events: events
                    .filter(|event| event.trace == Some(trace))
                    .copied()
                    .collect(),
                names: recorder.map_or_else(Vec::new, |recorder| recorder.names.clone()),
                left_out: 0,
                complete_since_mono_ns: recorder.map_or(incident.at_mono_ns, |recorder| {
                    recorder.complete_since_mono_ns
                }),
                at_mono_ns: incident.at_mono_ns,
            },
            jobs: jobs.filter(|job| job.trace == Some(trace)).collect(),
            unknown: self::recorder(incident).err().into_iter().collect(),
        }
    }
}

/// What a file tells of one trace.
#[derive(Default)]
struct Told<'a> {
    /// In the order of their beginning.
    lives: Vec<&'a Life>,
    unsuccessful: u64,
    long_polls: u64,
    /// Whether a job of it was stuck, or ran, when the evidence was taken.
    stuck: bool,
}

impl Told<'_> {
    fn summary(&self, trace: TraceId, now: u64) -> Option<TraceSummary> {
        let rows: Vec<JobRow> = self
            .lives
            .iter()
            .filter_map(|life| lived_row(life, now))
            .collect();
        // The one that failed, else the one that began first.
        let failed = rows.iter().find(|row| row.state.is_unsuccessful());
        let job = failed.or_else(|| rows.first())?;
        let began_unix_ns = self
            .lives
            .iter()
            .filter_map(|life| life.begin_unix_ns())
            .min()?;
        let ended_unix_ns = self.lives.iter().map(|life| life.end_unix_ns(now)).max()?;
        let why = match (failed, self.stuck || self.long_polls > 0) {
            (Some(_), _) => Why::Failed,
            (None, true) => Why::Slow,
            (None, false) => Why::Other,
        };
        Some(TraceSummary {
            trace,
            why,
            job: job.id,
            job_type: job.job_type.clone(),
            lane: job.lane.clone(),
            state: job.state,
            queue_wait_ns: job.queue_wait_ns,
            run_ns: job.run_ns,
            jobs: rows.len() as u64,
            unsuccessful: self.unsuccessful,
            long_polls: self.long_polls,
            began_unix_ns,
            length_ns: ended_unix_ns.saturating_sub(began_unix_ns),
        })
    }
}

fn recorder(incident: &Incident) -> Result<&RecorderDump, String> {
    let recorder = incident.recorder.as_ref();
    recorder.ok_or_else(|| "the file holds no flight recorder: that was off".to_owned())
}

fn row_of(task: &TaskRef, state: JobState) -> Option<JobRow> {
    Some(JobRow {
        id: task.job?,
        job_type: task.name.clone(),
        lane: task.lane.clone(),
        place: task.place.clone(),
        trace: task.trace,
        state,
        ..JobRow::default()
    })
}

fn running_row(job: &RunningJob) -> Option<JobRow> {
    Some(JobRow {
        priority: Some(job.priority),
        age_ns: job.elapsed_ns,
        attempt: job.attempt,
        queue_wait_ns: Some(job.queue_wait_ns),
        run_ns: Some(job.elapsed_ns),
        poll_age_ns: job.poll_age_ns,
        last_poll_ns: job.unpolled_ns,
        waits_for: job.waits_for.clone(),
        ..row_of(&job.task, JobState::Running)?
    })
}

fn waiting_row(job: &WaitingJob) -> Option<JobRow> {
    let kind = match job.reason {
        WaitingReason::Dependencies => WaitKind::Dependencies,
        WaitingReason::Time => WaitKind::Time,
        WaitingReason::Retry => WaitKind::Retry,
        WaitingReason::Person => WaitKind::Person,
        WaitingReason::Other => WaitKind::Other,
    };
    let nameless = job.on.iter().filter(|on| on.job.is_none());
    Some(JobRow {
        name: job.name.clone(),
        age_ns: job.age_ns,
        wait: Some(JobWait {
            kind,
            left_ns: None,
            jobs: job.on.iter().filter_map(|on| on.job).collect(),
            names: nameless.filter_map(|on| on.name.clone()).collect(),
        }),
        ..row_of(&job.task, JobState::Waiting)?
    })
}

/// What the recorder knows of a job.
fn lived_row(life: &Life, now: u64) -> Option<JobRow> {
    let last = life.attempts.last();
    let (state, since) = match last.map(|last| last.ended) {
        Some(Some((at, End::Succeeded))) => (JobState::Succeeded, at),
        Some(Some((at, End::Unsuccessful(how)))) => (state_of(how), at),
        Some(None) => (JobState::Running, last?.started_unix_ns),
        None => match life.ready_unix_ns {
            Some(ready) => (JobState::Ready, ready),
            None => (JobState::Waiting, life.submitted_unix_ns?),
        },
    };
    Some(JobRow {
        id: life.job?,
        job_type: life.name.clone(),
        lane: life.lane.clone(),
        trace: life.trace,
        parent: life.parent,
        state,
        age_ns: now.saturating_sub(since),
        attempt: life.attempts.len() as u32,
        queue_wait_ns: last.map(|last| last.started_unix_ns.saturating_sub(last.ready_unix_ns)),
        run_ns: last.map(|last| {
            let end = last.ended.map_or(now, |(at, _)| at);
            end.saturating_sub(last.started_unix_ns)
        }),
        ..JobRow::default()
    })
}

/// The state behind the word for an end. A job that is to be tried again waits.
fn state_of(how: &str) -> JobState {
    let ended = JobState::ALL.into_iter().find(|state| state.word() == how);
    match how {
        lives::REFUSED => JobState::Rejected,
        _ => ended.unwrap_or(JobState::Waiting),
    }
}

#[cfg(test)]
mod tests;
