//! What the screens that ask are told by a snapshot file: the jobs, the traces and the waits that it holds, in the shape in
//! which an agent would tell them, and what it does not hold in words.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use ax_wire::{
    JobId, TraceId,
    graph::{Edge, Graph, GraphQuery, Node},
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

    fn graph(&self, query: &GraphQuery, incident: &Incident) -> Graph {
        let rows: BTreeMap<JobId, JobRow> = self
            .job_rows(incident)
            .into_iter()
            .map(|row| (row.id, row))
            .collect();
        let waiting: Vec<&WaitingJob> = incident
            .waiting
            .iter()
            .filter(|job| !job.on.is_empty())
            .filter(|job| query.lane.is_none() || job.task.lane == query.lane)
            .collect();
        let mut nodes: Vec<Node> = waiting.iter().map(|job| waiting_node(job)).collect();
        let mut known: BTreeSet<(Option<JobId>, String)> = BTreeSet::new();
        known.extend(nodes.iter().map(|node| (node.job, String::new())));
        for on in waiting.iter().flat_map(|job| &job.on) {
            let name = on.name.clone();
            let key = match on.job {
                Some(job) => (Some(job), String::new()),
                None => (None, name.clone().unwrap_or_default()),
            };
            if known.insert(key) {
                nodes.push(awaited_node(on.job, name, &rows));
            }
        }
        if let Some(around) = query.around {
            keep_around(&mut nodes, around);
        }
        let all: u64 = incident.lanes.iter().map(|lane| lane.waiting).sum();
        let listed = incident.waiting.len() as u64;
        let mut unknown = Vec::new();
        if all > listed {
            unknown.push(format!(
                "{} of {all} jobs that wait: the file lists those that have waited longest",
                all - listed
            ));
        }
        let long = |job: &&&WaitingJob| job.age_ns >= ax_wire::graph::LONG_WAIT_NS;
        Graph {
            waiting: waiting.len() as u64,
            long_waiting: Some(waiting.iter().filter(long).count() as u64),
            nodes,
            cut: all > listed,
            unknown,
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

fn waiting_node(job: &WaitingJob) -> Node {
    let after = job.on.iter().filter_map(|on| match (on.job, &on.name) {
        (Some(job), _) => Some(Edge::Job(job)),
        (None, name) => name.clone().map(Edge::Name),
    });
    Node {
        job: job.task.job,
        name: job.name.clone().unwrap_or_else(|| job.task.name.clone()),
        job_type: Some(job.task.name.clone()),
        lane: job.task.lane.clone(),
        state: JobState::Waiting,
        age_ns: Some(job.age_ns),
        trace: job.task.trace,
        after: after.collect(),
        ..Node::default()
    }
}

/// A job that is waited for, as far as the file knows it, or a name that no job has.
fn awaited_node(job: Option<JobId>, name: Option<String>, rows: &BTreeMap<JobId, JobRow>) -> Node {
    let row = job.and_then(|job| rows.get(&job));
    let nameless = || job.map_or_else(String::new, |_| "unknown".to_owned());
    Node {
        job,
        name: name
            .or_else(|| row.map(|row| row.job_type.clone()))
            .unwrap_or_else(nameless),
        job_type: row.map(|row| row.job_type.clone()),
        lane: row.and_then(|row| row.lane.clone()),
        state: row.map_or(JobState::Other, |row| row.state),
        age_ns: row.map(|row| row.age_ns),
        trace: row.and_then(|row| row.trace),
        ..Node::default()
    }
}

/// Keeps what a job waits for, and what waits for it, however far.
fn keep_around(nodes: &mut Vec<Node>, around: JobId) {
    let edges = |node: &Node| {
        let after = node.after.iter().filter_map(|edge| match edge {
            Edge::Job(job) => Some(*job),
            Edge::Name(_) => None,
        });
        after.collect::<Vec<_>>()
    };
    let mut kept = BTreeSet::from([around]);
    loop {
        let before = kept.len();
        for node in nodes.iter() {
            let Some(job) = node.job else { continue };
            let after = edges(node);
            if kept.contains(&job) {
                kept.extend(after);
            } else if after.iter().any(|job| kept.contains(job)) {
                kept.insert(job);
            }
        }
        if kept.len() == before {
            break;
        }
    }
    let named: BTreeSet<String> = nodes
        .iter()
        .filter(|node| node.job.is_some_and(|job| kept.contains(&job)))
        .flat_map(|node| &node.after)
        .filter_map(|edge| match edge {
            Edge::Name(name) => Some(name.clone()),
            Edge::Job(_) => None,
        })
        .collect();
    nodes.retain(|node| match node.job {
        Some(job) => kept.contains(&job),
        None => named.contains(&node.name),
    });
}

#[cfg(test)]
mod tests {
    use ax_wire::{job::JobSort, sample::TaskKind, sample::WaitedFor};

    use super::*;
    use crate::{
        app::App,
        keys::{Action, Key},
        opened::tests::fixture,
        query,
        screens::Mode,
        view::tests::drawn,
    };

    /// The snapshot with a flight recorder that must be read for ever.
    fn recorded() -> Opened {
        let json = include_str!("../../../tests/fixtures/snapshot-v1-stacks.json");
        let snapshot = serde_json::from_str(json).expect("reads for ever");
        Opened::new(snapshot, "snapshot-v1-stacks.json".to_owned())
    }

    /// The other one, with jobs that wait for each other: 2 for 1, which runs, and for a name; 3 for 2.
    fn waiting() -> Opened {
        let mut snapshot = fixture().snapshot;
        let incident = snapshot.incident.as_mut().expect("has one");
        let first = incident.running[0].task.job.expect("is a job");
        let task = |id: u64| TaskRef {
            name: "mail".to_owned(),
            kind: TaskKind::Job,
            job: Some(JobId(id)),
            lane: Some("api".to_owned()),
            place: None,
            trace: None,
        };
        let on = |job: Option<JobId>, name: Option<&str>| WaitedFor {
            job,
            name: name.map(str::to_owned),
        };
        incident.waiting = vec![
            WaitingJob {
                task: task(900_002),
                name: Some("weekly".to_owned()),
                age_ns: 400_000_000_000,
                reason: WaitingReason::Dependencies,
                on: vec![on(Some(first), None), on(None, Some("approval"))],
            },
            WaitingJob {
                task: task(900_003),
                name: None,
                age_ns: 5,
                reason: WaitingReason::Dependencies,
                on: vec![on(Some(JobId(900_002)), None)],
            },
        ];
        Opened::new(snapshot, "waiting.json".to_owned())
    }

    fn jobs(opened: &Opened, text: &str) -> JobsPage {
        let query = JobsQuery {
            terms: query::parse(text).expect(text),
            sort: JobSort::State,
            limit: 10,
            ..JobsQuery::default()
        };
        match opened.answer(&Question::Jobs(query)) {
            Ok(Answered::Jobs(page)) => page,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn jobs_are_found_by_where_they_stood() {
        let opened = waiting();
        let incident = opened.snapshot.incident.as_ref().expect("has one");
        let running = jobs(&opened, "state=running");
        assert_eq!(running.matching, incident.running_total);
        assert!(running.rows[0].place.is_some() && running.complete);
        let queued = jobs(&opened, "lane=files state=ready");
        assert_eq!((queued.matching, queued.rows.len()), (15, 10));
        let waits = jobs(&opened, "#900002");
        let wait = waits.rows[0].wait.as_ref().expect("waits");
        assert_eq!((wait.jobs.len(), wait.names.len()), (1, 1));
        assert_eq!(jobs(&opened, "#900009").matching, 0);
        let opened = recorded();
        let ended = jobs(&opened, "state=succeeded");
        assert_eq!(ended.matching, 53, "as the recorder tells");
        assert!(ended.rows.iter().all(|row| row.run_ns.is_some()));
    }

    #[test]
    fn what_the_file_has_not_is_said() {
        let mut opened = waiting();
        let incident = opened.snapshot.incident.as_mut().expect("has one");
        incident.queues[2].pending += 100;
        incident.running_total += 7;
        let page = jobs(&opened, "");
        assert!(!page.complete);
        assert!(
            page.unknown[0].starts_with("100 jobs that were queued"),
            "{page:?}"
        );
        assert!(page.unknown[1].starts_with("7 jobs"), "{page:?}");
        let why = opened
            .answer(&Question::Traces)
            .expect_err("has no recorder");
        assert!(why.contains("no flight recorder"), "{why}");
        opened.snapshot.incident = None;
        let why = opened.answer(&Question::Graph(GraphQuery::default()));
        assert!(why.expect_err("has nothing").contains("no single jobs"));
    }

    #[test]
    fn traces_are_told_by_the_recorder() {
        let opened = recorded();
        let Ok(Answered::Traces(list)) = opened.answer(&Question::Traces) else {
            panic!("tells none");
        };
        assert_eq!(list.traces.len(), 40, "those of jobs");
        let ends = |trace: &TraceSummary| trace.began_unix_ns + trace.length_ns;
        assert!(list.traces.is_sorted_by_key(|trace| Reverse(ends(trace))));
        let first = &list.traces[0];
        let question = Question::Trace { trace: first.trace };
        let Ok(Answered::Trace(view)) = opened.answer(&question) else {
            panic!("tells nothing of it");
        };
        assert_eq!(view.jobs.len() as u64, first.jobs);
        assert!(!view.recorded.events.is_empty() && view.unknown.is_empty());
    }

    #[test]
    fn who_waits_for_whom_is_told_and_around_a_job() {
        let opened = waiting();
        let graph =
            |around| match opened.answer(&Question::Graph(GraphQuery { around, lane: None })) {
                Ok(Answered::Graph(graph)) => graph,
                other => panic!("{other:?}"),
            };
        let all = graph(None);
        let states: Vec<_> = all
            .nodes
            .iter()
            .map(|node| (node.name.as_str(), node.state))
            .collect();
        assert_eq!(states.len(), 4, "{states:?}");
        assert_eq!(states[0], ("weekly", JobState::Waiting));
        assert_eq!(states[1], ("mail", JobState::Waiting));
        assert_eq!(states[2].1, JobState::Running);
        assert_eq!(states[3], ("approval", JobState::Other));
        assert_eq!((all.waiting, all.long_waiting), (2, Some(1)));
        assert_eq!(
            graph(Some(JobId(900_003))).nodes.len(),
            4,
            "all hang together"
        );
        assert!(graph(Some(JobId(4))).nodes.is_empty());
    }

    /// The screens that ask are answered by the file, at once and key by key.
    #[test]
    fn the_screens_of_an_opened_file_show_what_it_holds() {
        let mut app = App::of_file(recorded(), jiff::tz::TimeZone::UTC);
        let press = |app: &mut App, keys: &str| {
            for key in keys.split(' ') {
                let key: Key = key.parse().expect(key);
                app.press(&key.event(), 0);
            }
        };
        press(&mut app, "3");
        let text = drawn(&app, 120, 40);
        assert!(text.contains("p99.9") && !text.contains("asking"), "{text}");
        press(&mut app, "/ f a u l t enter");
        let text = drawn(&app, 120, 40);
        assert_eq!(app.mode, Mode::JobList);
        assert!(
            text.contains("none of ") || text.contains("that match"),
            "{text}"
        );
        press(&mut app, "4");
        let text = drawn(&app, 120, 40);
        assert!(text.contains("the file holds none of these"), "{text}");
        press(&mut app, "l l");
        let text = drawn(&app, 120, 40);
        assert!(
            text.contains("began ") && text.contains("recent 40"),
            "{text}"
        );
        press(&mut app, "enter");
        assert_eq!(app.mode, Mode::Trace);
        let text = drawn(&app, 120, 40);
        assert!(text.contains("began ") && text.contains(" jobs"), "{text}");
        press(&mut app, "6");
        let text = drawn(&app, 120, 40);
        assert!(
            !text.contains("asking") && !text.contains("is not asked"),
            "{text}"
        );
        app.update(Action::Open(Mode::Snapshots), 0);
        assert!(drawn(&app, 120, 40).contains("the file tells of no other"));
        let mut app = App::of_file(waiting(), jiff::tz::TimeZone::UTC);
        press(&mut app, "6");
        let text = drawn(&app, 120, 40);
        assert!(
            text.contains("weekly") && text.contains("approval"),
            "{text}"
        );
    }
}
