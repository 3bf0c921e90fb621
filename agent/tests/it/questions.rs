//! What viewers ask beyond what they are sent: answered from a history, by the service, or with the reason why not.

use ax_wire::{
    JobId, ToAgent, ToService, ToViewer, TraceId,
    event::{Event, Events},
    hello::Hello,
    job::{JobRow, JobState, JobsPage, JobsQuery, MAX_DEPTH, Term},
    query::{Answer, Answered, Ask, FEATURE, Inquiry, Question, TypeKey},
    recorder::{RecordedEvent, RecordedKind, RecordedName},
    sample::TaskKind,
    trace::{Exemplar, RecordedTrace, Why},
};

use crate::common::{Peer, TestAgent, done, hello, job_type, sample};

const MS: u64 = 1_000_000;

/// A service that can be asked.
fn asked_hello() -> Hello {
    let mut hello = hello("checkout");
    hello.features.push(FEATURE.to_owned());
    hello
}

fn trace() -> TraceId {
    TraceId::new(0xabc << 100).expect("not zero")
}

fn row(id: u64, state: JobState) -> JobRow {
    JobRow {
        id: JobId(id),
        job_type: "query".to_owned(),
        lane: Some("db".to_owned()),
        trace: Some(trace()),
        state,
        ..JobRow::default()
    }
}

fn jobs(terms: Vec<Term>) -> Question {
    Question::Jobs(JobsQuery {
        terms,
        limit: 10,
        ..JobsQuery::default()
    })
}

fn failed() -> Term {
    Term::State {
        any_of: vec![JobState::Failed],
        not: false,
    }
}

/// A job that failed, with its trace, as a probe sends it.
fn exemplar() -> ToAgent {
    let event = |at_mono_ns, kind, length_ns| RecordedEvent {
        at_mono_ns,
        kind,
        of: Some(0),
        job: Some(JobId(7)),
        trace: Some(trace()),
        length_ns,
        parent: None,
    };
    let exemplar = Exemplar {
        why: Why::Failed,
        job: row(7, JobState::Failed),
        trace: RecordedTrace {
            trace: trace(),
            events: vec![
                event(100 * MS, RecordedKind::Started, Some(5 * MS)),
                event(120 * MS, RecordedKind::Failed, Some(20 * MS)),
            ],
            names: vec![RecordedName {
                name: "query".to_owned(),
                kind: TaskKind::Job,
                lane: Some("db".to_owned()),
            }],
            left_out: 0,
            complete_since_mono_ns: 0,
            at_mono_ns: 200 * MS,
        },
    };
    ToAgent::Events(Events {
        events: vec![Event::Exemplar(Box::new(exemplar))],
    })
}

async fn answer(viewer: &mut Peer) -> Answer {
    viewer
        .wait_for(|frame| match frame {
            ToViewer::Answer(answer) => Some(*answer),
            _ => None,
        })
        .await
}

async fn ask(viewer: &mut Peer, hello: &Hello, number: u64, question: Question) {
    let instance = hello.instance;
    let ask = Ask {
        number,
        instance,
        question,
    };
    viewer.send(&ToAgent::Ask(ask)).await;
}

async fn inquiry(service: &mut Peer) -> Inquiry {
    loop {
        if let ToService::Ask(inquiry) = service.next().await {
            return inquiry;
        }
    }
}

fn page(answer: Answer) -> JobsPage {
    match answer.outcome {
        Ok(Answered::Jobs(page)) => page,
        other => panic!("no page of jobs: {other:?}"),
    }
}

/// Waits until the agent has taken in the exemplar of a service, which came on another connection.
async fn kept(viewer: &mut Peer, hello: &Hello) {
    loop {
        ask(viewer, hello, 0, Question::Traces).await;
        if let Ok(Answered::Traces(list)) = answer(viewer).await.outcome
            && !list.traces.is_empty()
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    }
}

#[tokio::test]
async fn a_page_of_the_service_is_completed_with_what_is_kept() {
    let agent = TestAgent::start();
    let hello = asked_hello();
    let mut service = agent.service(&hello).await;
    service.send_sample(sample(1)).await;
    service.send(&exemplar()).await;
    let mut viewer = agent.viewer().await;
    kept(&mut viewer, &hello).await;
    ask(&mut viewer, &hello, 1, jobs(Vec::new())).await;
    let Inquiry { number, question } = inquiry(&mut service).await;
    assert_eq!(question, jobs(Vec::new()));
    let mut rows = vec![row(9, JobState::Running), row(10, JobState::Ready)];
    // A hostile service answers more than anybody keeps.
    rows.extend((100..100 + 2 * MAX_DEPTH as u64).map(|id| row(id, JobState::Ready)));
    rows[0].job_type = "\u{1b}[2J".to_owned();
    let outcome = Ok(Answered::Jobs(JobsPage {
        matching: 2,
        rows,
        live: 2,
        looked_at: 2,
        complete: true,
        unknown: Vec::new(),
    }));
    let told = Answer { number, outcome };
    service.send(&ToAgent::Answer(Box::new(told))).await;
    let answer = answer(&mut viewer).await;
    assert_eq!(answer.number, 1, "the viewer's own number");
    let page = page(answer);
    assert_eq!(page.rows.len(), 10);
    assert_eq!(page.rows[0].id, JobId(9), "running ones come first");
    assert!(!page.rows[0].job_type.contains('\u{1b}'));
    assert_eq!(page.matching, 3, "with the kept one");
    agent.stop().await;
}

#[tokio::test]
async fn an_old_service_and_one_that_is_silent_or_gone_are_said_and_what_is_kept_is_shown() {
    let agent = TestAgent::start();
    let (old, new) = (hello("old"), asked_hello());
    let mut old_service = agent.service(&old).await;
    old_service.send_sample(sample(1)).await;
    old_service.send(&exemplar()).await;
    let mut viewer = agent.viewer().await;
    kept(&mut viewer, &old).await;
    ask(&mut viewer, &old, 1, jobs(vec![failed()])).await;
    let of_old = page(answer(&mut viewer).await);
    assert_eq!(of_old.rows.len(), 1, "from what the agent keeps");
    assert!(of_old.unknown[0].contains("cannot be asked"), "{of_old:?}");

    let mut service = agent.service(&new).await;
    service.send_sample(sample(1)).await;
    service.send(&exemplar()).await;
    kept(&mut viewer, &new).await;
    ask(&mut viewer, &new, 2, Question::Trace { trace: trace() }).await;
    inquiry(&mut service).await;
    let silent = answer(&mut viewer).await;
    let Ok(Answered::Trace(view)) = silent.outcome else {
        panic!("no trace: {silent:?}");
    };
    assert_eq!(view.recorded.events.len(), 2);
    assert!(view.unknown[0].contains("in time"), "{view:?}");

    ask(&mut viewer, &new, 3, Question::Traces).await;
    let Ok(Answered::Traces(list)) = answer(&mut viewer).await.outcome else {
        panic!("no list");
    };
    assert_eq!((list.traces.len(), list.traces[0].unsuccessful), (1, 1));

    ask(
        &mut viewer,
        &new,
        4,
        Question::Graph(ax_wire::graph::GraphQuery::default()),
    )
    .await;
    inquiry(&mut service).await;
    drop(service);
    let gone = answer(&mut viewer).await.outcome.expect_err("has no graph");
    assert!(gone.contains("gone"), "{gone}");
    agent.stop().await;
}

#[tokio::test]
async fn histograms_come_from_the_history_and_an_unknown_type_is_said() {
    let agent = TestAgent::start();
    let hello = asked_hello();
    let mut service = agent.service(&hello).await;
    for second in 1..=3 {
        let mut sample = sample(second);
        sample.types = vec![job_type("query", "db", done(second), &[4 * MS, 9 * MS])];
        service.send_sample(sample).await;
    }
    let mut viewer = agent.viewer().await;
    let of = |name: &str| {
        Question::Histograms(TypeKey {
            name: name.to_owned(),
            kind: TaskKind::Job,
            lane: Some("db".to_owned()),
        })
    };
    let mut number = 0;
    let found = loop {
        number += 1;
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        ask(&mut viewer, &hello, number, of("query")).await;
        if let Ok(Answered::Histograms(found)) = answer(&mut viewer).await.outcome
            && found.run.all.as_ref().is_some_and(|all| all.count() == 6)
        {
            break found;
        }
    };
    assert_eq!(found.run.lately.expect("recorded").count(), 6);
    assert!(found.queue_wait.all.is_none() || found.queue_wait.lately.is_some());
    ask(&mut viewer, &hello, 99, of("nothing")).await;
    let why = answer(&mut viewer).await.outcome.expect_err("is unknown");
    assert!(why.contains("no such type"), "{why}");
    agent.stop().await;
}

#[tokio::test]
async fn a_viewer_that_asks_in_a_flood_is_refused_and_a_stranger_instance_too() {
    let agent = TestAgent::start();
    let hello = asked_hello();
    let service = agent.service(&hello).await;
    let mut viewer = agent.viewer().await;
    for number in 0..200 {
        ask(&mut viewer, &hello, number, Question::Traces).await;
    }
    let mut refused = 0;
    for _ in 0..200 {
        refused += u32::from(answer(&mut viewer).await.outcome.is_err());
    }
    assert!(refused > 100, "{refused} of 200");
    let mut other = agent.viewer().await;
    ask(&mut other, &asked_hello(), 1, Question::Traces).await;
    let why = answer(&mut other).await.outcome.expect_err("is refused");
    assert!(why.contains("no such service"), "{why}");
    drop(service);
    agent.stop().await;
}
