//! What the commands without a screen share: a client, what it has told so far, and patience.

use std::{path::Path, time::Duration};

use ax_wire::{
    ToAgent,
    frame::Capture,
    view::{ServiceState, ServiceSummary},
};
use tokio::time::{Instant, sleep_until};

use super::Failure;
use crate::{
    client::{self, Client, Sockets},
    event::now_unix_ns,
    format::printable,
    world::{Link, Update, World},
};

/// How long a command waits for what it wants to tell.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Probes try again within a second; an agent that has just been started knows all services after this.
const SETTLING: Duration = Duration::from_millis(1_500);

/// A client and the newest state.
pub struct Session {
    pub world: World,
    client: Client,
    /// From when on the agent knows the services that are there.
    settled_at: Option<Instant>,
}

impl Session {
    /// Starts a client on the current runtime.
    pub fn start(sockets: Sockets) -> Self {
        Self {
            world: World::new(),
            client: client::start(sockets),
            settled_at: None,
        }
    }

    /// Waits for the next news and takes it in. Cancel safe.
    ///
    /// # Errors
    ///
    /// The client has died, which is a fault of ours.
    pub async fn next(&mut self) -> Result<(), Failure> {
        let update = self.client.updates.recv().await;
        let update = update.ok_or_else(|| Failure::Internal("the client has died".to_owned()))?;
        match &update {
            Update::Link(Link::Connecting { .. }) => self.settled_at = None,
            Update::Link(Link::Attached { .. } | Link::File { .. } | Link::Recording { .. }) => {
                self.settled_at = Some(Instant::now());
            }
            Update::Link(Link::Embedded { .. }) => {
                self.settled_at = Some(Instant::now() + SETTLING);
            }
            Update::Frame(_) | Update::HandOver(_) => {}
        }
        self.world.now_unix_ns = now_unix_ns();
        self.world.apply(update);
        Ok(())
    }

    /// Asks the agent for a snapshot; the answer is [`World::captured`].
    pub fn capture(&self, capture: Capture) {
        self.ask(ToAgent::Capture(capture));
    }

    /// Asks the agent something; the answer comes with [`Self::next`].
    pub fn ask(&self, request: ToAgent) {
        // A command asks one thing, so it is the first in the queue.
        let _ = self.client.ask(request);
    }

    /// Waits until the agent knows its services and `ready` holds, but no longer than [`PATIENCE`].
    ///
    /// # Errors
    ///
    /// No agent could be reached or started in that time.
    pub async fn wait(&mut self, ready: impl Fn(&World) -> bool) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = Instant::now();
            let settled = self.settled_at.is_some_and(|at| at <= now);
            if now >= deadline || (settled && ready(&self.world)) {
                break;
            }
            let settling = self.settled_at.filter(|at| *at > now);
            tokio::select! {
                told = self.next() => told?,
                () = sleep_until(settling.unwrap_or(deadline).min(deadline)) => {}
            }
        }
        match &self.world.link {
            Link::Connecting { problem, .. } => {
                let problem = problem.as_deref().unwrap_or("none answered in time");
                Err(Failure::Unavailable(format!("no agent: {problem}")))
            }
            Link::Attached { .. }
            | Link::Embedded { .. }
            | Link::File { .. }
            | Link::Recording { .. } => Ok(()),
        }
    }

    /// The services that were asked for.
    ///
    /// # Errors
    ///
    /// There are none; the text says what was waited for and what to do.
    pub fn wanted(&self, wanted: Option<&str>) -> Result<Vec<&ServiceSummary>, Failure> {
        let services = &self.world.services;
        let chosen: Vec<_> = services
            .iter()
            .filter(|service| matches(service, wanted))
            .collect();
        match (chosen.is_empty(), wanted) {
            (false, _) => Ok(chosen),
            (true, Some(wanted)) if !services.is_empty() => {
                let names: Vec<_> = services
                    .iter()
                    .map(|service| format!("{} (pid {})", printable(&service.service), service.pid))
                    .collect();
                let names = names.join(", ");
                Err(Failure::Unknown(format!(
                    "no service `{wanted}` is connected; there are: {names}"
                )))
            }
            (true, _) => Err(Failure::Unknown(no_service(&self.world.link))),
        }
    }

    /// As [`Self::wanted`], without instances that are gone and have a live one of their name in their place: what was
    /// wrong with them is over. One that is asked for by its pid is meant.
    ///
    /// # Errors
    ///
    /// As [`Self::wanted`].
    pub fn current(&self, wanted: Option<&str>) -> Result<Vec<&ServiceSummary>, Failure> {
        Ok(without_replaced(&self.wanted(wanted)?, wanted))
    }
}

fn without_replaced<'a>(
    chosen: &[&'a ServiceSummary],
    wanted: Option<&str>,
) -> Vec<&'a ServiceSummary> {
    let is_gone = |service: &ServiceSummary| {
        matches!(service.state, ServiceState::Ended | ServiceState::Lost)
    };
    let is_replaced = |service: &ServiceSummary| {
        let by_pid = wanted.is_some_and(|wanted| wanted != service.service);
        let in_its_place = |other: &&ServiceSummary| {
            !is_gone(other) && (other.uid, &other.service) == (service.uid, &service.service)
        };
        is_gone(service) && !by_pid && chosen.iter().copied().any(|other| in_its_place(&other))
    };
    let kept = chosen
        .iter()
        .copied()
        .filter(|service| !is_replaced(service));
    kept.collect()
}

/// Whether a service is the one that was asked for, by name or by pid.
pub fn matches(service: &ServiceSummary, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| {
        service.service == wanted || wanted.parse().is_ok_and(|pid: u32| pid == service.pid)
    })
}

/// Nobody is there: what was waited for, and what to do.
pub fn no_service(link: &Link) -> String {
    let at = |who: &str, socket: &Path| format!("{who} on {}", socket.display());
    let agent = match link {
        Link::Attached { socket } => at("the agent", socket),
        Link::Embedded { socket } => at("the agent that this command started", socket),
        Link::Connecting { .. } | Link::File { .. } | Link::Recording { .. } => {
            "any agent".to_owned()
        }
    };
    format!(
        "no service is connected to {agent} (waited {} s). Start one with the probe in it \
         (`let _probe = ax_probe::Probe::builder(\"my-service\").install()`), or look at the demo: `ax-top demo`",
        PATIENCE.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_service_is_asked_for_by_name_or_pid() {
        let summary = fixture::healthy().summary;
        assert!(matches(&summary, None));
        assert!(matches(&summary, Some("checkout")));
        assert!(matches(&summary, Some("4121")));
        assert!(!matches(&summary, Some("check")));
        assert!(!matches(&summary, Some("4122")));
    }

    #[test]
    fn what_was_wrong_with_an_instance_is_over_once_another_is_in_its_place() {
        let live = fixture::healthy().summary;
        let of_state = |state, pid| ServiceSummary {
            state,
            pid,
            ..live.clone()
        };
        let lost = of_state(ServiceState::Lost, 4_000);
        let ended = of_state(ServiceState::Ended, 4_001);
        let silent = of_state(ServiceState::Silent, 4_002);
        let other = ServiceSummary {
            service: "billing".to_owned(),
            ..lost.clone()
        };
        let all = [&lost, &ended, &silent, &live, &other];
        let pids = |wanted| {
            let kept = without_replaced(&all, wanted);
            kept.iter().map(|service| service.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids(None), [4_002, live.pid, 4_000], "billing has no other");
        assert_eq!(
            without_replaced(&[&lost], Some("4000")),
            [&lost],
            "it is meant"
        );
        assert_eq!(without_replaced(&[&lost, &ended], None).len(), 2);
    }
}
