//! What of a service becomes a snapshot: its incidents, what viewers ask for, and its death.

use ax_wire::{
    InstanceId, ToService,
    frame::IncidentAck,
    incident::{Incident, IncidentId, Reason},
};

use super::Hub;
use crate::{
    access::is_alive,
    alert::action::runner::Occasion,
    clock::Now,
    serve::{
        connection::ConnectionId,
        evidence::{Asker, kind_of, refusal},
    },
    snapshot::{compose, limits::Kind},
};

impl Hub {
    /// Takes an incident over: the service is told first, because after 200 ms it would write by itself.
    pub(super) fn incident(&mut self, instance: InstanceId, incident: Incident, now: Now) {
        let asked = incident.reason == Reason::Capture;
        let Some(service) = self
            .services
            .get(&instance)
            .filter(|_| self.evidence.is_on())
        else {
            return;
        };
        let (id, key) = (incident.id, service.key());
        if let Err(why) = service.send(ToService::IncidentAck(IncidentAck { id })) {
            tracing::warn!(
                service = key.name,
                "incident {id} is left to the service: {why}"
            );
            return;
        }
        let waiting = if asked {
            self.evidence.take_waiting(instance)
        } else {
            Vec::new()
        };
        // A capture that somebody waits for was admitted when it was asked for.
        if waiting.is_empty() {
            let admitted = self.evidence.admit(key, kind_of(&incident.reason), now);
            if let Err(why) = admitted {
                tracing::debug!(%instance, "incident {id} has no snapshot: {why}");
                return;
            }
        }
        let unnamed = self
            .services
            .get_mut(&instance)
            .and_then(|service| service.incident_stacks(&incident));
        // A person's wish comes before a rule's, whose file it is too.
        let of_rule = waiting.iter().find_map(|(asker, _)| match asker {
            Asker::Rule(occasion) => Some(occasion.alert.rule.clone()),
            Asker::Viewer(_) => None,
        });
        let by_person = waiting
            .iter()
            .any(|(asker, _)| matches!(asker, Asker::Viewer(_)));
        let reason = match of_rule {
            Some(rule) if !by_person => Reason::Alert { rule },
            _ => incident.reason.clone(),
        };
        self.write(
            instance,
            id,
            Some(incident),
            reason,
            Vec::new(),
            waiting,
            now,
        );
        // After the writing, which does not wait for it.
        if let Some(unnamed) = unnamed {
            self.evidence.name(unnamed);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a snapshot, and who waits for it"
    )]
    fn write(
        &mut self,
        instance: InstanceId,
        id: IncidentId,
        incident: Option<Incident>,
        reason: Reason,
        unknown: Vec<String>,
        waiting: Vec<(Asker, InstanceId)>,
        now: Now,
    ) {
        let Some(service) = self.services.get(&instance) else {
            return;
        };
        let view = self.viewers.view(service, &self.evidence, now);
        let window = service.history.window();
        let snapshot = Box::new(compose(window, incident, reason, view, unknown, now));
        let failed = self.evidence.write(service.key(), id, snapshot, waiting);
        self.answer(failed);
    }

    /// Asks a service for evidence, on behalf of a viewer.
    pub(super) fn capture(
        &mut self,
        viewer: ConnectionId,
        instance: InstanceId,
        now: Now,
    ) -> Result<(), String> {
        let service = self.services.get(&instance);
        let visible = service.filter(|s| self.viewers.sees(viewer, s.history.uid()));
        let service = visible.ok_or("there is no such service")?;
        if !self.evidence.is_on() {
            return Err(
                "this agent writes no snapshots: start it with a folder for them (--snapshots)"
                    .to_owned(),
            );
        }
        // One answer of the service serves all who wait for it.
        if !self.evidence.awaits(instance) {
            let key = service.key();
            self.evidence.admit(key, Kind::Asked, now)?;
            service.send(ToService::Capture)?;
        }
        self.evidence.wait(Asker::Viewer(viewer), instance, now)
    }

    /// Asks a service for evidence, because the alert of a rule fires. A service that does not answer, or cannot be asked,
    /// has a snapshot of what the agent knows of it.
    pub(super) fn capture_for_rule(&mut self, instance: InstanceId, occasion: Occasion, now: Now) {
        let asker = Asker::Rule(Box::new(occasion));
        let Some(service) = self.services.get(&instance) else {
            return;
        };
        let key = service.key();
        let admitted = if self.evidence.is_on() {
            self.evidence.try_admit(key, Kind::Automatic, now)
        } else {
            Err("this agent writes no snapshots".to_owned())
        };
        if let Err(why) = admitted {
            return self.answer(vec![refusal(asker, instance, why)]);
        }
        let awaited = self.evidence.awaits(instance);
        if awaited || service.send(ToService::Capture).is_ok() {
            if let Err(why) = self.evidence.wait(asker.clone(), instance, now) {
                self.answer(vec![refusal(asker, instance, why)]);
            }
        } else {
            let unknown =
                "what the service itself could tell: it is not connected, or does not read";
            self.write_for_rule(instance, asker, unknown.to_owned(), now);
        }
    }

    /// Tells those that have waited in vain for a service.
    pub(super) fn conclude_captures(&mut self, now: Now) {
        let (late, why) = self.evidence.time_out(now);
        for (asker, instance) in late {
            if let Asker::Rule(_) = &asker {
                let unknown = format!("what the service itself could tell: {why}");
                self.write_for_rule(instance, asker, unknown, now);
            } else {
                self.answer(vec![refusal(asker, instance, why.clone())]);
            }
        }
    }

    fn write_for_rule(&mut self, instance: InstanceId, asker: Asker, unknown: String, now: Now) {
        let Asker::Rule(occasion) = &asker else {
            return;
        };
        let reason = Reason::Alert {
            rule: occasion.alert.rule.clone(),
        };
        let id = IncidentId::new_now();
        let waiting = vec![(asker, instance)];
        self.write(instance, id, None, reason, vec![unknown], waiting, now);
    }

    /// Writes down what is known of services that went without a goodbye and did not come back.
    pub(super) fn write_last_seen(&mut self, now: Now) {
        if self.stop.is_cancelled() || !self.evidence.is_on() {
            return;
        }
        let services = self.services.iter_mut();
        let due = services.filter_map(|(instance, s)| s.last_seen_is_due(now).then_some(*instance));
        for instance in due.collect::<Vec<_>>() {
            let service = &self.services[&instance];
            if self
                .evidence
                .admit(service.key(), Kind::LastSeen, now)
                .is_err()
            {
                continue;
            }
            let unknown = match service.pid.map(is_alive) {
                Some(true) => "the process still runs: only its connection broke",
                Some(false) => {
                    "what the service did at its end: it went without a goodbye (killed, out of memory, crashed)"
                }
                None => {
                    "whether the process still runs: it has no number in the agent's pid namespace"
                }
            };
            let unknown = vec![unknown.to_owned()];
            let id = IncidentId::new_now();
            self.write(
                instance,
                id,
                None,
                Reason::LastSeen,
                unknown,
                Vec::new(),
                now,
            );
        }
    }
}
