//! Traces as waterfalls: a row a job, light while it waited in its queue, solid while it ran, dark where one poll was long,
//! red at the end where it failed; the stalls that hit it drawn across.

use ax_wire::TraceId;
use maud::{Markup, html};

use crate::{
    format::{duration, printable},
    lives::{Attempt, End, Life, lives, traces},
    opened::Opened,
};

/// Most traces on a page: the first ones are those of what was stuck.
const MAX_TRACES: usize = 5;

/// Most rows of a trace.
const MAX_ROWS: usize = 40;

/// The section; nothing where no job of a trace is known.
pub fn section(opened: &Opened) -> Markup {
    let Some(incident) = &opened.snapshot.incident else {
        return html! {};
    };
    let lives = lives(opened);
    let of = |trace: TraceId| -> Vec<&Life> {
        let lives = lives.iter();
        lives.filter(|life| life.trace == Some(trace)).collect()
    };
    let known: Vec<_> = traces(incident)
        .into_iter()
        .map(|trace| (trace, of(trace)))
        .filter(|(_, lives)| !lives.is_empty())
        .collect();
    html! {
        @if !known.is_empty() {
            h2 { "Traces" }
            p.quiet {
                "Light: waits in its queue. Solid: runs. Dark: one poll of 5 ms and more. Striped: a worker was stuck. "
                @match &incident.recorder {
                    Some(recorder) => {
                        "The recorder misses nothing of the last "
                        (duration(recorder.at_mono_ns.saturating_sub(recorder.complete_since_mono_ns))) "."
                    }
                    None => { "Jobs that had ended are not in this snapshot." }
                }
            }
        }
        @for (trace, lives) in known.iter().take(MAX_TRACES) {
            h3 { "Trace " code { (trace) } }
            (waterfall(opened, lives))
        }
        @if known.len() > MAX_TRACES {
            p.quiet { "and " (known.len() - MAX_TRACES) " more traces, in the snapshot" }
        }
    }
}

/// A span of time as a share of the whole.
struct Axis {
    from: u64,
    to: u64,
}

impl Axis {
    /// The place of a span, for the style of its box.
    fn place(&self, begin: u64, end: u64) -> String {
        let whole = (self.to - self.from).max(1) as f64;
        let at = |at: u64| (at.clamp(self.from, self.to) - self.from) as f64 / whole * 100.0;
        format!("left:{:.2}%;width:{:.2}%", at(begin), at(end) - at(begin))
    }
}

fn waterfall(opened: &Opened, lives: &[&Life]) -> Markup {
    let now = opened.at_unix_ns();
    let axis = Axis {
        from: lives
            .iter()
            .filter_map(|life| life.begin_unix_ns())
            .min()
            .unwrap_or(now),
        to: lives
            .iter()
            .map(|life| life.end_unix_ns(now))
            .max()
            .unwrap_or(now),
    };
    html! {
        div.waterfall {
            @for life in lives.iter().take(MAX_ROWS) {
                div.row {
                    span.name { (title(life)) }
                    div.track {
                        @for attempt in &life.attempts {
                            (attempt_boxes(&axis, attempt, now))
                        }
                        @if let (Some(ready), true) = (life.ready_unix_ns, life.attempts.is_empty()) {
                            b.wait style=(axis.place(ready, now)) {}
                        }
                        @for (begin, end) in &life.long_polls {
                            b.poll style=(axis.place(*begin, *end)) {}
                        }
                        @for stall in &opened.view.stalls {
                            @let end = stall.began_unix_ns.saturating_add(stall.stall.length_ns);
                            @if stall.began_unix_ns < axis.to && end > axis.from {
                                b.stall style=(axis.place(stall.began_unix_ns, end)) {}
                            }
                        }
                    }
                    span.what { (fate(life, now)) }
                }
            }
        }
        @if lives.len() > MAX_ROWS {
            p.quiet { "and " (lives.len() - MAX_ROWS) " more jobs, in the snapshot" }
        }
    }
}

fn attempt_boxes(axis: &Axis, attempt: &Attempt, now: u64) -> Markup {
    let end = attempt.ended.map_or(now, |(at, _)| at);
    let class = match attempt.ended {
        Some((_, End::Unsuccessful(_))) => "run failed",
        Some((_, End::Succeeded)) | None => "run",
    };
    html! {
        b.wait style=(axis.place(attempt.ready_unix_ns, attempt.started_unix_ns)) {}
        b class=(class) style=(axis.place(attempt.started_unix_ns, end)) {}
    }
}

fn title(life: &Life) -> String {
    let job = life.job.map_or_else(String::new, |job| format!(" #{job}"));
    let lane = life.lane.as_ref();
    let lane = lane.map_or_else(String::new, |lane| format!(" ({lane})"));
    printable(&format!("{}{job}{lane}", life.name))
}

fn fate(life: &Life, now: u64) -> String {
    let Some(last) = life.attempts.last() else {
        return "waits".to_owned();
    };
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
