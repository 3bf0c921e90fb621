//! What the probe's two threads and its handles share.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::atomic::{AtomicU32, AtomicU64},
    time::Duration,
};

use ax_wire::{event::Event, sample::LagPoint};
use parking_lot::{Condvar, Mutex};

/// Most lag points that wait to be sent, at 64 bytes each: 100 s of one runtime. Beyond that the oldest is dropped and
/// counted.
pub const LAG_POINTS: usize = 1024;

/// Most events that wait to be sent, at some 500 bytes each. Beyond that the oldest is dropped and counted.
pub const EVENTS: usize = 1024;

/// What was set when the probe was installed.
pub(crate) struct Settings {
    pub(crate) service: String,
    pub(crate) service_version: Option<String>,
    pub(crate) stall_threshold_ns: u64,
    pub(crate) snapshot_threshold_ns: u64,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) schedule_probe: bool,
    /// `None`: where it is sure that the runtime has a timer.
    pub(crate) timer_probe: Option<bool>,
    pub(crate) blocking_probe: bool,
}

/// One installed probe.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) outbox: Mutex<Outbox>,
    pub(crate) stop: Stop,
    pub(crate) watchdog_tid: AtomicU32,
    pub(crate) publisher_tid: AtomicU32,
    /// Threads of ours that ended by a panic.
    pub(crate) panics: AtomicU64,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            outbox: Mutex::default(),
            stop: Stop::default(),
            watchdog_tid: AtomicU32::new(0),
            publisher_tid: AtomicU32::new(0),
            panics: AtomicU64::new(0),
        }
    }
}

/// What the watchdog has seen and the publisher has not sent yet. Locked by these two only, for a push or a take.
#[derive(Default)]
pub(crate) struct Outbox {
    events: VecDeque<Event>,
    lag: VecDeque<LagPoint>,
    pub(crate) dropped_events: u64,
    pub(crate) dropped_lag_points: u64,
}

impl Outbox {
    pub(crate) fn push_event(&mut self, event: Event) {
        self.dropped_events += push_bounded(&mut self.events, event, EVENTS);
    }

    pub(crate) fn push_lag(&mut self, point: LagPoint) {
        self.dropped_lag_points += push_bounded(&mut self.lag, point, LAG_POINTS);
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    pub(crate) fn take_lag(&mut self) -> Vec<LagPoint> {
        self.lag.drain(..).collect()
    }

    /// Puts back what was taken and could not be sent, before what came meanwhile.
    pub(crate) fn put_back(&mut self, events: Vec<Event>, lag: Vec<LagPoint>) {
        for event in events.into_iter().rev() {
            self.events.push_front(event);
        }
        for point in lag.into_iter().rev() {
            self.lag.push_front(point);
        }
        self.dropped_events += drop_oldest(&mut self.events, EVENTS);
        self.dropped_lag_points += drop_oldest(&mut self.lag, LAG_POINTS);
    }
}

/// Returns how many of the oldest had to go.
fn push_bounded<T>(queue: &mut VecDeque<T>, value: T, most: usize) -> u64 {
    let dropped = drop_oldest(queue, most - 1);
    queue.push_back(value);
    dropped
}

fn drop_oldest<T>(queue: &mut VecDeque<T>, most: usize) -> u64 {
    let excess = queue.len().saturating_sub(most);
    queue.drain(..excess);
    excess as u64
}

/// Ends the probe's threads, and is what they sleep on.
#[derive(Default)]
pub(crate) struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Sleeps; returns at once, and `true`, when the probe is to end.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        self.changed
            .wait_while_for(&mut stopped, |stopped| !*stopped, timeout);
        *stopped
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::RuntimeId;

    use super::*;

    fn point(at_mono_ns: u64) -> LagPoint {
        LagPoint {
            runtime: RuntimeId(1),
            at_mono_ns,
            schedule_ns: None,
            timer_ns: None,
            stall_ns: None,
        }
    }

    fn times(outbox: &mut Outbox) -> Vec<u64> {
        let points = outbox.take_lag();
        points.iter().map(|point| point.at_mono_ns).collect()
    }

    #[test]
    fn the_oldest_is_dropped_and_counted() {
        let mut outbox = Outbox::default();
        for at in 0..LAG_POINTS as u64 + 3 {
            outbox.push_lag(point(at));
        }
        let kept = times(&mut outbox);
        assert_eq!((kept.len(), kept[0]), (LAG_POINTS, 3));
        assert_eq!(outbox.dropped_lag_points, 3);
    }

    #[test]
    fn what_is_put_back_comes_first_and_counts_towards_the_bound() {
        let mut outbox = Outbox::default();
        outbox.push_lag(point(1));
        let taken = outbox.take_lag();
        outbox.push_lag(point(2));
        outbox.put_back(Vec::new(), taken);
        assert_eq!(times(&mut outbox), [1, 2]);
        let many = (0..LAG_POINTS as u64).map(point).collect();
        outbox.push_lag(point(9_999));
        outbox.put_back(Vec::new(), many);
        assert_eq!(outbox.dropped_lag_points, 1);
        assert_eq!(times(&mut outbox).last(), Some(&9_999));
    }
}
