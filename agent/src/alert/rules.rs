//! Rules as data, and those that are built in.

use std::{borrow::Cow, time::Duration};

use ax_wire::alert::Severity;

use super::Metric;

/// When a figure is an alert. It fires once the figure has been above the threshold for `hold`, and is resolved once it
/// has been at or below `clear` for `clear_for`: a lower bound and a delay, so that a figure that swings around the
/// threshold is one alert and not a hundred.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, unique among rules.
    pub name: Cow<'static, str>,
    /// What it looks at.
    pub metric: Metric,
    /// Above it, something is wrong.
    pub threshold: Threshold,
    /// The share of the threshold below which all is well again, 0 to 1.
    pub clear_share: f64,
    /// For how long the figure must be above.
    pub hold: Duration,
    /// For how long it must be clear.
    pub clear_for: Duration,
    /// How bad it is.
    pub severity: Severity,
}

/// What a figure is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// A figure in the unit of the metric.
    Fixed(f64),
    /// The service's own snapshot threshold (S), in nanoseconds.
    Snapshot,
}

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;
const MIB: f64 = 1024.0 * 1024.0;

/// The rules that are built in, each with the reason for its figures.
#[must_use]
pub fn default_rules() -> Vec<Rule> {
    let rule = |name, metric, threshold, hold_s, severity| Rule {
        name: Cow::Borrowed(name),
        metric,
        threshold: Threshold::Fixed(threshold),
        clear_share: 0.8,
        hold: Duration::from_secs(hold_s),
        clear_for: Duration::from_secs(10),
        severity,
    };
    vec![
        // Ten seconds tell a loop that is always late from one that was once.
        rule("lag-high", Metric::LagP99, 50.0 * MS, 10, Severity::Warning),
        rule(
            "lag-critical",
            Metric::LagNow,
            SECOND,
            30,
            Severity::Critical,
        ),
        // A figure above five seconds has been growing for five seconds.
        rule("lag-page", Metric::LagNow, 5.0 * SECOND, 0, Severity::Page),
        Rule {
            threshold: Threshold::Snapshot,
            ..rule("stall", Metric::LagSpike, 0.0, 0, Severity::Warning)
        },
        // The growth itself is over 30 s, so that it has gone on for a minute when this fires.
        rule(
            "backlog-growing",
            Metric::BacklogGrowth,
            0.5,
            30,
            Severity::Warning,
        ),
        rule("rejections", Metric::Rejections, 0.0, 0, Severity::Warning),
        rule(
            "slot-leak",
            Metric::StuckSlots,
            60.0 * SECOND,
            0,
            Severity::Critical,
        ),
        rule(
            "retry-storm",
            Metric::RetryShare,
            0.5,
            30,
            Severity::Warning,
        ),
        rule(
            "blocking-pool-full",
            Metric::BlockingPoolLag,
            500.0 * MS,
            5,
            Severity::Warning,
        ),
        Rule {
            // A leak does not pause; a cache that is filled does.
            clear_for: Duration::from_mins(2),
            ..rule(
                "memory-growing",
                Metric::MemoryGrowth,
                64.0 * MIB,
                60,
                Severity::Warning,
            )
        },
        Rule {
            clear_for: Duration::ZERO,
            ..rule(
                "service-silent",
                Metric::Silence,
                3.0 * SECOND,
                0,
                Severity::Critical,
            )
        },
        Rule {
            // Counted from the last frame: a connection that breaks and comes back at once is no loss.
            clear_for: Duration::ZERO,
            ..rule(
                "service-lost",
                Metric::Lost,
                1.5 * SECOND,
                0,
                Severity::Critical,
            )
        },
        Rule {
            clear_for: Duration::from_secs(30),
            ..rule(
                "telemetry-dropped",
                Metric::TelemetryDropped,
                0.0,
                0,
                Severity::Info,
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_a_lower_bound_is_lower() {
        let rules = default_rules();
        let mut names: Vec<_> = rules.iter().map(|rule| &rule.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), rules.len());
        assert!(
            rules
                .iter()
                .all(|rule| (0.0..1.0).contains(&rule.clear_share))
        );
    }
}
