//! One service as the hub keeps it: its history, its connection, its alerts.

use std::{collections::VecDeque, time::Duration};

use ax_wire::{
    InstanceId, ToService,
    alert::{Alert, AlertState, Severity},
    event::{Event, Events},
    hello::Hello,
    incident::{Incident, IncidentId},
    mark::Mark,
    rules::{RuleState, SilenceInfo},
    stack::ThreadStack,
    view::{AgentDropped, ServiceState},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connection::ConnectionId;
use crate::{
    access::{Glimpse, Peer, is_traced},
    alert::{Book, Changes, Judging, Quiet, RuleSet},
    clock::Now,
    diagnosis::Casebook,
    history::{Day, ServiceHistory},
    snapshot::{ServiceKey, naming::Unnamed},
};

/// After the connection of a service broke, how long it may take to come back before its "last seen" is written. With
/// the tick of a second, the file is there within three.
const LAST_SEEN_AFTER_NS: u64 = 1_500_000_000;

/// A service that sends a sample a second and none for so long is looked at from outside.
const SILENCE_NS: u64 = 1_300_000_000;

/// A connection on which a service speaks.
#[derive(Debug)]
pub(super) struct Speaker {
    pub(super) id: ConnectionId,
    pub(super) peer: Peer,
    /// Ends the connection when another takes its place.
    pub(super) stop: CancellationToken,
    /// Frames to the service.
    pub(super) outbox: mpsc::Sender<ToService>,
}

/// A service, and the connection on which it speaks.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) history: ServiceHistory,
    pub(super) dropped: AgentDropped,
    /// The state that viewers were last told.
    pub(super) told: ServiceState,
    pub(super) speaker: Option<Speaker>,
    pub(super) book: Book,
    /// See [`ServiceKey`].
    pub(super) seat: u32,
    pub(super) casebook: Casebook,
    /// What was last seen of its process from outside.
    outside: Option<Glimpse>,
    /// Its process in our pid namespace, where it has a number there.
    pub(super) pid: Option<u32>,
    /// The latest incident with stacks: a stall may get another one after it.
    stacks: Option<IncidentStacks>,
    marks: VecDeque<Mark>,
    quiet_until_mono_ns: u64,
    quiet: Quiet,
    last_seen_due_mono_ns: Option<u64>,
}

/// Marks that are kept of what was changed about a service from outside.
const MAX_MARKS: usize = 32;

/// Most stacks of one incident, over all its stalls.
const MAX_STACKS: usize = 64;

/// The stacks of one incident so far.
#[derive(Debug)]
struct IncidentStacks {
    id: IncidentId,
    stalls: Vec<u64>,
    stacks: Vec<ThreadStack>,
}

impl Service {
    pub(super) fn new(
        hello: Hello,
        speaker: Speaker,
        (seat, book): (u32, Book),
        quiet_ns: u64,
        now: Now,
    ) -> Self {
        let history = ServiceHistory::new(hello, speaker.peer.uid, now);
        Self {
            told: history.state(now),
            history,
            dropped: AgentDropped::default(),
            casebook: Casebook::default(),
            outside: None,
            pid: speaker.peer.pid,
            stacks: None,
            marks: VecDeque::new(),
            speaker: Some(speaker),
            seat,
            book,
            quiet_until_mono_ns: now.mono_ns.saturating_add(quiet_ns),
            quiet: Quiet::JustStarted,
            last_seen_due_mono_ns: None,
        }
    }

    /// Something about it was changed from outside.
    pub(super) fn mark(&mut self, mark: Mark) {
        self.marks.push_back(mark);
        if self.marks.len() > MAX_MARKS {
            self.marks.pop_front();
        }
    }

    /// What was changed about it from outside, oldest first.
    pub(super) fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter()
    }

    /// Keeps the stacks of an incident in mind; returns them for naming.
    pub(super) fn incident_stacks(&mut self, incident: &Incident) -> Option<Unnamed> {
        self.stacks = Some(IncidentStacks {
            id: incident.id,
            stalls: incident.stalls.iter().map(|stall| stall.id).collect(),
            stacks: incident.stacks.clone(),
        });
        self.unnamed()
    }

    /// Adds the stacks among these events to the latest incident; returns all of its stacks where there is a new one.
    pub(super) fn later_stacks(&mut self, events: &Events) -> Option<Unnamed> {
        let known = self.stacks.as_mut()?;
        let before = known.stacks.len();
        for event in &events.events {
            if let Event::Stack(stack) = event
                && known.stalls.contains(&stack.stall)
                && !known.stacks.contains(stack)
                && known.stacks.len() < MAX_STACKS
            {
                known.stacks.push(ThreadStack::clone(stack));
            }
        }
        (known.stacks.len() > before)
            .then(|| self.unnamed())
            .flatten()
    }

    /// The stacks of an incident have names now, which tell the diagnosis what the code was at.
    pub(super) fn named(&mut self, id: IncidentId, stacks: &[ThreadStack]) {
        if self.stacks.as_ref().is_some_and(|known| known.id == id) {
            for stack in stacks {
                self.history.stalls.saw_stack(stack);
            }
        }
    }

    fn unnamed(&self) -> Option<Unnamed> {
        let known = self.stacks.as_ref()?;
        (!known.stacks.is_empty()).then_some(Unnamed {
            uid: self.history.uid(),
            id: known.id,
            pid: self.pid?,
            stacks: known.stacks.clone(),
        })
    }

    /// Another instance takes its seat, and with it its alerts and its day. That this one is lost is no longer of interest.
    pub(super) fn succeeded(&mut self, rules: &RuleSet) -> (Book, Day) {
        let day = self.history.succeeded();
        (self.book.hand_over(rules), day)
    }

    pub(super) fn instance(&self) -> InstanceId {
        self.history.hello.instance
    }

    pub(super) fn key(&self) -> ServiceKey {
        ServiceKey {
            uid: self.history.uid(),
            name: self.history.hello.service.clone(),
            seat: self.seat,
        }
    }

    /// Sends the service a frame, or says that it does not read.
    pub(super) fn send(&self, frame: ToService) -> Result<(), &'static str> {
        let speaker = self
            .speaker
            .as_ref()
            .ok_or("the service is not connected")?;
        let sent = speaker.outbox.try_send(frame);
        sent.map_err(|_| "the service does not read what it is sent")
    }

    /// The same instance speaks on another connection. Returns the one before.
    pub(super) fn reconnected(
        &mut self,
        hello: Hello,
        speaker: Speaker,
        now: Now,
    ) -> Option<Speaker> {
        self.last_seen_due_mono_ns = None;
        self.pid = speaker.peer.pid;
        self.history.hello_again(hello, now);
        self.speaker.replace(speaker)
    }

    /// Its connection is gone.
    pub(super) fn disconnected(&mut self, now: Now) {
        self.speaker = None;
        self.history.disconnected();
        if self.history.state(now) == ServiceState::Lost {
            self.last_seen_due_mono_ns = Some(now.mono_ns.saturating_add(LAST_SEEN_AFTER_NS));
        }
    }

    /// Whether its "last seen" is due; true once. One that never sent a figure has none.
    pub(super) fn last_seen_is_due(&mut self, now: Now) -> bool {
        let due = self
            .last_seen_due_mono_ns
            .is_some_and(|due| due <= now.mono_ns);
        if due {
            self.last_seen_due_mono_ns = None;
        }
        due && self.history.change().is_some()
    }

    /// Judges it. Returns what that has changed.
    pub(super) fn judge(
        &mut self,
        rules: &RuleSet,
        asked: &[SilenceInfo],
        quiet_ns: u64,
        now: Now,
    ) -> Changes {
        // A debugger that lets go leaves a second of late figures behind.
        if self.speaker.is_some() && self.pid.is_some_and(is_traced) {
            self.quiet = Quiet::Debugged;
            self.quiet_until_mono_ns = now.mono_ns.saturating_add(quiet_ns);
        } else if now.mono_ns >= self.quiet_until_mono_ns {
            self.quiet = Quiet::No;
        }
        let judging = Judging {
            rules,
            asked,
            quiet: self.quiet,
            now,
        };
        let changed = self.book.judge(judging, self.history.window());
        for alert in &changed.alerts {
            self.log(alert);
        }
        changed
    }

    /// What each rule says of it, and why.
    pub(super) fn explain(
        &self,
        rules: &RuleSet,
        asked: &[SilenceInfo],
        now: Now,
    ) -> Vec<RuleState> {
        let judging = Judging {
            rules,
            asked,
            quiet: self.quiet,
            now,
        };
        let left = self.quiet_until_mono_ns.saturating_sub(now.mono_ns);
        let left = Duration::from_nanos(left);
        self.book.explain(judging, self.history.window(), left)
    }

    /// Asks why it is slow. `true` where something else is the first cause now.
    pub(super) fn diagnose(&mut self, now: Now) -> bool {
        self.look_from_outside(now);
        if self.quiet == Quiet::Debugged {
            return false;
        }
        let cause = |book: &Casebook| {
            let first = book.diagnosis().verdicts.first();
            first.map(|verdict| (verdict.id, verdict.subject.clone()))
        };
        let before = cause(&self.casebook);
        self.casebook.diagnose(self.history.window(), now);
        before != cause(&self.casebook)
    }

    /// Whether it has missed a sample.
    pub(super) fn is_silent(&self, now: Now) -> bool {
        self.history.silent_ns(now) >= Some(SILENCE_NS)
    }

    /// Of a process that does not speak, the kernel is asked.
    fn look_from_outside(&mut self, now: Now) {
        let silent = self.speaker.is_some() && self.is_silent(now);
        let pid = self.pid.filter(|_| silent);
        let seen = pid.and_then(|pid| Glimpse::of(pid, now));
        let outside = seen.map(|seen| seen.since(self.outside));
        self.history.seen_from_outside(outside);
        self.outside = seen;
    }

    fn log(&self, alert: &Alert) {
        let service = &self.history.hello.service;
        let pid = self.history.hello.pid;
        let Alert {
            rule,
            severity,
            sentence,
            peak,
            ..
        } = alert;
        let subject = alert.subject.as_deref().unwrap_or_default();
        if alert.state == AlertState::Resolved {
            tracing::info!(
                service,
                pid,
                rule,
                subject,
                peak,
                "alert resolved: {sentence}"
            );
        } else if *severity >= Severity::Critical {
            tracing::error!(service, pid, rule, subject, %severity, "alert: {sentence}");
        } else {
            tracing::warn!(service, pid, rule, subject, %severity, "alert: {sentence}");
        }
    }
}
