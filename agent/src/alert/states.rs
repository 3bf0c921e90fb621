//! The life of an alert.
//!
//! ```text
//!            above for `hold`            clear for `clear_for`
//!  pending -------------------> firing -----------------------> resolved (history)
//!     |  below: forgotten
//! ```
//!
//! Time is measured by the monotonic clock. The wall clock says only when an alert began; its other times are that plus
//! a measured span, so that a stepped clock cannot make an alert end before it began.

use std::{collections::VecDeque, time::Duration};

use ax_wire::alert::{Alert, AlertState};
use serde::{Deserialize, Serialize};

use super::{Reading, Rule};
use crate::{clock::Now, window::Window};

/// Resolved alerts kept of one service, about 300 bytes each.
pub const MAX_RESOLVED: usize = 100;

/// Alerts of one service that are pending or firing; more say nothing that these do not.
pub const MAX_ACTIVE: usize = 100;

/// For how long the alerts of a service that is gone wait for its next instance. Then they are resolved: nobody is left
/// for whom they could be true.
const KEEP_WITHOUT_SERVICE: Duration = Duration::from_mins(1);

/// Why a service is not judged at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// It is judged.
    No,
    /// It has only just come: caches are cold, and figures few.
    JustStarted,
    /// A debugger holds it, or held it until a moment ago.
    Debugged,
}

/// An alert that is pending or firing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Active {
    alert: Alert,
    since_mono_ns: u64,
    /// Since when the figure has been below the lower bound.
    #[serde(skip)]
    clear_since_mono_ns: Option<u64>,
}

/// The alerts of one service, over its reconnects and restarts.
#[derive(Clone, Debug, Default)]
pub struct Book {
    active: Vec<Active>,
    /// Newest first.
    resolved: VecDeque<Alert>,
}

impl Book {
    /// Goes on with alerts that fired before: those of the instance before this one, or from before the agent's restart.
    #[must_use]
    pub fn resume(active: Vec<Active>) -> Self {
        Self {
            active,
            resolved: VecDeque::new(),
        }
    }

    /// The alerts that fire, to be handed to [`Self::resume`]; what is pending is not worth it.
    #[must_use]
    pub fn firing(&self) -> Vec<Active> {
        let active = self.active.iter();
        let firing = active.filter(|active| active.alert.state == AlertState::Firing);
        firing.cloned().collect()
    }

    /// Hands everything to the next instance of the service; keeps a copy of what is over.
    #[must_use]
    pub fn hand_over(&mut self) -> Self {
        Self {
            active: std::mem::take(&mut self.active),
            resolved: self.resolved.clone(),
        }
    }

    /// Pending and firing ones, worst first, then resolved ones, newest first.
    #[must_use]
    pub fn alerts(&self) -> Vec<Alert> {
        let mut active: Vec<Alert> = self.active.iter().map(|a| a.alert.clone()).collect();
        let rank = |alert: &Alert| (alert.state == AlertState::Firing, alert.severity);
        active.sort_by(|a, b| {
            let worst_first = rank(b).cmp(&rank(a));
            worst_first.then(a.began_unix_ns.cmp(&b.began_unix_ns))
        });
        active.extend(self.resolved.iter().cloned());
        active
    }

    /// Judges the service. Returns the alerts that began to fire or were resolved. Call about once a second.
    pub fn judge(
        &mut self,
        rules: &[Rule],
        window: Window<'_>,
        quiet: Quiet,
        now: Now,
    ) -> Vec<Alert> {
        let mut changed = Vec::new();
        let speaks = window.history().speaks(now);
        for rule in rules {
            // Figures of a service that is silent are those of its last word: they say nothing of now.
            let known = rule.metric.is_of_connection() || speaks;
            // That a service died is worth saying however young it was.
            let judged = quiet == Quiet::No || rule.metric == super::Metric::Lost;
            if known && judged {
                let readings = rule.metric.readings(window, now);
                self.judge_rule(rule, &readings, window, now, &mut changed);
            }
        }
        self.drop_unknown(rules, window, now, &mut changed);
        changed
    }

    fn judge_rule(
        &mut self,
        rule: &Rule,
        readings: &[Reading],
        window: Window<'_>,
        now: Now,
        changed: &mut Vec<Alert>,
    ) {
        let threshold = rule.threshold(window);
        for reading in readings {
            let mut active = self.active.iter_mut();
            if let Some(active) = active.find(|active| active.is(rule, reading)) {
                active.update(rule, threshold, reading, window, now);
            } else if reading.value > threshold && self.active.len() < MAX_ACTIVE {
                let new = Active::new(rule, threshold, reading, window, now);
                self.active.push(new);
            }
        }
        let mut kept = Vec::with_capacity(self.active.len());
        for mut active in std::mem::take(&mut self.active) {
            if active.alert.rule != rule.name {
                kept.push(active);
                continue;
            }
            // What a rule no longer speaks of, such as a lane that is gone, is clear.
            if !readings.iter().any(|reading| active.is(rule, reading)) {
                active.clear_since_mono_ns.get_or_insert(now.mono_ns);
            }
            match active.step(rule, now) {
                None => kept.push(active),
                Some(Step::Fires) => {
                    changed.push(active.alert.clone());
                    kept.push(active);
                }
                Some(Step::Ends) => {}
                Some(Step::Resolves) => self.resolve(active, now, changed),
            }
        }
        self.active = kept;
    }

    /// Ends what cannot come true again: alerts of a service that has been gone for a while, and of rules that are no
    /// more.
    fn drop_unknown(
        &mut self,
        rules: &[Rule],
        window: Window<'_>,
        now: Now,
        changed: &mut Vec<Alert>,
    ) {
        let gone = window.history().gone_since_mono_ns();
        let gone = gone.is_some_and(|since| now.since(since) >= KEEP_WITHOUT_SERVICE);
        let known = |active: &Active| {
            let mut rules = rules.iter();
            let rule = rules.find(|rule| active.alert.rule == rule.name);
            rule.is_some_and(|rule| !gone || rule.metric == super::Metric::Lost)
        };
        let (kept, over) = std::mem::take(&mut self.active)
            .into_iter()
            .partition(known);
        self.active = kept;
        for active in over {
            if active.alert.state == AlertState::Firing {
                self.resolve(active, now, changed);
            }
        }
    }

    fn resolve(&mut self, active: Active, now: Now, changed: &mut Vec<Alert>) {
        let resolved = Alert {
            state: AlertState::Resolved,
            resolved_unix_ns: Some(active.unix_ns(now)),
            ..active.alert
        };
        changed.push(resolved.clone());
        self.resolved.push_front(resolved);
        self.resolved.truncate(MAX_RESOLVED);
    }
}

/// What becomes of an active alert.
enum Step {
    Fires,
    /// It never fired, and is forgotten.
    Ends,
    Resolves,
}

impl Active {
    fn new(rule: &Rule, threshold: f64, reading: &Reading, window: Window<'_>, now: Now) -> Self {
        let subject = reading.subject.as_deref();
        Self {
            alert: Alert {
                rule: rule.name.clone().into_owned(),
                subject: reading.subject.clone(),
                severity: rule.severity,
                state: AlertState::Pending,
                began_unix_ns: now.unix_ns,
                fired_unix_ns: None,
                resolved_unix_ns: None,
                value: reading.value,
                peak: reading.value,
                threshold,
                unit: rule.metric.unit(),
                sentence: rule.metric.sentence(window, subject, reading.value),
            },
            since_mono_ns: now.mono_ns,
            clear_since_mono_ns: None,
        }
    }

    fn is(&self, rule: &Rule, reading: &Reading) -> bool {
        self.alert.rule == rule.name && self.alert.subject == reading.subject
    }

    /// Now, as the wall clock would say it had it not been stepped since the beginning.
    fn unix_ns(&self, now: Now) -> u64 {
        let elapsed = now.mono_ns.saturating_sub(self.since_mono_ns);
        self.alert.began_unix_ns.saturating_add(elapsed)
    }

    fn update(
        &mut self,
        rule: &Rule,
        threshold: f64,
        reading: &Reading,
        window: Window<'_>,
        now: Now,
    ) {
        let firing = self.alert.state == AlertState::Firing;
        let bound = if firing {
            threshold * rule.clear_share
        } else {
            threshold
        };
        self.alert.value = reading.value;
        self.alert.threshold = threshold;
        if reading.value > self.alert.peak {
            self.alert.peak = reading.value;
        }
        if reading.value > bound {
            self.clear_since_mono_ns = None;
            let subject = reading.subject.as_deref();
            self.alert.sentence = rule.metric.sentence(window, subject, reading.value);
        } else {
            self.clear_since_mono_ns.get_or_insert(now.mono_ns);
        }
    }

    fn step(&mut self, rule: &Rule, now: Now) -> Option<Step> {
        let firing = self.alert.state == AlertState::Firing;
        match self.clear_since_mono_ns {
            Some(_) if !firing => Some(Step::Ends),
            Some(since) => (now.since(since) >= rule.clear_for).then_some(Step::Resolves),
            None if !firing && now.since(self.since_mono_ns) >= rule.hold => {
                self.alert.state = AlertState::Firing;
                self.alert.fired_unix_ns = Some(self.unix_ns(now));
                Some(Step::Fires)
            }
            None => None,
        }
    }
}
