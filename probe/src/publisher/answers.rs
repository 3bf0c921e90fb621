//! The answers to what a viewer asks through the agent: bounded in size, and in the time that they take.

use std::time::Duration;

use ax_wire::{
    TraceId,
    job::{JobsPage, JobsQuery, MAX_DEPTH, MAX_PAGE_ROWS, MatchKind, Term, TextField},
    query::{Answer, Answered, Inquiry, Question},
    trace::TraceView,
};

use crate::{clock, recorder, slot, source};

/// How long one look for jobs may go on: a million jobs are looked at in about that time.
const LOOK: Duration = Duration::from_millis(20);

/// What all answers of one cycle may take, in which none begins after so long. With ten cycles a second, a flood of
/// questions costs a quarter of a core at most.
const CYCLE_BUDGET: Duration = Duration::from_millis(5);

/// Answers the questions that came in one cycle.
pub(super) fn answer(inquiries: Vec<Inquiry>) -> Vec<Answer> {
    let until_ns = clock::now_ns().saturating_add(clock::duration_ns(CYCLE_BUDGET));
    let answers = inquiries.into_iter().map(|Inquiry { number, question }| {
        let outcome = if clock::now_ns() < until_ns {
            told(question)
        } else {
            Err("the service is asked too much at once".to_owned())
        };
        Answer { number, outcome }
    });
    answers.collect()
}

fn told(question: Question) -> Result<Answered, String> {
    let now_ns = clock::now_ns();
    match question {
        Question::Jobs(query) => Ok(Answered::Jobs(jobs(&query, now_ns))),
        Question::Trace { trace } => Ok(Answered::Trace(trace_view(trace, now_ns))),
        Question::Graph(query) => Ok(Answered::Graph(source::graph(&query, now_ns))),
        Question::Traces | Question::Histograms(_) | Question::Unknown => {
            Err("this ax-probe does not know the question: update it".to_owned())
        }
    }
}

fn jobs(query: &JobsQuery, now_ns: u64) -> JobsPage {
    let query = JobsQuery {
        offset: 0,
        limit: query.limit.min(MAX_DEPTH as u32),
        ..query.clone()
    };
    let until_ns = now_ns.saturating_add(clock::duration_ns(LOOK));
    source::jobs(&query, now_ns, until_ns, &slot::all())
}

fn trace_view(trace: TraceId, now_ns: u64) -> TraceView {
    let mut found = recorder::traces(&[trace]);
    let mut unknown = Vec::new();
    let recorded = found.pop().unwrap_or_else(|| {
        unknown.push("what was recorded of it: the flight recorder is off".to_owned());
        recorder::nothing_of(trace, now_ns)
    });
    let query = JobsQuery {
        terms: vec![Term::Text {
            field: TextField::Trace,
            how: MatchKind::Is,
            value: trace.to_string(),
            not: false,
        }],
        limit: MAX_PAGE_ROWS as u32,
        ..JobsQuery::default()
    };
    let page = jobs(&query, now_ns);
    if !page.complete {
        unknown.push(format!(
            "some jobs of it that are queued: {} of {} were looked at",
            page.looked_at, page.live
        ));
    }
    unknown.extend(page.unknown);
    TraceView {
        recorded,
        jobs: page.rows,
        unknown,
    }
}
