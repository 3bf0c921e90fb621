//! What the generator counted when it was last looked at, and what that says of the service while a step runs.

use std::{collections::VecDeque, sync::atomic::Ordering::Relaxed, time::Duration};

use ax_wire::{LatencyHistogram, session::End};
use tokio::time::Instant;

use super::{ends::gone, generator::Generator};

/// How long a service may answer nothing at all while connections fail, before it counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(3);

/// How many of the newest looks latency is taken from.
const LOOKS: usize = super::abort::SAMPLES;

/// See the module.
pub struct Outside {
    latency: VecDeque<LatencyHistogram>,
    answers: u64,
    errors: u64,
    connect_errors: u64,
    pub in_flight: u64,
    /// Since when there have been no answers while connections failed.
    silent_since: Option<Instant>,
}

impl Outside {
    pub fn new(generator: Option<&Generator>) -> Self {
        let mut outside = Self {
            latency: VecDeque::new(),
            answers: 0,
            errors: 0,
            connect_errors: 0,
            in_flight: 0,
            silent_since: None,
        };
        outside.look(generator);
        outside.silent_since = None;
        outside.latency.clear();
        outside
    }

    /// Answers and errors since the last look.
    pub fn look(&mut self, generator: Option<&Generator>) -> (u64, u64) {
        let Some(generator) = generator else {
            return (0, 0);
        };
        let live = generator.live();
        let (answers, errors) = (live.answers.load(Relaxed), live.errors.load(Relaxed));
        let connect_errors = live.connect_errors.load(Relaxed);
        self.latency.push_front(live.take_latency());
        self.latency.truncate(LOOKS);
        let since = (answers - self.answers, errors - self.errors);
        if since.0 == 0 && connect_errors > self.connect_errors {
            self.silent_since.get_or_insert_with(Instant::now);
        } else {
            self.silent_since = None;
        }
        (self.answers, self.errors, self.connect_errors) = (answers, errors, connect_errors);
        self.in_flight = live.in_flight.load(Relaxed);
        since
    }

    /// Latency of what ended in the last moments. `None`: there is no generator of ours.
    pub fn latency(&self) -> Option<LatencyHistogram> {
        let (first, rest) = self.latency.as_slices();
        let mut all = first.first()?.clone();
        first[1..]
            .iter()
            .chain(rest)
            .for_each(|part| all.merge(part));
        Some(all)
    }

    pub fn gone(&self, generator: Option<&Generator>) -> Option<End> {
        generator?;
        let silent = self.silent_since?.elapsed() >= GONE_AFTER;
        silent.then(gone)
    }
}
