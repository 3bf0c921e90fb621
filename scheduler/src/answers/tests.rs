//! F4: pages of jobs at any backlog; F61, F63: who waits for whom, and why a branch was cancelled.

use std::{
    convert::Infallible,
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use ax_probe::source::Source;
use ax_wire::{
    JobId,
    graph::{Edge, Graph, GraphQuery},
    job::{
        Comparison, JobSort, JobState, JobsPage, JobsQuery, MatchKind, NumberField, Term,
        TextField, WaitKind,
    },
};
use tokio::runtime::{Builder, Runtime};

use crate::{JobHandle, Lane, Scheduler, time};

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("builds")
}

/// A scheduler whose runtime nobody drives: what is submitted stays queued.
fn scheduler(runtime: &Runtime) -> Scheduler {
    Scheduler::builder()
        .runtime(runtime.handle().clone())
        .build()
}

fn lane(ax: &Scheduler, name: &str) -> Lane {
    let lane = ax.lane(name).limit(2).capacity(2_000_000).open();
    lane.expect("opens")
}

fn submit(ax: &Scheduler, lane: &Lane, name: &str, priority: u8) -> JobHandle<()> {
    let job = ax.job(name, |_| pending::<Result<(), Infallible>>());
    let job = job.lane(lane).priority(priority).submit();
    job.expect("the lane has room")
}

fn page(ax: &Scheduler, query: &JobsQuery) -> JobsPage {
    let mut page = JobsPage {
        complete: true,
        ..JobsPage::default()
    };
    let now_ns = time::now_ns();
    let until_ns = now_ns + 10_000_000_000;
    Source::jobs(&*ax.inner, query, now_ns, until_ns, &mut page);
    page.rows.sort_by(|a, b| query.order(a, b));
    page
}

fn graph(ax: &Scheduler, query: &GraphQuery) -> Graph {
    let mut graph = Graph {
        long_waiting: Some(0),
        ..Graph::default()
    };
    Source::graph(&*ax.inner, query, time::now_ns(), &mut graph);
    graph
}

fn text(field: TextField, value: &str) -> Term {
    Term::Text {
        field,
        how: MatchKind::Contains,
        value: value.to_owned(),
        not: false,
    }
}

fn query(terms: Vec<Term>) -> JobsQuery {
    JobsQuery {
        terms,
        limit: 10,
        ..JobsQuery::default()
    }
}

#[test]
fn a_page_holds_what_matches_in_the_order_that_was_asked_for() {
    let runtime = runtime();
    let ax = scheduler(&runtime);
    let (db, api) = (lane(&ax, "page-db"), lane(&ax, "page-api"));
    let jobs = [
        submit(&ax, &db, "page-query", 50),
        submit(&ax, &db, "page-query", 90),
        submit(&ax, &api, "page-call", 50),
    ];
    let ids = |page: &JobsPage| page.rows.iter().map(|row| row.id).collect::<Vec<_>>();
    let all = page(&ax, &query(Vec::new()));
    assert_eq!(ids(&all), jobs.each_ref().map(JobHandle::id));
    assert_eq!(
        (all.matching, all.live, all.looked_at, all.complete),
        (3, 3, 3, true)
    );
    let row = &all.rows[1];
    assert_eq!(
        (row.job_type.as_str(), row.lane.as_deref()),
        ("page-query", Some("page-db"))
    );
    assert_eq!(
        (row.state, row.priority, row.attempt),
        (JobState::Ready, Some(90), 0)
    );
    assert!(row.trace.is_some() && row.queue_wait_ns.is_some() && row.run_ns.is_none());
    assert!(row.place.as_deref().expect("known").contains("tests.rs:"));

    let of_db = page(&ax, &query(vec![text(TextField::Lane, "DB")]));
    assert_eq!((of_db.matching, of_db.rows.len()), (2, 2));
    let by_priority = JobsQuery {
        sort: JobSort::Priority,
        descending: true,
        limit: 1,
        ..query(vec![text(TextField::Type, "query")])
    };
    let first = page(&ax, &by_priority);
    assert_eq!((ids(&first), first.matching), (vec![jobs[1].id()], 2));
    let traced = page(
        &ax,
        &query(vec![text(
            TextField::Trace,
            &row.trace.expect("has one").to_string(),
        )]),
    );
    assert_eq!(ids(&traced), [jobs[1].id()]);
    let running = Term::State {
        any_of: vec![JobState::Running],
        not: false,
    };
    assert_eq!(
        page(&ax, &query(vec![running])).looked_at,
        0,
        "nothing else is looked at"
    );
}

/// The lane's lock is never held for long, whatever is looked for; the ends are found by their ids.
#[test]
fn a_long_queue_is_looked_through_and_every_job_can_be_found() {
    let jobs: u64 = if std::env::var_os("AX_FULL").is_some() {
        1_000_000
    } else {
        300_000
    };
    let runtime = runtime();
    let ax = scheduler(&runtime);
    let lane = lane(&ax, "page-long");
    let mut ids = Vec::new();
    for number in 0..jobs {
        let name = if number == jobs / 2 {
            "page-needle"
        } else {
            "page-hay"
        };
        ids.push(submit(&ax, &lane, name, (number % 100) as u8 + 1).id());
    }
    let by_id = |id: JobId| {
        query(vec![Term::Number {
            field: NumberField::Id,
            how: Comparison::Equal,
            value: id.0,
        }])
    };
    for at in [0, 1, jobs / 2, jobs - 1] {
        let id = ids[at as usize];
        let found = page(&ax, &by_id(id));
        assert_eq!(
            found.rows.iter().map(|row| row.id).collect::<Vec<_>>(),
            [id]
        );
    }
    let began = Instant::now();
    let needle = page(&ax, &query(vec![text(TextField::Type, "needle")]));
    println!("a name in a queue of {jobs}: {:?}", began.elapsed());
    assert_eq!(
        (needle.matching, needle.looked_at, needle.complete),
        (1, jobs, true)
    );

    let oldest = JobsQuery {
        sort: JobSort::Wait,
        descending: true,
        ..query(Vec::new())
    };
    let began = Instant::now();
    let oldest = page(&ax, &oldest);
    println!("the oldest of {jobs}: {:?}", began.elapsed());
    assert!(
        oldest
            .rows
            .iter()
            .map(|row| row.id)
            .eq(ids[..10].iter().copied())
    );
    assert!(
        oldest.looked_at <= 100 * 10,
        "only the oldest of each priority: {}",
        oldest.looked_at
    );

    let mut cut = JobsPage {
        complete: true,
        ..JobsPage::default()
    };
    let now_ns = time::now_ns();
    Source::jobs(
        &*ax.inner,
        &by_id(JobId(u64::MAX)),
        now_ns,
        now_ns,
        &mut cut,
    );
    assert!(!cut.complete && cut.looked_at < jobs, "the time is kept to");
}

#[test]
fn what_stands_behind_a_lock_that_is_held_is_said_to_be_unknown() {
    let runtime = runtime();
    let ax = scheduler(&runtime);
    let lane = lane(&ax, "page-held");
    let _job = submit(&ax, &lane, "page-held", 50);
    let shared = Arc::clone(&lane.shared);
    let held = shared.hold_for_tests();
    let page = page(&ax, &query(Vec::new()));
    drop(held);
    assert!(page.rows.is_empty() && !page.complete);
    assert!(page.unknown[0].contains("page-held"), "{:?}", page.unknown);
    let ledger = ax.inner.hub.ledger.lock();
    let unknown = graph(&ax, &GraphQuery::default()).unknown;
    drop(ledger);
    assert!(unknown[0].contains("jobs that wait"), "{unknown:?}");
}

fn named(ax: &Scheduler, name: &str, after: &[&str], fails: bool) -> JobHandle<()> {
    let body = move |_| async move {
        if fails {
            Err("the disk is full")
        } else {
            Ok(())
        }
    };
    let job = ax.job("graph-step", body).named(name);
    let job = job.after(after.iter().copied());
    job.submit().expect("the lane has room")
}

#[test]
fn a_graph_shows_who_waits_for_whom_and_for_a_name_that_nobody_has() {
    let runtime = runtime();
    let ax = scheduler(&runtime);
    let load = named(&ax, "load", &[], false);
    let sum = named(&ax, "sum", &["load"], false);
    let mail = named(&ax, "mail", &["sum", "approval"], false);
    let other = named(&ax, "other", &["nobody"], false);
    let all = graph(&ax, &GraphQuery::default());
    let node = |graph: &Graph, name: &str| {
        let mut nodes = graph.nodes.iter();
        nodes
            .find(|node| node.name == name)
            .cloned()
            .expect("there")
    };
    assert_eq!(
        (all.waiting, all.long_waiting, all.cut),
        (3, Some(0), false)
    );
    let (after, approval) = (node(&all, "mail").after, Edge::Name("approval".to_owned()));
    assert_eq!(after, [Edge::Job(sum.id()), approval]);
    assert_eq!(
        node(&all, "load").state,
        JobState::Ready,
        "it is queued, and known for being awaited"
    );
    assert_eq!(node(&all, "approval").job, None);
    assert_eq!(node(&all, "sum").state, JobState::Waiting);

    let around = graph(
        &ax,
        &GraphQuery {
            around: Some(load.id()),
            lane: None,
        },
    );
    let mut names: Vec<_> = around.nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["approval", "load", "mail", "sum"],
        "not the other one"
    );
    let waits = page(&ax, &query(vec![text(TextField::Name, "mail")]));
    let wait = waits.rows[0].wait.clone().expect("waits");
    assert_eq!(
        (wait.kind, wait.names),
        (WaitKind::Dependencies, vec!["approval".to_owned()])
    );
    drop((mail, other));
}

#[tokio::test]
async fn a_branch_that_was_cancelled_is_shown_with_the_path_of_the_reason() {
    let ax = Scheduler::new();
    let load = named(&ax, "load", &[], true);
    let sum = named(&ax, "sum", &["load"], false);
    let mail = named(&ax, "mail", &["sum"], false);
    let (load_id, sum_id, mail_id) = (load.id(), sum.id(), mail.id());
    mail.await.expect_err("it cannot run");
    for query in [
        GraphQuery::default(),
        GraphQuery {
            around: Some(sum_id),
            lane: None,
        },
    ] {
        let graph = graph(&ax, &query);
        let node = |job: JobId| {
            let mut nodes = graph.nodes.iter();
            nodes.find(|node| node.job == Some(job)).expect("there")
        };
        assert_eq!(node(load_id).state, JobState::Failed);
        assert_eq!(node(mail_id).state, JobState::Cancelled);
        let failure = node(mail_id).failure.as_ref().expect("has one");
        let path: Vec<_> = failure.path.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(path, ["load", "sum"]);
        assert!(
            failure.reason.contains("the disk is full"),
            "{}",
            failure.reason
        );
        assert_eq!(node(mail_id).after, [Edge::Job(sum_id)]);
        assert_eq!(node(sum_id).after, [Edge::Job(load_id)]);
    }
    let failed = Source::ended_job(&*ax.inner, load_id, time::now_ns()).expect("remembered");
    assert_eq!((failed.state, failed.attempt), (JobState::Failed, 1));
    assert!(failed.error.expect("said").contains("the disk is full"));
    let failed = page(
        &ax,
        &query(vec![Term::State {
            any_of: vec![JobState::Cancelled],
            not: false,
        }]),
    );
    assert_eq!(failed.matching, 2, "the two that depended on it");
    tokio::time::timeout(Duration::from_secs(10), ax.shutdown())
        .await
        .expect("ends");
}
