//! The time that the charts show, the cursor, and the playback of a recording.

use ax_wire::{
    alert::AlertState,
    mark::MarkKind,
    view::{Point, ServiceView},
};
use jiff::Timestamp;

use super::{App, Pace, Request};
use crate::{
    format::time_of_day,
    keys::TimeStep,
    screens::{Mode, Panel},
    theme::Tone,
    timeline::{Span, point_at},
    view::{alerts::ALERTS, verdicts::VERDICTS},
};

/// Columns that a chart has before one has been drawn.
const USUAL_COLUMNS: u16 = 60;

/// How fast a recording can be played.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=10_000.0;

/// The playback of a recording: where it stands, and how it goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Playback {
    pub name: String,
    pub paused: bool,
    /// Seconds of the recording in a second.
    pub speed: f64,
    pub at_unix_ns: u64,
    pub begin_unix_ns: u64,
    pub end_unix_ns: u64,
}

impl Playback {
    /// Goes to an instant, as far as the recording reaches.
    pub fn seek(&mut self, unix_ns: u64) {
        self.at_unix_ns = unix_ns.clamp(self.begin_unix_ns, self.end_unix_ns);
    }

    /// Goes on by so much time of the clock on the wall. Returns whether it moved.
    pub fn go_on(&mut self, ns: u64) -> bool {
        let before = self.at_unix_ns;
        if !self.paused {
            self.seek(before.saturating_add((ns as f64 * self.speed) as u64));
        }
        self.at_unix_ns != before
    }

    fn set_speed(&mut self, speed: f64) {
        self.speed = speed.clamp(*SPEEDS.start(), *SPEEDS.end());
    }
}

/// Something that happened, for below the charts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    pub at_unix_ns: u64,
    /// One character, explained on the help page.
    pub sign: &'static str,
    pub text: String,
}

/// Everything that is known to have happened, oldest first.
pub fn happened(view: &ServiceView) -> Vec<Happened> {
    let marks = view.marks.iter().map(|mark| Happened {
        at_unix_ns: mark.at_unix_ns,
        sign: sign(mark.kind),
        text: mark.text.clone(),
    });
    let fired = view
        .alerts
        .iter()
        .filter(|alert| alert.fired_unix_ns.is_some());
    let alerts = fired.flat_map(|alert| {
        let told = |at_unix_ns, kind, what| Happened {
            at_unix_ns,
            sign: sign(kind),
            text: format!("{} {what}", alert.rule),
        };
        let ended = alert
            .resolved_unix_ns
            .filter(|_| alert.state == AlertState::Resolved);
        [Some(told(
            alert.began_unix_ns,
            MarkKind::AlertBegan,
            "began",
        ))]
        .into_iter()
        .chain([ended.map(|at| told(at, MarkKind::AlertEnded, "ended"))])
        .flatten()
    });
    let snapshots = view.snapshots.iter().map(|snapshot| Happened {
        at_unix_ns: snapshot.at_unix_ns,
        sign: sign(MarkKind::Snapshot),
        text: "snapshot".to_owned(),
    });
    let mut all: Vec<Happened> = marks.chain(alerts).chain(snapshots).collect();
    // The agent's own marks tell the same alerts and snapshots where it makes any: its words stand first.
    all.sort_by_key(|happened| (happened.at_unix_ns, happened.sign));
    all.dedup_by_key(|happened| (happened.at_unix_ns / 1_000_000_000, happened.sign));
    all
}

fn sign(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Started => "^",
        MarkKind::Build => "B",
        MarkKind::Limit => "L",
        MarkKind::Rules => "R",
        MarkKind::AlertBegan => "A",
        MarkKind::AlertEnded => "a",
        MarkKind::Verdict => "V",
        MarkKind::Snapshot => "S",
        MarkKind::Load => "T",
        MarkKind::Control => "C",
        MarkKind::Other => "*",
    }
}

impl App {
    /// The instant that charts end with while they follow.
    pub fn newest_unix_ns(&self) -> u64 {
        let newest = self.feed().and_then(|feed| feed.points.back());
        newest.map_or(self.world.now_unix_ns, |point| point.at_unix_ns)
    }

    /// What a chart of so many columns shows.
    pub fn span(&self, columns: u16) -> Span {
        self.timeline.span(self.newest_unix_ns(), columns)
    }

    /// The second that the cursor stands at, where there is a cursor and something is known of it.
    pub fn point_at_cursor(&self) -> Option<&Point> {
        let cursor = self.timeline.cursor_unix_ns?;
        point_at(self.feed()?.points.iter(), cursor)
    }

    /// What happened in the column that the cursor stands in.
    pub fn happened_at_cursor(&self) -> Option<String> {
        let span = self.shown_span();
        let column = span.column_of(self.timeline.cursor_unix_ns?)?;
        let told: Vec<String> = happened(self.view()?)
            .into_iter()
            .filter(|happened| span.column_of(happened.at_unix_ns) == Some(column))
            .map(|happened| happened.text)
            .collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// What the widest chart of the last frame showed.
    fn shown_span(&self) -> Span {
        let columns = match self.drawn.chart_columns {
            0 => USUAL_COLUMNS,
            columns => columns,
        };
        self.span(columns)
    }

    pub(super) fn time(&mut self, step: TimeStep) {
        let span = self.shown_span();
        let half = (span.length_ns() / 2).max(1);
        match step {
            TimeStep::ZoomIn => self.timeline.zoom(1),
            TimeStep::ZoomOut => self.timeline.zoom(-1),
            TimeStep::ZoomReset => self.timeline.zoom_reset(),
            TimeStep::Back | TimeStep::Forward => {
                let later = step == TimeStep::Forward;
                let moved = |at: u64| {
                    if later {
                        at.saturating_add(half)
                    } else {
                        at.saturating_sub(half)
                    }
                };
                if let Some(playback) = &mut self.playback {
                    playback.seek(moved(playback.at_unix_ns));
                } else {
                    self.look_until(moved(span.end_unix_ns), span);
                }
            }
            TimeStep::CursorOlder => self.cursor_to(|at| at.saturating_sub(span.step_ns)),
            TimeStep::CursorNewer => self.cursor_to(|at| at.saturating_add(span.step_ns)),
            TimeStep::MarkOlder | TimeStep::MarkNewer => {
                let newer = step == TimeStep::MarkNewer;
                let from = self.timeline.cursor_unix_ns.unwrap_or(span.end_unix_ns);
                let all = self.view().map_or_else(Vec::new, happened);
                let mut times = all.iter().map(|happened| happened.at_unix_ns);
                let next = if newer {
                    times.find(|at| *at > from)
                } else {
                    times.rfind(|at| *at < from)
                };
                if let Some(next) = next {
                    self.cursor_to(|_| next);
                }
            }
            TimeStep::Slower | TimeStep::Faster => {
                if let Some(playback) = &mut self.playback {
                    let factor = if step == TimeStep::Faster { 2.0 } else { 0.5 };
                    playback.set_speed(playback.speed * factor);
                }
            }
        }
    }

    /// Shows the charts up to an instant, but no further back than they are full of what is known.
    fn look_until(&mut self, end_unix_ns: u64, span: Span) {
        let oldest = self.feed().and_then(|feed| feed.points.front());
        let oldest = oldest.map_or(0, |point| point.at_unix_ns);
        let first_end = oldest.saturating_add(span.length_ns());
        let newest = self.newest_unix_ns();
        self.timeline.show_until(end_unix_ns.max(first_end), newest);
    }

    /// Moves the cursor, and what is shown with it where it would leave it.
    pub(super) fn cursor_to(&mut self, to: impl FnOnce(u64) -> u64) {
        let span = self.shown_span();
        let newest = self.newest_unix_ns();
        let oldest = self.feed().and_then(|feed| feed.points.front());
        let Some(oldest) = oldest.map(|point| point.at_unix_ns) else {
            return;
        };
        let from = self
            .timeline
            .cursor_unix_ns
            .unwrap_or(span.end_unix_ns.min(newest));
        let cursor = to(from).clamp(oldest, newest);
        self.timeline.cursor_unix_ns = Some(cursor);
        if cursor > span.end_unix_ns {
            self.look_until(cursor, span);
        } else if span.column_of(cursor).is_none() {
            let end = cursor
                .saturating_add(span.length_ns())
                .saturating_sub(span.step_ns);
            self.look_until(end, span);
        }
    }

    /// Puts the cursor of every chart to the beginning of the selected verdict.
    pub fn jump_to_verdict(&mut self) -> Option<Request> {
        let key = self.table(Panel::Verdicts).selected()?.clone();
        let row = self
            .verdict_rows()
            .iter()
            .find(|row| (VERDICTS.row_key)(row) == key)?
            .clone();
        self.jump_to(row.verdict.since_unix_ns, &key)
    }

    /// The same, of the selected alert.
    pub fn jump_to_alert(&mut self) -> Option<Request> {
        let key = self.table(Panel::Alerts).selected()?.clone();
        let row = self
            .alert_rows()
            .iter()
            .find(|row| (ALERTS.row_key)(row) == key)?
            .clone();
        self.jump_to(row.alert.began_unix_ns, &row.alert.rule)
    }

    fn jump_to(&mut self, at_unix_ns: u64, what: &str) -> Option<Request> {
        self.mode = Mode::Overview;
        self.cursor_to(|_| at_unix_ns);
        let at = time_of_day(at_unix_ns, &self.zone);
        let there = self.timeline.cursor_unix_ns == Some(at_unix_ns);
        let text = if there {
            format!("where {what} began, at {at}; esc takes the cursor away")
        } else {
            format!("{what} began at {at}, which the charts do not show; esc takes the cursor away")
        };
        self.say(&text, Tone::Plain, self.world.now_unix_ns);
        None
    }

    /// Shows what lies between two instants, in as much detail as finds room.
    pub(super) fn zoom_between(&mut self, from_unix_ns: u64, to_unix_ns: u64) {
        let span = self.shown_span();
        let (from, to) = (from_unix_ns.min(to_unix_ns), from_unix_ns.max(to_unix_ns));
        self.timeline.zoom_to(to - from, span.columns);
        self.timeline.cursor_unix_ns = None;
        let newest = self.newest_unix_ns();
        self.timeline.show_until(to, newest);
    }

    /// Freezes, or goes on; a recording pauses, or plays.
    pub(super) fn freeze(&mut self) {
        if let Some(playback) = &mut self.playback {
            playback.paused = !playback.paused;
            return;
        }
        self.pace = match self.pace {
            Pace::Live => Pace::Frozen {
                since_unix_ns: self.world.now_unix_ns,
            },
            Pace::Frozen { .. } | Pace::Still => Pace::Live,
        };
    }

    /// Back to now: live, the charts up to the newest; a recording plays on.
    pub(super) fn resume(&mut self) {
        self.timeline.now();
        match &mut self.playback {
            Some(playback) => playback.paused = false,
            None => self.pace = Pace::Live,
        }
    }

    /// `14:03:21`, `14:03`, or how long ago: `5m`.
    pub(super) fn seek_to(&mut self, when: &str, now_unix_ns: u64) -> Option<Request> {
        let now = self
            .playback
            .as_ref()
            .map_or(self.world.now_unix_ns, |playback| playback.at_unix_ns);
        let Some(at) = self.instant(when, now) else {
            let text = format!("`{when}` is no time of day (14:03:21) and no span (90s, 5m, 1h)");
            self.say(&text, Tone::Warning, now_unix_ns);
            return None;
        };
        match &mut self.playback {
            Some(playback) => playback.seek(at),
            None => self.cursor_to(|_| at),
        }
        None
    }

    /// The newest instant before `now` that is meant.
    fn instant(&self, when: &str, now_unix_ns: u64) -> Option<u64> {
        if let Ok(ago) = crate::cli::parse_span(when) {
            return Some(now_unix_ns.saturating_sub(ago.as_nanos() as u64));
        }
        let now = Timestamp::from_nanosecond(i128::from(now_unix_ns)).ok()?;
        let time: jiff::civil::Time = when.parse().ok()?;
        let today = self.zone.to_datetime(now).date();
        let of = |date: jiff::civil::Date| self.zone.to_timestamp(date.to_datetime(time)).ok();
        let at = of(today)
            .filter(|at| *at <= now)
            .or_else(|| of(today.yesterday().ok()?))?;
        u64::try_from(at.as_nanosecond()).ok()
    }

    pub(super) fn set_speed(&mut self, speed: &str, now_unix_ns: u64) -> Option<Request> {
        let number = speed
            .trim_end_matches('x')
            .parse::<f64>()
            .ok()
            .filter(|speed| speed.is_finite());
        match (&mut self.playback, number) {
            (Some(playback), Some(speed)) => playback.set_speed(speed),
            (None, _) => self.say("only a replay has a speed", Tone::Warning, now_unix_ns),
            (_, None) => {
                let text = format!("`{speed}` is no speed: 1, 10, 1000");
                self.say(&text, Tone::Warning, now_unix_ns);
            }
        }
        None
    }
}
