//! Traces as waterfalls: a row a job, light while it waited in its queue, solid while it ran, dark where one poll was long,
//! red at the end where it failed; the stalls that hit it drawn across.

use ax_wire::TraceId;
use maud::{Markup, html};

use crate::{
    format::duration,
    lives::{Life, lives, traces},
    opened::Opened,
    waterfall::{Piece, Span, Waterfall},
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

fn waterfall(opened: &Opened, lives: &[&Life]) -> Markup {
    let laid_out = Waterfall::new(lives, &opened.view.stalls, opened.at_unix_ns());
    html! {
        div.waterfall {
            @for row in laid_out.rows.iter().take(MAX_ROWS) {
                div.row {
                    span.name { ("\u{a0}".repeat(2 * row.depth)) (row.title) }
                    div.track {
                        @for span in &row.spans {
                            @if let Some(class) = class(span.piece) {
                                b class=(class) style=(place(&laid_out, span)) {}
                            }
                        }
                    }
                    span.what { (row.fate) }
                }
            }
        }
        @if laid_out.rows.len() > MAX_ROWS {
            p.quiet { "and " (laid_out.rows.len() - MAX_ROWS) " more jobs, in the snapshot" }
        }
    }
}

/// The class of its box; none for what a page has no room to show.
fn class(piece: Piece) -> Option<&'static str> {
    Some(match piece {
        Piece::Queued => "wait",
        Piece::Run => "run",
        Piece::FailedRun => "run failed",
        Piece::LongPoll => "poll",
        Piece::Stall => "stall",
        Piece::Held | Piece::Poll => return None,
    })
}

/// The place of a span, for the style of its box.
fn place(within: &Waterfall, span: &Span) -> String {
    let left = within.place(span.begin_unix_ns) * 100.0;
    let width = within.place(span.end_unix_ns) * 100.0 - left;
    format!("left:{left:.2}%;width:{width:.2}%")
}
