//! Rules at work: judging, acting, silencing, telling, and taking a file that has changed.

use std::collections::VecDeque;

use ax_wire::{
    InstanceId, ToViewer,
    alert::{Alert, AlertState},
    incident::SnapshotSummary,
    mark::{Mark, MarkKind},
    rules::{ActionTaken, RulesReport, ServiceRules, SilenceAnswer, SilenceInfo, SilenceRequest},
};
use tokio::sync::mpsc::WeakSender;

use super::Hub;
use crate::{
    access::Sees,
    alert::{
        Action, RuleSet,
        action::{
            facts::Subject,
            runner::{Occasion, Runner},
        },
        silence::Asked,
    },
    clock::Now,
    config::{Config, file::SnapshotKeys},
    serve::{
        connection::ConnectionId, message::Message, reload::Reread, restart, service::Service,
        viewers::Viewers,
    },
};

/// What rules did lately, kept for viewers; about 300 bytes each.
const MAX_TAKEN: usize = 100;

/// Reloads that charts mark.
const MAX_MARKS: usize = 16;

/// Ended alerts of one service in a report.
const MAX_TOLD: usize = 20;

/// What goes with rules over all services.
#[derive(Debug)]
pub(super) struct Alerts {
    asked: Asked,
    runner: Option<Runner>,
    /// Newest first.
    taken: VecDeque<ActionTaken>,
    /// Why the file is not in force.
    problem: Option<String>,
    /// What the file said of snapshots when the agent was started.
    at_start: SnapshotKeys,
    /// What the file says by now and that only another start makes true.
    waits: Option<String>,
    read_unix_ns: u64,
    /// Oldest first.
    marks: VecDeque<Mark>,
    back: WeakSender<Message>,
}

impl Alerts {
    pub(super) fn new(
        config: &Config,
        silences: Vec<SilenceInfo>,
        back: WeakSender<Message>,
        now: Now,
    ) -> Self {
        let mut alerts = Self {
            asked: Asked::resume(silences),
            runner: Some(Runner::new()),
            taken: VecDeque::new(),
            problem: None,
            at_start: config.file_keys.clone(),
            waits: None,
            read_unix_ns: now.unix_ns,
            marks: VecDeque::new(),
            back,
        };
        if let Some(problem) = &config.problem {
            alerts.not_taken(problem.clone(), now);
        }
        alerts
    }

    /// The file is not in force, and what was before is.
    fn not_taken(&mut self, problem: String, now: Now) {
        let first = problem.lines().next().unwrap_or_default();
        self.mark(format!("rules not read: {first}"), now);
        self.problem = Some(problem);
    }

    /// Tells viewers what became of the file.
    pub(super) fn tell(&self, viewers: &mut Viewers) {
        viewers.set_rules(self.marks.iter().cloned().collect(), self.problem.clone());
    }

    /// Ends what runs, and waits for it.
    pub(super) async fn stop(&mut self) {
        if let Some(runner) = self.runner.take() {
            runner.stop().await;
        }
    }

    /// Notes what a rule has done.
    pub(super) fn note(&mut self, taken: ActionTaken) {
        let ActionTaken {
            service,
            rule,
            action,
            outcome,
            ..
        } = &taken;
        if taken.done {
            tracing::info!(service, rule, "{action}: {outcome}");
        } else {
            tracing::warn!(service, rule, "{action} came to nothing: {outcome}");
        }
        self.taken.push_front(taken);
        self.taken.truncate(MAX_TAKEN);
    }

    /// Notes what became of the snapshot of a rule.
    pub(super) fn note_snapshot(
        &mut self,
        occasion: &Occasion,
        outcome: Result<SnapshotSummary, String>,
    ) {
        let outcome = outcome.map(|summary| format!("written: {}", summary.path));
        self.note(occasion.taken(&Action::Snapshot, outcome));
    }

    fn mark(&mut self, text: String, now: Now) {
        self.marks.push_back(Mark {
            at_unix_ns: now.unix_ns,
            kind: MarkKind::Rules,
            text,
        });
        if self.marks.len() > MAX_MARKS {
            self.marks.pop_front();
        }
    }

    fn reach_out(&self, action: &Action, occasion: Occasion) {
        let back = self.back.clone();
        let told = async move |taken| {
            // A hub that is ending has no use for it.
            if let Some(hub) = back.upgrade() {
                let _ = hub.send(Message::Acted(taken)).await;
            }
        };
        if let Some(runner) = &self.runner {
            runner.run(action, occasion, told);
        }
    }
}

/// What a rule is to act on.
fn occasions(
    instance: InstanceId,
    service: &Service,
    due: Vec<Alert>,
) -> impl Iterator<Item = Occasion> {
    let subject = Subject {
        service: service.history.hello.service.clone(),
        instance,
        pid: service.history.hello.pid,
        uid: service.history.uid(),
    };
    due.into_iter().map(move |alert| Occasion {
        subject: subject.clone(),
        alert,
    })
}

impl Hub {
    /// Judges every service, and does what its rules say.
    pub(super) fn judge(&mut self, now: Now) {
        let quiet_ns = self.config.quiet.as_nanos() as u64;
        self.alerts.asked.forget(now);
        let (mut any_changed, mut due) = (false, Vec::new());
        for (instance, service) in &mut self.services {
            let asked = self.alerts.asked.all();
            let changes = service.judge(&self.config.rules, asked, quiet_ns, now);
            let any = !changes.alerts.is_empty() || !changes.due.is_empty();
            any_changed |= any;
            // A service that speaks is seen with its next sample.
            if any && !service.history.speaks(now) {
                self.viewers
                    .send_view(service, &self.evidence, &mut self.dropped, now);
            }
            due.extend(occasions(*instance, service, changes.due));
        }
        for occasion in due {
            self.act(&occasion, now);
        }
        if any_changed {
            self.keep_alerts(now);
        }
    }

    /// Says that the alerts of rules are over which the file no longer has, as long as it is known whom they told.
    fn end_without_rule(&mut self, next: &RuleSet, now: Now) {
        let mut due = Vec::new();
        for (instance, service) in &mut self.services {
            let ended = service.book.end_without_rule(next, now);
            due.extend(occasions(*instance, service, ended));
        }
        for occasion in due {
            self.act(&occasion, now);
        }
    }

    fn act(&mut self, occasion: &Occasion, now: Now) {
        let Alert { rule, state, .. } = &occasion.alert;
        let ended = *state == AlertState::Resolved;
        for action in actions_of(&self.config.rules, rule) {
            match &action {
                Action::Snapshot if !ended => {
                    self.capture_for_rule(occasion.subject.instance, occasion.clone(), now);
                }
                // Viewers ring by themselves: the alert says so.
                Action::Snapshot | Action::Bell => {}
                Action::Exec(exec) if ended && !exec.resolved => {}
                Action::Webhook(webhook) if ended && !webhook.resolved => {}
                Action::Exec(_) | Action::Webhook(_) => {
                    self.alerts.reach_out(&action, occasion.clone());
                }
            }
        }
    }

    /// Keeps alerts and silences for a restart.
    fn keep_alerts(&self, now: Now) {
        if self.evidence.is_on() {
            let silences = self.alerts.asked.all();
            self.evidence
                .keep_alerts(restart::save(&self.services, silences, now));
        }
    }

    /// Tells a viewer what the rules are and what they say.
    pub(super) fn tell_rules(&mut self, viewer: ConnectionId, now: Now) {
        let rules = &self.config.rules;
        let asked = self.alerts.asked.all();
        let file = self
            .config
            .file
            .as_ref()
            .map(|file| file.display().to_string());
        let seen = self.services.iter();
        let seen = seen.filter(|(_, service)| self.viewers.sees(viewer, service.history.uid()));
        let services = seen.map(|(instance, service)| ServiceRules {
            instance: *instance,
            service: service.history.hello.service.clone(),
            pid: service.history.hello.pid,
            states: service.explain(rules, asked, now),
            history: service.book.resolved().take(MAX_TOLD).cloned().collect(),
        });
        let services: Vec<_> = services.collect();
        let is_seen = |taken: &&ActionTaken| {
            self.viewers.sees_all(viewer)
                || services
                    .iter()
                    .any(|service| service.service == taken.service)
        };
        let silences = rules.silences.iter().chain(asked);
        let silences = silences.filter(|silence| {
            let visible = silence.uid.is_none_or(|uid| self.viewers.sees(viewer, uid));
            visible && now.unix_ns < silence.until_unix_ns
        });
        let report = RulesReport {
            problem: self.alerts.problem.clone(),
            read_unix_ns: self.alerts.read_unix_ns,
            warnings: rules
                .warnings()
                .into_iter()
                .chain(self.alerts.waits.clone())
                .collect(),
            rules: rules.infos(file.as_deref()),
            silences: silences.cloned().collect(),
            actions: self.alerts.taken.iter().filter(is_seen).cloned().collect(),
            services,
            file,
        };
        let frame = ToViewer::Rules(Box::new(report));
        self.viewers.send_to(viewer, &frame, &mut self.dropped);
    }

    /// Silences what a viewer asks for: of its own services, or where it sees all, of all.
    pub(super) fn silence(
        &mut self,
        (viewer, uid, sees): (ConnectionId, u32, Sees),
        request: SilenceRequest,
        now: Now,
    ) {
        let of = match sees {
            Sees::All => None,
            Sees::OfUser(own) => Some(own),
        };
        let known = |name: &String| {
            self.config
                .rules
                .rules
                .iter()
                .any(|rule| rule.name == *name)
        };
        let outcome = match &request.rule {
            Some(name) if !known(name) => {
                let names = self
                    .config
                    .rules
                    .rules
                    .iter()
                    .map(|rule| rule.name.as_ref());
                let hint = crate::config::table::instead(name, names);
                Err(format!("unknown rule `{name}`{hint}"))
            }
            None if request.service.is_none() && request.subject.is_none() => {
                Err("name a rule, a service or a subject".to_owned())
            }
            _ => self.alerts.asked.ask(request, uid, of, now),
        };
        if let Ok(silences) = &outcome {
            tracing::info!(uid, "silences changed: {silences:?}");
            self.keep_alerts(now);
        }
        let frame = ToViewer::Silenced(SilenceAnswer { outcome });
        self.viewers.send_to(viewer, &frame, &mut self.dropped);
    }

    /// Takes a file that has changed, or notes why it cannot be taken.
    pub(super) fn take_file(&mut self, file: Reread, now: Now) {
        let Reread { outcome } = file;
        match outcome {
            Ok(file) => {
                let waits = file.snapshots.wait_for_a_start(&self.alerts.at_start);
                self.end_without_rule(&file.rules, now);
                self.config.take_rules(*file);
                self.evidence.set_limits(self.config.snapshots.clone());
                let rules = self.config.rules.enabled().count();
                tracing::info!("configuration read again: {rules} rules are on");
                for warning in self.config.rules.warnings().iter().chain(&waits) {
                    tracing::warn!("{warning}");
                }
                self.alerts.waits = waits;
                self.alerts.problem = None;
                self.alerts.read_unix_ns = now.unix_ns;
                self.alerts
                    .mark(format!("rules read again: {rules} are on"), now);
            }
            Err(problem) => {
                tracing::error!("the rules before stay in force: {problem}");
                self.alerts.not_taken(problem, now);
            }
        }
        self.alerts.tell(&mut self.viewers);
        self.tell_services(now);
    }
}

/// What a rule does; nothing where it has gone meanwhile.
fn actions_of(rules: &RuleSet, name: &str) -> Vec<Action> {
    let rule = rules.rules.iter().find(|rule| rule.name == name);
    rule.map_or_else(Vec::new, |rule| rules.actions_of(rule).to_vec())
}
