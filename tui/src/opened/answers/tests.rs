//! What a file answers, of the two snapshots that must be read for ever.

use ax_wire::{graph::GraphQuery, job::JobSort, sample::TaskKind, sample::WaitedFor};

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
    let json = include_str!("../../../../tests/fixtures/snapshot-v1-stacks.json");
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
    let graph = |around| match opened.answer(&Question::Graph(GraphQuery { around, lane: None })) {
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
