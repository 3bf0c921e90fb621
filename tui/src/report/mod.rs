//! `ax-top report`: a snapshot as one page of HTML that needs nothing else, for a browser on a desk or a phone.
//!
//! What was wrong stands first, then what was stuck, then how bad it was over time, then who: the order of every screen.
//! The page has no script, loads nothing (its own policy forbids it), and is the same for the same file: all times are UTC.

pub mod chart;
mod flame;
mod stuck;
pub mod tables;
mod verdict;
mod waterfall;

use ax_wire::{
    incident::{Snapshot, Writer},
    view::Point,
};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::chart::{Chart, Scale, Series};
use crate::{
    format::{UNKNOWN, duration, printable},
    opened::Opened,
    words,
};

/// Shared with the page of a load session.
pub const STYLE: &str = include_str!("style.css");

/// Nothing may be loaded and nothing run; the one style sheet stands in the page.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'";

const NS_PER_MS: f64 = 1e6;

/// The page.
pub fn page(opened: &Opened) -> String {
    let hello = &opened.snapshot.hello;
    let service = printable(&hello.service);
    let title = format!("{service}: {}", words::reason(&opened.snapshot.reason));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                // A browser asks for one where the page names none.
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p.quiet { (about(opened)) }
                (verdict::section(opened))
                (stuck::section(opened))
                (charts(opened))
                (flame::section(opened))
                (tables::workers(opened))
                (tables::lanes(opened))
                (tables::running(opened))
                (tables::queues(opened))
                (waterfall::section(opened))
                (tables::types(opened))
                (tables::alerts(opened))
                (tables::process(opened))
                (tables::missing(opened))
                p.quiet { "Made by ax-top " (env!("CARGO_PKG_VERSION")) " of " code { (printable(&opened.name)) } }
            }
        }
    }
    .into_string()
}

/// Date and time of day, UTC.
pub fn moment(unix_ns: u64) -> String {
    Timestamp::from_nanosecond(i128::from(unix_ns)).map_or_else(
        |_| UNKNOWN.to_owned(),
        |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

fn about(opened: &Opened) -> String {
    let Snapshot { hello, writer, .. } = &opened.snapshot;
    let version = hello.service_version.as_ref();
    let version = version.map_or_else(String::new, |version| format!(" {}", printable(version)));
    let up = opened
        .at_unix_ns()
        .saturating_sub(hello.process_start_unix_ns);
    let writer = match writer {
        Writer::Agent => "written by the agent",
        Writer::Probe => "written by the service itself, as no agent answered",
        Writer::Other => "written by something that this ax-top does not know",
    };
    format!(
        "{}{version}, pid {}, up {}, on {} CPUs. Taken {}, {writer}.",
        printable(&hello.service),
        hello.pid,
        duration(up),
        hello.cpus,
        moment(opened.at_unix_ns())
    )
}

fn charts(opened: &Opened) -> Markup {
    let history = opened.points();
    let at_unix_ns = opened.at_unix_ns();
    let line = |name, value: fn(&Point) -> Option<f64>| Series {
        name,
        points: history
            .iter()
            .map(|point| (point.at_unix_ns, value(point)))
            .collect(),
    };
    let chart = |title, series| Chart {
        title,
        scale: Scale::Linear,
        series,
        thresholds: Vec::new(),
        at_unix_ns,
    };
    let lag = |title, series| Chart {
        scale: Scale::Log { floor: 0.1 },
        thresholds: vec![
            opened.snapshot.hello.stall_threshold_ns as f64 / NS_PER_MS,
            opened.snapshot.hello.snapshot_threshold_ns as f64 / NS_PER_MS,
        ],
        ..chart(title, series)
    };
    let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / NS_PER_MS);
    let drawn = [
        lag("Event-loop lag just before, ms", vec![last_lag(opened)]),
        lag(
            "Event-loop lag, a figure a second, ms",
            vec![
                line("max", |point| {
                    point.lag_max_ns.map(|ns| ns as f64 / NS_PER_MS)
                }),
                line("median", |point| {
                    point.lag_p50_ns.map(|ns| ns as f64 / NS_PER_MS)
                }),
            ],
        ),
        chart(
            "Jobs in all lanes",
            vec![
                line("running", |point| Some(point.running as f64)),
                line("pending", |point| Some(point.pending as f64)),
            ],
        ),
        chart("CPUs used", vec![line("CPUs", |point| point.cpus_used)]),
    ];
    let lags = opened.view.lag;
    html! {
        h2 { "How it came" }
        p {
            "Event-loop lag over the last " (duration(opened.view.window_ns)) ": median " (maybe_ms(ms(lags.p50_ns)))
            ", p99 " (maybe_ms(ms(lags.p99_ns))) ", max " (maybe_ms(ms(lags.max_ns))) ". "
            span.quiet { "The dashed lines are the thresholds of a stall and of a snapshot." }
        }
        @for chart in drawn.iter().filter_map(Chart::draw) {
            (chart)
        }
        @if opened.snapshot.history.is_empty() {
            p.quiet { "The minutes before are not in this snapshot: " (no_history(opened.snapshot.writer)) "." }
        }
    }
}

fn no_history(writer: Writer) -> &'static str {
    match writer {
        Writer::Probe => "the agent keeps them, and none answered",
        Writer::Agent | Writer::Other => "the agent had none yet",
    }
}

fn maybe_ms(ms: Option<f64>) -> String {
    ms.map_or_else(|| UNKNOWN.to_owned(), |ms| format!("{ms:.1} ms"))
}

/// The lag of the worst runtime at each instant, as the probe still had it.
fn last_lag(opened: &Opened) -> Series {
    let incident = opened.snapshot.incident.as_ref();
    let points = incident.map_or(&[][..], |incident| &incident.lag);
    let mut points: Vec<_> = points
        .iter()
        .map(|point| {
            let lag = point.lag_ns().map(|ns| ns as f64 / NS_PER_MS);
            (opened.unix_ns(point.at_mono_ns), lag)
        })
        .collect();
    points.sort_by_key(|(at, _)| *at);
    Series {
        name: "lag",
        points,
    }
}

#[cfg(test)]
mod tests;
