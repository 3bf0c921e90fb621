//! Dependencies: who waits for whom, as a tree. What is waited for stands above who waits for it, the longest waits first;
//! a branch that was cancelled is grey, with the reason and the way that it came.
//!
//! ```text
//!  load #12                    running
//!  ├ sum #13                   waiting   5 min   LONG
//!  │ └ mail #14                waiting   5 min   and for `approval`
//!  approval                    missing           no job has this name
//! ```

use std::fmt::Write as _;

use std::collections::{HashMap, HashSet};

use ax_wire::{
    graph::{Edge, Graph, LONG_WAIT_NS, Node},
    job::JobState,
    view::ServiceView,
};
use ratatui::{
    buffer::Buffer,
    layout::{
        HorizontalAlignment::{Left, Right},
        Rect,
    },
};

use super::{Screen, jobs::state_tone};
use crate::{
    format::{UNKNOWN, age, count, printable},
    list::Detail,
    screens::Panel,
    theme::Tone,
    widget::table::{Cell, Column, RowKey, RowOrder, SortKey, Table},
};

/// Most rows of a tree: a job that waits for several stands below each.
const MAX_ROWS: usize = 2_000;

/// A node where it stands in the tree.
#[derive(Clone, Debug)]
pub struct TreeRow {
    /// The way to it, since it may stand in several places.
    pub key: RowKey,
    pub node: Node,
    /// The lines before its name.
    branch: String,
    /// What it waits for besides the row above it.
    others: Vec<String>,
    /// Its own branch stands further up.
    repeated: bool,
}

/// One row a node.
pub static TREE: Table<TreeRow> = Table {
    title: "Dependencies",
    empty: "no job waits for another",
    order: RowOrder::AsGiven,
    row_key: |row| row.key.clone(),
    columns: &[
        Column {
            title: "job",
            width: 26,
            align: Left,
            keep: 20,
            cell: |row| {
                let tone = if is_cancelled(&row.node) {
                    Tone::Quiet
                } else {
                    Tone::Plain
                };
                Cell::new(format!("{}{}", row.branch, name(&row.node)), tone)
            },
            sort: |row| SortKey::Text(row.node.name.clone()),
        },
        Column {
            title: "state",
            width: 9,
            align: Left,
            keep: 19,
            cell: |row| Cell::new(state_word(&row.node), tone(&row.node)),
            sort: |row| SortKey::Text(state_word(&row.node).to_owned()),
        },
        Column {
            title: "lane",
            width: 8,
            align: Left,
            keep: 9,
            cell: |row| Cell::plain(row.node.lane.clone().unwrap_or_else(|| UNKNOWN.to_owned())),
            sort: |row| SortKey::Text(row.node.lane.clone().unwrap_or_default()),
        },
        Column {
            title: "for",
            width: 10,
            align: Right,
            keep: 18,
            cell: |row| {
                let age = row.node.age_ns.map_or_else(|| UNKNOWN.to_owned(), age);
                Cell::new(
                    age,
                    if waits_long(&row.node) {
                        Tone::Warning
                    } else {
                        Tone::Plain
                    },
                )
            },
            sort: |row| SortKey::number(row.node.age_ns),
        },
        Column {
            title: "why",
            width: 34,
            align: Left,
            keep: 15,
            cell: |row| {
                let (text, tone) = why(row);
                Cell::new(text, tone)
            },
            sort: |row| SortKey::Text(why(row).0),
        },
    ],
};

fn name(node: &Node) -> String {
    match (node.job, &node.job_type) {
        (Some(job), Some(of)) if *of != node.name => {
            printable(&format!("{} ({of}) #{job}", node.name))
        }
        (Some(job), _) => printable(&format!("{} #{job}", node.name)),
        (None, _) => printable(&node.name),
    }
}

fn state_word(node: &Node) -> &'static str {
    match node.job {
        None => "missing",
        Some(_) => node.state.word(),
    }
}

fn tone(node: &Node) -> Tone {
    match node.job {
        None => Tone::Warning,
        Some(_) => state_tone(node.state),
    }
}

fn is_cancelled(node: &Node) -> bool {
    node.state == JobState::Cancelled
}

fn waits_long(node: &Node) -> bool {
    node.state == JobState::Waiting && node.age_ns.is_some_and(|age| age >= LONG_WAIT_NS)
}

fn why(row: &TreeRow) -> (String, Tone) {
    let node = &row.node;
    if row.repeated {
        return ("its branch stands further up".to_owned(), Tone::Quiet);
    }
    if node.job.is_none() {
        return ("no job has this name".to_owned(), Tone::Warning);
    }
    if let Some(failure) = &node.failure {
        let tone = if is_cancelled(node) {
            Tone::Quiet
        } else {
            Tone::Critical
        };
        return (printable(&failure.reason), tone);
    }
    let mut text = String::new();
    if waits_long(node) {
        text.push_str("waits LONG ");
    }
    if !row.others.is_empty() {
        let word = if node.any { "or" } else { "and" };
        let _ = write!(text, "{word} for {}", row.others.join(", "));
    }
    let tone = if waits_long(node) {
        Tone::Warning
    } else {
        Tone::Plain
    };
    (printable(text.trim_end()), tone)
}

/// The way of a reason: `load #12 failed: the disk is full -> sum #13 -> mail #14`.
pub fn detail(row: &TreeRow) -> Detail {
    let node = &row.node;
    let Some(failure) = &node.failure else {
        let trace = node
            .trace
            .map_or_else(String::new, |trace| format!("  trace {trace}"));
        return Detail {
            first: format!("{}  {}{trace}", name(node), state_word(node)),
            second: why(row).0,
        };
    };
    let step = |step: &ax_wire::graph::Step| match step.job {
        Some(job) => format!("{} #{job}", step.name),
        None => format!("`{}`", step.name),
    };
    let mut steps = failure.path.iter().map(step);
    let mut path = match steps.next() {
        Some(first) => format!("{first} did not succeed: {}", failure.reason),
        None => failure.reason.clone(),
    };
    for step in steps {
        let _ = write!(path, " → {step}");
    }
    if !failure.path.is_empty() {
        let _ = write!(path, " → {}", name(node));
    }
    if failure.left_out > 0 {
        let _ = write!(path, " ({} jobs between them left out)", failure.left_out);
    }
    Detail {
        first: format!("{}  {}", name(node), state_word(node)),
        second: printable(&path),
    }
}

/// What a node is to those that wait for it.
fn edge_of(node: &Node) -> Edge {
    node.job
        .map_or_else(|| Edge::Name(node.name.clone()), Edge::Job)
}

fn edge_name(edge: &Edge, nodes: &HashMap<Edge, &Node>) -> String {
    match (nodes.get(edge), edge) {
        (Some(node), _) => name(node),
        (None, Edge::Job(job)) => format!("#{job}"),
        (None, Edge::Name(name)) => format!("`{name}`"),
    }
}

/// The rows of a graph.
pub fn tree(graph: &Graph) -> Vec<TreeRow> {
    let nodes: HashMap<Edge, &Node> = graph
        .nodes
        .iter()
        .map(|node| (edge_of(node), node))
        .collect();
    let mut children: HashMap<&Edge, Vec<&Node>> = HashMap::new();
    let mut roots = Vec::new();
    for node in &graph.nodes {
        let known = node.after.iter().filter(|edge| nodes.contains_key(edge));
        let mut has_parent = false;
        for edge in known {
            children.entry(edge).or_default().push(node);
            has_parent = true;
        }
        if !has_parent {
            roots.push(node);
        }
    }
    // The longest waits first; those of a root are those of who waits for it.
    let longest = |node: &&Node| std::cmp::Reverse(node.age_ns.unwrap_or(0));
    for of in children.values_mut() {
        of.sort_by_key(longest);
    }
    roots.sort_by_key(|root| {
        let waits = children.get(&edge_of(root)).into_iter().flatten();
        let waiting = waits.clone().any(|node| node.state == JobState::Waiting);
        let longest = waits.filter_map(|node| node.age_ns).max();
        (!waiting, std::cmp::Reverse(longest))
    });
    let mut tree = Tree {
        nodes: &nodes,
        children: &children,
        seen: HashSet::new(),
        rows: Vec::new(),
    };
    for root in roots {
        tree.add(root, None, "", "", "");
    }
    tree.rows
}

struct Tree<'a> {
    nodes: &'a HashMap<Edge, &'a Node>,
    children: &'a HashMap<&'a Edge, Vec<&'a Node>>,
    seen: HashSet<Edge>,
    rows: Vec<TreeRow>,
}

impl Tree<'_> {
    /// `lead`: the lines before its branch; `fork`: the one that leads to it.
    fn add(&mut self, node: &Node, above: Option<&Edge>, lead: &str, fork: &str, way: &str) {
        if self.rows.len() >= MAX_ROWS {
            return;
        }
        let edge = edge_of(node);
        let key = format!("{way}/{edge:?}");
        let new = self.seen.insert(edge.clone());
        let others = node.after.iter().filter(|other| Some(*other) != above);
        let below = self.children.get(&edge).filter(|_| new);
        self.rows.push(TreeRow {
            key: key.clone(),
            node: node.clone(),
            branch: format!("{lead}{fork}"),
            others: others.map(|edge| edge_name(edge, self.nodes)).collect(),
            repeated: !new && self.children.contains_key(&edge),
        });
        let lead = match fork {
            "" => String::new(),
            "└ " => format!("{lead}  "),
            _ => format!("{lead}│ "),
        };
        let below = below.cloned().unwrap_or_default();
        let last = below.len().saturating_sub(1);
        for (at, child) in below.into_iter().enumerate() {
            let fork = if at == last { "└ " } else { "├ " };
            self.add(child, Some(&edge), &lead, fork, &key);
        }
    }
}

impl Screen<'_> {
    pub fn dependencies(&self, _: &ServiceView, area: Rect, buf: &mut Buffer) {
        let (note, tone) = match self.app.graph() {
            None => (self.app.asking_words().to_owned(), Tone::Quiet),
            Some(Err(why)) => (format!("unknown: {}", printable(why)), Tone::Warning),
            Some(Ok(graph)) => summary(graph),
        };
        let around = self.app.looks.around;
        let around = around.map_or_else(
            || "enter shows what is around a job".to_owned(),
            |job| format!("around #{job}; enter on it shows all"),
        );
        let top = Rect { height: 1, ..area };
        self.text(top, 0, &format!(" {note}  {around}"), tone, buf);
        let rest = Rect {
            y: area.y + 1,
            height: area.height.saturating_sub(1),
            ..area
        };
        self.history(Panel::Dependencies, None, rest, buf);
        if !matches!(self.app.graph(), Some(Ok(_))) {
            self.instead_of_rows(rest, "", Tone::Quiet, buf);
        }
    }
}

/// `12 jobs wait for others, 2 of them for more than 5 min`.
fn summary(graph: &Graph) -> (String, Tone) {
    let long = graph.long_waiting;
    let mut text = format!(
        "{} jobs wait for others, {} for more than 5 min",
        graph.waiting,
        count(long)
    );
    let mut tone = if long.is_none_or(|long| long > 0) {
        Tone::Warning
    } else {
        Tone::Plain
    };
    if graph.cut {
        text.push_str("; too many to show all");
        tone = Tone::Warning;
    }
    for unknown in graph.unknown.iter().take(2) {
        let _ = write!(text, "; unknown: {}", printable(unknown));
        tone = Tone::Warning;
    }
    (text, tone)
}

#[cfg(test)]
mod tests {
    use ax_wire::{
        JobId,
        graph::{Failure, Step},
    };

    use super::*;

    fn node(job: u64, name: &str, age_s: u64, after: &[u64]) -> Node {
        Node {
            job: Some(JobId(job)),
            name: name.to_owned(),
            job_type: Some(name.to_owned()),
            state: if after.is_empty() {
                JobState::Running
            } else {
                JobState::Waiting
            },
            age_ns: Some(age_s * 1_000_000_000),
            after: after.iter().map(|job| Edge::Job(JobId(*job))).collect(),
            ..Node::default()
        }
    }

    fn lines(nodes: Vec<Node>) -> Vec<String> {
        let graph = Graph {
            nodes,
            ..Graph::default()
        };
        let rows = tree(&graph);
        rows.iter()
            .map(|row| format!("{}{} | {}", row.branch, name(&row.node), why(row).0))
            .collect()
    }

    #[test]
    fn what_is_waited_for_stands_above_who_waits_longest_first() {
        let mut mail = node(4, "mail", 50, &[2, 3]);
        mail.after.push(Edge::Name("approval".to_owned()));
        let missing = Node {
            name: "approval".to_owned(),
            ..Node::default()
        };
        let nodes = vec![
            node(1, "load", 9, &[]),
            node(2, "sum", 400, &[1]),
            node(3, "draw", 20, &[1]),
            mail,
            missing,
            node(5, "send", 1, &[4]),
        ];
        let expected = [
            "load #1 | ",
            "├ sum #2 | waits LONG",
            "│ └ mail #4 | and for draw #3, approval",
            "│   └ send #5 | ",
            "└ draw #3 | ",
            "  └ mail #4 | its branch stands further up",
            "approval | no job has this name",
            "└ mail #4 | its branch stands further up",
        ];
        assert_eq!(lines(nodes), expected);
    }

    #[test]
    fn a_cancelled_branch_tells_the_way_of_its_reason() {
        let failure = Failure {
            path: vec![
                Step {
                    job: Some(JobId(1)),
                    name: "load".to_owned(),
                },
                Step {
                    job: Some(JobId(2)),
                    name: "sum".to_owned(),
                },
            ],
            left_out: 0,
            reason: "the disk is full".to_owned(),
        };
        let mut mail = node(3, "mail", 1, &[2]);
        (mail.state, mail.failure) = (JobState::Cancelled, Some(failure));
        let graph = Graph {
            nodes: vec![mail],
            ..Graph::default()
        };
        let row = &tree(&graph)[0];
        assert_eq!(
            detail(row).second,
            "load #1 did not succeed: the disk is full → sum #2 → mail #3"
        );
        assert_eq!(why(row).1, Tone::Quiet);
    }

    #[test]
    fn a_circle_that_a_stranger_sends_is_no_endless_tree() {
        let nodes = vec![
            node(1, "a", 1, &[2]),
            node(2, "b", 1, &[1]),
            node(3, "c", 1, &[1]),
        ];
        assert!(lines(nodes).len() <= 3);
    }
}
