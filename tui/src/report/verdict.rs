//! What was wrong, before all else: the verdicts of the diagnosis with the figures behind them and what to do, then what the
//! banner of a screen says.

use ax_wire::verdict::Verdict;
use maud::{Markup, html};

use crate::{
    format::printable,
    headline::{Headline, Severity},
    opened::Opened,
    verdict::{self, because, causes, headline, hurt},
};

/// The section.
pub fn section(opened: &Opened) -> Markup {
    let unsure = &opened.view.diagnosis.unsure;
    let found = || causes(&opened.view);
    let said = |verdict: &Verdict| headline(verdict, opened.view.at_unix_ns);
    let mut headlines = opened.headlines();
    headlines.retain(|headline| {
        let said = found().any(|verdict| said(verdict) == *headline);
        // Beside a finding, that nothing else is wrong is no news.
        !said && (found().next().is_none() || headline.severity > Severity::Unknown)
    });
    let worst = found()
        .map(|verdict| Severity::from(verdict.severity))
        .chain(headlines.iter().map(|headline| headline.severity))
        .max();
    let class = match worst {
        Some(Severity::Healthy) => "good",
        Some(Severity::Warning) => "warn",
        Some(Severity::Critical | Severity::Page) => "bad",
        Some(Severity::Unknown | Severity::Info) | None => "",
    };
    html! {
        div class={ "verdict " (class) } {
            @for verdict in found() {
                (line(&said(verdict)))
                (reasons(verdict))
            }
            @for headline in &headlines {
                (line(headline))
            }
        }
        @if !unsure.is_empty() {
            p.quiet {
                "Not to be told from what was known: "
                (joined(unsure.iter().map(verdict::unsure)))
            }
        }
    }
}

/// The same sentence as on every screen.
fn line(headline: &Headline) -> Markup {
    html! { p.said { (headline.severity.label()) "  " (headline.sentence) } }
}

fn reasons(verdict: &Verdict) -> Markup {
    let who = verdict.culprit.as_ref().map(verdict::culprit);
    html! {
        p.quiet { (verdict::confidence(verdict)) }
        @if !verdict.evidence.is_empty() {
            p { "Because: " (joined(verdict.evidence.iter().map(because))) }
        }
        @if let Some(who) = who.filter(|who| !who.is_empty()) {
            p { "Who: " code { (who) } }
        }
        @if !verdict.who_is_hurt.is_empty() {
            p { "Hurt: " (joined(verdict.who_is_hurt.iter().map(hurt))) }
        }
        @if !verdict.next_steps.is_empty() {
            ol {
                @for step in &verdict.next_steps {
                    li { (printable(step)) }
                }
            }
        }
        @if !verdict.explains.is_empty() {
            p.quiet { "Explains: " (joined(verdict.explains.iter().map(verdict::explained))) }
        }
    }
}

fn joined(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use ax_wire::{
        alert::{self, Unit},
        verdict::{Culprit, Diagnosis, Evidence, Explained, Hurt, HurtKind, Unsure, VerdictId},
    };

    use super::*;
    use crate::opened::tests::fixture;

    /// The fixture with a finding in it.
    fn diagnosed() -> Opened {
        let mut opened = fixture();
        opened.view.diagnosis = Diagnosis {
            verdicts: vec![Verdict {
                id: VerdictId::BlockingCall,
                subject: None,
                severity: alert::Severity::Critical,
                confidence: 0.9,
                since_unix_ns: 0,
                sentence: "render_pdf <b>sleeps</b> in the kernel on worker 1".to_owned(),
                evidence: vec![Evidence {
                    what: "longest poll".to_owned(),
                    value: 252_000_000.0,
                    against: Some(50_000_000.0),
                    unit: Unit::Nanoseconds,
                }],
                who_is_hurt: vec![Hurt {
                    kind: HurtKind::Route,
                    name: "GET /invoice".to_owned(),
                    affected: Some(7),
                    errors: Some(2),
                    usual_p99_ns: Some(12_000_000),
                    p99_ns: Some(252_000_000),
                }],
                next_steps: vec!["move it to spawn_blocking".to_owned()],
                culprit: Some(Culprit {
                    frame: Some("shop::render".to_owned()),
                    ..Culprit::default()
                }),
                explains: vec![Explained {
                    id: VerdictId::LaneSaturated,
                    subject: None,
                    because: "the lane waits for the worker".to_owned(),
                }],
            }],
            unsure: vec![Unsure {
                id: VerdictId::MemoryGrowth,
                needs: "8 more minutes of history".to_owned(),
            }],
        };
        opened
    }

    #[test]
    fn a_verdict_stands_first_with_its_figures_and_what_to_do() {
        let section = section(&diagnosed()).into_string();
        let place = |text: &str| {
            section
                .find(text)
                .unwrap_or_else(|| panic!("no {text:?} in {section}"))
        };
        let order = [
            "render_pdf &lt;b&gt;sleeps&lt;/b&gt; in the kernel",
            "90 % sure",
            "longest poll 252.0 ms (against 50.0 ms)",
            "shop::render",
            "GET /invoice: 7 affected, 2 failed, p99 12 ms -&gt; 252 ms",
            "move it to spawn_blocking",
            "the lane waits for the worker",
            "memory-growth needs 8 more minutes of history",
        ];
        assert!(order.map(place).is_sorted(), "{section}");
    }

    #[test]
    fn what_a_headline_repeats_of_a_verdict_stands_once() {
        let section = section(&diagnosed()).into_string();
        assert_eq!(section.matches("render_pdf").count(), 1, "{section}");
    }
}
