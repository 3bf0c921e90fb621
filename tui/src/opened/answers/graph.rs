//! Who waited for whom, as far as a snapshot file lists it.

use std::collections::{BTreeMap, BTreeSet};

use ax_wire::{
    JobId,
    graph::{Edge, Graph, GraphQuery, LONG_WAIT_NS, Node},
    incident::Incident,
    job::{JobRow, JobState},
    sample::WaitingJob,
};

use crate::opened::Opened;

impl Opened {
    pub(super) fn graph(&self, query: &GraphQuery, incident: &Incident) -> Graph {
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
        let long = |job: &&&WaitingJob| job.age_ns >= LONG_WAIT_NS;
        Graph {
            waiting: waiting.len() as u64,
            long_waiting: Some(waiting.iter().filter(long).count() as u64),
            nodes,
            cut: all > listed,
            unknown,
        }
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
