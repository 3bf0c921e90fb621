//! Incidents and captures: what becomes a snapshot, what is held back, and who waits for the answer.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use ax_wire::{
    InstanceId,
    frame::Captured,
    incident::{IncidentId, Reason, Snapshot, SnapshotSummary},
    view::Suppressed,
};

use super::connection::ConnectionId;
use crate::{
    alert::action::runner::Occasion,
    clock::Now,
    snapshot::{
        ServiceKey, Settings,
        limits::{Kind, Limits},
        naming::Unnamed,
        store::{Order, Report, Store},
    },
};

/// How long a service may take to answer a capture.
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(3);

/// Captures that wait for a service, over all viewers.
const MAX_WAITING: usize = 64;

/// Summaries that a view shows of one service.
const MAX_SHOWN: usize = 32;

/// Services, by user and name, whose limits and counts are remembered; past it, those without files go.
const MAX_REMEMBERED: usize = 1_024;

/// Instances of one service whose own counts are remembered.
const MAX_INSTANCES: usize = 16;

/// What is remembered of a service over its restarts.
#[derive(Debug, Default)]
struct Kept {
    /// Newest first.
    summaries: VecDeque<SnapshotSummary>,
    limits: Limits,
    by_instance: VecDeque<(InstanceId, u64)>,
    suppressed: Suppressed,
}

/// Who wants a snapshot, and is told what became of it.
#[derive(Clone, Debug)]
pub(super) enum Asker {
    Viewer(ConnectionId),
    /// A rule whose alert fires.
    Rule(Box<Occasion>),
}

/// Somebody who waits for a service to answer.
#[derive(Debug)]
struct Waiting {
    asker: Asker,
    instance: InstanceId,
    since_mono_ns: u64,
}

/// What is told to whom.
pub(super) type Answer = (Asker, Captured);

#[derive(Debug)]
struct Writing {
    key: ServiceKey,
    told: Vec<(Asker, InstanceId)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Evidence {
    settings: Settings,
    store: Option<Store>,
    services: HashMap<ServiceKey, Kept>,
    all: Limits,
    waiting: Vec<Waiting>,
    /// Of which service a file is being written, and who is to be told of it.
    writing: HashMap<IncidentId, Writing>,
}

impl Evidence {
    /// Without a store, snapshots are off.
    pub(super) fn new(settings: Settings, store: Option<Store>) -> Self {
        Self {
            settings,
            store,
            services: HashMap::new(),
            all: Limits::default(),
            waiting: Vec::new(),
            writing: HashMap::new(),
        }
    }

    /// Whether incidents are taken over from services.
    pub(super) fn is_on(&self) -> bool {
        self.store.is_some()
    }

    /// The thread that writes, to be waited for at the end.
    pub(super) fn take_store(&mut self) -> Option<Store> {
        self.store.take()
    }

    /// What a view shows of a service.
    pub(super) fn of(&self, key: &ServiceKey) -> (Vec<SnapshotSummary>, Suppressed) {
        let Some(kept) = self.services.get(key) else {
            return Default::default();
        };
        let shown = kept.summaries.iter().take(MAX_SHOWN).cloned().collect();
        let mut suppressed = kept.suppressed.clone();
        suppressed.by_service_total = kept.by_instance.iter().map(|(_, total)| total).sum();
        (shown, suppressed)
    }

    /// Notes how many incidents an instance has not taken down.
    pub(super) fn suppressed_by_service(
        &mut self,
        key: ServiceKey,
        instance: InstanceId,
        total: u64,
    ) {
        if total == 0 {
            return;
        }
        let by_instance = &mut self.kept(key).by_instance;
        // A sum of a few of these must not overflow, whatever a stranger sends.
        let total = total.min(u64::MAX / 64);
        match by_instance.iter_mut().find(|(known, _)| *known == instance) {
            Some((_, known)) => *known = total.max(*known),
            None => by_instance.push_back((instance, total)),
        }
        if by_instance.len() > MAX_INSTANCES {
            by_instance.pop_front();
        }
    }

    /// Takes new limits.
    pub(super) fn set_limits(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Whether a snapshot of the service may be taken now; where not, it is counted. `Ok` must be followed by
    /// [`Self::write`] or a capture.
    pub(super) fn admit(&mut self, key: ServiceKey, kind: Kind, now: Now) -> Result<(), String> {
        let admitted = self.try_admit(key.clone(), kind, now);
        if let Err(why) = &admitted {
            let suppressed = &mut self.kept(key).suppressed;
            suppressed.by_agent_total += 1;
            suppressed.last_reason = Some(why.clone());
        }
        admitted
    }

    /// The same without the count, for one that is of use only where there is no other.
    pub(super) fn try_admit(
        &mut self,
        key: ServiceKey,
        kind: Kind,
        now: Now,
    ) -> Result<(), String> {
        let settings = self.settings.clone();
        let all = match kind {
            Kind::Asked => Ok(()),
            _ => self
                .all
                .check_hour(settings.all_per_hour, now)
                .map_err(|why| format!("of all services together, {why}")),
        };
        let kept = self.kept(key);
        kept.limits.check(kind, &settings, now).and(all)?;
        kept.limits.note(kind, now.mono_ns);
        self.all.note(kind, now.mono_ns);
        Ok(())
    }

    /// Hands a snapshot to the disk; those that wait for it are told when it is there. Returns who must be told at once
    /// that it failed.
    pub(super) fn write(
        &mut self,
        key: ServiceKey,
        id: IncidentId,
        snapshot: Box<Snapshot>,
        told: Vec<(Asker, InstanceId)>,
    ) -> Vec<Answer> {
        let order = Order::Write {
            uid: key.uid,
            id,
            snapshot,
        };
        let ordered = self
            .store
            .as_ref()
            .map_or(Err("snapshots are off"), |s| s.order(order));
        self.writing.insert(id, Writing { key, told });
        match ordered {
            Ok(()) => Vec::new(),
            Err(why) => self.failed(id, why),
        }
    }

    /// Names the stacks of a snapshot, and puts them into its file.
    pub(super) fn name(&self, unnamed: Unnamed) {
        if let Some(store) = &self.store {
            store.name(unnamed);
        }
    }

    /// Looks for files that probes have written meanwhile.
    pub(super) fn look(&self) {
        // A disk that does not keep up is told of with the next snapshot.
        let _ = self.store.as_ref().map(|store| store.order(Order::Look));
    }

    /// Keeps firing alerts for the next start of the agent.
    pub(super) fn keep_alerts(&self, json: Vec<u8>) {
        if let Some(Err(why)) = self.store.as_ref().map(|s| s.order(Order::Alerts(json))) {
            tracing::warn!("firing alerts are not kept for a restart: {why}");
        }
    }

    /// Somebody waits for an incident of this instance.
    pub(super) fn wait(
        &mut self,
        asker: Asker,
        instance: InstanceId,
        now: Now,
    ) -> Result<(), String> {
        if self.waiting.len() >= MAX_WAITING {
            return Err("too many captures are under way".to_owned());
        }
        self.waiting.push(Waiting {
            asker,
            instance,
            since_mono_ns: now.mono_ns,
        });
        Ok(())
    }

    /// Whether somebody waits for a capture of this instance already.
    pub(super) fn awaits(&self, instance: InstanceId) -> bool {
        self.waiting
            .iter()
            .any(|waiting| waiting.instance == instance)
    }

    /// Those that wait for this instance, who wait no longer.
    pub(super) fn take_waiting(&mut self, instance: InstanceId) -> Vec<(Asker, InstanceId)> {
        let ours = self
            .waiting
            .extract_if(.., |waiting| waiting.instance == instance);
        ours.map(|waiting| (waiting.asker, instance)).collect()
    }

    /// When the next capture has waited for too long.
    pub(super) fn next_timeout_mono_ns(&self) -> Option<u64> {
        let since = self
            .waiting
            .iter()
            .map(|waiting| waiting.since_mono_ns)
            .min()?;
        Some(since.saturating_add(CAPTURE_TIMEOUT.as_nanos() as u64))
    }

    /// Those that have waited for too long, who wait no longer, and why they waited in vain.
    pub(super) fn time_out(&mut self, now: Now) -> (Vec<(Asker, InstanceId)>, String) {
        let late = self.waiting.extract_if(.., |waiting| {
            now.since(waiting.since_mono_ns) >= CAPTURE_TIMEOUT
        });
        let late = late
            .map(|waiting| (waiting.asker, waiting.instance))
            .collect();
        let seconds = CAPTURE_TIMEOUT.as_secs();
        let why = format!(
            "the service did not answer within {seconds} s: it is stopped, or starved of CPU"
        );
        (late, why)
    }

    /// Takes what the disk says. Returns who must be told.
    pub(super) fn report(&mut self, report: Report, now: Now) -> Vec<Answer> {
        match report {
            Report::Found(found) => {
                for (uid, summary) in found {
                    let taken_ago_ns = now.unix_ns.saturating_sub(summary.at_unix_ns);
                    let taken_mono_ns = now.mono_ns.saturating_sub(taken_ago_ns);
                    let kind = kind_of(&summary.reason);
                    self.all.note(kind, taken_mono_ns);
                    let key = ServiceKey::first(uid, &summary.service);
                    let kept = self.add(key, summary);
                    kept.limits.note(kind, taken_mono_ns);
                }
                Vec::new()
            }
            Report::Written(summary) => {
                let Some(Writing { key, told }) = self.writing.remove(&summary.id) else {
                    return Vec::new();
                };
                self.add(key, summary.clone());
                let answer = |(asker, instance)| {
                    let outcome = Ok(summary.clone());
                    (asker, Captured { instance, outcome })
                };
                told.into_iter().map(answer).collect()
            }
            Report::Failed { id, why } => self.failed(id, &why),
            // Of use to the diagnosis, and nothing here.
            Report::Named { .. } => Vec::new(),
            Report::Gone(ids) => {
                for kept in self.services.values_mut() {
                    kept.summaries.retain(|summary| !ids.contains(&summary.id));
                }
                Vec::new()
            }
        }
    }

    fn failed(&mut self, id: IncidentId, why: &str) -> Vec<Answer> {
        let Some(Writing { key, told }) = self.writing.remove(&id) else {
            return Vec::new();
        };
        let suppressed = &mut self.kept(key).suppressed;
        suppressed.failed_total += 1;
        suppressed.last_reason = Some(why.to_owned());
        let answer = |(asker, instance)| refusal(asker, instance, why.to_owned());
        told.into_iter().map(answer).collect()
    }

    fn add(&mut self, key: ServiceKey, summary: SnapshotSummary) -> &mut Kept {
        let kept = self.kept(key);
        let newest_first = |known: &SnapshotSummary| known.at_unix_ns > summary.at_unix_ns;
        let place = kept.summaries.partition_point(newest_first);
        if !kept.summaries.iter().any(|known| known.id == summary.id) {
            kept.summaries.insert(place, summary);
        }
        kept
    }

    fn kept(&mut self, key: ServiceKey) -> &mut Kept {
        if self.services.len() >= MAX_REMEMBERED && !self.services.contains_key(&key) {
            self.services.retain(|_, kept| !kept.summaries.is_empty());
        }
        self.services.entry(key).or_default()
    }
}

/// An answer that says no.
pub(super) fn refusal(asker: Asker, instance: InstanceId, why: String) -> Answer {
    let outcome = Err(why);
    (asker, Captured { instance, outcome })
}

/// Whose wish a snapshot is.
pub(super) fn kind_of(reason: &Reason) -> Kind {
    match reason {
        Reason::Stall { .. } | Reason::Lag { .. } | Reason::Alert { .. } | Reason::Other => {
            Kind::Automatic
        }
        Reason::Capture | Reason::Code { .. } => Kind::Asked,
        Reason::LastSeen => Kind::LastSeen,
    }
}
