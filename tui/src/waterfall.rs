//! A trace as a waterfall, laid out and not yet drawn: a row a job, children below their parents, each row the pieces of
//! its life in the order in which they are laid over each other. The report and the dashboard draw the same.

use std::collections::HashMap;

use ax_wire::{JobId, view::StallView};

use crate::{
    format::{duration, printable},
    lives::{Attempt, End, Life},
};

/// Deepest that children are moved to the right.
const MAX_DEPTH: usize = 6;

/// What a piece of a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// It waited for its time or for other jobs.
    Held,
    /// It waited in its queue.
    Queued,
    /// It ran: what no poll is laid over, it awaited something.
    Run,
    /// The same, of an attempt that did not succeed.
    FailedRun,
    /// One short poll.
    Poll,
    /// One poll of 5 ms and more.
    LongPoll,
    /// A worker was stuck, in this job's poll or another's.
    Stall,
}

/// A piece, from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub piece: Piece,
    pub begin_unix_ns: u64,
    pub end_unix_ns: u64,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub job: Option<JobId>,
    /// Type, id and lane.
    pub title: String,
    /// How far below the root it stands.
    pub depth: usize,
    /// Later ones lie over earlier ones.
    pub spans: Vec<Span>,
    /// What became of it, in words.
    pub fate: String,
    /// Whether its last attempt did not succeed.
    pub failed: bool,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waterfall {
    pub from_unix_ns: u64,
    pub to_unix_ns: u64,
    pub rows: Vec<Row>,
}

impl Waterfall {
    /// Lays out these lives, which are in the order of their beginning. `now` stands in for ends that have not come.
    pub fn new(lives: &[&Life], stalls: &[StallView], now: u64) -> Self {
        let begins = lives.iter().filter_map(|life| life.begin_unix_ns());
        let ends = lives.iter().map(|life| life.end_unix_ns(now));
        let (from, to) = (begins.min().unwrap_or(now), ends.max().unwrap_or(now));
        let hits = stalls.iter().filter_map(|stall| {
            let span = Span {
                piece: Piece::Stall,
                begin_unix_ns: stall.began_unix_ns,
                end_unix_ns: stall.began_unix_ns.saturating_add(stall.stall.length_ns),
            };
            (span.begin_unix_ns < to && span.end_unix_ns > from).then_some(span)
        });
        let hits: Vec<Span> = hits.collect();
        let rows = in_order(lives)
            .into_iter()
            .map(|(life, depth)| row(life, depth, &hits, now));
        Self {
            from_unix_ns: from,
            to_unix_ns: to.max(from + 1),
            rows: rows.collect(),
        }
    }

    /// Where an instant stands: 0 at the left, 1 at the right.
    pub fn place(&self, at_unix_ns: u64) -> f64 {
        let at = at_unix_ns.clamp(self.from_unix_ns, self.to_unix_ns);
        (at - self.from_unix_ns) as f64 / (self.to_unix_ns - self.from_unix_ns) as f64
    }
}

/// Children below their parents, each in the order of their beginning; who has no known parent is a root.
fn in_order<'a>(lives: &[&'a Life]) -> Vec<(&'a Life, usize)> {
    let known: HashMap<JobId, usize> = lives
        .iter()
        .enumerate()
        .filter_map(|(at, life)| Some((life.job?, at)))
        .collect();
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, life) in lives.iter().enumerate() {
        // A parent is submitted before its child, so that there is no circle; a stranger could say otherwise.
        let parent = life.parent.filter(|parent| Some(*parent) < life.job);
        let parent = parent.and_then(|parent| known.get(&parent).copied());
        children.entry(parent).or_default().push(at);
    }
    let mut ordered = Vec::with_capacity(lives.len());
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut put = |open: &mut Vec<(usize, usize)>, of: Option<usize>, depth: usize| {
        let of = children.remove(&of).unwrap_or_default();
        open.extend(of.into_iter().rev().map(|at| (at, depth)));
    };
    put(&mut open, None, 0);
    while let Some((at, depth)) = open.pop() {
        ordered.push((lives[at], depth));
        put(&mut open, Some(at), (depth + 1).min(MAX_DEPTH));
    }
    ordered
}

fn row(life: &Life, depth: usize, hits: &[Span], now: u64) -> Row {
    let mut spans = Vec::new();
    let mut put = |piece, begin_unix_ns, end_unix_ns: u64| {
        if end_unix_ns > begin_unix_ns {
            spans.push(Span {
                piece,
                begin_unix_ns,
                end_unix_ns,
            });
        }
    };
    let first_ready = life.attempts.first().map(|attempt| attempt.ready_unix_ns);
    let ready = life.ready_unix_ns.or(first_ready);
    if let Some(submitted) = life.submitted_unix_ns {
        put(Piece::Held, submitted, ready.unwrap_or(now));
    }
    if let (Some(ready), true) = (life.ready_unix_ns, life.attempts.is_empty()) {
        put(Piece::Queued, ready, now);
    }
    let mut before = None;
    for attempt in &life.attempts {
        if let Some(before) = before {
            put(Piece::Held, before, attempt.ready_unix_ns);
        }
        let end = attempt.ended.map_or(now, |(at, _)| at);
        let run = match attempt.ended {
            Some((_, End::Unsuccessful(_))) => Piece::FailedRun,
            Some((_, End::Succeeded)) | None => Piece::Run,
        };
        put(
            Piece::Queued,
            attempt.ready_unix_ns,
            attempt.started_unix_ns,
        );
        put(run, attempt.started_unix_ns, end);
        before = attempt.ended.map(|(at, _)| at);
    }
    for (piece, polls) in [
        (Piece::Poll, &life.polls),
        (Piece::LongPoll, &life.long_polls),
    ] {
        for (begin, end) in polls {
            put(piece, *begin, *end);
        }
    }
    spans.extend_from_slice(hits);
    let last = life.attempts.last();
    Row {
        job: life.job,
        title: title(life),
        depth,
        spans,
        fate: fate(life, now),
        failed: last.is_some_and(|last| matches!(last.ended, Some((_, End::Unsuccessful(_))))),
    }
}

fn title(life: &Life) -> String {
    let job = life.job.map_or_else(String::new, |job| format!(" #{job}"));
    let lane = life.lane.as_ref();
    let lane = lane.map_or_else(String::new, |lane| format!(" ({lane})"));
    printable(&format!("{}{job}{lane}", life.name))
}

/// `waited 5 ms, ran 12 ms`, and so on.
pub fn fate(life: &Life, now: u64) -> String {
    let Some(last) = life.attempts.last() else {
        return "waits".to_owned();
    };
    if never_began(last) {
        let (_, End::Unsuccessful(how)) = last.ended.unwrap_or((now, End::Succeeded)) else {
            return "ran for less than a microsecond".to_owned();
        };
        return format!("{how}, never began");
    }
    let waited = duration(last.started_unix_ns.saturating_sub(last.ready_unix_ns));
    let ran = |end: u64| duration(end.saturating_sub(last.started_unix_ns));
    let run = match last.ended {
        None => format!("runs for {}", ran(now)),
        Some((at, End::Succeeded)) => format!("ran {}", ran(at)),
        Some((at, End::Unsuccessful(how))) => format!("{how} after {}", ran(at)),
    };
    match life.attempts.len() {
        1 => format!("waited {waited}, {run}"),
        attempts => format!("attempt {attempts}: waited {waited}, {run}"),
    }
}

/// A job that ended while it waited has an attempt of no length.
pub fn never_began(attempt: &Attempt) -> bool {
    attempt.ended.is_some_and(|(at, end)| {
        at == attempt.started_unix_ns && matches!(end, End::Unsuccessful(_))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn life(job: u64, parent: Option<u64>, at_ms: u64) -> Life {
        Life {
            job: Some(JobId(job)),
            name: "query".to_owned(),
            lane: Some("db".to_owned()),
            parent: parent.map(JobId),
            attempts: vec![Attempt {
                ready_unix_ns: at_ms * MS,
                started_unix_ns: (at_ms + 2) * MS,
                ended: Some(((at_ms + 10) * MS, End::Succeeded)),
            }],
            ..Life::default()
        }
    }

    #[test]
    fn children_stand_below_their_parents_and_circles_do_not_hang_it() {
        let lives = [
            life(1, Some(9), 0),
            life(3, Some(2), 1),
            life(2, Some(1), 2),
            life(4, Some(1), 3),
            life(5, Some(5), 4),
            life(6, Some(7), 5),
            life(7, Some(6), 6),
        ];
        let lives: Vec<_> = lives.iter().collect();
        let rows = Waterfall::new(&lives, &[], 100 * MS).rows;
        let order: Vec<_> = rows
            .iter()
            .map(|row| (row.job.map_or(0, |job| job.0), row.depth))
            .collect();
        let expected = [(1, 0), (2, 1), (3, 2), (4, 1), (5, 0), (6, 0), (7, 1)];
        assert_eq!(order, expected);
    }

    #[test]
    fn a_life_is_cut_into_its_pieces() {
        let mut retried = life(1, None, 100);
        retried.submitted_unix_ns = Some(90 * MS);
        retried.attempts[0].ended =
            Some((110 * MS, End::Unsuccessful("failed, to be tried again")));
        retried.attempts.push(Attempt {
            ready_unix_ns: 150 * MS,
            started_unix_ns: 151 * MS,
            ended: None,
        });
        retried.polls = vec![(102 * MS, 103 * MS)];
        retried.long_polls = vec![(104 * MS, 110 * MS)];
        let waterfall = Waterfall::new(&[&retried], &[], 190 * MS);
        let pieces = waterfall.rows[0].spans.iter();
        let pieces: Vec<_> = pieces
            .map(|span| (span.piece, span.begin_unix_ns / MS, span.end_unix_ns / MS))
            .collect();
        let expected = [
            (Piece::Held, 90, 100),
            (Piece::Queued, 100, 102),
            (Piece::FailedRun, 102, 110),
            (Piece::Held, 110, 150),
            (Piece::Queued, 150, 151),
            (Piece::Run, 151, 190),
            (Piece::Poll, 102, 103),
            (Piece::LongPoll, 104, 110),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(
            waterfall.rows[0].fate,
            "attempt 2: waited 1.0 ms, runs for 39 ms"
        );
        assert!((waterfall.place(140 * MS) - 0.5).abs() < 1e-9);
        assert!((waterfall.place(0)).abs() < 1e-9);
    }
}
