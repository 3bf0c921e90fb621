//! Evidence of an incident: when it is taken, what is taken, and the way from the watchdog, which takes it, to the
//! publisher, which hands it to the agent or writes the file itself.
//!
//! ```text
//!  code, agent --ask--> watchdog --Evidence--> publisher --incident--> agent: acks, writes
//!                                                  +--no ack in 200 ms--> own thread: writes
//! ```

mod evidence;
mod trigger;

use std::{
    mem,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use ax_wire::{
    event::ObserverGap,
    incident::{Incident, Reason},
};
use parking_lot::Mutex;

pub use self::{
    evidence::RECENT_LAG_POINTS,
    trigger::{AUTOMATIC_PER_HOUR, CAPTURES_PER_MINUTE},
};
pub(crate) use self::{
    evidence::{Recent, Scene, take},
    trigger::{Decision, Limits, Trigger},
};

/// Longest label of a capture from code, in characters; more is cut off.
pub const MAX_LABEL_CHARS: usize = 200;

/// Most captures that wait for the watchdog, which takes them at its next tick.
const MAX_ASKED: usize = 8;

/// Most evidence that waits for the publisher, at some 500 KB each at worst. It takes them within milliseconds.
const MAX_TAKEN: usize = 4;

/// What the watchdog took down.
pub(crate) struct Evidence {
    pub(crate) incident: Incident,
    /// The latest gaps in its own schedule, newest first.
    pub(crate) gaps: Vec<ObserverGap>,
}

/// What waits between the threads, and the counts. Locked for a push or a take.
#[derive(Default)]
pub(crate) struct Incidents {
    asked: Mutex<Vec<Reason>>,
    taken: Mutex<Vec<Evidence>>,
    suppressed: AtomicU64,
    /// Snapshots that the probe could not write.
    failed: AtomicU64,
}

impl Incidents {
    /// Somebody wants evidence now. The watchdog is to be woken.
    pub(crate) fn ask(&self, reason: Reason) {
        let mut asked = self.asked.lock();
        if asked.len() < MAX_ASKED {
            asked.push(reason);
        } else {
            self.count_suppressed();
        }
    }

    pub(crate) fn take_asked(&self) -> Vec<Reason> {
        mem::take(&mut self.asked.lock())
    }

    /// The publisher is to be woken.
    pub(crate) fn push_taken(&self, evidence: Evidence) {
        let mut taken = self.taken.lock();
        if taken.len() < MAX_TAKEN {
            taken.push(evidence);
        } else {
            self.count_suppressed();
        }
    }

    pub(crate) fn take_taken(&self) -> Vec<Evidence> {
        mem::take(&mut self.taken.lock())
    }

    pub(crate) fn count_suppressed(&self) {
        self.suppressed.fetch_add(1, Relaxed);
    }

    pub(crate) fn suppressed_total(&self) -> u64 {
        self.suppressed.load(Relaxed)
    }

    pub(crate) fn count_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed_total(&self) -> u64 {
        self.failed.load(Relaxed)
    }
}
