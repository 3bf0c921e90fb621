//! How a scheduler shows its lanes to the probe.

use std::sync::{Arc, OnceLock, Weak};

use ax_wire::sample::LaneSample;
use parking_lot::Mutex;

/// Something with lanes. Called by the probe's own threads, never by a worker.
pub trait Source: Send + Sync {
    /// Appends a sample of each lane.
    ///
    /// Must not wait: counts come from atomics, and what stands behind a lock is taken with `try_lock` and left unknown
    /// where the lock is held.
    fn lanes(&self, out: &mut Vec<LaneSample>);
}

static SOURCES: OnceLock<Mutex<Vec<Weak<dyn Source>>>> = OnceLock::new();

fn sources() -> &'static Mutex<Vec<Weak<dyn Source>>> {
    SOURCES.get_or_init(Mutex::default)
}

/// Shows this source from now on, until its last `Arc` is dropped.
pub fn register(source: &Arc<dyn Source>) {
    let mut sources = sources().lock();
    sources.retain(|source| source.strong_count() > 0);
    sources.push(Arc::downgrade(source));
}

/// A sample of each lane of each source.
pub(crate) fn sample_all() -> Vec<LaneSample> {
    // Upgraded outside the lock: dropping the last `Arc` of a source runs code that is not ours.
    let alive: Vec<_> = {
        let mut sources = sources().lock();
        sources.retain(|source| source.strong_count() > 0);
        sources.clone()
    };
    let mut lanes = Vec::new();
    for source in alive.iter().filter_map(Weak::upgrade) {
        source.lanes(&mut lanes);
    }
    lanes
}
