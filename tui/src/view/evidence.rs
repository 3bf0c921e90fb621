//! What a snapshot file holds beyond the figures of a service: the jobs that ran and those that were queued.

use ax_wire::{
    incident::{QueueFacts, QueuedJob, RunningJob},
    sample::TaskRef,
    view::ServiceView,
};
use ratatui::{
    buffer::Buffer,
    layout::{
        HorizontalAlignment::{Left, Right},
        Rect,
    },
};

use super::Screen;
use crate::{
    format::{UNKNOWN, count, duration, ms, printable},
    headline::task_words,
    list::Detail,
    opened::Opened,
    screens::Panel,
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// A job as the list shows it.
#[derive(Clone, Debug)]
pub enum EvidenceRow {
    Running(RunningJob),
    Queued {
        lane: String,
        job: QueuedJob,
        /// Whether it stands at the head of its lane.
        next: bool,
    },
}

/// Running jobs, longest first, then the queued ones that the file lists.
pub fn evidence_rows(opened: &Opened) -> Vec<EvidenceRow> {
    let Some(incident) = &opened.snapshot.incident else {
        return Vec::new();
    };
    let running = incident.running.iter().cloned().map(EvidenceRow::Running);
    running
        .chain(incident.queues.iter().flat_map(queued))
        .collect()
}

fn queued(queue: &QueueFacts) -> impl Iterator<Item = EvidenceRow> {
    // One that is both next and oldest stands once.
    let rest = queue.oldest.iter().filter(|job| !queue.next.contains(job));
    queue
        .next
        .iter()
        .chain(rest)
        .map(|job| EvidenceRow::Queued {
            lane: queue.lane.clone(),
            job: job.clone(),
            next: queue.next.contains(job),
        })
}

impl EvidenceRow {
    fn task(&self) -> Option<&TaskRef> {
        match self {
            Self::Running(job) => Some(&job.task),
            Self::Queued { .. } => None,
        }
    }

    fn name(&self) -> String {
        let (name, job) = match self {
            Self::Running(job) => (&job.task.name, job.task.job),
            Self::Queued { job, .. } => (&job.name, Some(job.job)),
        };
        let job = job.map_or_else(String::new, |job| format!(" #{job}"));
        format!("{name}{job}")
    }

    fn state(&self) -> (&'static str, Tone) {
        match self {
            Self::Running(job) if job.poll_age_ns.is_some() => ("in poll", Tone::Strong),
            Self::Running(_) => ("running", Tone::Plain),
            Self::Queued { next: true, .. } => ("queued, next", Tone::Quiet),
            Self::Queued { next: false, .. } => ("queued, oldest", Tone::Quiet),
        }
    }

    fn lane(&self) -> String {
        match self {
            Self::Running(job) => job.task.lane.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            Self::Queued { lane, .. } => lane.clone(),
        }
    }

    fn runs_ns(&self) -> Option<u64> {
        match self {
            Self::Running(job) => Some(job.elapsed_ns),
            Self::Queued { .. } => None,
        }
    }

    fn waited_ns(&self) -> u64 {
        match self {
            Self::Running(job) => job.queue_wait_ns,
            Self::Queued { job, .. } => job.age_ns,
        }
    }

    fn poll_ns(&self) -> Option<u64> {
        match self {
            Self::Running(job) => job.poll_age_ns,
            Self::Queued { .. } => None,
        }
    }

    fn priority(&self) -> u64 {
        u64::from(match self {
            Self::Running(job) => job.priority,
            Self::Queued { job, .. } => job.priority,
        })
    }

    fn place(&self) -> String {
        let place = self.task().and_then(|task| task.place.clone());
        place.unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// What it is about, and what it waits for.
    pub fn detail(&self) -> Detail {
        let (first, second) = match self {
            Self::Running(job) => {
                let trace = job.task.trace;
                let trace = trace.map_or_else(String::new, |trace| format!("  trace {trace}"));
                let waits = job.waits_for.as_ref();
                let waits = waits.map_or_else(String::new, |waits| {
                    let since = duration(waits.since_ns);
                    format!("  waits for {} since {since}", waits.label)
                });
                let attempt = format!("attempt {}{trace}{waits}", job.attempt);
                (task_words(&job.task), attempt)
            }
            Self::Queued { lane, job, .. } => {
                let age = duration(job.age_ns);
                let first = format!("job {} waits in {lane} for {age}", self.name());
                (first, String::new())
            }
        };
        Detail {
            first: printable(&first),
            second: printable(&second),
        }
    }
}

/// One row a job.
pub static EVIDENCE: Table<EvidenceRow> = Table {
    title: "Running jobs and queue, times in ms",
    empty: "no job was running and none was queued",
    order: RowOrder::AsGiven,
    row_key: |row| format!("{}/{}", row.lane(), row.name()),
    columns: &[
        Column {
            title: "job",
            width: 16,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(row.name(), Tone::Strong),
            sort: |row| SortKey::Text(row.name()),
        },
        Column {
            title: "state",
            width: 14,
            align: Left,
            keep: 19,
            cell: |row| {
                let (word, tone) = row.state();
                Cell::new(word, tone)
            },
            sort: |row| SortKey::Text(row.state().0.to_owned()),
        },
        Column {
            title: "lane",
            width: 12,
            align: Left,
            keep: 18,
            cell: |row| Cell::plain(row.lane()),
            sort: |row| SortKey::Text(row.lane()),
        },
        Column {
            title: "runs for",
            width: 9,
            align: Right,
            keep: 17,
            cell: |row| Cell::plain(ms(row.runs_ns())),
            sort: |row| SortKey::number(row.runs_ns()),
        },
        Column {
            title: "waited",
            width: 9,
            align: Right,
            keep: 16,
            cell: |row| Cell::plain(ms(Some(row.waited_ns()))),
            sort: |row| SortKey::number(Some(row.waited_ns())),
        },
        Column {
            title: "in poll",
            width: 9,
            align: Right,
            keep: 15,
            cell: |row| Cell::plain(ms(row.poll_ns())),
            sort: |row| SortKey::number(row.poll_ns()),
        },
        Column {
            title: "prio",
            width: 4,
            align: Right,
            keep: 10,
            cell: |row| Cell::plain(count(Some(row.priority()))),
            sort: |row| SortKey::number(Some(row.priority())),
        },
        Column {
            title: "started",
            width: 26,
            align: Left,
            keep: 5,
            cell: |row| Cell::plain(row.place()),
            sort: |row| SortKey::Text(row.place()),
        },
    ],
};

impl Screen<'_> {
    pub fn evidence(&self, _: &ServiceView, area: Rect, buf: &mut Buffer) {
        let opened = self.app.opened.as_deref();
        let incident = opened.and_then(|opened| opened.snapshot.incident.as_ref());
        let pending = |queues: &[QueueFacts]| queues.iter().map(|queue| queue.pending).sum::<u64>();
        let note = incident.map(|incident| {
            let (running, queued) = (incident.running_total, pending(&incident.queues));
            format!("{running} running, {queued} queued in all")
        });
        self.history(Panel::Evidence, note, area, buf);
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::{
        app::App,
        glyphs::Glyphs,
        keys::Action,
        opened::tests::{by_probe, fixture},
        screens::Mode,
        theme::Theme,
        widget::table::Step,
    };

    fn drawn(app: &App, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("draws in memory");
        let screen = Screen::new(app, Theme::with_colour(false), Glyphs::Unicode);
        let draw = terminal.draw(|frame| frame.render_widget(&screen, frame.area()));
        draw.expect("draws in memory");
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        let lines = rows.map(|row| {
            let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_file_is_marked_and_its_evidence_is_a_screen() {
        let mut app = App::of_file(fixture(), TimeZone::UTC);
        let overview = drawn(&app, 120, 30);
        app.update(Action::Open(Mode::Evidence), 0);
        app.update(Action::Step(Step::Down), 0);
        let evidence = drawn(&app, 120, 30);
        insta::assert_snapshot!(format!("{overview}\n\n{evidence}"));
    }

    #[test]
    fn every_screen_of_a_file_can_be_drawn_at_any_size() {
        for opened in [fixture(), by_probe()] {
            let mut app = App::of_file(opened, TimeZone::UTC);
            for _ in 0..app.screens().count() {
                for (width, height) in [(20, 5), (80, 24), (200, 60)] {
                    drawn(&app, width, height);
                }
                app.update(Action::NextScreen, 0);
            }
            assert_eq!(app.mode, Mode::Overview, "round all screens");
        }
    }

    #[test]
    fn live_keys_do_nothing_to_a_file() {
        let mut app = App::of_file(fixture(), TimeZone::UTC);
        let before = drawn(&app, 120, 30);
        for key in [
            Action::Capture,
            Action::Freeze,
            Action::Toggle(Mode::Services),
        ] {
            assert_eq!(app.update(key, 0), None);
            assert!(app.note.is_some(), "{key:?}");
        }
        app.note = None;
        assert_eq!(drawn(&app, 120, 30), before);
    }
}
