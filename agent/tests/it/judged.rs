//! A service of hand-made samples that is judged by handed-in time.

use std::time::Duration;

use ax_agent::{
    CleanSample,
    alert::{Book, Judging, Quiet, RuleSet},
    clock::Now,
    history::ServiceHistory,
};
use ax_wire::{
    alert::Alert,
    rules::{RuleState, SilenceInfo},
    sample::{JobCounters, LaneSample, Sample},
};

use crate::common::{EPOCH_UNIX_NS, MS, SECOND, hello, lag_point, lane, sample};

/// What a second of a test changes in a healthy sample.
pub type Change = Box<dyn FnMut(u64, &mut Sample)>;

/// A service that is judged once a second.
pub struct Judged {
    pub history: ServiceHistory,
    pub book: Book,
    pub rules: RuleSet,
    pub asked: Vec<SilenceInfo>,
    pub second: u64,
    /// What rules were to act on so far.
    pub due: Vec<Alert>,
}

impl Judged {
    pub fn new() -> Self {
        Self {
            history: ServiceHistory::new(hello("checkout"), 1_000, now(0)),
            book: Book::default(),
            rules: RuleSet::default(),
            asked: Vec::new(),
            second: 0,
            due: Vec::new(),
        }
    }

    /// A second with a sample. Returns what began and what ended.
    pub fn second(&mut self, change: impl FnOnce(u64, &mut Sample)) -> Vec<Alert> {
        self.second += 1;
        let mut sample = sample(self.second);
        change(self.second, &mut sample);
        let now = now(self.second);
        let taken = self.history.sample(CleanSample::from(sample), now);
        taken.expect("is newer");
        self.judge(now, Quiet::No)
    }

    pub fn seconds(&mut self, count: u64, mut change: impl FnMut(u64, &mut Sample)) -> Vec<Alert> {
        (0..count).flat_map(|_| self.second(&mut change)).collect()
    }

    pub fn judge(&mut self, now: Now, quiet: Quiet) -> Vec<Alert> {
        let judging = Judging {
            rules: &self.rules,
            asked: &self.asked,
            quiet,
            now,
        };
        let changes = self.book.judge(judging, self.history.window());
        self.due.extend(changes.due);
        changes.alerts
    }

    /// What the rule of this name says, and why.
    pub fn explained(&self, rule: &str, quiet: Quiet) -> RuleState {
        let judging = Judging {
            rules: &self.rules,
            asked: &self.asked,
            quiet,
            now: now(self.second),
        };
        let left = Duration::from_secs(7);
        let states = self.book.explain(judging, self.history.window(), left);
        let mut of_rule = states.into_iter().filter(|state| state.rule == rule);
        let state = of_rule.next().expect("is explained");
        assert_eq!(of_rule.next(), None, "one subject");
        state
    }

    /// A second in which no sample comes.
    pub fn silence(&mut self) -> Vec<Alert> {
        self.second += 1;
        self.judge(now(self.second), Quiet::No)
    }
}

pub fn now(second: u64) -> Now {
    Now {
        mono_ns: second * SECOND,
        unix_ns: EPOCH_UNIX_NS + second * SECOND,
    }
}

pub fn late(ms: u64) -> impl FnMut(u64, &mut Sample) {
    move |second, sample| {
        sample.lag = (0..10)
            .map(|i| lag_point(second * SECOND - (9 - i) * 100 * MS, ms * MS))
            .collect();
    }
}

pub fn with_lane(change: impl Fn(u64, &mut LaneSample)) -> impl FnMut(u64, &mut Sample) {
    move |second, sample| {
        let mut own = lane("work", JobCounters::default());
        change(second, &mut own);
        sample.lanes = vec![own];
    }
}

pub fn healthy(_: u64, _: &mut Sample) {}

pub fn named<'a>(alerts: &'a [Alert], rule: &str) -> Vec<&'a Alert> {
    alerts.iter().filter(|alert| alert.rule == rule).collect()
}
