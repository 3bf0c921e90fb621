//! A line in the log for each lane at least every five minutes, so that a silent log means a silent process.
//!
//! One thread for all schedulers of the process: it speaks although every worker is busy, and keeps real time while a
//! test has paused tokio's.

use std::{
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use ax_wire::sample::LaneSample;
use parking_lot::{Condvar, Mutex};

use crate::scheduler::Inner;

/// How often each lane is summed up in the log, unless set; also the longest that can be set.
pub const DEFAULT_SUMMARY_INTERVAL: Duration = Duration::from_mins(5);

struct Entry {
    scheduler: Weak<Inner>,
    interval: Duration,
    due: Instant,
}

#[derive(Default)]
struct Summaries {
    entries: Vec<Entry>,
    /// A thread is there; it ends when no scheduler is left.
    speaking: bool,
}

static SUMMARIES: Mutex<Summaries> = Mutex::new(Summaries {
    entries: Vec::new(),
    speaking: false,
});
static CHANGED: Condvar = Condvar::new();

/// Sums up this scheduler from now on, until it is gone.
pub(crate) fn add(scheduler: &Arc<Inner>, interval: Duration) {
    let interval = interval.clamp(Duration::from_millis(1), DEFAULT_SUMMARY_INTERVAL);
    let mut summaries = SUMMARIES.lock();
    summaries
        .entries
        .retain(|entry| entry.scheduler.strong_count() > 0);
    summaries.entries.push(Entry {
        scheduler: Arc::downgrade(scheduler),
        interval,
        due: Instant::now() + interval,
    });
    if summaries.speaking {
        CHANGED.notify_one();
        return;
    }
    // Without the thread there are no summaries; the service goes on.
    let spawned = thread::Builder::new()
        .name("ax-summary".into())
        .spawn(speak);
    summaries.speaking = spawned.is_ok();
}

fn speak() {
    loop {
        let due = {
            let mut summaries = SUMMARIES.lock();
            summaries
                .entries
                .retain(|entry| entry.scheduler.strong_count() > 0);
            let Some(next) = summaries.entries.iter().map(|entry| entry.due).min() else {
                summaries.speaking = false;
                return;
            };
            CHANGED.wait_until(&mut summaries, next);
            take_due(&mut summaries, Instant::now())
        };
        for scheduler in due.iter().filter_map(Weak::upgrade) {
            for lane in scheduler.counts() {
                log(&lane);
            }
        }
    }
}

fn take_due(summaries: &mut Summaries, now: Instant) -> Vec<Weak<Inner>> {
    let due = summaries
        .entries
        .iter_mut()
        .filter(|entry| entry.due <= now);
    let due = due.map(|entry| {
        entry.due = now + entry.interval;
        Weak::clone(&entry.scheduler)
    });
    due.collect()
}

fn log(lane: &LaneSample) {
    let counters = &lane.counters;
    tracing::info!(
        target: "ax::summary",
        lane = lane.name,
        running = lane.running,
        limit = lane.limit,
        pending = lane.pending,
        waiting = lane.waiting,
        submitted = counters.submitted_total,
        rejected = counters.rejected_total,
        succeeded = counters.succeeded_total,
        failed = counters.failed_total,
        panicked = counters.panicked_total,
        timed_out = counters.timed_out_total,
        cancelled = counters.cancelled_total,
        retried = lane.retried_total,
        zombies = lane.zombies_total,
        "lane summary"
    );
}
