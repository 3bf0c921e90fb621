//! What the probe's two threads and its handles share.

use std::{
    collections::VecDeque,
    mem,
    path::PathBuf,
    sync::atomic::{AtomicU32, AtomicU64},
    time::Duration,
};

use ax_wire::{event::Event, sample::LagPoint};
use parking_lot::{Condvar, Mutex};

use crate::incident::{Incidents, Limits};

/// Most lag points that wait to be sent, at 64 bytes each: 100 s of one runtime. Beyond that the oldest is dropped, and
/// counted while an agent is connected: without one it is history that has aged out, of which nobody was promised more.
pub const LAG_POINTS: usize = 1024;

/// Most events that wait to be sent, at some 500 bytes each. Beyond that the oldest is dropped, and counted as
/// [`LAG_POINTS`] says.
pub const EVENTS: usize = 1024;

/// Most lag figures of the second that goes on: 25 runtimes. More are left out of that second's point.
const LAG_OF_SECOND: usize = 256;

/// What was set when the probe was installed.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one switch of the builder, independent of the others"
)]
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
    pub(crate) stacks: bool,
    pub(crate) allow_control: bool,
    pub(crate) limits: Limits,
    pub(crate) recorder_bytes: usize,
    /// `None`: the default folder.
    pub(crate) snapshot_folder: Option<PathBuf>,
}

/// One installed probe.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) outbox: Mutex<Outbox>,
    pub(crate) incidents: Incidents,
    /// Frames that were lost for good.
    pub(crate) frames_dropped: AtomicU64,
    pub(crate) watchdog: Signal,
    pub(crate) publisher: Signal,
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
            incidents: Incidents::default(),
            frames_dropped: AtomicU64::new(0),
            watchdog: Signal::default(),
            publisher: Signal::default(),
            watchdog_tid: AtomicU32::new(0),
            publisher_tid: AtomicU32::new(0),
            panics: AtomicU64::new(0),
        }
    }

    /// Ends the probe's threads.
    pub(crate) fn stop(&self) {
        self.watchdog.stop();
        self.publisher.stop();
    }
}

/// What the watchdog has seen and the publisher has not sent yet. Locked by these two only, for a push or a take.
#[derive(Default)]
pub(crate) struct Outbox {
    events: VecDeque<Event>,
    lag: VecDeque<LagPoint>,
    /// The lag figures of the second that goes on.
    lag_of_second: Vec<u64>,
    /// Whether an agent takes what is pushed, so that what it misses is lost.
    pub(crate) connected: bool,
    pub(crate) dropped_events: u64,
    pub(crate) dropped_lag_points: u64,
}

impl Outbox {
    pub(crate) fn push_event(&mut self, event: Event) {
        let dropped = push_bounded(&mut self.events, event, EVENTS);
        self.count(dropped, 0);
    }

    pub(crate) fn push_lag(&mut self, point: LagPoint) {
        if let Some(lag_ns) = point.lag_ns()
            && self.lag_of_second.len() < LAG_OF_SECOND
        {
            self.lag_of_second.push(lag_ns);
        }
        let dropped = push_bounded(&mut self.lag, point, LAG_POINTS);
        self.count(0, dropped);
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    pub(crate) fn take_lag(&mut self) -> Vec<LagPoint> {
        self.lag.drain(..).collect()
    }

    /// The lag figures since the last call.
    pub(crate) fn take_lag_of_second(&mut self) -> Vec<u64> {
        mem::take(&mut self.lag_of_second)
    }

    /// Puts back what was taken and could not be sent, before what came meanwhile.
    pub(crate) fn put_back(&mut self, events: Vec<Event>, lag: Vec<LagPoint>) {
        for event in events.into_iter().rev() {
            self.events.push_front(event);
        }
        for point in lag.into_iter().rev() {
            self.lag.push_front(point);
        }
        let events = drop_oldest(&mut self.events, EVENTS);
        let lag = drop_oldest(&mut self.lag, LAG_POINTS);
        self.count(events, lag);
    }

    fn count(&mut self, events: u64, lag: u64) {
        if self.connected {
            self.dropped_events += events;
            self.dropped_lag_points += lag;
        }
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

/// What one of the probe's threads sleeps on.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignalState {
    stopped: bool,
    nudged: bool,
}

impl Signal {
    fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }

    /// There is something to do: the thread wakes, or does not fall asleep the next time.
    pub(crate) fn nudge(&self) {
        self.state.lock().nudged = true;
        self.changed.notify_all();
    }

    /// Sleeps, until nudged at most; returns at once, and `true`, when the thread is to end.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        let sleeps = |state: &mut SignalState| !state.stopped && !state.nudged;
        self.changed.wait_while_for(&mut state, sleeps, timeout);
        state.nudged = false;
        state.stopped
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

    fn connected() -> Outbox {
        Outbox {
            connected: true,
            ..Outbox::default()
        }
    }

    #[test]
    fn what_ages_out_before_an_agent_comes_is_not_lost_data() {
        let mut outbox = Outbox::default();
        for at in 0..LAG_POINTS as u64 + 3 {
            outbox.push_lag(point(at));
        }
        assert_eq!(outbox.dropped_lag_points, 0);
        outbox.connected = true;
        outbox.push_lag(point(9_999));
        assert_eq!(outbox.dropped_lag_points, 1);
    }

    #[test]
    fn a_nudge_wakes_and_is_kept_for_who_is_awake() {
        let signal = Signal::default();
        signal.nudge();
        let long = Duration::from_mins(1);
        assert!(!signal.wait(long));
        assert!(!signal.wait(Duration::ZERO));
        signal.stop();
        assert!(signal.wait(long));
    }

    #[test]
    fn the_oldest_is_dropped_and_counted() {
        let mut outbox = connected();
        for at in 0..LAG_POINTS as u64 + 3 {
            outbox.push_lag(point(at));
        }
        let kept = times(&mut outbox);
        assert_eq!((kept.len(), kept[0]), (LAG_POINTS, 3));
        assert_eq!(outbox.dropped_lag_points, 3);
    }

    #[test]
    fn what_is_put_back_comes_first_and_counts_towards_the_bound() {
        let mut outbox = connected();
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
