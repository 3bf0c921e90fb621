//! The rules that are built in.

use std::{borrow::Cow, time::Duration};

use ax_wire::alert::Severity;

use super::{Metric, Op, Origin, Rule, Threshold};

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;
const MIB: f64 = 1024.0 * 1024.0;

/// The rules that are built in, each with the reason for its figures.
///
/// That a stall or a lag spike leaves a snapshot needs no action here: the service takes the evidence down while it
/// lasts, which is before any rule can be judged.
#[must_use]
pub fn default_rules() -> Vec<Rule> {
    let rule = |name, metric, threshold, hold_s, severity| Rule {
        name: Cow::Borrowed(name),
        metric,
        op: Op::Above,
        threshold: Threshold::Fixed(threshold),
        clear: None,
        hold: Duration::from_secs(hold_s),
        clear_for: Duration::from_secs(10),
        severity,
        cooldown: Duration::from_mins(1),
        actions: None,
        services: Vec::new(),
        subjects: Vec::new(),
        enabled: true,
        origin: Origin::BuiltIn,
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
    fn names_are_unique_and_the_lower_bound_is_lower() {
        let rules = default_rules();
        let mut names: Vec<_> = rules.iter().map(|rule| &rule.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), rules.len());
        assert!(
            rules
                .iter()
                .all(|rule| (0.0..1.0).contains(&rule.clear_bound(1.0)))
        );
    }
}
