//! Live control: orders of viewers, handed on to a service that allows them, and what came of each.

use ax_wire::{
    InstanceId, ToService, ToViewer,
    control::{Action, Control, Controlled, FEATURE, Order},
    hello::Hello,
    mark::{Mark, MarkKind},
};

use super::Hub;
use crate::{
    clock::Now,
    serve::{connection::ConnectionId, controls::Open},
};

impl Hub {
    /// Takes an order of a viewer of this user.
    pub(super) fn control(&mut self, viewer: ConnectionId, uid: u32, control: Control, now: Now) {
        let Control {
            instance,
            id,
            action,
        } = control;
        let text = action.to_string();
        if let Err(why) = self.hand_on((viewer, uid, id), instance, action, now) {
            tracing::warn!(uid, %instance, "control refused: {text}: {why}");
            self.tell_controlled(viewer, id, Err(why));
        }
    }

    fn hand_on(
        &mut self,
        from: (ConnectionId, u32, u64),
        instance: InstanceId,
        action: Action,
        now: Now,
    ) -> Result<(), String> {
        let (viewer, uid, _) = from;
        self.controls.admit(viewer, now)?;
        let service = self.services.get(&instance);
        let visible = service.filter(|s| self.viewers.sees(viewer, s.history.uid()));
        let service = visible.ok_or("there is no such service")?;
        // Who sees a service may not change it for that.
        let owner = service.history.uid();
        if uid != 0 && uid != owner {
            return Err(format!(
                "the service belongs to user {owner}: only that user and root may change it"
            ));
        }
        allows_control(&service.history.hello)?;
        if action == Action::Unknown {
            return Err("this agent is older and does not know that order: update it".to_owned());
        }
        let number = self.controls.open(from, instance, action.clone(), now);
        let order = Order { id: number, action };
        if let Err(why) = service.send(ToService::Control(order)) {
            self.controls.withdraw(number);
            return Err(why.to_owned());
        }
        Ok(())
    }

    /// A service has carried an order out, or refused it.
    pub(super) fn controlled(&mut self, instance: InstanceId, controlled: Controlled, now: Now) {
        if let Some(open) = self.controls.concluded(instance, controlled.id) {
            self.conclude_control(open, controlled.outcome, now);
        }
    }

    /// Tells of the orders that have had no outcome for too long.
    pub(super) fn conclude_late_controls(&mut self, now: Now) {
        let services = &self.services;
        let gone = |instance| {
            let service = services.get(&instance);
            service.is_none_or(|service| service.speaker.is_none())
        };
        let late = self.controls.time_out(now, gone).into_iter();
        let late = late.map(|open| {
            let why = if gone(open.instance) {
                "the service is gone; whether it was done is not known"
            } else {
                "the service has not said yet whether it was done"
            };
            (open, why)
        });
        for (open, why) in late.collect::<Vec<_>>() {
            self.conclude_control(open, Err(why.to_owned()), now);
        }
    }

    fn conclude_control(&mut self, open: Open, outcome: Result<String, String>, now: Now) {
        let Open {
            viewer,
            uid,
            id,
            instance,
            action,
            ..
        } = open;
        match &outcome {
            Ok(done) => {
                tracing::warn!(uid, %instance, "control: {action}: {done}");
                if let Some(service) = self.services.get_mut(&instance) {
                    service.mark(Mark {
                        at_unix_ns: now.unix_ns,
                        kind: kind_of(&action),
                        text: action.to_string(),
                    });
                }
            }
            Err(why) => tracing::warn!(uid, %instance, "control failed: {action}: {why}"),
        }
        self.tell_controlled(viewer, id, outcome);
    }

    fn tell_controlled(&mut self, viewer: ConnectionId, id: u64, outcome: Result<String, String>) {
        let told = ToViewer::Controlled(Controlled { id, outcome });
        self.viewers.send_to(viewer, &told, &mut self.dropped);
    }
}

fn allows_control(hello: &Hello) -> Result<(), String> {
    if hello.features.iter().any(|feature| feature == FEATURE) {
        return Ok(());
    }
    Err(format!(
        "{} does not allow it: build its probe with `allow_control(true)`",
        hello.service
    ))
}

fn kind_of(action: &Action) -> MarkKind {
    match action {
        Action::Pause { .. } | Action::Resume { .. } | Action::Resize { .. } => MarkKind::Limit,
        Action::Cancel { .. } | Action::Retry { .. } | Action::Inject { .. } | Action::Unknown => {
            MarkKind::Control
        }
    }
}
