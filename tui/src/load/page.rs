//! A session as one page of HTML that needs nothing else, in the style of the report of a snapshot: no script, nothing
//! loaded, and the same for the same file.

mod scatter;

use ax_agent::load::{Analysis, Judgement};
use ax_wire::session::{EndKind, ServiceSecond, Session, Slice, Step};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::text;
use crate::{
    format::{duration, ms, printable, rate},
    report::{
        POLICY, STYLE,
        chart::{Chart, Scale, Series},
        moment, tables,
    },
};

/// What this page has beyond the report of a snapshot.
const OWN_STYLE: &str = include_str!("page/style.css");

const NS_PER_MS: f64 = 1e6;

/// The page.
pub fn page(session: &Session, analysis: &Analysis) -> String {
    let title = format!("Load session: {}", text::service(session));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body {
                h1 { (title) }
                p.quiet {
                    code { (text::driver(session)) } ", begun " (moment(session.began_unix_ns)) ", "
                    (text::ended(&session.end)) ". Achieved is " (text::source(analysis)) "."
                }
                (headline(session, analysis))
                h2 { "Lag against throughput" }
                (scatter::scatter(session, analysis))
                (filled(analysis))
                h2 { "Over time" }
                (series(session))
                (steps(analysis))
                (list("Verdicts while it ran", &text::verdicts(session), "The agent had none."))
                (list("Advice", &text::advice(analysis), "Too few jobs ended for one."))
                (list("Second opinions on the knee", &text::opinions(analysis), ""))
                (changes(session))
                (commands(session))
                p.quiet { "Made by ax-top " (env!("CARGO_PKG_VERSION")) }
            }
        }
    }
    .into_string()
}

fn headline(session: &Session, analysis: &Analysis) -> Markup {
    let class = match (session.end.kind, analysis.knee.step) {
        (EndKind::Completed, Some(_)) => "good",
        (EndKind::Completed, None) => "bad",
        _ => "warn",
    };
    html! {
        div class={ "verdict " (class) } {
            p { (text::knee(analysis)) }
            @if let Some(first) = text::filled(analysis).first() {
                p { (first) }
            }
            @for warning in &session.warnings {
                p { "WARNING  " (printable(warning)) }
            }
        }
    }
}

fn filled(analysis: &Analysis) -> Markup {
    list("What filled", &text::filled(analysis), "Nothing did.")
}

fn list(title: &str, said: &[String], none: &str) -> Markup {
    html! {
        h2 { (title) }
        @if said.is_empty() {
            p.quiet { (none) }
        }
        ul { @for said in said { li { (said) } } }
    }
}

/// The figures over time, step after step.
fn series(session: &Session) -> Markup {
    let of_service = |name, value: &dyn Fn(&ServiceSecond) -> Option<f64>| Series {
        name,
        points: by_step(session, |step| {
            let seconds = step.service.iter();
            seconds
                .map(|second| (second.at_unix_ns, value(second)))
                .collect()
        }),
    };
    let of_client = |name, value: &dyn Fn(&Slice) -> Option<f64>| Series {
        name,
        points: by_step(session, |step| {
            let slices = step.client.iter().flat_map(|client| &client.slices);
            slices
                .map(|slice| (slice.at_unix_ns, value(slice)))
                .collect()
        }),
    };
    let lag = of_service("largest", &|second| {
        second.lag_ns.iter().max().map(|ns| *ns as f64 / NS_PER_MS)
    });
    let pending = of_service("pending", &|second| {
        Some(second.lanes.iter().map(|lane| lane.pending as f64).sum())
    });
    let running = of_service("running", &|second| {
        Some(second.lanes.iter().map(|lane| lane.running as f64).sum())
    });
    let cpus = of_service("CPUs", &|second| second.cpus_used);
    let per_s = |count: u64, length_ns: u64| Some(count as f64 * 1e9 / length_ns.max(1) as f64);
    let achieved = of_client("achieved", &|slice| per_s(slice.achieved, slice.length_ns));
    let errors = of_client("errors", &|slice| per_s(slice.errors, slice.length_ns));
    let latency = of_client("p99", &|slice| {
        let ns = slice.latency.as_ref()?.quantile_ns(0.99)?;
        Some(ns as f64 / NS_PER_MS)
    });
    let chart = |title, scale, series, thresholds| Chart {
        title,
        scale,
        series,
        thresholds,
        at_unix_ns: 0,
    };
    let log = Scale::Log { floor: 0.1 };
    let limits = &session.plan.limits;
    let limit = |ns: Option<u64>| ns.map(|ns| ns as f64 / NS_PER_MS).into_iter().collect();
    let drawn = [
        chart(
            "Answers per second",
            Scale::Linear,
            vec![achieved, errors],
            Vec::new(),
        ),
        chart(
            "Latency from the intended send time, ms",
            log,
            vec![latency],
            limit(limits.p99_ns),
        ),
        chart(
            "Event-loop lag, ms",
            log,
            vec![lag],
            limit(limits.lag_p99_ns),
        ),
        chart(
            "Jobs in all lanes",
            Scale::Linear,
            vec![running, pending],
            Vec::new(),
        ),
        chart(
            "CPUs used by the service",
            Scale::Linear,
            vec![cpus],
            Vec::new(),
        ),
    ];
    let begins: Vec<_> = session
        .steps
        .iter()
        .map(|step| (step.began_unix_ns, step.number.to_string()))
        .collect();
    html! {
        p.quiet { "Each upright line begins a step, whose number stands at it." }
        @for chart in drawn.iter().filter_map(|chart| chart.draw_marked(&begins)) { (chart) }
    }
}

/// The points of each step, and a gap after it: nothing is known of the time between two.
fn by_step(
    session: &Session,
    points: impl Fn(&Step) -> Vec<(u64, Option<f64>)>,
) -> Vec<(u64, Option<f64>)> {
    let steps = session.steps.iter();
    steps
        .flat_map(|step| {
            let mut own = points(step);
            if let Some((last, _)) = own.last() {
                own.push((*last, None));
            }
            own
        })
        .collect()
}

fn steps(analysis: &Analysis) -> Markup {
    let rows: Vec<Vec<String>> = analysis
        .steps
        .iter()
        .map(|step| {
            let figures = &step.figures;
            vec![
                figures.number.to_string(),
                text::judgement(&step.judgement),
                rate(figures.offered_per_s),
                rate(figures.achieved_per_s),
                ms(figures.p50_ns),
                ms(figures.p95_ns),
                ms(figures.p99_ns),
                ms(figures.max_ns),
                ms(figures.lag_p99_ns),
                figures
                    .pending_slope
                    .map_or_else(|| "-".to_owned(), |slope| format!("{:+.1}", slope.per_s)),
                figures
                    .error_share
                    .map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0)),
                ms(figures.send_error_p99_ns),
            ]
        })
        .collect();
    html! {
        h2 { "Steps" }
        div.steps { (tables::table(
            &["step", "judged", "offered/s", "achieved/s", "p50, ms", "p95, ms", "p99, ms", "max, ms", "lag p99, ms", "pending/s", "errors %", "sent late p99, ms"],
            2,
            rows.into_iter(),
        )) }
    }
}

/// What changed in the service while it ran.
fn changes(session: &Session) -> Markup {
    let marks: Vec<String> = session
        .marks
        .iter()
        .map(|mark| format!("{}  {}", moment(mark.at_unix_ns), printable(&mark.text)))
        .collect();
    html! {
        @if !marks.is_empty() { (list("What changed meanwhile", &marks, "")) }
    }
}

/// What the wrapped command printed.
fn commands(session: &Session) -> Markup {
    let runs = session
        .steps
        .iter()
        .filter_map(|step| Some((step.number, step.command.as_ref()?)));
    html! {
        @for (number, run) in runs {
            h3 { "Step " (number) ": " code { (printable(&run.arguments.join(" "))) } }
            p.quiet {
                @match run.exit_code {
                    Some(code) => { "exit code " (code) }
                    None => { "ended by a signal" }
                }
                @if run.cut_bytes > 0 { ", its first " (run.cut_bytes) " bytes are not kept" }
            }
            pre { (lines(&run.stdout)) (lines(&run.stderr)) }
        }
    }
}

/// A text of several lines without control characters.
fn lines(text: &str) -> String {
    let lines = text.lines().map(|line| printable(line) + "\n");
    lines.collect()
}

/// What a point of the scatter says when it is looked at.
fn about(step: &ax_agent::load::Judged) -> String {
    let figures = &step.figures;
    let judged = match &step.judgement {
        Judgement::Good => "good".to_owned(),
        other => text::judgement(other),
    };
    format!(
        "step {}: {} achieved/s, lag p99 {}, {judged}",
        figures.number,
        rate(figures.achieved_per_s),
        figures
            .lag_p99_ns
            .map_or_else(|| "unknown".to_owned(), duration)
    )
}

#[cfg(test)]
pub mod tests;
