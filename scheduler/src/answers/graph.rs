//! Who waits for whom: the jobs that have waited longest with what they wait for, or everything around one job, and the
//! branches that were cancelled because something in them failed.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use ax_wire::{
    JobId,
    graph::{Edge, Failure, Graph, GraphQuery, LONG_WAIT_NS, MAX_EDGES, MAX_NODES, Node, Step},
    job::JobState,
};

use super::{LOCK_DEADLINE, ended_state};
use crate::{
    JobRecord, JobState as State, WaitKind,
    cell::Job,
    ledger::{Dep, Ledger, step_of},
    plan::{DependencyFailure, PathStep},
    scheduler::Inner,
};

/// Waiting jobs that are looked at to count those that wait long: about a millisecond.
const LOOKS: usize = 10_000;

/// Records of each lane that are looked at for cancelled branches, newest first.
const RECORDS: usize = 512;

/// The part of the nodes that may be of cancelled branches, while others wait.
const MAX_CANCELLED: usize = MAX_NODES / 4;

/// What is copied under the ledger's lock.
struct Copied {
    job: Arc<dyn Job>,
    /// Since when it waits, where it does.
    since_ns: Option<u64>,
    after: Vec<Dep>,
    any: bool,
}

impl Inner {
    /// Adds the nodes that match. See [`Source::graph`](ax_probe::source::Source::graph).
    pub(crate) fn answer_graph(&self, query: &GraphQuery, now_ns: u64, graph: &mut Graph) {
        let mut nodes = Nodes::default();
        if let Some(ledger) = self.hub.ledger.try_lock_for(LOCK_DEADLINE) {
            let copied = copy(&ledger, query, now_ns, graph);
            drop(ledger);
            for copied in copied {
                nodes.add_live(&copied, now_ns);
            }
        } else {
            graph.long_waiting = None;
            let text = "jobs that wait: their lock was held";
            graph.unknown.push(text.to_owned());
        }
        for record in self.cancelled(query, graph) {
            nodes.add_ended(&record, now_ns);
        }
        self.complete(&mut nodes, now_ns);
        let room = MAX_NODES.saturating_sub(graph.nodes.len());
        graph.cut |= nodes.0.len() > room;
        graph.nodes.extend(nodes.0.into_values().take(room));
    }

    /// The records of jobs that were cancelled because of others.
    fn cancelled(&self, query: &GraphQuery, graph: &mut Graph) -> Vec<JobRecord> {
        let Some(lanes) = self.try_lanes() else {
            graph.unknown.push("lanes: one is being opened".to_owned());
            return Vec::new();
        };
        let mut found = Vec::new();
        for lane in lanes {
            if query
                .lane
                .as_ref()
                .is_some_and(|wanted| **wanted != *lane.name)
            {
                continue;
            }
            let Some(records) = lane.records.try_lock_for(LOCK_DEADLINE) else {
                let text = format!("ended jobs of lane {}: their lock was held", lane.name);
                graph.unknown.push(text);
                continue;
            };
            let newest = records.newest().take(RECORDS);
            let because_of_others = newest.filter(|record| record.failure.is_some());
            let around = because_of_others.filter(|record| {
                query.around.is_none_or(|job| {
                    let path = record.failure.iter().flat_map(|failure| &failure.path);
                    record.id == job || path.into_iter().any(|step| step.job == Some(job))
                })
            });
            found.extend(around.take(MAX_CANCELLED).cloned());
        }
        found.sort_by_key(|record| std::cmp::Reverse(record.ended_ns));
        graph.cut |= found.len() > MAX_CANCELLED;
        found.truncate(MAX_CANCELLED);
        found
    }

    /// Tells what is remembered of the ended jobs that stand on a path only.
    fn complete(&self, nodes: &mut Nodes, now_ns: u64) {
        let lanes = self.try_lanes().unwrap_or_default();
        let bare = nodes.0.values_mut().filter(|node| node.job_type.is_none());
        for node in bare {
            let record = node.job.and_then(|job| {
                lanes.iter().find_map(|lane| {
                    let records = lane.records.try_lock_for(LOCK_DEADLINE)?;
                    records.find(job)
                })
            });
            if let Some(record) = record {
                let after = std::mem::take(&mut node.after);
                *node = ended_node(&record, now_ns);
                node.after = after;
            }
        }
    }
}

/// Copies the part of the graph that is asked for, in some hundred microseconds.
fn copy(ledger: &Ledger, query: &GraphQuery, now_ns: u64, graph: &mut Graph) -> Vec<Copied> {
    let waits_for_jobs = |waiting: &&crate::ledger::Waiting| waiting.kind == WaitKind::Dependencies;
    let looked = ledger.waiting.values().take(LOOKS);
    let waiting: Vec<_> = looked.filter(waits_for_jobs).collect();
    let long = |since_ns: u64| now_ns.saturating_sub(since_ns) >= LONG_WAIT_NS;
    graph.waiting += waiting.len() as u64;
    graph.long_waiting = graph
        .long_waiting
        .filter(|_| ledger.waiting.len() <= LOOKS)
        .map(|of_others| {
            let own = waiting.iter().filter(|waiting| long(waiting.since_ns));
            of_others + own.count() as u64
        });
    graph.cut |= ledger.waiting.len() > LOOKS;
    let of_lane = waiting.iter().filter(|waiting| {
        let lane = &waiting.job.header().lane.name;
        query.lane.as_ref().is_none_or(|wanted| **wanted == **lane)
    });
    // The order of the ids is that of submission: the first have waited longest.
    let mut open: VecDeque<JobId> = match query.around {
        Some(job) => VecDeque::from([job]),
        None => of_lane.map(|waiting| waiting.job.header().id).collect(),
    };
    let mut seen = HashSet::new();
    let mut copied = Vec::new();
    while let Some(id) = open.pop_front() {
        if !seen.insert(id) {
            continue;
        }
        if copied.len() >= MAX_NODES {
            graph.cut = true;
            break;
        }
        if let Some(waiting) = ledger.waiting.get(&id) {
            let mut after: Vec<_> = waiting.unmet.iter().cloned().collect();
            after.truncate(MAX_EDGES);
            // Next, so that who waits and for what stand together where there is too much.
            for dep in &after {
                if let Dep::Job(job) = dep {
                    open.push_front(*job);
                }
            }
            copied.push(Copied {
                job: Arc::clone(&waiting.job),
                since_ns: Some(waiting.since_ns),
                after,
                any: waiting.any,
            });
        } else if let Some(job) = ledger.awaited.get(&id) {
            copied.push(Copied {
                job: Arc::clone(job),
                since_ns: None,
                after: Vec::new(),
                any: false,
            });
        }
        if query.around.is_some() {
            open.extend(ledger.dependents_of(id).take(MAX_NODES));
        }
    }
    copied
}

/// By job; names that no job has, by name.
#[derive(Default)]
struct Nodes(BTreeMap<(Option<JobId>, String), Node>);

impl Nodes {
    fn add_live(&mut self, copied: &Copied, now_ns: u64) {
        let header = copied.job.header();
        let (state, since_ns) = match (copied.since_ns, header.state.get()) {
            (Some(since_ns), _) => (JobState::Waiting, since_ns),
            (None, State::Running) => (JobState::Running, header.started_ns()),
            (None, _) => (JobState::Ready, header.ready_ns()),
        };
        let mut after: Vec<_> = copied.after.iter().map(edge).collect();
        after.sort_unstable_by_key(|edge| match edge {
            Edge::Job(job) => (job.0, String::new()),
            Edge::Name(name) => (u64::MAX, name.clone()),
        });
        for edge in &after {
            if let Edge::Name(name) = edge {
                self.add_missing(name);
            }
        }
        self.put(Node {
            job: Some(header.id),
            name: step_of(header).name.to_string(),
            job_type: Some(header.task.name().to_owned()),
            lane: Some(header.lane.name.to_string()),
            state,
            age_ns: Some(now_ns.saturating_sub(since_ns)),
            trace: Some(header.trace()),
            after,
            any: copied.any,
            failure: None,
        });
    }

    /// A name that somebody waits for and no job has.
    fn add_missing(&mut self, name: &str) {
        self.put(Node {
            name: name.to_owned(),
            ..Node::default()
        });
    }

    /// A job that was cancelled because of others, and the path from the one that failed to it.
    fn add_ended(&mut self, record: &JobRecord, now_ns: u64) {
        let mut node = ended_node(record, now_ns);
        let path = record.failure.iter().flat_map(|failure| &failure.path);
        let mut before: Option<&PathStep> = None;
        for step in path {
            self.add_step(step, before);
            before = Some(step);
        }
        node.after = before.map(step_edge).into_iter().collect();
        self.put(node);
    }

    fn add_step(&mut self, step: &PathStep, before: Option<&PathStep>) {
        let state = if before.is_some() || step.job.is_none() {
            JobState::Cancelled
        } else {
            JobState::Failed
        };
        self.put(Node {
            job: step.job,
            name: step.name.to_string(),
            state: step.job.map_or(JobState::Other, |_| state),
            after: before.map(step_edge).into_iter().collect(),
            ..Node::default()
        });
    }

    /// The first that is told of a job stays, unless it is only a step of a path.
    fn put(&mut self, node: Node) {
        let key = (
            node.job,
            node.job.map_or(node.name.clone(), |_| String::new()),
        );
        let known = self.0.entry(key).or_insert_with(|| node.clone());
        if known.job_type.is_none() && node.job_type.is_some() {
            *known = node;
        }
    }
}

fn edge(dep: &Dep) -> Edge {
    match dep {
        Dep::Job(job) => Edge::Job(*job),
        Dep::Name(name) => Edge::Name(name.to_string()),
    }
}

fn step_edge(step: &PathStep) -> Edge {
    step.job
        .map_or_else(|| Edge::Name(step.name.to_string()), Edge::Job)
}

fn ended_node(record: &JobRecord, now_ns: u64) -> Node {
    let name = record.name.as_deref().unwrap_or(record.job_type);
    let failure = match &record.failure {
        Some(failure) => Some(told(failure)),
        None => record.error.as_deref().map(|reason| Failure {
            reason: reason.to_owned(),
            ..Failure::default()
        }),
    };
    Node {
        job: Some(record.id),
        name: name.to_owned(),
        job_type: Some(record.job_type.to_owned()),
        lane: Some(record.lane.to_string()),
        state: ended_state(record.end),
        age_ns: Some(now_ns.saturating_sub(record.ended_ns)),
        trace: Some(record.trace),
        after: Vec::new(),
        any: false,
        failure,
    }
}

fn told(failure: &DependencyFailure) -> Failure {
    let path = failure.path.iter().map(|step| Step {
        job: step.job,
        name: step.name.to_string(),
    });
    Failure {
        path: path.collect(),
        left_out: failure.left_out as u64,
        reason: failure.reason.to_string(),
    }
}
