//! Tells a worker that does not move from one that merely works: a pure state machine over what the watchdog reads at
//! each of its ticks.
//!
//! tokio publishes a worker's counters when it parks, when it unparks and every 61 polls, so counters that stand still
//! may mean one long poll or many healthy ones. What tells them apart is the slot that wrapped polls fill, and the
//! kernel's account of the thread: a thread that neither ran nor waited for a CPU in all that time was asleep inside
//! one poll.

use ax_wire::event::StallKind;

#[cfg(test)]
mod tests;

/// tokio's counters of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// `worker_park_unpark_count`: odd while the worker is parked.
    pub(crate) park_unpark: u64,
    /// `worker_total_busy_duration`.
    pub(crate) busy_ns: u64,
}

impl Counters {
    pub(crate) fn parked(self) -> bool {
        self.park_unpark % 2 == 1
    }
}

/// The kernel's account of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    pub(crate) on_cpu_ns: u64,
    /// Time runnable without a CPU, counted when it gets one at last.
    pub(crate) run_queue_ns: u64,
    /// How often it was given a CPU.
    pub(crate) runs: u64,
}

/// What the watchdog saw of one worker, or of one thread outside the workers, at one tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) now_ns: u64,
    /// `None`: no worker, so that only its slot speaks.
    pub(crate) counters: Option<Counters>,
    /// Start of the wrapped poll in its slot.
    pub(crate) poll_start_ns: Option<u64>,
    /// Length of the latest long poll of its thread.
    pub(crate) long_poll_ns: Option<u64>,
    /// `None`: the thread is not known yet, or the kernel keeps no such account.
    pub(crate) cpu: Option<CpuTimes>,
    /// Whether the thread is on a CPU or waits for one. May be left out while the worker moves or is parked.
    pub(crate) runnable: Option<bool>,
}

/// What is known of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) kind: StallKind,
    /// Start of the wrapped poll that does not return. `None`: no name.
    pub(crate) poll_start_ns: Option<u64>,
    pub(crate) began_ns: u64,
    /// So far, or in the end.
    pub(crate) length_ns: u64,
    pub(crate) run_queue_ns: Option<u64>,
    pub(crate) on_cpu_ns: Option<u64>,
}

/// What a tick changed, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) ended: Option<Found>,
    pub(crate) began: Option<Found>,
}

/// Since when something has stayed the same, with the account of the thread at that time.
#[derive(Clone, Copy)]
struct Since {
    ns: u64,
    cpu: Option<CpuTimes>,
}

/// The counters stand still.
#[derive(Clone, Copy)]
struct Frozen {
    counters: Counters,
    /// The tick that first saw these counters.
    moved_ns: u64,
    /// The same, or the last tick that saw a wrapped poll, which accounts for the time before it.
    since: Since,
    /// The tick before that one: between the two lies the true beginning.
    after_ns: u64,
}

/// A wrapped poll goes on.
#[derive(Clone, Copy)]
struct Polling {
    start_ns: u64,
    /// The last tick before it was seen, whose account of the thread is the nearest one to its start.
    cpu: Option<CpuTimes>,
    /// The first tick that saw it.
    seen_ns: u64,
    /// From when on its age counts: its start, or later when the watchdog itself got no CPU.
    counts_from_ns: u64,
}

/// A stall goes on.
#[derive(Clone, Copy)]
struct Ongoing {
    found: Found,
    /// Of an unnamed one: the busy time before it, and the tick before it.
    frozen: Option<Frozen>,
    cpu: Option<CpuTimes>,
    last_ns: u64,
}

/// Watches one worker, or one thread outside the workers.
pub(crate) struct Watch {
    threshold_ns: u64,
    frozen: Option<Frozen>,
    polling: Option<Polling>,
    /// Since when the kernel's account of the thread has stood still: it sleeps, or waits for a CPU.
    still: Option<Since>,
    /// The part of that time in which it was runnable at each tick, so that it waits for a CPU.
    waiting_from_ns: Option<u64>,
    ongoing: Option<Ongoing>,
    last_tick_ns: u64,
    /// When the watchdog last had to begin again.
    restarted_ns: u64,
}

impl Watch {
    /// For a worker that is met at `now_ns`.
    pub(crate) fn new(threshold_ns: u64, now_ns: u64) -> Self {
        Self {
            threshold_ns,
            frozen: None,
            polling: None,
            still: None,
            waiting_from_ns: None,
            ongoing: None,
            last_tick_ns: now_ns,
            restarted_ns: 0,
        }
    }

    /// The watchdog itself got no CPU until now: nothing can be said of that time, so that everything that is not a
    /// stall yet is counted from now on.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        let since = Since {
            ns: now_ns,
            cpu: None,
        };
        self.still = None;
        self.waiting_from_ns = None;
        if let Some(frozen) = &mut self.frozen {
            frozen.moved_ns = now_ns;
            frozen.since = since;
            frozen.after_ns = now_ns;
        }
        if let Some(polling) = &mut self.polling {
            polling.cpu = None;
            polling.seen_ns = now_ns;
            polling.counts_from_ns = now_ns;
        }
        self.last_tick_ns = now_ns;
        self.restarted_ns = now_ns;
    }

    /// The worker is on another thread now, whose account begins elsewhere.
    pub(crate) fn other_thread(&mut self) {
        self.still = None;
        self.waiting_from_ns = None;
        if let Some(frozen) = &mut self.frozen {
            frozen.since.cpu = None;
        }
        if let Some(polling) = &mut self.polling {
            polling.cpu = None;
        }
        if let Some(ongoing) = &mut self.ongoing {
            ongoing.cpu = None;
        }
    }

    /// The stall that goes on.
    pub(crate) fn ongoing(&self) -> Option<&Found> {
        self.ongoing.as_ref().map(|ongoing| &ongoing.found)
    }

    /// For how long the counters have stood still, with the worker not parked, or the wrapped poll has gone on.
    pub(crate) fn unmoved_ns(&self, now_ns: u64) -> u64 {
        let frozen = self.frozen.filter(|frozen| !frozen.counters.parked());
        let since = match (self.polling, frozen) {
            (Some(polling), _) => polling.counts_from_ns,
            (None, Some(frozen)) => frozen.since.ns,
            (None, None) => return 0,
        };
        now_ns.saturating_sub(since)
    }

    /// The worker or its thread is gone: whatever goes on has ended.
    pub(crate) fn end(&mut self, now_ns: u64) -> Option<Found> {
        let mut found = self.ongoing.take()?.found;
        found.length_ns = now_ns.saturating_sub(found.began_ns);
        Some(found)
    }

    /// Takes in one tick.
    pub(crate) fn tick(&mut self, reading: &Reading) -> Changes {
        let ended = self.look_for_end(reading);
        self.take_in(reading);
        let mut changes = Changes { ended, began: None };
        match (self.classify(reading), &mut self.ongoing) {
            (Some(found), None) => self.begin(found, reading, &mut changes),
            // What the watchdog could not tell at first, it can tell now: the thread got its CPU and still does not
            // move, or it has gone to sleep.
            (Some(found), Some(ongoing))
                if found.kind == StallKind::Stall && ongoing.found.kind != StallKind::Stall =>
            {
                changes.ended = Some(ongoing.found_at(reading));
                self.begin(found, reading, &mut changes);
            }
            (_, Some(ongoing)) => ongoing.found = ongoing.found_at(reading),
            (None, None) => {}
        }
        if let Some(ongoing) = &mut self.ongoing {
            ongoing.last_ns = reading.now_ns;
        }
        self.last_tick_ns = reading.now_ns;
        changes
    }

    fn begin(&mut self, found: Found, reading: &Reading, changes: &mut Changes) {
        let baseline = match (found.poll_start_ns, self.polling, self.frozen) {
            (Some(_), Some(polling), _) => polling.cpu,
            (_, _, frozen) => frozen.and_then(|frozen| frozen.since.cpu),
        };
        let mut ongoing = Ongoing {
            found,
            frozen: self.frozen,
            cpu: baseline,
            last_ns: reading.now_ns,
        };
        ongoing.found = ongoing.found_at(reading);
        changes.began = Some(ongoing.found);
        self.ongoing = Some(ongoing);
    }

    fn look_for_end(&mut self, reading: &Reading) -> Option<Found> {
        let ongoing = self.ongoing?;
        let moved = self.frozen.map(|frozen| frozen.counters) != reading.counters;
        let other_poll = ongoing.found.poll_start_ns.is_some()
            && ongoing.found.poll_start_ns != reading.poll_start_ns;
        if !moved && !other_poll {
            return None;
        }
        self.ongoing = None;
        let mut found = ongoing.found_at(reading);
        found.length_ns = match found.poll_start_ns {
            Some(start_ns) => named_length(start_ns, ongoing.last_ns, reading),
            None => unnamed_length(&ongoing, reading),
        };
        Some(found)
    }

    fn take_in(&mut self, reading: &Reading) {
        let since = Since {
            ns: reading.now_ns,
            cpu: reading.cpu,
        };
        let cpu_before = self.still.and_then(|still| still.cpu);
        if self.still.is_none_or(|still| still.cpu != reading.cpu) {
            self.still = Some(since);
            self.waiting_from_ns = None;
        }
        self.waiting_from_ns = match reading.runnable {
            Some(true) => self.waiting_from_ns.or(Some(reading.now_ns)),
            _ => None,
        };
        let parked = reading.counters.is_some_and(Counters::parked);
        // A thread in `block_in_place` has given its worker away: that worker parks while the poll goes on.
        let poll_start_ns = reading.poll_start_ns.filter(|_| !parked);
        self.frozen = reading.counters.map(|counters| {
            let moved = Frozen {
                counters,
                moved_ns: reading.now_ns,
                since,
                after_ns: self.last_tick_ns,
            };
            match self.frozen {
                Some(frozen) if frozen.counters != counters => moved,
                Some(frozen) if poll_start_ns.is_some() => Frozen {
                    moved_ns: frozen.moved_ns,
                    ..moved
                },
                Some(mut frozen) => {
                    frozen.since.cpu = frozen.since.cpu.or(reading.cpu);
                    frozen
                }
                None => moved,
            }
        });
        self.polling = poll_start_ns.map(|start_ns| match self.polling {
            Some(mut polling) if polling.start_ns == start_ns => {
                polling.cpu = polling.cpu.or(reading.cpu);
                polling
            }
            _ => Polling {
                start_ns,
                cpu: cpu_before.or(reading.cpu),
                seen_ns: reading.now_ns,
                counts_from_ns: start_ns.max(self.restarted_ns),
            },
        });
    }

    fn classify(&self, reading: &Reading) -> Option<Found> {
        match (self.polling, self.frozen) {
            // `block_in_place` again: another thread has moved the worker since this poll was first seen.
            (Some(polling), Some(frozen)) if frozen.moved_ns > polling.seen_ns => None,
            (Some(polling), _) => self.classify_named(&polling, reading),
            (None, Some(frozen)) if !frozen.counters.parked() => {
                self.classify_unnamed(&frozen, reading)
            }
            _ => None,
        }
    }

    fn classify_named(&self, polling: &Polling, reading: &Reading) -> Option<Found> {
        let age_ns = reading.now_ns.saturating_sub(polling.counts_from_ns);
        let waited_ns = self.waited_ns(polling.cpu, reading);
        let kind = if age_ns.saturating_sub(waited_ns) >= self.threshold_ns {
            StallKind::Stall
        } else if age_ns >= self.threshold_ns && waited_ns >= age_ns / 2 {
            StallKind::Starved
        } else {
            return None;
        };
        Some(Found::new(kind, Some(polling.start_ns), polling.start_ns))
    }

    fn classify_unnamed(&self, frozen: &Frozen, reading: &Reading) -> Option<Found> {
        let age_ns = reading.now_ns.saturating_sub(frozen.since.ns);
        if age_ns < self.threshold_ns {
            return None;
        }
        let still_ns = self.still_ns(frozen.since.ns, reading);
        let kind = if self.waited_ns(frozen.since.cpu, reading) >= age_ns / 2 {
            StallKind::Starved
        } else if reading.runnable == Some(false) && still_ns >= self.threshold_ns {
            StallKind::Stall
        } else {
            StallKind::LongBusyWindow
        };
        Some(Found::new(kind, None, frozen.since.ns))
    }

    /// For how long the kernel's account has stood still, since `from_ns` at the earliest; 0 where there is none.
    fn still_ns(&self, from_ns: u64, reading: &Reading) -> u64 {
        self.still
            .filter(|still| still.cpu.is_some())
            .map_or(0, |still| {
                reading.now_ns.saturating_sub(still.ns.max(from_ns))
            })
    }

    /// How long the thread has waited for a CPU since `from`. A wait that goes on is not in the kernel's account yet: a
    /// runnable thread whose account stands still is in one.
    fn waited_ns(&self, from: Option<CpuTimes>, reading: &Reading) -> u64 {
        let (Some(from), Some(cpu)) = (from, reading.cpu) else {
            return 0;
        };
        let going_on = self
            .waiting_from_ns
            .map_or(0, |from_ns| reading.now_ns.saturating_sub(from_ns));
        cpu.run_queue_ns.saturating_sub(from.run_queue_ns) + going_on
    }
}

impl Found {
    fn new(kind: StallKind, poll_start_ns: Option<u64>, began_ns: u64) -> Self {
        Self {
            kind,
            poll_start_ns,
            began_ns,
            length_ns: 0,
            run_queue_ns: None,
            on_cpu_ns: None,
        }
    }
}

impl Ongoing {
    fn found_at(&self, reading: &Reading) -> Found {
        let mut found = self.found;
        found.length_ns = reading.now_ns.saturating_sub(found.began_ns);
        if let (Some(from), Some(to)) = (self.cpu, reading.cpu) {
            found.run_queue_ns = Some(to.run_queue_ns.saturating_sub(from.run_queue_ns));
            found.on_cpu_ns = Some(to.on_cpu_ns.saturating_sub(from.on_cpu_ns));
        }
        found
    }
}

/// The length of a poll that was seen going on at `last_ns` and is seen ended now: what the poll itself left behind,
/// where that lies between the two, else their middle.
fn named_length(start_ns: u64, last_ns: u64, reading: &Reading) -> u64 {
    let shortest = last_ns.saturating_sub(start_ns);
    let longest = reading.now_ns.saturating_sub(start_ns);
    reading
        .long_poll_ns
        .filter(|ns| (shortest..=longest).contains(ns))
        .unwrap_or(shortest.midpoint(longest))
}

/// The length of what had no slot: how much busy time tokio has counted since, within what the ticks allow.
fn unnamed_length(ongoing: &Ongoing, reading: &Reading) -> u64 {
    let shortest = ongoing.last_ns.saturating_sub(ongoing.found.began_ns);
    let Some((frozen, counters)) = ongoing.frozen.zip(reading.counters) else {
        return shortest;
    };
    let longest = reading.now_ns.saturating_sub(frozen.after_ns);
    let busy = counters.busy_ns.saturating_sub(frozen.counters.busy_ns);
    busy.clamp(shortest, longest.max(shortest))
}
