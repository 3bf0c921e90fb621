//! Verdicts in words: the same on the screen, in `ax-top diagnose` and in a report.

use ax_wire::{
    alert::Unit,
    verdict::{Culprit, Evidence, Explained, Hurt, Unsure, Verdict, VerdictId},
    view::ServiceView,
};

use crate::{
    format::{age, duration, printable},
    headline::{Headline, Severity},
    words::figure,
};

/// Who is hurt that is told in one line.
const HURT_IN_A_LINE: usize = 2;

/// The verdicts that are causes: healthy is none, and what another one explains stands with that.
pub fn causes(view: &ServiceView) -> impl Iterator<Item = &Verdict> {
    let verdicts = &view.diagnosis.verdicts;
    let explained = move |verdict: &&Verdict| {
        let mut explained = verdicts.iter().flat_map(|cause| &cause.explains);
        explained.any(|of| of.id == verdict.id && of.subject == verdict.subject)
    };
    verdicts
        .iter()
        .filter(|verdict| verdict.id != VerdictId::Healthy)
        .filter(move |verdict| !explained(verdict))
}

/// `blocking-call`, or with what it is about: `lane-saturated api`.
pub fn name(verdict: &Verdict) -> String {
    let subject = verdict.subject.as_ref();
    let subject = subject.map_or_else(String::new, |subject| format!(" {subject}"));
    printable(&format!("{}{subject}", verdict.id))
}

/// For how long it has been so.
pub fn lasted_ns(verdict: &Verdict, now_unix_ns: u64) -> u64 {
    now_unix_ns.saturating_sub(verdict.since_unix_ns)
}

/// `blocking-call for 6 s: A poll of ...`.
pub fn headline(verdict: &Verdict, now_unix_ns: u64) -> Headline {
    Headline {
        severity: Severity::from(verdict.severity),
        sentence: format!(
            "{}  {}  {}",
            name(verdict),
            age(lasted_ns(verdict, now_unix_ns)),
            printable(&verdict.sentence)
        ),
    }
}

/// `started src/pdf.rs:88   at pdf::convert`, of what is known.
pub fn culprit(culprit: &Culprit) -> String {
    let place = culprit
        .place
        .as_ref()
        .map(|place| format!("started {place}"));
    let frame = culprit.frame.as_ref().map(|frame| format!("at {frame}"));
    let job = culprit.job.map(|job| format!("job {job}"));
    let known: Vec<_> = place.into_iter().chain(frame).chain(job).collect();
    printable(&known.join("   "))
}

/// `GET /invoice: 38 affected, p99 18 -> 430 ms`.
pub fn hurt(hurt: &Hurt) -> String {
    let affected = hurt.affected.map(|affected| format!("{affected} affected"));
    let errors = hurt.errors.filter(|errors| *errors > 0);
    let errors = errors.map(|errors| format!("{errors} failed"));
    let slower = match (hurt.usual_p99_ns, hurt.p99_ns) {
        (Some(usual), Some(now)) => Some(format!("p99 {} -> {}", duration(usual), duration(now))),
        (None, Some(now)) => Some(format!("p99 {}", duration(now))),
        _ => None,
    };
    let known: Vec<_> = affected.into_iter().chain(errors).chain(slower).collect();
    printable(&format!("{}: {}", hurt.name, known.join(", ")))
}

/// `hurts GET /invoice: 38 affected, ...; render_pdf: ...`; nothing where nobody is.
pub fn hurts(verdict: &Verdict) -> Option<String> {
    let all = &verdict.who_is_hurt;
    let told: Vec<_> = all.iter().take(HURT_IN_A_LINE).map(hurt).collect();
    let more = all.len().saturating_sub(HURT_IN_A_LINE);
    let more = match more {
        0 => String::new(),
        more => format!("; {more} more"),
    };
    (!told.is_empty()).then(|| format!("hurts {}{more}", told.join("; ")))
}

/// What stands below its sentence in a banner with so many more lines: with one, what to do; with two, who did it and who
/// is hurt before that.
pub fn below(verdict: &Verdict, lines: usize) -> Vec<String> {
    let who = verdict.culprit.as_ref().map(culprit);
    let who: Vec<_> = who.into_iter().chain(hurts(verdict)).collect();
    let who = who.into_iter().filter(|said| !said.is_empty());
    let who = who.collect::<Vec<_>>().join("   ");
    let next = verdict.next_steps.first();
    let next = next.map(|step| format!("next: {}   (7: evidence)", printable(step)));
    let who = Some(who).filter(|who| !who.is_empty() && lines > 1);
    who.into_iter().chain(next).take(lines).collect()
}

/// `longest poll 412.0 ms (against 50.0 ms)`.
pub fn because(evidence: &Evidence) -> String {
    // CPUs are counted, too, and are seldom whole ones.
    let is_whole = |value: f64| value.fract() == 0.0;
    let shown = |value: f64| match evidence.unit {
        // Two that differ by less than a tenth would look the same.
        Unit::Count if !is_whole(value) && value.abs() < 1.0 => format!("{value:.2}"),
        Unit::Count if !is_whole(value) => format!("{value:.1}"),
        unit => figure(value, unit),
    };
    let value = shown(evidence.value);
    let against = evidence.against.map_or_else(String::new, |against| {
        format!(" (against {})", shown(against))
    });
    printable(&format!("{} {value}{against}", evidence.what))
}

/// `90 % sure`.
pub fn confidence(verdict: &Verdict) -> String {
    format!("{:.0} % sure", verdict.confidence * 100.0)
}

/// Why another finding only looks like a cause.
pub fn explained(explained: &Explained) -> String {
    printable(&explained.because)
}

/// `cpu-starvation needs 3 s of figures, and has 1`.
pub fn unsure(unsure: &Unsure) -> String {
    printable(&format!("{} needs {}", unsure.id, unsure.needs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn what_follows_from_a_cause_is_no_cause_of_its_own() {
        let view = fixture::diagnosed();
        assert_eq!(view.diagnosis.verdicts.len(), 2);
        let causes: Vec<_> = causes(&view).map(name).collect();
        assert_eq!(causes, ["blocking-call"]);
        assert_eq!(super::causes(&fixture::diagnosed_healthy()).count(), 0);
    }

    /// F98: `hurts GET /invoice: 38 affected, p99 18 -> 430 ms`.
    #[test]
    fn a_banner_has_who_did_it_who_is_hurt_and_what_to_do() {
        let view = fixture::diagnosed();
        let cause = causes(&view).next().expect("has one");
        assert_eq!(
            below(cause, 2),
            [
                "started src/pdf.rs:88   at pdf::convert   job 7   hurts GET /invoice: 38 affected, p99 18 ms -> 430 ms",
                "next: use `tokio::process` in place of `std::process`   (7: evidence)",
            ]
        );
        assert_eq!(below(cause, 1).len(), 1);
        assert!(below(cause, 1)[0].starts_with("next: "));
        assert_eq!(below(cause, 0), Vec::<String>::new());
    }

    #[test]
    fn figures_have_units_and_cpus_may_be_broken() {
        let view = fixture::diagnosed();
        let first = &view.diagnosis.verdicts[0].evidence[0];
        assert_eq!(because(first), "longest poll 412.0 ms (against 50.0 ms)");
        let cpus = Evidence {
            what: "CPUs used".to_owned(),
            value: 1.6,
            against: Some(2.0),
            unit: Unit::Count,
        };
        assert_eq!(because(&cpus), "CPUs used 1.6 (against 2)");
        let few = Evidence {
            value: 0.043,
            against: Some(0.05),
            ..cpus
        };
        assert_eq!(because(&few), "CPUs used 0.04 (against 0.05)");
    }
}
