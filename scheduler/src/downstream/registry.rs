//! The downstreams of the process, by name, and what the probe is told of them.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use ax_probe::{clock::duration_ns, histogram::AtomicHistogram, source, task_type::OTHER};
use ax_wire::{
    LatencyHistogram,
    control::{MAX_INJECTED_DELAY, MAX_INJECTION},
    sample::{DownstreamSample, PoolSample},
};
use parking_lot::{Mutex, RwLock};

use super::calls::Calls;
use crate::{guard, time};

/// Most downstreams that are told apart, at about 30 KiB each.
pub const MAX_DOWNSTREAMS: usize = 64;

type Gauge = Arc<dyn Fn() -> Option<PoolSample> + Send + Sync>;

/// One downstream. Never dropped: whoever holds one needs no count of references.
pub(super) struct State {
    pub(super) name: Box<str>,
    pub(super) calls: Mutex<Calls>,
    pub(super) waiting: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) latency: AtomicHistogram,
    pub(super) wait: AtomicHistogram,
    pub(super) injection_allowed: AtomicBool,
    /// Zero for none. Written after `delay_ends_ns`.
    pub(super) delay_ns: AtomicU64,
    /// When the delay ends by itself; `u64::MAX` for never.
    delay_ends_ns: AtomicU64,
    pool: Mutex<Option<Gauge>>,
}

impl State {
    fn new(name: &str) -> Self {
        Self {
            name: Box::from(name),
            calls: Mutex::default(),
            waiting: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            latency: AtomicHistogram::new(),
            wait: AtomicHistogram::new(),
            injection_allowed: AtomicBool::new(false),
            delay_ns: AtomicU64::new(0),
            delay_ends_ns: AtomicU64::new(u64::MAX),
            pool: Mutex::new(None),
        }
    }

    /// What each call that begins now takes longer: 0 for nothing, which costs one load to see.
    pub(super) fn injected_delay_ns(&self) -> u64 {
        match self.delay_ns.load(Acquire) {
            0 => 0,
            _ if time::now_ns() >= self.delay_ends_ns.load(Relaxed) => 0,
            delay_ns => delay_ns,
        }
    }

    /// `None` for a delay that does not end by itself.
    pub(super) fn set_delay(&self, delay: Duration, lasting: Option<Duration>) {
        let ends_ns = lasting.map_or(u64::MAX, |lasting| {
            time::now_ns().saturating_add(duration_ns(lasting))
        });
        self.delay_ends_ns.store(ends_ns, Relaxed);
        self.delay_ns.store(duration_ns(delay), Release);
    }

    pub(super) fn show_pool(&self, gauge: Gauge) {
        // The one before is the user's, so it is dropped outside the lock.
        let before = self.pool.lock().replace(gauge);
        drop(before);
    }

    /// Everything but the histograms.
    pub(super) fn counts(&self, now_ns: u64) -> DownstreamSample {
        let pool = self.ask_pool();
        let calls = self.calls.lock();
        DownstreamSample {
            name: self.name.to_string(),
            in_flight: calls.in_flight(),
            waiting: self.waiting.load(Relaxed),
            calls_total: calls.begun(),
            errors_total: self.errors.load(Relaxed),
            cancelled_total: self.cancelled.load(Relaxed),
            latency: None,
            wait: None,
            pool,
            callers: calls.callers(),
            oldest: calls.oldest(now_ns),
            injected_delay_ns: Some(self.injected_delay_ns()).filter(|ns| *ns != 0),
        }
    }

    fn ask_pool(&self) -> Option<PoolSample> {
        let gauge = self.pool.lock().clone()?;
        // The user's code, and maybe the last reference to it.
        let asked = guard::catch(move || gauge());
        asked.unwrap_or_else(|message| {
            tracing::warn!(
                downstream = &*self.name,
                message,
                "the gauge of a pool panicked"
            );
            None
        })
    }

    /// The counts, and the histograms since the last call.
    fn sample(&self, now_ns: u64) -> DownstreamSample {
        DownstreamSample {
            latency: drain(&self.latency),
            wait: drain(&self.wait),
            ..self.counts(now_ns)
        }
    }
}

fn drain(histogram: &AtomicHistogram) -> Option<LatencyHistogram> {
    let mut drained = LatencyHistogram::new();
    histogram.drain_into(&mut drained);
    (!drained.is_empty()).then_some(drained)
}

// Read on the way of every `downstream`, written at most `MAX_DOWNSTREAMS` times. Few: found by walking.
static ALL: OnceLock<RwLock<Vec<&'static State>>> = OnceLock::new();

fn all() -> &'static RwLock<Vec<&'static State>> {
    ALL.get_or_init(|| {
        source::show_downstreams(sample_all);
        source::allow_injection(inject);
        RwLock::default()
    })
}

pub(super) fn find(name: &str) -> &'static State {
    let named = |all: &[&'static State], name: &str| {
        let found = all.iter().find(|state| *state.name == *name);
        found.copied()
    };
    if let Some(found) = named(&all().read(), name) {
        return found;
    }
    let mut all = all().write();
    let name = if all.len() < MAX_DOWNSTREAMS {
        name
    } else {
        OTHER
    };
    named(&all, name).unwrap_or_else(|| {
        // Leaked on purpose, at most `MAX_DOWNSTREAMS` and one.
        let made: &'static State = Box::leak(Box::new(State::new(name)));
        all.push(made);
        made
    })
}

/// By an order of the dashboard.
pub(super) fn inject(name: &str, delay: Duration, lasting: Duration) -> Result<String, String> {
    let found = all()
        .read()
        .iter()
        .copied()
        .find(|state| *state.name == *name);
    let state = found.ok_or_else(|| format!("there is no downstream {name}"))?;
    if !state.injection_allowed.load(Relaxed) {
        return Err(super::not_allowed(state).to_string());
    }
    if delay > MAX_INJECTED_DELAY || lasting > MAX_INJECTION {
        return Err(format!(
            "a delay of {delay:?} for {lasting:?} is too much: at most {MAX_INJECTED_DELAY:?} for {MAX_INJECTION:?}"
        ));
    }
    state.set_delay(delay, Some(lasting));
    Ok(if delay.is_zero() || lasting.is_zero() {
        format!("downstream {name} is not delayed any more")
    } else {
        format!("downstream {name}: each call takes {delay:?} longer for {lasting:?}")
    })
}

/// A sample of each, for the probe.
pub(super) fn sample_all() -> Vec<DownstreamSample> {
    let now_ns = time::now_ns();
    let all = all().read().clone();
    all.into_iter().map(|state| state.sample(now_ns)).collect()
}
