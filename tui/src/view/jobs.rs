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

mod life;

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

use self::life::life_line;
use super::Screen;
use crate::{
    format::{UNKNOWN, age, duration, ms, printable},
    screens::Panel,
    theme::{Theme, Tone},
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// Rows of the histograms: heading, ladder, and some bars.
const HISTOGRAM_ROWS: u16 = 14;

/// A rule and what is told of the selected job.
const DETAIL_ROWS: u16 = 6;

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
        match self.app.jobs_page() {
            Some(Ok(_)) if self.app.jobs_are_of_query() => {}
            // Rows of the query before, for the moment: they must not look as if they matched.
            Some(Ok(_)) => buf.set_style(table, Theme::faded()),
            Some(Err(why)) => {
                let words = format!("unknown: {}", printable(why));
                self.instead_of_rows(table, &words, Tone::Warning, buf);
            }
            None => self.instead_of_rows(table, self.app.asking_words(), Tone::Quiet, buf),
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
            let (text, tone) = if self.app.jobs_are_of_query() {
                found(page, look.offset)
            } else {
                let words = format!(
                    "{} below: what was looked for before",
                    self.app.asking_words()
                );
                (words, Tone::Quiet)
            };
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
fn found(page: &JobsPage, offset: u32) -> (String, Tone) {
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

#[cfg(test)]
mod tests {
    use ax_wire::{
        JobId,
        job::{JobWait, WaitKind},
    };

    use super::*;
    use crate::lives::Life;

    const MS: u64 = 1_000_000;

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
}
