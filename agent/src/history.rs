//! What is kept of one service: 15 minutes, a point a second, in bounded memory.
//!
//! | what | how much | at most |
//! | --- | --- | --- |
//! | seconds: charts, four quantiles and a count of each lane and type | 900 to 1,024 | 9 MiB (129 types, 64 lanes) |
//! | histograms of the last minute | 7 slots, three a type | 11 MiB (each slot full), 1 MiB for 50 real types |
//! | lag points of the last minute | 8,192 | 0.5 MiB |
//! | histograms of downstreams | two each, like those of types | 4 MiB (65 of them, each slot full), 0.1 MiB for five real ones |
//! | histograms of the 14 minutes before | 5 slots, three a type | 8 MiB (each slot full), 0.5 MiB for 50 real types |
//! | traces of jobs worth a look | 300 | 3 MiB |
//! | stalls, observer gaps | 64 each | 30 KiB |
//! | charts that another agent, or the service itself, kept before | 1,024 seconds | 0.3 MiB (4 workers) |
//! | what a second of each minute was like, for 25 hours | 1,500 minutes | 0.1 MiB |
//!
//! Everything is fed with frames and a [`Now`] and asks no clock, so that a replay and a test feed it the same way.

mod buckets;
mod change;
mod compared;
mod day;
mod downstreams;
mod host;
mod kept;
mod recent;
mod roster;
mod second;
mod stalls;
mod take;
mod trend;

use std::{collections::VecDeque, time::Duration};

use ax_wire::{
    event::{Event, Events, ObserverGap},
    hello::{ClockAnchor, Hello},
    sample::{LagPoint, LaneSample, Sample, TypeSample},
    view::{Point, ServiceState, ServiceSummary},
};

pub use self::{
    buckets::{Brief, Bucket, SparseHistogram, Tally},
    change::Change,
    host::HostSecond,
    second::{Counts, DownstreamSecond, LaneSecond, Second, TypeSecond},
};
pub(crate) use self::{
    day::{Day, Typical},
    downstreams::Downstreams,
    kept::{Kept, merge},
    recent::Recent,
    roster::{Entry, Roster},
    stalls::{Stalls, TrackedStall},
    trend::Trend,
};
use crate::{
    clock::Now,
    config::{MAX_LANES, MAX_TYPES},
    ingest::CleanSample,
    window::Window,
};

/// The span that view figures cover: a minute.
pub const WINDOW_NS: u64 = 60_000_000_000;

/// For how long seconds are kept.
pub const HISTORY_NS: u64 = 15 * WINDOW_NS;

/// A connected service that sends no sample for so long is silent.
pub const SILENT_AFTER_NS: u64 = 3_000_000_000;

/// Seconds kept at most; more than 900, because a service may send its samples a little faster.
const MAX_SECONDS: usize = 1_024;

const MAX_LAG_POINTS_KEPT: usize = 8_192;

const MAX_GAPS: usize = 64;

/// A sample that is not newer than the one before it: nothing can be said of the time between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sample is not newer than the one before it")]
pub struct NotNewer;

/// Whether the service is connected, and how it went if not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Connected,
    Ended,
    Lost,
}

/// What is known of one lane beside its seconds.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) latest: LaneSample,
    /// Since when each sample has found all slots taken.
    pub(crate) full_since_mono_ns: Option<u64>,
}

/// What is known of one type beside its seconds.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) latest: TypeSample,
    pub(crate) queue_wait: Recent,
    pub(crate) run: Recent,
    pub(crate) poll: Recent,
    pub(crate) schedule_delay: Recent,
    /// The 99th percentile of run time.
    pub(crate) run_p99: Trend,
}

/// What the kernel tells the agent of a process that does not speak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    /// Scheduling state letter of its main thread: `T` where it is stopped; `R` where another thread could run while it
    /// sleeps.
    pub state: char,
    /// CPUs that it used since the last look; `None` at the first one.
    pub cpus_used: Option<f64>,
}

impl Outside {
    /// CPUs that a process which does not run cannot use.
    const RUNS: f64 = 0.02;

    /// Whether it runs, if only a little, or would if it got a CPU.
    pub(crate) fn runs(self) -> bool {
        self.state == 'R' || self.cpus_used.is_some_and(|cpus| cpus > Self::RUNS)
    }
}

/// One start of one service, connected or gone.
#[derive(Debug)]
pub struct ServiceHistory {
    pub(crate) hello: Hello,
    pub(crate) uid: u32,
    pub(crate) clock: ClockAnchor,
    link: Link,
    /// The next instance of the service is there.
    succeeded: bool,
    last_seen: Now,
    /// When the last sample came, or the connection if none has come on it yet.
    heard_mono_ns: u64,
    pub(crate) seconds: VecDeque<Second>,
    pub(crate) lag: VecDeque<LagPoint>,
    pub(crate) lanes: Roster<Lane>,
    pub(crate) types: Roster<Type>,
    pub(crate) downstreams: Downstreams,
    /// The newest sample and the one before it, without lanes, types and lag, which are kept elsewhere.
    pub(crate) latest: Option<Sample>,
    pub(crate) before: Option<Sample>,
    pub(crate) stalls: Stalls,
    pub(crate) gaps: VecDeque<ObserverGap>,
    outside: Option<Outside>,
    pub(crate) kept: Kept,
    /// See [`Self::recall`].
    pub(crate) earlier: Vec<Point>,
    pub(crate) day: Day,
    tally: Tally,
}

impl ServiceHistory {
    /// A service that has just connected, as user `uid`.
    #[must_use]
    pub fn new(hello: Hello, uid: u32, now: Now) -> Self {
        Self {
            clock: hello.clock,
            hello,
            uid,
            link: Link::Connected,
            succeeded: false,
            last_seen: now,
            heard_mono_ns: now.mono_ns,
            seconds: VecDeque::new(),
            lag: VecDeque::new(),
            lanes: Roster::new(MAX_LANES),
            types: Roster::new(MAX_TYPES),
            downstreams: Downstreams::default(),
            latest: None,
            before: None,
            stalls: Stalls::default(),
            gaps: VecDeque::new(),
            outside: None,
            kept: Kept::default(),
            earlier: Vec::new(),
            day: Day::default(),
            tally: Tally::default(),
        }
    }

    /// The same instance connects again, or says hello again; its history goes on.
    pub fn hello_again(&mut self, hello: Hello, now: Now) {
        self.clock = hello.clock;
        self.hello = hello;
        self.link = Link::Connected;
        self.last_seen = now;
        self.heard_mono_ns = now.mono_ns;
    }

    /// Takes charts that another agent or the service itself kept of this instance, oldest first: viewers get them before
    /// our own seconds. They take the place of what was taken before of the same time.
    pub fn recall(&mut self, mut points: Vec<Point>) {
        if let Some(first) = points.first().map(|point| point.at_unix_ns) {
            self.earlier.retain(|point| point.at_unix_ns < first);
        }
        self.earlier.append(&mut points);
        let excess = self.earlier.len().saturating_sub(MAX_SECONDS);
        self.earlier.drain(..excess);
    }

    /// Takes a sample. Returns how many lanes and types found no place.
    ///
    /// # Errors
    ///
    /// [`NotNewer`], with nothing changed.
    pub fn sample(&mut self, clean: CleanSample, now: Now) -> Result<u64, NotNewer> {
        let CleanSample {
            mut sample,
            histograms,
            downstreams,
            mut folded,
        } = clean;
        let at = sample.at_mono_ns;
        if self
            .latest
            .as_ref()
            .is_some_and(|latest| latest.at_mono_ns >= at)
        {
            return Err(NotNewer);
        }
        self.last_seen = now;
        self.heard_mono_ns = now.mono_ns;
        if let Some(clock) = sample.clock {
            self.clock = clock;
        }
        let (lanes, types) = (
            std::mem::take(&mut sample.lanes),
            std::mem::take(&mut sample.types),
        );
        let lag = std::mem::take(&mut sample.lag);
        self.before = self.latest.take();
        let change = Change::new(self.before.as_ref(), self.latest.insert(sample));
        let number = self.seconds.back().map_or(1, |last| last.number + 1);
        let mut second = Second::begin(number, change, &lag, self.clock);
        self.take_lanes(lanes, &types, &histograms, &mut second, &mut folded);
        self.take_types(types, histograms, &mut second, &mut folded);
        if let Some(latest) = &self.latest {
            let (when, samples) = ((at, number), &latest.downstreams);
            let before = self.before.as_ref().map(|before| &*before.downstreams);
            folded += self.downstreams.take(
                when,
                (before, samples),
                downstreams,
                &mut second.downstreams,
                &mut self.tally,
            );
        }
        second.shrink();
        self.day.take(&self.seconds, &second);
        self.seconds.push_back(second);
        self.lag.extend(lag);
        if let Some(latest) = &self.latest {
            self.stalls.settle(latest);
        }
        self.forget(at);
        Ok(folded)
    }

    /// Takes a batch of events.
    pub fn events(&mut self, events: Events, now: Now) {
        self.last_seen = now;
        for event in events.events {
            match event {
                Event::StallBegan(stall) => self.stalls.began(stall),
                Event::StallEnded(stall) => self.stalls.ended(stall),
                Event::ObserverNotScheduled(gap) => {
                    self.gaps.push_back(gap);
                    if self.gaps.len() > MAX_GAPS {
                        self.gaps.pop_front();
                    }
                }
                Event::Stack(stack) => self.stalls.saw_stack(&stack),
                Event::Unknown => {}
                Event::Exemplar(exemplar) => self.kept.keep(*exemplar),
            }
        }
    }

    /// What the kernel tells the agent of the process while it does not speak; `None`: nothing, or it speaks.
    pub fn seen_from_outside(&mut self, outside: Option<Outside>) {
        self.outside = outside;
    }

    /// See [`Self::seen_from_outside`].
    pub(crate) fn outside(&self) -> Option<Outside> {
        self.outside
    }

    /// The service ends on purpose.
    pub fn goodbye(&mut self, now: Now) {
        self.last_seen = now;
        self.link = Link::Ended;
    }

    /// The connection is gone. Without a goodbye, the service is lost.
    pub fn disconnected(&mut self) {
        if self.link == Link::Connected {
            self.link = Link::Lost;
        }
    }

    /// Whether it speaks.
    #[must_use]
    pub fn state(&self, now: Now) -> ServiceState {
        match self.link {
            Link::Connected
                if now.mono_ns.saturating_sub(self.heard_mono_ns) >= SILENT_AFTER_NS =>
            {
                ServiceState::Silent
            }
            Link::Connected => ServiceState::Live,
            Link::Ended => ServiceState::Ended,
            Link::Lost => ServiceState::Lost,
        }
    }

    /// When the last frame of a service that is gone came, by the agent's monotonic clock; `None` while connected.
    #[must_use]
    pub fn gone_since_mono_ns(&self) -> Option<u64> {
        (self.link != Link::Connected).then_some(self.last_seen.mono_ns)
    }

    /// Whether its figures are those of now.
    pub(crate) fn speaks(&self, now: Now) -> bool {
        self.state(now) == ServiceState::Live
    }

    /// Nobody listened for so long until now: its silence is shorter by that.
    pub(crate) fn was_not_heard(&mut self, span: Duration, now: Now) {
        let heard_mono_ns = self.heard_mono_ns.saturating_add(span.as_nanos() as u64);
        self.heard_mono_ns = heard_mono_ns.min(now.mono_ns);
    }

    /// For how long it has been connected without sending a sample.
    pub(crate) fn silent_ns(&self, now: Now) -> Option<u64> {
        let silent_ns = now.mono_ns.saturating_sub(self.heard_mono_ns);
        (self.link == Link::Connected).then_some(silent_ns)
    }

    /// The next instance of the service has come, so that nobody need look for this one. The day that it was part of goes
    /// on with that.
    pub(crate) fn succeeded(&mut self) -> Day {
        self.succeeded = true;
        std::mem::take(&mut self.day)
    }

    /// For how long it has been gone without a goodbye, and without another instance in its place.
    pub(crate) fn lost_ns(&self, now: Now) -> Option<u64> {
        let gone_ns = now.mono_ns.saturating_sub(self.last_seen.mono_ns);
        (self.link == Link::Lost && !self.succeeded).then_some(gone_ns.max(1))
    }

    /// One line about it.
    #[must_use]
    pub fn summary(&self, now: Now) -> ServiceSummary {
        ServiceSummary {
            instance: self.hello.instance,
            service: self.hello.service.clone(),
            pid: self.hello.pid,
            uid: self.uid,
            state: self.state(now),
            process_start_unix_ns: self.hello.process_start_unix_ns,
            last_seen_unix_ns: self.last_seen.unix_ns,
        }
    }

    /// The seconds kept, oldest first.
    #[must_use]
    pub fn seconds(&self) -> impl DoubleEndedIterator<Item = &Second> {
        self.seconds.iter()
    }

    /// The user that the service runs as.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// What rules and views read.
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        Window::new(self)
    }

    /// The latest sample against the one before it; `None` until the first has come.
    pub(crate) fn change(&self) -> Option<Change<'_>> {
        Some(Change::new(self.before.as_ref(), self.latest.as_ref()?))
    }

    /// What it takes in memory, within some tens of percent: seconds and histograms, which are nearly all of it.
    pub(crate) fn approximate_bytes(&self) -> usize {
        let seconds: usize = self.seconds.iter().map(Second::bytes).sum();
        let types = self.types.entries().iter().map(|entry| &entry.value);
        let recent = types.flat_map(|known| {
            [
                &known.queue_wait,
                &known.run,
                &known.poll,
                &known.schedule_delay,
            ]
        });
        let recent: usize = recent.map(Recent::bytes).sum();
        let traces = self.kept.bytes();
        seconds
            + recent
            + self.downstreams.bytes()
            + traces
            + self.day.bytes()
            + self.lag.len() * size_of::<LagPoint>()
    }

    /// Forgets the older half of the seconds and of the day, and histograms that are not of the last ten seconds. Returns
    /// how many seconds that were.
    pub(crate) fn forget_half(&mut self) -> u64 {
        let half = self.seconds.len().div_ceil(2);
        self.seconds.drain(..half);
        self.seconds.shrink_to_fit();
        for known in self.types.values_mut() {
            known.queue_wait.forget_slots();
            known.run.forget_slots();
            known.poll.forget_slots();
            known.schedule_delay.forget_slots();
        }
        self.downstreams.forget_slots();
        self.kept.forget_half();
        self.day.forget_half();
        half as u64
    }

    /// Drops what is older than its span, as of the newest sample.
    fn forget(&mut self, at_mono_ns: u64) {
        let oldest = at_mono_ns.saturating_sub(HISTORY_NS);
        while self.seconds.len() > MAX_SECONDS
            || self
                .seconds
                .front()
                .is_some_and(|second| second.at_mono_ns < oldest)
        {
            self.seconds.pop_front();
        }
        let oldest = at_mono_ns.saturating_sub(WINDOW_NS);
        while self.lag.len() > MAX_LAG_POINTS_KEPT
            || self
                .lag
                .front()
                .is_some_and(|point| point.at_mono_ns < oldest)
        {
            self.lag.pop_front();
        }
        for known in self.types.values_mut() {
            known.queue_wait.forget_before(oldest, &mut self.tally);
            known.run.forget_before(oldest, &mut self.tally);
            known.poll.forget_before(oldest, &mut self.tally);
            known.schedule_delay.forget_before(oldest, &mut self.tally);
        }
        self.downstreams.forget_before(oldest, &mut self.tally);
    }
}

fn narrow(count: u64) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}

/// The rate of `count` in `interval_ns`, which is not zero.
pub(crate) fn per_second(count: u64, interval_ns: u64) -> f64 {
    count as f64 * 1e9 / interval_ns as f64
}

/// A quantile of values in order; `None` when there are none.
pub(crate) fn quantile(sorted: &[u64], quantile: f64) -> Option<u64> {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The median; of an even number of values the higher of the two in the middle. `None` of none.
pub(crate) fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
