//! The screen of lanes: what comes in, where it queues, what it calls. And one lane alone.

use ax_wire::{
    sample::LimitReason,
    view::{DownstreamView, LaneView, LimitMoveView, ServiceView},
};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
};

use super::{
    Screen,
    downstreams::DOWNSTREAMS,
    lanes::{fill, lane_key, note},
    overview::{lanes_title, table_rows, window},
    routes::ROUTES,
    types::TYPES,
    workers::bar,
};
use crate::{
    format::{count, duration, maybe_duration, ms, printable, rate, time_of_day},
    screens::Panel,
    theme::Tone,
    widget::table::{TableState, TableView},
};

/// A rule, headings and two rows.
const LEAST_ROWS: u16 = 4;

/// A rule and six lines.
const FIGURES_ROWS: u16 = 7;

impl Screen<'_> {
    /// All three tables where each has room, else the one that has the focus.
    pub fn flow(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let lanes_rows = table_rows(view.lanes.len());
        let left = area.height.saturating_sub(lanes_rows);
        if left < 2 * LEAST_ROWS {
            match self.app.focused() {
                Some(Panel::Routes) => self.routes(view, area, buf),
                Some(Panel::Downstreams) => self.downstreams(view, area, buf),
                _ => self.flow_lanes(view, area, buf),
            }
            return;
        }
        let routes_rows = table_rows(view.routes.len()).clamp(LEAST_ROWS, left / 2);
        let [lanes, routes, downstreams] = Layout::vertical([
            Constraint::Length(lanes_rows),
            Constraint::Length(routes_rows),
            Constraint::Fill(1),
        ])
        .areas(area);
        self.flow_lanes(view, lanes, buf);
        self.routes(view, routes, buf);
        self.downstreams(view, downstreams, buf);
    }

    fn flow_lanes(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        self.list(Panel::LanesInFull, &lanes_title(view), area, buf);
    }

    fn routes(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let title = format!(
            "{}, ms and req/s over {}, answers since the start",
            ROUTES.title,
            window(view)
        );
        self.list(Panel::Routes, &title, area, buf);
    }

    fn downstreams(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let title = format!("{}, ms over {}", DOWNSTREAMS.title, window(view));
        self.list(Panel::Downstreams, &title, area, buf);
    }

    /// One lane: its queue and its losses, the moves of its limit, its job types, what they call.
    pub fn lane(&self, view: &ServiceView, area: Rect, buf: &mut Buffer) {
        let chosen = self.app.lane.as_ref();
        let lane = view
            .lanes
            .iter()
            .find(|lane| Some(&lane_key(lane)) == chosen);
        let Some(lane) = lane else {
            self.text(area, 1, " this lane is no longer there", Tone::Plain, buf);
            return;
        };
        let types: Vec<_> = view
            .types
            .iter()
            .filter(|known| known.lane.as_ref() == Some(&lane.name))
            .cloned()
            .collect();
        let [figures, types_at, below] = Layout::vertical([
            Constraint::Length(FIGURES_ROWS),
            Constraint::Length(table_rows(types.len())),
            Constraint::Fill(1),
        ])
        .areas(area);
        let halves = || Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
        let [now, ever] = halves().areas(figures);
        let [left, calls] = halves().areas(below);
        let queue_lines = queue_lines(lane);
        let queue_rows = 1 + queue_lines.len() as u16;
        let [queue, moves] =
            Layout::vertical([Constraint::Length(queue_rows), Constraint::Fill(1)]).areas(left);
        self.lines("Its queue, by priority", &queue_lines, queue, buf);
        let title = format!("Lane {}", printable(&lane.name));
        self.lines(&title, &now_lines(lane, view), now, buf);
        self.lines("Since the start", &ever_lines(lane), ever, buf);
        let mut state = TableState::default();
        state.sync(&TYPES, &types);
        let table = TableView {
            table: &TYPES,
            rows: &types,
            state: &state,
            focused: false,
            theme: self.theme,
        };
        let mut title = format!("Its job types, ms over {}", window(view));
        if let Some(part) = state.part(types_at.height.saturating_sub(1)) {
            title = format!("{title}  {part}");
        }
        let inner = self.panel(types_at, &title, None, buf);
        table.draw(inner, buf);
        let newest_first = lane.limit_moves.iter().rev();
        let told: Vec<_> = newest_first.map(|moved| self.move_line(moved)).collect();
        self.lines("Its limit, newest move first", &or_none(told), moves, buf);
        let called = view.downstreams.iter();
        let called: Vec<_> = called
            .filter_map(|downstream| call_line(downstream, lane))
            .collect();
        self.lines("What its jobs call", &or_none(called), calls, buf);
    }

    fn lines(&self, title: &str, lines: &[(String, Tone)], area: Rect, buf: &mut Buffer) {
        let inner = self.panel(area, title, None, buf);
        for (row, (line, tone)) in (0..).zip(lines) {
            self.text(inner, row, &format!(" {line}"), *tone, buf);
        }
    }

    fn move_line(&self, moved: &LimitMoveView) -> (String, Tone) {
        let why = match moved.reason {
            LimitReason::Resized => "set",
            LimitReason::Fast => "jobs were fast",
            LimitReason::Slow => "jobs were slow",
            LimitReason::Boost => "boost",
            LimitReason::BoostEnded => "boost ended",
            LimitReason::Other => "unknown",
        };
        let at = time_of_day(moved.at_unix_ns, &self.app.zone);
        (
            format!("{at}  {} → {}  {why}", moved.from, moved.to),
            Tone::Plain,
        )
    }
}

fn kilobytes(bytes: u64) -> String {
    format!("{} kB", bytes.div_ceil(1_000))
}

fn or_none(lines: Vec<(String, Tone)>) -> Vec<(String, Tone)> {
    if lines.is_empty() {
        vec![("none".to_owned(), Tone::Quiet)]
    } else {
        lines
    }
}

fn now_lines(lane: &LaneView, view: &ServiceView) -> Vec<(String, Tone)> {
    let plain = |text: String| (text, Tone::Plain);
    let note = note(lane);
    let retrying = match lane.retrying {
        Some(retrying) if retrying > 0 => format!("  ({retrying} again)"),
        _ => String::new(),
    };
    let running = format!(
        "running {} {}/{}  {note}{retrying}",
        bar(fill(lane)),
        lane.running,
        lane.limit
    );
    let tone = if note.is_empty() {
        Tone::Plain
    } else {
        Tone::Warning
    };
    let bytes = lane
        .overload
        .queued_bytes
        .map_or_else(String::new, |bytes| {
            let of = lane.overload.capacity_bytes;
            let of = of.map_or_else(String::new, |most| format!(" of {}", kilobytes(most)));
            format!(", {}{of}", kilobytes(bytes))
        });
    vec![
        (running, tone),
        plain(format!(
            "pending {} of {}{bytes}",
            lane.pending, lane.capacity
        )),
        plain(format!(
            "head    {} old; {} wait for room",
            maybe_duration(lane.head_age_ns),
            count(lane.overload.submitters_waiting)
        )),
        plain(format!("waiting {}{}", lane.waiting, waiting_for(lane))),
        plain(format!(
            "p99     wait {}  run {} ms ({})",
            ms(lane.queue_wait.p99_ns),
            ms(lane.run.p99_ns),
            window(view)
        )),
        plain(format!(
            "2 s     {} done/s  {} fail/s  {} reject/s",
            rate(lane.recent.finished_per_s),
            rate(lane.recent.unsuccessful_per_s),
            rate(lane.recent.rejected_per_s)
        )),
    ]
}

/// What the waiting jobs wait for, as far as there are any.
fn waiting_for(lane: &LaneView) -> String {
    let Some(waits) = lane.waiting_for else {
        return String::new();
    };
    let kinds = [
        (waits.time, "time"),
        (waits.dependencies, "jobs"),
        (waits.retry, "backoff"),
        (waits.budget, "retry budget"),
        (waits.person, "a person"),
    ];
    let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<_> = kinds
        .map(|(count, what)| format!("{count} for {what}"))
        .collect();
    if kinds.is_empty() {
        String::new()
    } else {
        format!(": {}", kinds.join(", "))
    }
}

/// One line a band that holds jobs, highest first.
fn queue_lines(lane: &LaneView) -> Vec<(String, Tone)> {
    let Some(bands) = &lane.queue else {
        return vec![("not told by this service".to_owned(), Tone::Quiet)];
    };
    let lines = bands.iter().map(|band| {
        let range = format!("{}-{}", band.lowest, band.highest);
        let oldest = maybe_duration(band.oldest_ns);
        let text = format!("{range:>7} {:>7} queued, oldest {oldest}", band.pending);
        (text, Tone::Plain)
    });
    or_none(lines.collect())
}

fn ever_lines(lane: &LaneView) -> Vec<(String, Tone)> {
    let (jobs, overload) = (&lane.counters, &lane.overload);
    let toned = |text: String, bad: u64| {
        let tone = if bad > 0 { Tone::Warning } else { Tone::Plain };
        (text, tone)
    };
    vec![
        toned(
            format!(
                "submitted {}, succeeded {}",
                jobs.submitted_total, jobs.succeeded_total
            ),
            0,
        ),
        toned(
            format!(
                "failed {}, panicked {}, timed out {}",
                jobs.failed_total, jobs.panicked_total, jobs.timed_out_total
            ),
            jobs.failed_total + jobs.panicked_total + jobs.timed_out_total,
        ),
        toned(
            format!(
                "begun {}, cancelled {}, no heartbeat {}",
                jobs.started_total, jobs.cancelled_total, lane.zombies_total
            ),
            lane.zombies_total,
        ),
        toned(
            format!(
                "retried {}, put off {}, preempted {}",
                lane.retried_total, lane.deferred_total, lane.preempted_total
            ),
            lane.deferred_total,
        ),
        toned(
            format!(
                "rejected {}, shed {}",
                jobs.rejected_total, overload.shed_total
            ),
            jobs.rejected_total + overload.shed_total,
        ),
        toned(
            format!(
                "spilled {} ({} now), past high water {}",
                overload.spilled_total, overload.spilled, overload.high_water_total
            ),
            overload.spilled,
        ),
    ]
}

/// What the jobs of a lane have to do with a downstream, if anything.
fn call_line(downstream: &DownstreamView, lane: &LaneView) -> Option<(String, Tone)> {
    let callers = || {
        let callers = downstream.callers.iter();
        callers.filter(|caller| caller.lane.as_ref() == Some(&lane.name))
    };
    callers().next()?;
    let in_flight: u64 = callers().map(|caller| caller.in_flight).sum();
    let calls: u64 = callers().map(|caller| caller.calls_total).sum();
    let errors: u64 = callers().map(|caller| caller.errors_total).sum();
    let time_ns: u64 = callers().map(|caller| caller.time_ns_total).sum();
    let ended = calls.saturating_sub(in_flight);
    let mean = time_ns
        .checked_div(ended)
        .map_or_else(String::new, |mean| format!(", {} each", duration(mean)));
    let text = format!(
        "{}  {in_flight} in flight, {errors} errors{mean}, {calls} calls",
        printable(&downstream.name)
    );
    let tone = if errors > 0 {
        Tone::Warning
    } else {
        Tone::Plain
    };
    Some((text, tone))
}
