//! A session as text.

mod compared;

use std::fmt::Write as _;

use ax_agent::load::{Analysis, Filler, Judged, Judgement, Reason, Source};
use ax_wire::session::{Driver, End, EndKind, Errors, Load, Session, StepKind};

pub use self::compared::comparison;
use crate::format::{UNKNOWN, duration, ms, printable, rate};

/// Over [`row`].
pub const HEADING: &str =
    "step       offered/s achieved/s  p50 ms  p99 ms  lag p99  pending/s  errors  judged";

/// One step.
pub fn row(step: &Judged) -> String {
    let figures = &step.figures;
    let row = format!(
        "{:<10} {:>9} {:>10} {:>7} {:>7} {:>8} {:>10} {:>7}  {}",
        name(step),
        rate(figures.offered_per_s),
        rate(figures.achieved_per_s),
        ms(figures.p50_ns),
        ms(figures.p99_ns),
        ms(figures.lag_p99_ns),
        signed(
            figures
                .pending_slope
                .or(figures.in_flight_slope)
                .map(|slope| slope.per_s)
        ),
        percent(figures.error_share),
        judgement(&step.judgement)
    );
    row.trim_end().to_owned()
}

/// Over [`narrow_row`].
pub const NARROW_HEADING: &str = "step     offered/s achieved/s  p99 ms  lag p99  judged";

/// One step where there is little room.
pub fn narrow_row(step: &Judged) -> String {
    let figures = &step.figures;
    format!(
        "{:<8} {:>9} {:>10} {:>7} {:>8}  {}",
        name(step),
        rate(figures.offered_per_s),
        rate(figures.achieved_per_s),
        ms(figures.p99_ns),
        ms(figures.lag_p99_ns),
        judgement(&step.judgement)
    )
}

/// Its number, why it was made, and its connections.
fn name(step: &Judged) -> String {
    let kind = match step.figures.kind {
        StepKind::Search => "s",
        StepKind::Repeat => "r",
        StepKind::Planned | StepKind::Other => "",
    };
    let load = match step.figures.load {
        Load::Connections(count) => format!(" c{count}"),
        Load::RatePerS(_) | Load::Unknown => String::new(),
    };
    format!("{}{kind}{load}", step.figures.number)
}

fn signed(per_s: Option<f64>) -> String {
    per_s.map_or_else(
        || UNKNOWN.to_owned(),
        |per_s| {
            // A queue at rest is told as one, not as `-0.0`.
            let per_s = if per_s.abs() < 0.05 { 0.0 } else { per_s };
            format!("{per_s:+.1}")
        },
    )
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || UNKNOWN.to_owned(),
        |share| format!("{:.1} %", share * 100.0),
    )
}

/// A load in words.
pub fn load(load: Load) -> String {
    match load {
        Load::RatePerS(per_s) => format!("{}/s", rate(Some(per_s))),
        Load::Connections(count) => format!("{count} connections"),
        Load::Unknown => "the command's own load".to_owned(),
    }
}

/// What is made of a step, in words.
pub fn judgement(judgement: &Judgement) -> String {
    match judgement {
        Judgement::Good => "good".to_owned(),
        Judgement::Unsure(why) => format!("unsure: {why}"),
        Judgement::Bad(reasons) => {
            let reasons: Vec<_> = reasons.iter().map(reason).collect();
            format!("BAD: {}", reasons.join("; "))
        }
    }
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Achieved { share, least } => {
            format!(
                "{:.0} % achieved, not {:.0} %",
                share * 100.0,
                least * 100.0
            )
        }
        Reason::P99 { ns, most_ns } => {
            format!("p99 {} is over {}", duration(*ns), duration(*most_ns))
        }
        Reason::LagP99 { ns, most_ns } => {
            format!("lag p99 {} is over {}", duration(*ns), duration(*most_ns))
        }
        Reason::Errors { share, most } => {
            format!("{:.1} % fail, over {:.1} %", share * 100.0, most * 100.0)
        }
        Reason::PendingGrows { per_s } => format!("pending grows by {}/s", rate(Some(*per_s))),
        Reason::InFlightGrows { per_s } => {
            format!("requests pile up by {}/s", rate(Some(*per_s)))
        }
    }
}

/// How it ended.
pub fn ended(end: &End) -> String {
    let how = match end.kind {
        EndKind::Unfinished => "not finished: it runs, or was killed",
        EndKind::Completed => "completed",
        EndKind::Aborted => "aborted",
        EndKind::Interrupted => "interrupted",
        EndKind::Unreachable => "unreachable",
        EndKind::Refused => "no load was made",
        EndKind::ServiceGone => "the service went away",
        EndKind::CommandFailed => "the command failed",
        EndKind::Other => "ended in a way that this ax-top does not know",
    };
    match &end.why {
        Some(why) => format!("{how}: {}", printable(why)),
        None => how.to_owned(),
    }
}

/// How the load was made.
pub fn driver(session: &Session) -> String {
    match &session.driver {
        Driver::Http { url, method, .. } => format!("{} {}", printable(method), printable(url)),
        Driver::Command { arguments, .. } => printable(&arguments.join(" ")),
        Driver::Other(_) => "made in a way that this ax-top does not know".to_owned(),
    }
}

/// The service, in words.
pub fn service(session: &Session) -> String {
    session.service.as_ref().map_or_else(
        || "no service watched".to_owned(),
        |hello| {
            let version = hello.service_version.as_ref();
            let version = version.map_or_else(String::new, |version| format!(" {version}"));
            printable(&format!("{}{version}, pid {}", hello.service, hello.pid))
        },
    )
}

/// What failed, in words: the most frequent first.
pub fn failures(errors: &Errors) -> String {
    let of_statuses: u64 = errors.statuses.iter().map(|own| own.count).sum();
    let answered = errors.client_error_total + errors.server_error_total;
    let mut kinds: Vec<(u64, String)> = errors
        .statuses
        .iter()
        .map(|own| (own.count, format!("status {}", own.status)))
        .collect();
    kinds.extend([
        (
            errors.connect_total,
            "connections that could not be made".to_owned(),
        ),
        (
            errors.timeout_total,
            "answers that did not come in time".to_owned(),
        ),
        (errors.broken_total, "connections that broke".to_owned()),
        // Sessions of before statuses were kept.
        (
            answered.saturating_sub(of_statuses),
            "statuses of 400 and more".to_owned(),
        ),
    ]);
    kinds.retain(|(count, _)| *count > 0);
    kinds.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let kinds: Vec<_> = kinds
        .iter()
        .map(|(count, kind)| format!("{count} x {kind}"))
        .collect();
    format!("requests failed: {}", kinds.join(", "))
}

/// Why no step was good, where the limits of load have nothing to do with it.
fn failing(analysis: &Analysis) -> Option<f64> {
    let first = analysis
        .steps
        .iter()
        .find(|step| Some(step.figures.number) == analysis.knee.bad_step)?;
    let Judgement::Bad(reasons) = &first.judgement else {
        return None;
    };
    reasons.iter().find_map(|reason| match reason {
        Reason::Errors { share, .. } if *share > 0.5 => Some(*share),
        _ => None,
    })
}

/// The knee in one sentence.
pub fn knee(analysis: &Analysis) -> String {
    if let [only] = &analysis.steps[..]
        && only.figures.load == Load::Unknown
    {
        return "knee: unknown: one load alone has none; put {rate} or {connections} in the command to raise it".to_owned();
    }
    let knee = &analysis.knee;
    let at = |per_s: Option<f64>| format!("{}/s", rate(per_s));
    match (knee.per_s, knee.below_per_s) {
        (Some(_), Some(_)) => format!(
            "knee: {} is the last good load, {} the first bad one",
            at(knee.per_s),
            at(knee.below_per_s)
        ),
        (Some(_), None) if knee.bad_step.is_some() => {
            format!("knee: {} is the last good load", at(knee.per_s))
        }
        (Some(_), None) => format!(
            "knee: not reached; {} was still good: raise --steps",
            at(knee.per_s)
        ),
        (None, Some(_)) if failing(analysis).is_some() => format!(
            "knee: unknown: {} of the requests failed already at {}, so look at what fails before you look at load",
            percent(failing(analysis)),
            at(knee.below_per_s)
        ),
        (None, Some(_)) => format!(
            "knee: below {}: no step was good; lower --steps, or look at the limits",
            at(knee.below_per_s)
        ),
        (None, None) => "knee: unknown: no step tells".to_owned(),
    }
}

/// Second opinions, each a sentence.
pub fn opinions(analysis: &Analysis) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(most) = analysis.knee.most_per_s {
        said.push(format!("most that was achieved: {}/s", rate(Some(most))));
    }
    said.push(analysis.kneedle_per_s.map_or_else(
        || "shape of the curve (Kneedle): no bend".to_owned(),
        |per_s| {
            format!(
                "shape of the curve (Kneedle): bends at {}/s",
                rate(Some(per_s))
            )
        },
    ));
    if let Some(usl) = analysis.usl {
        let fits = if usl.error > 0.1 {
            ", which is no good fit"
        } else {
            ""
        };
        let ceiling = usl.most_per_s.map_or_else(
            || "no ceiling".to_owned(),
            |most| format!("ceiling {}/s", rate(Some(most))),
        );
        let best = usl
            .best_concurrency
            .map_or_else(String::new, |best| format!(" at {best:.0} under way"));
        said.push(format!(
            "scalability law: {}/s alone, contention {:.2} %, crosstalk {:.4} %, {ceiling}{best}; off by {:.0} %{fits}",
            rate(Some(usl.lambda_per_s)),
            usl.sigma * 100.0,
            usl.kappa * 100.0,
            usl.error * 100.0
        ));
    }
    said
}

/// What filled, in words, the first first.
pub fn filled(analysis: &Analysis) -> Vec<String> {
    let filled = analysis.filled.iter().enumerate();
    filled
        .map(|(at, filled)| {
            let what = match filled.what {
                Filler::Lane => "lane",
                Filler::Downstream => "downstream",
            };
            let order = if at == 0 { "filled first" } else { "then" };
            let limit = filled
                .limit
                .map_or_else(String::new, |limit| format!(" (limit {limit})"));
            format!(
                "{order}: {what} {}{limit} in step {}, {}",
                printable(&filled.name),
                filled.step,
                load(filled.load)
            )
        })
        .collect()
}

/// What is said where nothing filled.
pub fn nothing_filled(session: &Session) -> &'static str {
    if session.service.is_none() {
        "filled first: unknown, no service was watched"
    } else if session.steps.iter().all(|step| step.service.is_empty()) {
        "filled first: unknown, no figures of the service lie in a step"
    } else {
        "filled first: nothing filled"
    }
}

/// Findings of the agent while it ran, in words.
pub fn verdicts(session: &Session) -> Vec<String> {
    let verdicts = session.verdicts.iter();
    verdicts
        .map(|seen| {
            let subject = seen.verdict.subject.as_ref();
            let subject = subject.map_or_else(String::new, |subject| format!(" {subject}"));
            let when = if seen.verdict.since_unix_ns < session.began_unix_ns {
                "since before the session".to_owned()
            } else if seen.step == 0 {
                "before the first step".to_owned()
            } else {
                format!("step {}", seen.step)
            };
            printable(&format!(
                "{when}: {}{subject}: {}",
                seen.verdict.id, seen.verdict.sentence
            ))
        })
        .collect()
}

/// Advice, a sentence a lane and downstream.
pub fn advice(analysis: &Analysis) -> Vec<String> {
    let lanes = analysis.advice.lanes.iter().map(|lane| {
        format!(
            "lane {}: {}/s x {} needs {}, {} with room (limit {}); it can do {}/s, stay below {}/s; timeout {}",
            printable(&lane.lane),
            rate(Some(lane.per_s)),
            duration(lane.run_mean_ns as u64),
            match lane.needed {
                1 => "1 slot".to_owned(),
                needed => format!("{needed} slots"),
            },
            lane.with_room,
            lane.limit,
            rate(Some(lane.capacity_per_s)),
            rate(Some(lane.wise_per_s)),
            span(lane.timeout_from_ns, lane.timeout_to_ns)
        )
    });
    let downstreams = analysis.advice.downstreams.iter().map(|known| {
        let timeout = known.timeout_from_ns.zip(known.timeout_to_ns);
        let timeout = timeout.map_or_else(String::new, |(from, to)| {
            format!("; timeout {}", span(from, to))
        });
        let mean = known.mean_ns.map_or_else(String::new, |ns| {
            format!(" x {}", duration(ns as u64))
        });
        let limit = match (known.pool, known.wise_per_s) {
            (Some(pool), Some(wise)) if known.needed <= known.limit => format!(
                " (pool {pool}); limit what calls it to {}, which can do {}/s",
                known.limit,
                rate(Some(wise))
            ),
            (Some(pool), Some(wise)) => format!(
                ", {} with room, and its pool is {pool}: enlarge that, or limit what calls it to {} and stay below {}/s",
                known.with_room,
                known.limit,
                rate(Some(wise))
            ),
            _ => format!(", {} with room", known.with_room),
        };
        format!(
            "downstream {}: {}/s{mean} needs {} at once{limit}{timeout}",
            printable(&known.downstream),
            rate(Some(known.per_s)),
            known.needed
        )
    });
    lanes.chain(downstreams).collect()
}

fn span(from_ns: u64, to_ns: u64) -> String {
    if from_ns == to_ns {
        return duration(from_ns);
    }
    format!("{} to {}", duration(from_ns), duration(to_ns))
}

/// Where throughput was read, in words.
pub fn source(analysis: &Analysis) -> String {
    let other = analysis
        .throughput
        .background
        .map_or_else(String::new, |other| {
            format!(
                ", without the {}/s of other traffic (moves by {}/s)",
                rate(Some(other.per_s)),
                rate(Some(other.deviation_per_s))
            )
        });
    let what = match &analysis.throughput.source {
        Source::Answers => "answers without error".to_owned(),
        Source::Requests => "requests that the service counted".to_owned(),
        Source::Lane(lane) => format!("jobs of lane {}", printable(lane)),
        Source::Jobs => "jobs of all lanes".to_owned(),
    };
    what + &other
}

/// The whole session; without its steps, where they have just been told one by one.
pub fn report(session: &Session, analysis: &Analysis, with_steps: bool) -> String {
    let mut text = String::new();
    let mut line = |part: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{part}");
    };
    line(&format!("{}  {}", driver(session), service(session)));
    line(&format!(
        "achieved is {}; {}",
        source(analysis),
        ended(&session.end)
    ));
    line("");
    if with_steps && !analysis.steps.is_empty() {
        line(HEADING);
        for step in &analysis.steps {
            line(&row(step));
        }
        line("");
    }
    line(&knee(analysis));
    for said in opinions(analysis) {
        line(&format!("  {said}"));
    }
    let none = [nothing_filled(session).to_owned()];
    let filled = filled(analysis);
    let filled = if filled.is_empty() {
        &none[..]
    } else {
        &filled
    };
    for said in filled {
        line(said);
    }
    for (title, said) in [
        ("verdicts", verdicts(session)),
        ("advice", advice(analysis)),
        (
            "warnings",
            session
                .warnings
                .iter()
                .map(|said| printable(said))
                .collect(),
        ),
    ] {
        if !said.is_empty() {
            line(title);
            for said in said {
                line(&format!("  {said}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use ax_agent::load::{analyze, compare};

    use super::*;
    use crate::load::page::tests::fixture;

    /// F20 to F22, F83: the whole answer of a session of the demo, in words.
    #[test]
    fn a_session_in_words() {
        let session = fixture();
        insta::assert_snapshot!(report(&session, &analyze(&session), true));
    }

    #[test]
    fn a_comparison_with_itself_in_words() {
        let session = fixture();
        insta::assert_snapshot!(comparison(&compare(&session, &session, 1)));
    }
}
