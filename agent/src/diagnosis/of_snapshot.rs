//! The diagnosis of a snapshot file: what the agent said when it was written, and what the evidence in it says besides.
//!
//! A file that a service wrote itself has no verdicts, and one instant in place of a history: what needs seconds to tell
//! stays unsure, and what an instant shows is found: who holds a worker, jobs that wait in a circle, no descriptor left.

use ax_wire::{
    event::{Event, Events},
    incident::{Incident, Snapshot},
    sample::Sample,
    verdict::Diagnosis,
};

use super::Casebook;
use crate::{clock::Now, history::ServiceHistory, ingest::CleanSample};

/// Diagnoses a snapshot. Some milliseconds.
#[must_use]
pub fn of_snapshot(snapshot: &Snapshot) -> Diagnosis {
    let said = snapshot.view.as_ref().map(|view| view.diagnosis.clone());
    let said = said.filter(|diagnosis| !diagnosis.verdicts.is_empty());
    let found = snapshot
        .incident
        .as_ref()
        .map(|incident| of_incident(snapshot, incident));
    match (said, found) {
        (Some(mut said), Some(found)) if said.cause().is_some() => {
            // The agent knew what was before; what only the evidence shows stands below.
            let known = |id| said.verdicts.iter().any(|verdict| verdict.id == id);
            let more = found.verdicts.into_iter();
            let more: Vec<_> = more.filter(|verdict| !known(verdict.id)).collect();
            said.verdicts.extend(more);
            said
        }
        (Some(_), Some(found)) if found.cause().is_some() => found,
        (said, found) => said.or(found).unwrap_or_default(),
    }
}

/// What one instant shows.
fn of_incident(snapshot: &Snapshot, incident: &Incident) -> Diagnosis {
    let now = Now {
        mono_ns: incident.at_mono_ns,
        unix_ns: incident.at_unix_ns,
    };
    let mut hello = snapshot.hello.clone();
    hello.clock.mono_ns = incident.at_mono_ns;
    hello.clock.unix_ns = incident.at_unix_ns;
    let mut history = ServiceHistory::new(hello, 0, now);
    let stalls = incident.stalls.iter().cloned().map(Event::StallBegan);
    let stacks = incident.stacks.iter().cloned();
    let stacks = stacks.map(|stack| Event::Stack(Box::new(stack)));
    let events = Events {
        events: stalls.chain(stacks).collect(),
    };
    history.events(events, now);
    let sample = Sample {
        seq: 0,
        at_mono_ns: incident.at_mono_ns,
        interval_ns: 0,
        clock: None,
        lag: incident.lag.clone(),
        runtimes: incident.runtimes.clone(),
        process: incident.process,
        threads: Vec::new(),
        lanes: incident.lanes.clone(),
        oldest_jobs: incident.running.clone(),
        waiting_jobs: incident.waiting.clone(),
        types: snapshot.types.clone(),
        routes: Vec::new(),
        downstreams: Vec::new(),
        dropped: incident.dropped,
        incidents_suppressed_total: incident.suppressed_total,
    };
    // The only sample cannot be older than the one before it.
    let _ = history.sample(CleanSample::from(sample), now);
    let mut casebook = Casebook::default();
    casebook.diagnose(history.window(), now).clone()
}
