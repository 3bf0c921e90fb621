//! Why a rule fires, and why one does not.

use std::time::Duration;

use ax_wire::{
    alert::{AlertState, Unit},
    rules::{RuleState, Standing},
    view::ServiceState,
};

use super::{
    Book, Quiet, Reading, Rule,
    readings::Readings,
    states::{Active, Judging, is_judged},
    words::figure,
};
use crate::{clock::Now, config::table::instead, text::duration, window::Window};

/// Subjects that are named where the one that a rule is about has no figure.
const MAX_NAMED: usize = 32;

fn span(span: Duration) -> String {
    duration(span.as_nanos() as u64)
}

impl Book {
    /// What each rule that is switched on says of the service, as of the last judgement. `quiet_left` is for how long
    /// nothing will be judged.
    #[must_use]
    pub fn explain(
        &self,
        judging: Judging<'_>,
        window: Window<'_>,
        quiet_left: Duration,
    ) -> Vec<RuleState> {
        let mut readings = Readings::new(window, judging.now);
        let mut states = Vec::new();
        for rule in judging.rules.enabled() {
            let of_rule = self.explain_rule(rule, judging, window, &mut readings, quiet_left);
            states.extend(of_rule);
        }
        states
    }

    fn explain_rule(
        &self,
        rule: &Rule,
        judging: Judging<'_>,
        window: Window<'_>,
        readings: &mut Readings<'_>,
        quiet_left: Duration,
    ) -> Vec<RuleState> {
        let Judging { quiet, now, .. } = judging;
        let threshold = rule.threshold(window);
        let state = |subject: Option<String>, value, standing, why: String| RuleState {
            rule: rule.name.clone().into_owned(),
            subject,
            standing,
            value,
            threshold,
            unit: rule.metric.unit(),
            why,
        };
        if !is_judged(rule, window, quiet, now) {
            let (standing, why) = not_judged(rule, window, quiet, quiet_left, now);
            return vec![state(None, None, standing, why)];
        }
        let of_rule = readings.of_rule(rule);
        // An alert outlives its figure for a while: a lane that is gone, a queue that has become short.
        let without_figure = self.active.iter().filter(|active| {
            active.alert.rule == rule.name
                && !of_rule
                    .iter()
                    .any(|reading| reading.subject == active.alert.subject)
        });
        let mut states: Vec<_> = without_figure
            .map(|active| {
                let why = format!("ends soon: {}", rule.metric.needs());
                state(active.alert.subject.clone(), None, standing(active), why)
            })
            .collect();
        for reading in of_rule {
            let subject = reading.subject.as_deref();
            let (standing, why) = match self.active(&rule.name, subject) {
                Some(active) => self.of_active(active, rule, subject, now),
                None => (Standing::Fine, below(rule, threshold, reading)),
            };
            states.push(state(
                reading.subject.clone(),
                Some(reading.value),
                standing,
                why,
            ));
        }
        if states.is_empty() {
            let why = if rule.subjects.is_empty() {
                rule.metric.needs().to_owned()
            } else {
                of_no_subject(rule, readings.of(rule.metric))
            };
            states.push(state(None, None, Standing::Unknown, why));
        }
        states
    }

    fn of_active(
        &self,
        active: &Active,
        rule: &Rule,
        subject: Option<&str>,
        now: Now,
    ) -> (Standing, String) {
        let lasted = span(now.since(active.since_mono_ns));
        if active.alert.state != AlertState::Firing {
            let why = format!("holds for {lasted} of the {} that it must", span(rule.hold));
            return (Standing::Pending, why);
        }
        if let Some(silenced) = &active.alert.silenced {
            let left = silenced.until_unix_ns.saturating_sub(now.unix_ns);
            let why = format!("silenced for {} more: {}", duration(left), silenced.reason);
            return (Standing::Silenced, why);
        }
        let cooldown = self.cooldown_left(rule, subject, now);
        if let Some(left) = cooldown.filter(|_| !active.acted) {
            let why = format!(
                "it acted less than {} ago; acts in {} if it still fires",
                span(rule.cooldown),
                span(left)
            );
            return (Standing::Cooldown, why);
        }
        let ends = active.clear_since_mono_ns.map(|since| {
            let (clear, needed) = (span(now.since(since)), span(rule.clear_for));
            format!("; clear for {clear} of the {needed} after which it ends")
        });
        let why = format!("fires, since {lasted}{}", ends.unwrap_or_default());
        (Standing::Firing, why)
    }
}

/// None of the names that a rule is about has a figure: one of them may be written wrong.
fn of_no_subject(rule: &Rule, known: &[Reading]) -> String {
    let wanted = rule.subjects.join(" or ");
    let known = known
        .iter()
        .filter_map(|reading| reading.subject.as_deref());
    let mut known = known.take(MAX_NAMED).peekable();
    if known.peek().is_none() {
        return format!("no figure of {wanted}: {}", rule.metric.needs());
    }
    let first = rule.subjects.first().map_or("", String::as_str);
    format!("no figure of {wanted}{}", instead(first, known))
}

fn standing(active: &Active) -> Standing {
    match (active.alert.state, &active.alert.silenced) {
        (AlertState::Firing, Some(_)) => Standing::Silenced,
        (AlertState::Firing, None) => Standing::Firing,
        _ => Standing::Pending,
    }
}

fn not_judged(
    rule: &Rule,
    window: Window<'_>,
    quiet: Quiet,
    quiet_left: Duration,
    now: Now,
) -> (Standing, String) {
    if !rule.is_about(&window.hello().service) {
        let why = format!("it is about {} only", rule.services.join(" and "));
        return (Standing::Unknown, why);
    }
    let left = span(quiet_left);
    match (quiet, window.history().state(now)) {
        (Quiet::JustStarted, ServiceState::Live) => (
            Standing::Quiet,
            format!("the service has just come: nothing is judged for {left} more"),
        ),
        (Quiet::Debugged, ServiceState::Live) => (
            Standing::Quiet,
            "a debugger holds the service, or did a moment ago".to_owned(),
        ),
        (_, ServiceState::Ended) => (
            Standing::Unknown,
            "the service has ended with a goodbye: nothing is judged any more".to_owned(),
        ),
        _ => (
            Standing::Unknown,
            "the service sends nothing: its figures are those of its last word".to_owned(),
        ),
    }
}

/// By how much a figure misses its threshold.
fn below(rule: &Rule, threshold: f64, reading: &Reading) -> String {
    let unit = rule.metric.unit();
    let value = figure(reading.value, unit);
    let bound = figure(threshold, unit);
    let apart = (threshold - reading.value).abs();
    let side = if rule.op.is_upwards() {
        "below"
    } else {
        "above"
    };
    if apart == 0.0 || unit == Unit::Share {
        return format!("{value}, fires at {} {bound}", rule.op);
    }
    format!("{value}, {} {side} {bound}", figure(apart, unit))
}
