//! What diagnosis remembers of one service from one look to the next: since when each cause has been there, and what was
//! usual before.

use ax_wire::{
    alert::Severity,
    mark::{Mark, MarkKind},
    verdict::{Diagnosis, Unsure, Verdict, VerdictId},
    view::ServiceState,
};

use super::{
    RULES,
    answer::{Answer, Finding, Reach},
    case::{Before, Case, HELD},
    compared, healthy, hurt,
    rank::rank,
};
use crate::{
    clock::Now,
    marks::{MAX_MARKS, Predecessor},
    window::Window,
};

/// A finding stays for so long after it was last found, so that one which comes and goes is one.
const HOLD_NS: u64 = 5_000_000_000;

/// Verdicts told at most.
const MOST: usize = 24;

/// Of so many it is worked out who is hurt.
const HURT_OF: usize = 4;

/// The memory of one service.
#[derive(Debug, Default)]
pub struct Casebook {
    open: Vec<Open>,
    /// The seconds before anything was wrong, while something is.
    before: Option<Before>,
    diagnosis: Diagnosis,
    /// First verdicts, oldest first.
    marks: Vec<Mark>,
    /// How the instance before this one did.
    predecessor: Option<Predecessor>,
}

/// A cause that is there, or was a moment ago.
#[derive(Debug)]
struct Open {
    finding: Finding,
    since_mono_ns: u64,
    since_unix_ns: u64,
    found_mono_ns: u64,
}

impl Open {
    fn is(&self, finding: &Finding) -> bool {
        self.finding.id == finding.id && self.finding.subject == finding.subject
    }
}

impl Open {
    /// What was found now takes the place of what was found before. Names of a stack come late and not for each stall, so
    /// that of an earlier one of the same task stays.
    fn take(&mut self, mut finding: Finding) {
        if let (Some(now), Some(before)) = (&mut finding.culprit, &self.finding.culprit)
            && now.frame.is_none()
            && now.task_type == before.task_type
        {
            now.frame.clone_from(&before.frame);
        }
        self.finding = finding;
    }
}

impl Casebook {
    /// What was said last.
    #[must_use]
    pub fn diagnosis(&self) -> &Diagnosis {
        &self.diagnosis
    }

    /// When another finding became the first one, oldest first. At most [`MAX_MARKS`].
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The instance before this one, which verdicts are compared with.
    pub fn succeed(&mut self, predecessor: Predecessor) {
        self.predecessor = Some(predecessor);
    }

    /// See [`Self::succeed`].
    #[must_use]
    pub fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    /// Asks every rule. Of a service that is gone, what was last said stays.
    ///
    /// Costs less than 2 ms for a service with a full history.
    pub fn diagnose(&mut self, window: Window<'_>, now: Now) -> &Diagnosis {
        let state = window.history().state(now);
        if matches!(state, ServiceState::Ended | ServiceState::Lost) {
            return &self.diagnosis;
        }
        let before = self.before.take();
        let Some(case) = Case::new(window, now, before.as_ref()) else {
            return &self.diagnosis;
        };
        let (found, unsure) = ask(&case, state == ServiceState::Live);
        self.remember(found, &case);
        let findings: Vec<_> = self.open.iter().map(|open| open.finding.clone()).collect();
        let mut verdicts: Vec<_> = rank(findings)
            .into_iter()
            .take(MOST)
            .enumerate()
            .map(|(at, ranked)| {
                let open = self.open.iter().find(|open| open.is(&ranked.finding));
                let (mono_ns, unix_ns) = open.map_or((0, now.unix_ns), |open| {
                    (open.since_mono_ns, open.since_unix_ns)
                });
                let reach = if at < HURT_OF {
                    &ranked.finding.reach
                } else {
                    &Reach::Nobody
                };
                let who_is_hurt = hurt::who(&case, reach, mono_ns);
                Verdict {
                    explains: ranked.explains,
                    ..verdict(ranked.finding, unix_ns, who_is_hurt)
                }
            })
            .collect();
        if verdicts.is_empty() && case.lacks_seconds(HELD).is_none() {
            let since = self.healthy_since(now.unix_ns);
            verdicts.push(verdict(healthy::finding(&case), since, Vec::new()));
        }
        if let Some(first) = verdicts.first_mut() {
            compared::tell(first, self.predecessor.as_ref(), &case);
        }
        // What is always so is no trouble, and of a service that was in trouble from the start nothing else is known.
        let troubled = |open: &Open| open.finding.severity > Severity::Info;
        let troubled = self.open.iter().any(troubled);
        let usual = (troubled && before.is_none())
            .then(|| case.keep_usual())
            .flatten();
        self.before = usual.or(before.filter(|_| troubled));
        self.mark(verdicts.first(), now.unix_ns);
        self.diagnosis = Diagnosis { verdicts, unsure };
        &self.diagnosis
    }

    /// Takes what was found now in, and lets go what was not found for [`HOLD_NS`].
    fn remember(&mut self, found: Vec<Finding>, case: &Case<'_>) {
        let now_ns = case.now.mono_ns;
        let clock = case.window.history().clock;
        for finding in found {
            let newest_ns = case.window.newest_mono_ns();
            let began_ns = finding.began_mono_ns.unwrap_or(newest_ns).min(newest_ns);
            match self.open.iter_mut().find(|open| open.is(&finding)) {
                Some(open) => {
                    open.found_mono_ns = now_ns;
                    open.take(finding);
                }
                None => self.open.push(Open {
                    finding,
                    since_mono_ns: began_ns,
                    since_unix_ns: clock.to_unix_ns(began_ns),
                    found_mono_ns: now_ns,
                }),
            }
        }
        self.open
            .retain(|open| now_ns.saturating_sub(open.found_mono_ns) < HOLD_NS);
    }

    /// What it keeps: verdicts, marks, and the seconds before something was wrong.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> [usize; 3] {
        let before = self.before.as_ref().map_or(0, Before::len);
        [self.open.len(), self.marks.len(), before]
    }

    /// Marks a first verdict that is another one than before; healthy only after something else.
    fn mark(&mut self, first: Option<&Verdict>, now_unix_ns: u64) {
        let key = |verdict: &Verdict| (verdict.id, verdict.subject.clone());
        let before = self.diagnosis.verdicts.first().map(key);
        let Some(first) = first.filter(|first| Some(key(first)) != before) else {
            return;
        };
        if first.id == VerdictId::Healthy && before.is_none() {
            return;
        }
        let subject = first.subject.as_ref();
        let subject = subject.map_or_else(String::new, |subject| format!(" {subject}"));
        self.marks.push(Mark {
            at_unix_ns: now_unix_ns,
            kind: MarkKind::Verdict,
            text: format!("{}{subject}", first.id),
        });
        let excess = self.marks.len().saturating_sub(MAX_MARKS);
        self.marks.drain(..excess);
    }

    fn healthy_since(&self, now_unix_ns: u64) -> u64 {
        let before = self.diagnosis.verdicts.first();
        let before = before.filter(|verdict| verdict.id == VerdictId::Healthy);
        before.map_or(now_unix_ns, |verdict| verdict.since_unix_ns)
    }
}

/// What the rules found, and which could not tell. Of a service that does not speak only what is about that.
fn ask(case: &Case<'_>, speaks: bool) -> (Vec<Finding>, Vec<Unsure>) {
    let (mut found, mut unsure) = (Vec::new(), Vec::new());
    for rule in RULES {
        let of_silence = [VerdictId::ProcessFrozen, VerdictId::CpuStarvation];
        if !speaks && !of_silence.contains(&rule.id()) {
            continue;
        }
        match rule.check(case) {
            Answer::Found(mut findings) => found.append(&mut findings),
            Answer::Fine => {}
            Answer::NotEnough { needs } => unsure.push(Unsure {
                id: rule.id(),
                needs,
            }),
        }
    }
    (found, unsure)
}

fn verdict(
    finding: Finding,
    since_unix_ns: u64,
    who_is_hurt: Vec<ax_wire::verdict::Hurt>,
) -> Verdict {
    Verdict {
        id: finding.id,
        subject: finding.subject,
        severity: finding.severity,
        confidence: finding.confidence,
        since_unix_ns,
        sentence: finding.sentence,
        evidence: finding.evidence,
        who_is_hurt,
        next_steps: finding.next_steps,
        culprit: finding.culprit,
        explains: Vec::new(),
    }
}
