//! What a rule answers.

use ax_wire::{
    alert::{Severity, Unit},
    verdict::{Culprit, Evidence, Hurt, VerdictId},
};

/// Three-valued: a rule that cannot tell is not a rule that found nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The cause is there, in one place or several. Not empty.
    Found(Vec<Finding>),
    /// It is not.
    Fine,
    /// That cannot be told yet.
    NotEnough {
        /// What is missing, and how much of it, for a person.
        needs: String,
    },
}

impl Answer {
    pub(crate) fn needs(what: impl Into<String>) -> Self {
        Self::NotEnough { needs: what.into() }
    }
}

impl From<Finding> for Answer {
    fn from(finding: Finding) -> Self {
        Self::Found(vec![finding])
    }
}

impl From<Option<Finding>> for Answer {
    fn from(finding: Option<Finding>) -> Self {
        finding.map_or(Self::Fine, |finding| Self::Found(vec![finding]))
    }
}

impl From<Vec<Finding>> for Answer {
    fn from(findings: Vec<Finding>) -> Self {
        if findings.is_empty() {
            Self::Fine
        } else {
            Self::Found(findings)
        }
    }
}

/// One place where a cause is: a verdict before it is ranked and dated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) id: VerdictId,
    /// A lane, a downstream, a pool.
    pub(crate) subject: Option<String>,
    pub(crate) severity: Severity,
    /// 0 to 1.
    pub(crate) confidence: f64,
    /// When it began, by the service's clock, where the rule knows better than "now".
    pub(crate) began_mono_ns: Option<u64>,
    pub(crate) sentence: String,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) next_steps: Vec<String>,
    pub(crate) culprit: Option<Culprit>,
    pub(crate) reach: Reach,
}

/// Whom a cause can hurt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Reach {
    /// All that runs in the process.
    #[default]
    Everyone,
    /// The same, and none of it moves: whatever runs or waits is hurt, also where nothing is known of what is usual.
    Stopped,
    /// The jobs of these lanes, and who waits for them.
    Lanes(Vec<String>),
    /// Just these, whom the rule has seen itself.
    These(Vec<Hurt>),
    /// Nobody yet.
    Nobody,
}

impl Finding {
    pub(crate) fn new(id: VerdictId, severity: Severity, sentence: impl Into<String>) -> Self {
        Self {
            id,
            subject: None,
            severity,
            confidence: 0.9,
            began_mono_ns: None,
            sentence: sentence.into(),
            evidence: Vec::new(),
            next_steps: Vec::new(),
            culprit: None,
            reach: Reach::Everyone,
        }
    }

    pub(crate) fn of(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    pub(crate) fn sure(mut self, confidence: f64) -> Self {
        self.confidence = confidence.clamp(0.0, 1.0);
        self
    }

    pub(crate) fn since(mut self, mono_ns: impl Into<Option<u64>>) -> Self {
        self.began_mono_ns = mono_ns.into();
        self
    }

    pub(crate) fn evidence(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// [`Self::evidence`], where there is a figure.
    pub(crate) fn evidence_if(mut self, evidence: Option<Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next_steps.push(step.into());
        self
    }

    pub(crate) fn next_if(mut self, step: Option<String>) -> Self {
        self.next_steps.extend(step);
        self
    }

    pub(crate) fn by(mut self, culprit: Option<Culprit>) -> Self {
        self.culprit = culprit;
        self
    }

    pub(crate) fn hurts(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }
}

fn figure(what: &str, value: f64, unit: Unit) -> Evidence {
    Evidence {
        what: what.to_owned(),
        value,
        against: None,
        unit,
    }
}

/// A duration.
pub(crate) fn time(what: &str, ns: u64) -> Evidence {
    figure(what, ns as f64, Unit::Nanoseconds)
}

/// A number of things.
pub(crate) fn count(what: &str, count: impl Into<u64>) -> Evidence {
    figure(what, count.into() as f64, Unit::Count)
}

/// A part of one.
pub(crate) fn share(what: &str, share: f64) -> Evidence {
    figure(what, share, Unit::Share)
}

/// A number of things that may be broken, such as CPUs.
pub(crate) fn amount(what: &str, amount: f64) -> Evidence {
    figure(what, amount, Unit::Count)
}

/// Things a second.
pub(crate) fn rate(what: &str, per_second: f64) -> Evidence {
    figure(what, per_second, Unit::PerSecond)
}

/// A size.
pub(crate) fn bytes(what: &str, bytes: u64) -> Evidence {
    figure(what, bytes as f64, Unit::Bytes)
}

/// What a figure is held against.
pub(crate) trait Against {
    fn against(self, value: f64) -> Self;
}

impl Against for Evidence {
    fn against(mut self, value: f64) -> Self {
        self.against = Some(value);
        self
    }
}
