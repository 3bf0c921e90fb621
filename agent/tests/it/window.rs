//! The figures of a view, from hand-made samples: no socket, no clock, no sleeping.

use ax_agent::{
    CleanSample,
    clock::Now,
    history::ServiceHistory,
    view::{Extras, view},
    window::Tallies,
};
use ax_wire::{sample::Sample, view::ServiceView};

use crate::common::{EPOCH_UNIX_NS, MS, SECOND, done, hello, job_type, lane, sample};

mod charts;
mod figures;
mod hostile;
mod life;
mod places;
mod stalls;

pub fn at(seconds: u64) -> Now {
    Now {
        mono_ns: seconds * SECOND,
        unix_ns: EPOCH_UNIX_NS + seconds * SECOND,
    }
}

pub fn history() -> ServiceHistory {
    ServiceHistory::new(hello("checkout"), 1_000, at(0))
}

pub fn feed(history: &mut ServiceHistory, sample: Sample) {
    let now = Now {
        mono_ns: sample.at_mono_ns,
        unix_ns: EPOCH_UNIX_NS.saturating_add(sample.at_mono_ns),
    };
    history
        .sample(CleanSample::from(sample), now)
        .expect("is newer");
}

pub fn seen(history: &ServiceHistory, seconds: u64) -> ServiceView {
    view(
        history.window(),
        at(seconds),
        Extras::default(),
        &mut Tallies::default(),
    )
}

/// A lane that gets `per_second` jobs of one type, each of `ms` milliseconds.
pub fn busy(seconds: u64, per_second: u64, ms: u64) -> Sample {
    let runs = vec![ms * MS; per_second as usize];
    let counters = done(seconds * per_second);
    Sample {
        lanes: vec![lane("api", counters)],
        types: vec![job_type("render", "api", counters, &runs)],
        ..sample(seconds)
    }
}

pub fn assert_close(actual: Option<f64>, expected: f64) {
    let actual = actual.expect("known");
    assert!(
        (actual - expected).abs() < 1e-6,
        "{actual} is not {expected}"
    );
}
