//! Rules as data.

use std::{borrow::Cow, fmt, time::Duration};

use ax_wire::alert::Severity;

use super::{Action, Metric};
use crate::window::Window;

/// The bound at which all is well again, where a rule does not say it: this share of the threshold, or so much above it
/// where the rule fires below.
const CLEAR_SHARE: f64 = 0.8;

/// When a figure is an alert. It fires once the figure has been beyond the threshold for `hold`, and is resolved once it
/// has been back behind `clear` for `clear_for`: a second bound and a delay, so that a figure that swings around the
/// threshold is one alert and not a hundred.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, unique among rules.
    pub name: Cow<'static, str>,
    /// What it looks at.
    pub metric: Metric,
    /// On which side of the threshold something is wrong.
    pub op: Op,
    /// What the figure is held against.
    pub threshold: Threshold,
    /// The figure at which all is well again; `None` for 80 % of the threshold (125 % for a rule that fires below it).
    pub clear: Option<f64>,
    /// For how long the figure must be beyond the threshold.
    pub hold: Duration,
    /// For how long it must be clear.
    pub clear_for: Duration,
    /// How bad it is.
    pub severity: Severity,
    /// After it acted on a subject, for how long it does not act on it again.
    pub cooldown: Duration,
    /// What it does when it fires; `None` for what its severity does.
    pub actions: Option<Vec<Action>>,
    /// The services that it is about, by name; empty for all.
    pub services: Vec<String>,
    /// The lanes, types, downstreams or runtimes that it is about; empty for all.
    pub subjects: Vec<String>,
    /// Whether it is judged.
    pub enabled: bool,
    /// Where it is written.
    pub origin: Origin,
}

/// Where a rule is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In ax.
    BuiltIn,
    /// In the configuration file, at this line.
    Line(usize),
}

/// How a figure is held against a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Wrong above it.
    Above,
    /// Wrong at it and above.
    AtLeast,
    /// Wrong below it.
    Below,
    /// Wrong at it and below.
    AtMost,
}

impl Op {
    /// Each, as a file writes it.
    pub const ALL: [(&'static str, Self); 4] = [
        (">", Self::Above),
        (">=", Self::AtLeast),
        ("<", Self::Below),
        ("<=", Self::AtMost),
    ];

    /// Whether a figure is on the wrong side of a bound.
    #[must_use]
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Above => value > bound,
            Self::AtLeast => value >= bound,
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
        }
    }

    /// Whether large figures are the wrong ones.
    #[must_use]
    pub fn is_upwards(self) -> bool {
        matches!(self, Self::Above | Self::AtLeast)
    }

    /// Whether `a` is worse than `b`.
    #[must_use]
    pub fn is_worse(self, a: f64, b: f64) -> bool {
        if self.is_upwards() { a > b } else { a < b }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
        })
    }
}

/// What a figure is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// A figure in the unit of the metric.
    Fixed(f64),
    /// The service's own snapshot threshold (S), in nanoseconds.
    Snapshot,
}

impl Rule {
    /// The figure that its metric is held against, for this service.
    #[must_use]
    pub fn threshold(&self, window: Window<'_>) -> f64 {
        match self.threshold {
            Threshold::Fixed(figure) => figure,
            Threshold::Snapshot => window.hello().snapshot_threshold_ns as f64,
        }
    }

    /// The bound that a figure must be back behind, where its threshold is this.
    #[must_use]
    pub fn clear_bound(&self, threshold: f64) -> f64 {
        self.clear.unwrap_or(if self.op.is_upwards() {
            threshold * CLEAR_SHARE
        } else {
            threshold / CLEAR_SHARE
        })
    }

    /// Whether it is about this service.
    #[must_use]
    pub fn is_about(&self, service: &str) -> bool {
        self.services.is_empty() || self.services.iter().any(|known| known == service)
    }

    /// Whether it is about this subject of a service.
    #[must_use]
    pub fn is_about_subject(&self, subject: Option<&str>) -> bool {
        let is = |known: &String| Some(known.as_str()) == subject;
        self.subjects.is_empty() || self.subjects.iter().any(is)
    }
}
