//! All that a configuration file says of alerts.

use ax_wire::{
    alert::Severity,
    rules::{RuleInfo, SilenceInfo},
};

use super::{Action, Origin, Rule, default_rules, print};

/// Rules with what they do, and silences.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    /// Each rule, those that are switched off too.
    pub rules: Vec<Rule>,
    /// What rules without actions of their own do, by how bad they are.
    pub by_severity: BySeverity,
    /// Silences of the file.
    pub silences: Vec<SilenceInfo>,
}

/// What the alerts of each severity do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BySeverity {
    /// [`Severity::Info`].
    pub info: Vec<Action>,
    /// [`Severity::Warning`].
    pub warning: Vec<Action>,
    /// [`Severity::Critical`].
    pub critical: Vec<Action>,
    /// [`Severity::Page`].
    pub page: Vec<Action>,
}

impl BySeverity {
    /// Those of one.
    #[must_use]
    pub fn of(&self, severity: Severity) -> &[Action] {
        match severity {
            Severity::Info => &self.info,
            Severity::Warning => &self.warning,
            Severity::Critical => &self.critical,
            Severity::Page => &self.page,
        }
    }
}

impl Default for RuleSet {
    /// What is built in.
    fn default() -> Self {
        Self {
            rules: default_rules(),
            by_severity: BySeverity::default(),
            silences: Vec::new(),
        }
    }
}

impl RuleSet {
    /// The rules that are judged.
    pub fn enabled(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.enabled)
    }

    /// What a rule does.
    #[must_use]
    pub fn actions_of<'a>(&'a self, rule: &'a Rule) -> &'a [Action] {
        match &rule.actions {
            Some(own) => own,
            None => self.by_severity.of(rule.severity),
        }
    }

    /// What works, and may not be what was meant.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let pages = self
            .enabled()
            .filter(|rule| rule.severity == Severity::Page);
        let nowhere = |rule: &&Rule| !self.actions_of(rule).iter().any(Action::reaches_out);
        let nowhere: Vec<_> = pages
            .filter(nowhere)
            .map(|rule| rule.name.as_ref())
            .collect();
        let of_rules = (!nowhere.is_empty()).then(|| {
            format!(
                "{} would page, and has nowhere to go: give `[actions] page` an `exec` or a `webhook` \
                 (templates: packaging/pager.json, packaging/chat.json)",
                nowhere.join(", ")
            )
        });
        of_rules.into_iter().collect()
    }

    /// The rules, for viewers; `file` is where those with a line are written.
    #[must_use]
    pub fn infos(&self, file: Option<&str>) -> Vec<RuleInfo> {
        let info = |rule: &Rule| RuleInfo {
            name: rule.name.to_string(),
            origin: match rule.origin {
                Origin::BuiltIn => "built in".to_owned(),
                Origin::Line(line) => format!("{}:{line}", file.unwrap_or("?")),
            },
            enabled: rule.enabled,
            metric: rule.metric.name().to_owned(),
            condition: print::condition(rule),
            severity: rule.severity,
            cooldown_ns: rule.cooldown.as_nanos() as u64,
            actions: self
                .actions_of(rule)
                .iter()
                .map(ToString::to_string)
                .collect(),
        };
        self.rules.iter().map(info).collect()
    }
}
