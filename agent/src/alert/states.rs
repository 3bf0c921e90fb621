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

use ax_wire::{
    alert::{Alert, AlertState},
    rules::SilenceInfo,
};
use serde::{Deserialize, Serialize};

use super::{Action, Metric, Reading, Rule, RuleSet, readings::Readings, silence};
use crate::{clock::Now, window::Window};

/// Resolved alerts kept of one service, about 300 bytes each.
pub const MAX_RESOLVED: usize = 100;

/// Alerts of one service that are pending or firing; more say nothing that these do not.
pub const MAX_ACTIVE: usize = 100;

/// Of how many subjects is remembered when a rule acted on them last.
const MAX_ACTED: usize = 200;

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
    pub(super) alert: Alert,
    pub(super) since_mono_ns: u64,
    /// Since when the figure has been back behind the second bound.
    #[serde(skip)]
    pub(super) clear_since_mono_ns: Option<u64>,
    /// Its rule has acted, and acts once more when it ends.
    #[serde(default)]
    pub(super) acted: bool,
}

/// The end of a sentence about the instance before the one that is shown.
const BEFORE_RESTART: &str = " (before the restart)";

/// When a rule acted on a subject last. Outlives the alert, and so bounds how often the rule acts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Acted {
    rule: String,
    subject: Option<String>,
    at_mono_ns: u64,
}

/// What is to be known of a service beside its figures to judge it.
#[derive(Clone, Copy, Debug)]
pub struct Judging<'a> {
    /// The rules.
    pub rules: &'a RuleSet,
    /// Silences that were asked for, beside those of the rules' file.
    pub asked: &'a [SilenceInfo],
    /// Whether it is judged at the moment.
    pub quiet: Quiet,
    /// The time.
    pub now: Now,
}

/// What a judgement has changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Alerts that began to fire or were resolved.
    pub alerts: Vec<Alert>,
    /// Alerts whose rule is to act now, because they fire or because they have ended.
    pub due: Vec<Alert>,
}

/// The alerts of one service, over its reconnects and restarts.
#[derive(Clone, Debug, Default)]
pub struct Book {
    pub(super) active: Vec<Active>,
    /// Newest first.
    resolved: VecDeque<Alert>,
    /// Oldest first.
    acted: VecDeque<Acted>,
}

impl Book {
    /// Goes on with alerts that fired before, and with when rules acted: those of the instance before this one, or from
    /// before the agent's restart.
    #[must_use]
    pub fn resume(active: Vec<Active>, acted: Vec<Acted>) -> Self {
        Self {
            active,
            resolved: VecDeque::new(),
            acted: acted.into(),
        }
    }

    /// The alerts that fire, to be handed to [`Self::resume`]; what is pending is not worth it.
    #[must_use]
    pub fn firing(&self) -> Vec<Active> {
        let active = self.active.iter();
        let firing = active.filter(|active| active.alert.state == AlertState::Firing);
        firing.cloned().collect()
    }

    /// When rules acted, to be handed to [`Self::resume`].
    #[must_use]
    pub fn acted(&self) -> Vec<Acted> {
        self.acted.iter().cloned().collect()
    }

    /// The alerts that ended, newest first.
    pub fn resolved(&self) -> impl Iterator<Item = &Alert> {
        self.resolved.iter()
    }

    /// Says of each alert that it is about an instance that is no more: until the next one has been judged, its figures
    /// would look like those of a process that has just begun.
    pub(crate) fn is_of_before(&mut self) {
        for active in &mut self.active {
            let sentence = &mut active.alert.sentence;
            if !sentence.ends_with(BEFORE_RESTART) {
                sentence.push_str(BEFORE_RESTART);
            }
        }
    }

    /// Hands everything to the next instance of the service; keeps a copy of what is over. That an instance is lost is
    /// true of it alone, whatever comes after it: that stays.
    #[must_use]
    pub fn hand_over(&mut self, rules: &RuleSet) -> Self {
        let of_instance = |active: &mut Active| {
            let mut rules = rules.rules.iter();
            let rule = rules.find(|rule| rule.name == active.alert.rule);
            rule.is_none_or(|rule| rule.metric != Metric::Lost)
        };
        let mut next = Self {
            active: self.active.extract_if(.., of_instance).collect(),
            resolved: self.resolved.clone(),
            acted: self.acted.clone(),
        };
        next.is_of_before();
        next
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

    /// Judges the service. Call about once a second. Costs less than a millisecond for 50 types, however many rules there
    /// are.
    pub fn judge(&mut self, judging: Judging<'_>, window: Window<'_>) -> Changes {
        let Judging {
            rules, quiet, now, ..
        } = judging;
        let mut changed = Vec::new();
        let mut readings = Readings::new(window, now);
        for rule in rules.enabled() {
            if is_judged(rule, window, quiet, now) {
                let of_rule = readings.of_rule(rule);
                self.judge_rule(rule, &of_rule, window, now, &mut changed);
            }
        }
        self.drop_unknown(rules, window, now, &mut changed);
        let mut due = Vec::new();
        for (alert, acted) in &mut changed {
            if alert.state == AlertState::Resolved && *acted {
                due.push(alert.clone());
            }
        }
        self.act(judging, window, &mut due);
        let mut alerts: Vec<Alert> = changed.into_iter().map(|(alert, _)| alert).collect();
        // Those that have begun are told with what was found out about them since.
        for alert in alerts
            .iter_mut()
            .filter(|alert| alert.state == AlertState::Firing)
        {
            let same = |active: &&Active| {
                (&active.alert.rule, &active.alert.subject) == (&alert.rule, &alert.subject)
            };
            if let Some(active) = self.active.iter().find(same) {
                alert.clone_from(&active.alert);
            }
        }
        Changes { alerts, due }
    }

    /// Finds the alerts whose rule is to act: they fire, it has not yet, and neither a silence nor its cooldown holds it
    /// back. A silence or a cooldown that ends while the alert fires lets it act then.
    fn act(&mut self, judging: Judging<'_>, window: Window<'_>, due: &mut Vec<Alert>) {
        let Judging {
            rules, asked, now, ..
        } = judging;
        let service = (window.history().uid, window.hello().service.as_str());
        for active in &mut self.active {
            let mut all = rules.rules.iter();
            let Some(rule) = all.find(|rule| rule.name == active.alert.rule) else {
                continue;
            };
            let alert = &mut active.alert;
            let silenced = [&*rules.silences, asked]
                .into_iter()
                .filter_map(|silences| silence::covering(silences, service, alert, now));
            alert.silenced = silenced.max_by_key(|silenced| silenced.until_unix_ns);
            let actions = rules.actions_of(rule);
            let held_back = alert.silenced.is_some()
                || cooldown_left(&self.acted, rule, alert.subject.as_deref(), now).is_some();
            if alert.state != AlertState::Firing || active.acted || held_back || actions.is_empty()
            {
                continue;
            }
            active.acted = true;
            alert.bell = actions.contains(&Action::Bell);
            due.push(alert.clone());
            let is_same =
                |acted: &Acted| acted.rule == alert.rule && acted.subject == alert.subject;
            self.acted.retain(|acted| !is_same(acted));
            self.acted.push_back(Acted {
                rule: alert.rule.clone(),
                subject: alert.subject.clone(),
                at_mono_ns: now.mono_ns,
            });
            if self.acted.len() > MAX_ACTED {
                self.acted.pop_front();
            }
        }
    }

    /// How long the cooldown of a rule still holds it back on a subject.
    pub(super) fn cooldown_left(
        &self,
        rule: &Rule,
        subject: Option<&str>,
        now: Now,
    ) -> Option<Duration> {
        cooldown_left(&self.acted, rule, subject, now)
    }

    /// The alert of a rule on a subject, while it is pending or fires.
    pub(super) fn active(&self, rule: &str, subject: Option<&str>) -> Option<&Active> {
        self.active
            .iter()
            .find(|active| active.alert.rule == rule && active.alert.subject.as_deref() == subject)
    }

    fn judge_rule(
        &mut self,
        rule: &Rule,
        readings: &[&Reading],
        window: Window<'_>,
        now: Now,
        changed: &mut Vec<(Alert, bool)>,
    ) {
        let threshold = rule.threshold(window);
        for reading in readings {
            let mut active = self.active.iter_mut();
            if let Some(active) = active.find(|active| active.is(rule, reading)) {
                active.update(rule, threshold, reading, window, now);
            } else if rule.op.holds(reading.value, threshold) && self.active.len() < MAX_ACTIVE {
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
                    changed.push((active.alert.clone(), active.acted));
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
        rules: &RuleSet,
        window: Window<'_>,
        now: Now,
        changed: &mut Vec<(Alert, bool)>,
    ) {
        let gone = window.history().gone_since_mono_ns();
        let gone = gone.is_some_and(|since| now.since(since) >= KEEP_WITHOUT_SERVICE);
        let known = |active: &Active| {
            let rule = rules.enabled().find(|rule| active.alert.rule == rule.name);
            rule.is_some_and(|rule| !gone || rule.metric == Metric::Lost)
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

    /// Ends the alerts of rules that are not among these, which are about to take effect. Returns those whose rule acted
    /// and is to say that it is over while it is still known how.
    pub(crate) fn end_without_rule(&mut self, next: &RuleSet, now: Now) -> Vec<Alert> {
        let stays = |active: &mut Active| next.enabled().any(|rule| active.alert.rule == rule.name);
        let over: Vec<Active> = self
            .active
            .extract_if(.., |active| !stays(active))
            .collect();
        let mut changed = Vec::new();
        for active in over {
            if active.alert.state == AlertState::Firing {
                self.resolve(active, now, &mut changed);
            }
        }
        let acted = changed.into_iter().filter(|(_, acted)| *acted);
        acted.map(|(alert, _)| alert).collect()
    }

    fn resolve(&mut self, active: Active, now: Now, changed: &mut Vec<(Alert, bool)>) {
        let resolved = Alert {
            state: AlertState::Resolved,
            resolved_unix_ns: Some(active.unix_ns(now)),
            bell: false,
            ..active.alert
        };
        changed.push((resolved.clone(), active.acted));
        self.resolved.push_front(resolved);
        self.resolved.truncate(MAX_RESOLVED);
    }
}

/// Whether a rule is judged on a service at the moment.
pub(super) fn is_judged(rule: &Rule, window: Window<'_>, quiet: Quiet, now: Now) -> bool {
    // Figures of a service that is silent are those of its last word: they say nothing of now.
    let known = rule.metric.is_of_connection() || window.history().speaks(now);
    // That a service died is worth saying however young it was.
    let judged = quiet == Quiet::No || rule.metric == Metric::Lost;
    known && judged && rule.is_about(&window.hello().service)
}

fn cooldown_left(
    acted: &VecDeque<Acted>,
    rule: &Rule,
    subject: Option<&str>,
    now: Now,
) -> Option<Duration> {
    let mut acted = acted.iter();
    let last =
        acted.find(|acted| acted.rule == rule.name && acted.subject.as_deref() == subject)?;
    let left = rule.cooldown.checked_sub(now.since(last.at_mono_ns))?;
    (!left.is_zero()).then_some(left)
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
                silenced: None,
                bell: false,
            },
            since_mono_ns: now.mono_ns,
            clear_since_mono_ns: None,
            acted: false,
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
        // The rule may have been changed since.
        self.alert.severity = rule.severity;
        self.alert.unit = rule.metric.unit();
        self.alert.value = reading.value;
        self.alert.threshold = threshold;
        let is_worst = !rule.op.is_worse(self.alert.peak, reading.value);
        if is_worst {
            self.alert.peak = reading.value;
        }
        let goes_on = if firing {
            let clear = rule.clear_bound(threshold);
            rule.op.holds(reading.value, threshold) || rule.op.is_worse(reading.value, clear)
        } else {
            rule.op.holds(reading.value, threshold)
        };
        if goes_on {
            self.clear_since_mono_ns = None;
            // Of several spikes it goes on to speak of the worst, which is the one that the headline speaks of.
            let is_of_before = self.alert.sentence.ends_with(BEFORE_RESTART);
            if is_worst || is_of_before || rule.metric != Metric::LagSpike {
                let subject = reading.subject.as_deref();
                self.alert.sentence = rule.metric.sentence(window, subject, reading.value);
            }
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
