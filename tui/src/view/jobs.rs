//! Jobs: the types with the histograms of the selected one, and behind them single jobs, found by a query that narrows as
//! it is typed, with the life of the selected one in a line.
//!
//! ```text
//!  / lane=db wait>100ms                                   matching 34 of 1204331
//!  job                state    lane  age   wait  run  what
//!  render_pdf #1234   running  files 412   0.2   412  awaits downstream ocr 300 ms
//!  ------------------------------------------------------------------------------
//!  src/pdf.rs:88  priority 50  trace 0af7651916cd43dd  child of #1200
//!  submitted -> waits for other jobs 3 ms -> ready -> +57 ms started -> poll 1 ..
//! ```

use std::fmt::Write as _;

use ax_wire::{
    job::{JobRow, JobSort, JobState, JobsPage, Progress},
    view::ServiceView,
};
use ratatui::{
    buffer::Buffer,
    layout::{
        Constraint,
        HorizontalAlignment::{Left, Right},
        Layout, Rect,
    },
    widgets::{Paragraph, Widget as _, Wrap},
};

use super::Screen;
use crate::{
    format::{UNKNOWN, age, duration, ms, printable},
    lives::{End, Life},
    screens::Panel,
    theme::Tone,
    waterfall::never_began,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// Rows of the histograms: heading, ladder, and some bars.
const HISTOGRAM_ROWS: u16 = 14;

/// A rule and what is told of the selected job.
const DETAIL_ROWS: u16 = 6;

/// Steps of a life that are told one by one; of more, the first and the last.
const MAX_STEPS: usize = 24;

/// What the agent sorts by for each column of [`JOBS`].
pub const JOB_SORTS: [JobSort; 9] = [
    JobSort::Type,
    JobSort::State,
    JobSort::Lane,
    JobSort::Age,
    JobSort::Wait,
    JobSort::Run,
    JobSort::Attempt,
    JobSort::Priority,
    JobSort::Id,
];

/// One row a job.
pub static JOBS: Table<JobRow> = Table {
    title: "Jobs",
    empty: "no job matches",
    order: RowOrder::Asked,
    row_key: |row| row.id.to_string(),
    columns: &[
        Column {
            title: "job",
            width: 16,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(job_name(row), Tone::Strong),
            sort: |row| SortKey::Text(row.job_type.clone()),
        },
        Column {
            title: "state",
            width: 9,
            align: Left,
            keep: 19,
            cell: |row| Cell::new(state_words(row), state_tone(row.state)),
            sort: |row| SortKey::Text(row.state.word().to_owned()),
        },
        Column {
            title: "lane",
            width: 8,
            align: Left,
            keep: 14,
            cell: |row| Cell::plain(row.lane.clone().unwrap_or_else(|| UNKNOWN.to_owned())),
            sort: |row| SortKey::Text(row.lane.clone().unwrap_or_default()),
        },
        Column {
            title: "age",
            width: 8,
            align: Right,
            keep: 13,
            cell: |row| Cell::plain(age(row.age_ns)),
            sort: |row| SortKey::number(Some(row.age_ns)),
        },
        Column {
            title: "wait ms",
            width: 8,
            align: Right,
            keep: 18,
            cell: |row| Cell::plain(ms(row.queue_wait_ns)),
            sort: |row| SortKey::number(row.queue_wait_ns),
        },
        Column {
            title: "run ms",
            width: 8,
            align: Right,
            keep: 17,
            cell: |row| Cell::plain(ms(row.run_ns)),
            sort: |row| SortKey::number(row.run_ns),
        },
        Column {
            title: "try",
            width: 3,
            align: Right,
            keep: 11,
            cell: |row| Cell::plain(row.attempt.to_string()),
            sort: |row| SortKey::number(Some(row.attempt.into())),
        },
        Column {
            title: "prio",
            width: 4,
            align: Right,
            keep: 10,
            cell: |row| {
                let priority = row.priority.map(|priority| priority.to_string());
                Cell::plain(priority.unwrap_or_else(|| UNKNOWN.to_owned()))
            },
            sort: |row| SortKey::number(row.priority.map(u64::from)),
        },
        Column {
            title: "what",
            width: 26,
            align: Left,
            keep: 12,
            cell: what,
            sort: |row| SortKey::number(Some(row.id.0)),
        },
    ],
};

fn job_name(row: &JobRow) -> String {
    format!("{} #{}", row.job_type, row.id)
}

fn state_words(row: &JobRow) -> String {
    match row.state {
        JobState::Running if row.cancelling => "cancelling".to_owned(),
        JobState::Running if row.poll_age_ns.is_some() => "in poll".to_owned(),
        state => state.word().to_owned(),
    }
}

/// The tone of a state, on every screen that shows one.
pub fn state_tone(state: JobState) -> Tone {
    match state {
        JobState::Running => Tone::Good,
        JobState::Failed | JobState::Panicked | JobState::TimedOut => Tone::Critical,
        JobState::Rejected => Tone::Warning,
        JobState::Cancelled | JobState::Waiting | JobState::Other => Tone::Quiet,
        JobState::Ready | JobState::Succeeded => Tone::Plain,
    }
}

/// What it awaits, waits for, or failed by; how far it is.
fn what(row: &JobRow) -> Cell {
    if let Some(error) = row.error.as_ref().filter(|_| !row.state.is_live()) {
        return Cell::new(printable(error), Tone::Warning);
    }
    if let Some(poll) = row.poll_age_ns {
        return Cell::plain(format!("polls for {}", duration(poll)));
    }
    if let Some(waits) = &row.waits_for {
        let text = format!("awaits {} {}", waits.label, duration(waits.since_ns));
        return Cell::plain(printable(&text));
    }
    if let Some(wait) = &row.wait {
        let left = wait.left_ns.filter(|left| *left > 0);
        let left = left.map_or_else(String::new, |left| format!(", {} left", age(left)));
        let first = wait.jobs.first().map(|job| format!("#{job}"));
        let first = first.or_else(|| wait.names.first().map(|name| format!("`{name}`")));
        let others = (wait.jobs.len() + wait.names.len()).saturating_sub(1);
        let others = match others {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let text = first.map_or_else(
            || format!("waits for {}{left}", wait.kind.words()),
            |first| format!("waits for {first}{others}{left}"),
        );
        return Cell::plain(printable(&text));
    }
    match row.progress {
        Some(Progress { done, of: 0 }) => Cell::plain(format!("{done} done")),
        Some(Progress { done, of }) => Cell::plain(format!("{done} of {of} done")),
        None => Cell::plain(row.name.as_deref().map(printable).unwrap_or_default()),
    }
}

impl Screen<'_> {
    /// The types, and how long what is selected takes.
    pub fn jobs(&self, _: &ServiceView, area: Rect, buf: &mut Buffer) {
        let histograms = HISTOGRAM_ROWS
            .max(area.height / 2)
            .min(area.height.saturating_sub(6));
        let [types, histograms] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(histograms)]).areas(area);
        self.list(
            Panel::JobTypes,
            "Job types: enter opens the jobs of one, / looks for single jobs",
            types,
            buf,
        );
        self.type_histograms(histograms, buf);
    }

    /// Single jobs.
    pub fn job_list(&self, _: &ServiceView, area: Rect, buf: &mut Buffer) {
        let [query, table, detail] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Fill(1),
            Constraint::Length(DETAIL_ROWS.min(area.height / 3)),
        ])
        .areas(area);
        self.query(query, buf);
        self.list(Panel::Jobs, "Jobs", table, buf);
        let instead = match self.app.jobs_page() {
            Some(Ok(_)) => None,
            Some(Err(why)) => Some((format!(" unknown: {}", printable(why)), Tone::Warning)),
            None => Some((format!(" {}", self.app.asking_words()), Tone::Quiet)),
        };
        if let (Some((words, tone)), true) = (instead, table.height > 2) {
            // In the place of what an empty table says.
            let at = Rect {
                y: table.y + 2,
                height: 1,
                ..table
            };
            self.text(at, 0, &" ".repeat(usize::from(at.width)), Tone::Plain, buf);
            self.text(at, 0, &words, tone, buf);
        }
        self.selected(detail, buf);
    }

    /// The query with what came of it, and below it what is wrong or could follow.
    fn query(&self, area: Rect, buf: &mut Buffer) {
        let look = &self.app.looks.jobs;
        let cursor = if look.typing { "█" } else { "" };
        let (shown, tone) = match (look.text.is_empty(), look.typing) {
            (true, false) => (
                "all jobs; / to look for some, such as lane=db wait>100ms state=failed",
                Tone::Quiet,
            ),
            _ => (look.text.as_str(), Tone::Strong),
        };
        self.text(
            area,
            0,
            &format!(" / {}{cursor}", printable(shown)),
            tone,
            buf,
        );
        let room = Rect {
            x: area.x + 3,
            width: area.width.saturating_sub(3),
            ..area
        };
        if let Some(error) = &look.error {
            let mark = format!("{}^ {}", " ".repeat(error.at), error.what);
            // An error far to the right is told from the left.
            let mark = if error.at + 20 > usize::from(room.width) {
                error.to_string()
            } else {
                mark
            };
            self.text(room, 1, &printable(&mark), Tone::Warning, buf);
            return;
        }
        if look.typing {
            let offered = self.app.query_completions();
            let offered = if offered.is_empty() {
                "enter keeps it, esc drops it".to_owned()
            } else {
                format!("tab: {}", offered.join(" "))
            };
            self.text(room, 1, &printable(&offered), Tone::Quiet, buf);
            return;
        }
        if let Some(Ok(page)) = self.app.jobs_page() {
            let (text, tone) = found(page, look.offset, self.app.jobs_are_of_query());
            self.text(room, 1, &text, tone, buf);
        }
    }

    fn selected(&self, area: Rect, buf: &mut Buffer) {
        let Some(job) = self.app.selected_job() else {
            return;
        };
        let inner = self.panel(
            area,
            &format!(
                "Selected: {}  enter opens its trace",
                printable(&job_name(job))
            ),
            None,
            buf,
        );
        let room = Rect {
            x: inner.x + 1,
            width: inner.width.saturating_sub(1),
            ..inner
        };
        let life = self.app.selected_life();
        let life = life.map_or_else(
            || "nothing of its life is known".to_owned(),
            |life| life_line(&life, job, self.app.world.now_unix_ns),
        );
        let text = format!("{}\n{life}", facts(job));
        Paragraph::new(text)
            .wrap(Wrap { trim: false })
            .render(room, buf);
    }
}

/// `matching 34, live 1204331`, and what is missing from it.
fn found(page: &JobsPage, offset: u32, is_of_query: bool) -> (String, Tone) {
    let mut text = match page.rows.len() {
        0 => format!("none of {} live jobs", page.live),
        rows => format!(
            "{}-{} of {} that match; {} jobs live",
            offset + 1,
            offset as usize + rows,
            page.matching,
            page.live
        ),
    };
    let mut tone = Tone::Plain;
    if !page.complete && page.looked_at > 0 {
        let _ = write!(text, "; only {} were looked at", page.looked_at);
        tone = Tone::Warning;
    }
    for unknown in page.unknown.iter().take(2) {
        let _ = write!(text, "; unknown: {}", printable(unknown));
        tone = Tone::Warning;
    }
    if !is_of_query {
        text.push_str(" ..");
    }
    (text, tone)
}

/// Where it was started, and what it belongs to.
fn facts(job: &JobRow) -> String {
    let mut facts = vec![
        job.place
            .clone()
            .unwrap_or_else(|| "place unknown".to_owned()),
    ];
    let mut put = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| format!("{name} {value}")));
    };
    put("name", job.name.clone());
    put("lane", job.lane.clone());
    put(
        "priority",
        job.priority.map(|priority| priority.to_string()),
    );
    put("child of", job.parent.map(|parent| format!("#{parent}")));
    put("trace", job.trace.map(|trace| trace.to_string()));
    if !job.state.is_live() {
        put("ended", Some(format!("{} ago", age(job.age_ns))));
    }
    put("error:", job.error.clone());
    printable(&facts.join("  "))
}

/// Its life in one line: `submitted -> waits for other jobs 3 ms -> ready -> +57 ms started -> poll 1 ...`.
pub fn life_line(life: &Life, job: &JobRow, now_unix_ns: u64) -> String {
    let mut steps = Vec::new();
    let first_ready = life.attempts.first().map(|attempt| attempt.ready_unix_ns);
    let ready = life.ready_unix_ns.or(first_ready);
    if let Some(submitted) = life.submitted_unix_ns {
        steps.push("submitted".to_owned());
        let waited = duration(ready.unwrap_or(now_unix_ns).saturating_sub(submitted));
        let on = job.wait.as_ref().filter(|_| ready.is_none());
        let on = on.map_or("its dependencies or its time", |wait| wait.kind.words());
        steps.push(format!("waits for {on} {waited}"));
    }
    if ready.is_some() {
        steps.push("ready".to_owned());
    }
    if let (Some(ready), true) = (ready, life.attempts.is_empty()) {
        let queued = duration(now_unix_ns.saturating_sub(ready));
        steps.push(format!("queued for {queued}"));
    }
    let several = life.attempts.len() > 1;
    let mut before = None;
    for (number, attempt) in (1..).zip(&life.attempts) {
        if let Some(before) = before {
            let backoff = attempt.ready_unix_ns.saturating_sub(before);
            steps.push(format!("backoff {}", duration(backoff)));
        }
        if never_began(attempt) {
            if let Some((_, End::Unsuccessful(how))) = attempt.ended {
                steps.push(how.to_owned());
            }
            continue;
        }
        let waited = duration(
            attempt
                .started_unix_ns
                .saturating_sub(attempt.ready_unix_ns),
        );
        let which = if several {
            format!(" (attempt {number})")
        } else {
            String::new()
        };
        steps.push(format!("+{waited} started{which}"));
        let end = attempt.ended.map_or(now_unix_ns, |(at, _)| at);
        polls_of(life, attempt.started_unix_ns, end, &mut steps);
        let ran = duration(end.saturating_sub(attempt.started_unix_ns));
        match attempt.ended {
            Some((_, End::Succeeded)) => steps.push(format!("succeeded after {ran}")),
            Some((_, End::Unsuccessful(how))) => steps.push(format!("{how} after {ran}")),
            None => steps.push(match (job.poll_age_ns, &job.waits_for) {
                (Some(poll), _) => format!("in a poll for {}", duration(poll)),
                (None, Some(waits)) => {
                    format!(
                        "awaits {} {}",
                        printable(&waits.label),
                        duration(waits.since_ns)
                    )
                }
                (None, None) => format!("runs for {ran}"),
            }),
        }
        before = attempt.ended.map(|(at, _)| at);
    }
    if steps.len() > MAX_STEPS {
        let left_out = steps.len() - MAX_STEPS;
        let half = MAX_STEPS / 2;
        steps.splice(half..half + left_out, [format!(".. {left_out} steps ..")]);
    }
    steps.join(" → ")
}

/// The polls between two instants, with the awaits between them.
fn polls_of(life: &Life, begin: u64, end: u64, steps: &mut Vec<String>) {
    let mut polls: Vec<_> = life.polls.iter().chain(&life.long_polls).copied().collect();
    polls.retain(|(at, _)| (begin.saturating_sub(1_000_000)..=end).contains(at));
    polls.sort_unstable();
    let all_known = !life.polls.is_empty();
    let mut before: Option<u64> = None;
    for (number, (at, until)) in (1..).zip(polls) {
        if let Some(before) = before.filter(|_| all_known) {
            steps.push(format!("await {}", duration(at.saturating_sub(before))));
        }
        let which = if all_known {
            format!("poll {number}")
        } else {
            "long poll".to_owned()
        };
        steps.push(format!("{which} {}", duration(until.saturating_sub(at))));
        before = Some(until);
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::{
        JobId,
        incident::WaitsFor,
        job::{JobWait, WaitKind},
    };

    use super::*;
    use crate::lives::Attempt;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_life_is_told_in_one_line() {
        let life = Life {
            submitted_unix_ns: Some(0),
            ready_unix_ns: Some(3 * MS),
            attempts: vec![
                Attempt {
                    ready_unix_ns: 3 * MS,
                    started_unix_ns: 60 * MS,
                    ended: Some((80 * MS, End::Unsuccessful("failed, to be tried again"))),
                },
                Attempt {
                    ready_unix_ns: 180 * MS,
                    started_unix_ns: 181 * MS,
                    ended: None,
                },
            ],
            polls: vec![(60 * MS, 61 * MS)],
            long_polls: vec![(70 * MS, 80 * MS)],
            ..Life::default()
        };
        let job = JobRow {
            state: JobState::Running,
            waits_for: Some(WaitsFor {
                label: "downstream ocr".to_owned(),
                since_ns: 12 * MS,
            }),
            ..JobRow::default()
        };
        assert_eq!(
            life_line(&life, &job, 200 * MS),
            "submitted → waits for its dependencies or its time 3.0 ms → ready → +57 ms started (attempt 1) → poll 1 1.0 ms \
             → await 9.0 ms → poll 2 10 ms → failed, to be tried again after 20 ms → backoff 100 ms → +1.0 ms started \
             (attempt 2) → awaits downstream ocr 12 ms"
        );
    }

    #[test]
    fn a_job_that_waits_says_for_what() {
        let life = Life {
            submitted_unix_ns: Some(0),
            ..Life::default()
        };
        let mut job = JobRow {
            id: JobId(7),
            job_type: "sum".to_owned(),
            state: JobState::Waiting,
            wait: Some(JobWait {
                kind: WaitKind::Dependencies,
                jobs: vec![JobId(3), JobId(4)],
                names: vec!["approval".to_owned()],
                left_ns: None,
            }),
            ..JobRow::default()
        };
        assert_eq!(
            life_line(&life, &job, 5 * MS),
            "submitted → waits for other jobs 5.0 ms"
        );
        assert_eq!(what(&job).text, "waits for #3 and 2 more");
        job.wait = Some(JobWait {
            kind: WaitKind::Retry,
            left_ns: Some(3_000 * MS),
            ..JobWait::default()
        });
        assert_eq!(what(&job).text, "waits for its backoff, 3 s left");
    }

    #[test]
    fn a_long_life_is_cut_in_its_middle() {
        let life = Life {
            attempts: vec![Attempt {
                ready_unix_ns: 0,
                started_unix_ns: 0,
                ended: None,
            }],
            polls: (0..100).map(|at| (at * MS, at * MS + 1_000)).collect(),
            ..Life::default()
        };
        let told = life_line(&life, &JobRow::default(), 200 * MS);
        assert_eq!(told.matches('→').count(), MAX_STEPS, "{told}");
        assert!(told.contains("steps .."), "{told}");
    }
}
