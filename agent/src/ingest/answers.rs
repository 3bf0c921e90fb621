//! Answers and exemplars of a service, and the questions of a viewer that are handed on to one, made safe.

use ax_wire::{
    control::{Action, Controlled},
    graph::{Edge, Graph, GraphQuery, MAX_EDGES, MAX_NODES, MAX_STEPS, Node},
    job::{
        JobRow, JobsPage, JobsQuery, MAX_DEPTH, MAX_NAMED_WAITS, MAX_PAGE_ROWS, MAX_TERMS, Term,
    },
    query::{Answer, Answered, Compared, Question, TypeKey},
    trace::{Exemplar, MAX_TRACE_EVENTS, MAX_TRACES, RecordedTrace, TraceList, TraceView},
};

use super::cut;
use crate::{
    config::MAX_TYPES,
    text::{clean, clean_some},
};

/// States that a term may name: there are ten.
const MAX_STATES: usize = 16;

/// Things that could not be looked at.
const MAX_UNKNOWN: usize = 64;

/// Cleans every text of an order.
pub(crate) fn clean_action(action: &mut Action) {
    match action {
        Action::Pause { lane } | Action::Resume { lane } | Action::Resize { lane, .. } => {
            clean(&mut lane.name);
        }
        Action::Inject { downstream, .. } => clean(downstream),
        Action::Cancel { .. } | Action::Retry { .. } | Action::Unknown => {}
    }
}

/// What a service says of an order.
pub(crate) fn clean_controlled(controlled: &mut Controlled) {
    let (Ok(text) | Err(text)) = &mut controlled.outcome;
    clean(text);
}

/// Cleans every text of a question, and cuts its lists.
pub(crate) fn clean_question(question: &mut Question) {
    match question {
        Question::Jobs(query) => clean_jobs_query(query),
        Question::Graph(GraphQuery { lane, .. }) => clean_some(lane),
        Question::Histograms(of) => clean_type(of),
        Question::Traces | Question::Trace { .. } | Question::Unknown => {}
    }
}

fn clean_jobs_query(query: &mut JobsQuery) {
    let mut folded = 0;
    cut(&mut query.terms, MAX_TERMS, &mut folded);
    for term in &mut query.terms {
        match term {
            Term::Text { value, .. } => clean(value),
            Term::State { any_of, .. } => cut(any_of, MAX_STATES, &mut folded),
            Term::Number { .. } | Term::Unknown => {}
        }
    }
    query.limit = query.limit.min(MAX_PAGE_ROWS as u32);
    query.offset = query.offset.min(MAX_DEPTH as u32 - query.limit);
}

fn clean_type(of: &mut TypeKey) {
    clean(&mut of.name);
    clean_some(&mut of.lane);
}

/// Cleans every text of an answer, and cuts its lists.
pub(crate) fn clean_answer(answer: &mut Answer) {
    let mut folded = 0;
    match &mut answer.outcome {
        Err(why) => clean(why),
        Ok(Answered::Jobs(page)) => clean_jobs(page, &mut folded),
        Ok(Answered::Trace(trace)) => clean_trace_view(trace, &mut folded),
        Ok(Answered::Graph(graph)) => clean_graph(graph, &mut folded),
        Ok(Answered::Traces(TraceList { traces, .. })) => {
            cut(traces, MAX_TRACES, &mut folded);
            for trace in traces {
                clean(&mut trace.job_type);
                clean_some(&mut trace.lane);
            }
        }
        // Histograms are the agent's own to tell.
        Ok(Answered::Histograms(histograms)) => {
            clean_type(&mut histograms.of);
            histograms.queue_wait = Compared::default();
            histograms.run = Compared::default();
            histograms.poll = Compared::default();
            histograms.schedule_delay = Compared::default();
        }
        Ok(Answered::Unknown) => {}
    }
}

fn clean_jobs(page: &mut JobsPage, folded: &mut u64) {
    cut(&mut page.rows, MAX_DEPTH, folded);
    for job in &mut page.rows {
        clean_row(job, folded);
    }
    cut(&mut page.unknown, MAX_UNKNOWN, folded);
    page.unknown.iter_mut().for_each(clean);
}

fn clean_row(job: &mut JobRow, folded: &mut u64) {
    clean(&mut job.job_type);
    clean_some(&mut job.lane);
    clean_some(&mut job.name);
    clean_some(&mut job.place);
    clean_some(&mut job.error);
    if let Some(waits_for) = &mut job.waits_for {
        clean(&mut waits_for.label);
    }
    if let Some(wait) = &mut job.wait {
        cut(&mut wait.jobs, MAX_NAMED_WAITS, folded);
        cut(&mut wait.names, MAX_NAMED_WAITS, folded);
        wait.names.iter_mut().for_each(clean);
    }
}

fn clean_trace_view(view: &mut TraceView, folded: &mut u64) {
    clean_trace(&mut view.recorded, folded);
    cut(&mut view.jobs, MAX_PAGE_ROWS, folded);
    for job in &mut view.jobs {
        clean_row(job, folded);
    }
    cut(&mut view.unknown, MAX_UNKNOWN, folded);
    view.unknown.iter_mut().for_each(clean);
}

/// The oldest events stay: they tell how the trace began.
fn clean_trace(recorded: &mut RecordedTrace, folded: &mut u64) {
    let mut cut_events = 0;
    cut(&mut recorded.events, MAX_TRACE_EVENTS, &mut cut_events);
    recorded.left_out = recorded.left_out.saturating_add(cut_events);
    *folded += cut_events;
    cut(&mut recorded.names, MAX_TYPES, folded);
    for name in &mut recorded.names {
        clean(&mut name.name);
        clean_some(&mut name.lane);
    }
    let known = recorded.names.len();
    for event in &mut recorded.events {
        event.of = event.of.filter(|name| (*name as usize) < known);
    }
}

/// Cleans every text of an exemplar, and cuts its lists.
pub(super) fn clean_exemplar(exemplar: &mut Exemplar, folded: &mut u64) {
    clean_row(&mut exemplar.job, folded);
    clean_trace(&mut exemplar.trace, folded);
}

fn clean_graph(graph: &mut Graph, folded: &mut u64) {
    cut(&mut graph.nodes, MAX_NODES, folded);
    for node in &mut graph.nodes {
        clean_node(node, folded);
    }
    cut(&mut graph.unknown, MAX_UNKNOWN, folded);
    graph.unknown.iter_mut().for_each(clean);
}

fn clean_node(node: &mut Node, folded: &mut u64) {
    clean(&mut node.name);
    clean_some(&mut node.job_type);
    clean_some(&mut node.lane);
    cut(&mut node.after, MAX_EDGES, folded);
    for edge in &mut node.after {
        if let Edge::Name(name) = edge {
            clean(name);
        }
    }
    if let Some(failure) = &mut node.failure {
        clean(&mut failure.reason);
        cut(&mut failure.path, MAX_STEPS, folded);
        for step in &mut failure.path {
            clean(&mut step.name);
        }
    }
}
