//! The runtimes that the probe watches.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread,
    time::Duration,
};

use ax_wire::{
    RuntimeId,
    hello::{RuntimeFlavor, RuntimeInfo},
};
use parking_lot::RwLock;
use tokio::runtime::{self, Handle};

/// In [`Watched::blocking_lag_ns`]: nothing measured yet.
const UNKNOWN: u64 = u64::MAX;

/// A runtime that the probe watches, as the watchdog, the publisher and the wrappers share it.
pub(crate) struct Watched {
    pub(crate) handle: Handle,
    pub(crate) info: RuntimeInfo,
    /// Set once the runtime has dropped a task of ours, which it does only when it is dropped itself.
    gone: AtomicBool,
    /// A sleep on it is safe.
    timer: AtomicBool,
    /// Which workers are in a stall now.
    stalled: Box<[AtomicBool]>,
    blocking_lag_ns: AtomicU64,
    /// Closures of `ax_probe::spawn_blocking` that run now.
    pub(crate) blocking_running: AtomicU64,
}

impl Watched {
    fn new(id: RuntimeId, handle: &Handle) -> Self {
        let workers = handle.metrics().num_workers();
        let flavor = match handle.runtime_flavor() {
            runtime::RuntimeFlavor::CurrentThread => RuntimeFlavor::CurrentThread,
            runtime::RuntimeFlavor::MultiThread => RuntimeFlavor::MultiThread,
            _ => RuntimeFlavor::Other,
        };
        Self {
            handle: handle.clone(),
            info: RuntimeInfo {
                id,
                name: handle.name().map(str::to_owned),
                flavor,
                workers: workers as u32,
            },
            gone: AtomicBool::new(false),
            timer: AtomicBool::new(false),
            stalled: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            blocking_lag_ns: AtomicU64::new(UNKNOWN),
            blocking_running: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// The runtime was dropped: the watchdog forgets it at its next tick.
    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Relaxed);
    }

    /// Whether a sleep on it is safe, as far as the probe knows yet.
    pub(crate) fn has_timer(&self) -> bool {
        self.timer.load(Relaxed)
    }

    /// Finds out whether a sleep on this runtime is safe, unless `asked` says not to. tokio says so in one way only: the
    /// sleep panics where `enable_time` was not called. So it is tried, on a thread of its own, since a panic hook may
    /// take its time (it may print a backtrace), for which neither the watchdog nor the service is to wait.
    ///
    /// Where a panic ends the process it cannot be tried: then only a service that has asked for the timer probe gets it.
    fn find_timer(self: &Arc<Self>, asked: Option<bool>) {
        match asked {
            Some(false) => {}
            asked if cfg!(panic = "abort") => self.timer.store(asked == Some(true), Relaxed),
            _ => {
                let watched = Arc::clone(self);
                let check = move || {
                    let inside = watched.handle.enter();
                    drop(tokio::time::sleep(Duration::from_millis(1)));
                    drop(inside);
                    watched.timer.store(true, Relaxed);
                };
                let thread = thread::Builder::new().name("ax-timer-check".to_owned());
                if let Err(error) = thread.spawn(check) {
                    tracing::warn!(%error, "cannot tell whether the runtime has a timer: its lag is not measured");
                }
            }
        }
    }

    pub(crate) fn is_stalled(&self, worker: u32) -> bool {
        self.stalled
            .get(worker as usize)
            .is_some_and(|stalled| stalled.load(Relaxed))
    }

    pub(crate) fn set_stalled(&self, worker: u32, now: bool) {
        if let Some(stalled) = self.stalled.get(worker as usize) {
            stalled.store(now, Relaxed);
        }
    }

    pub(crate) fn blocking_lag_ns(&self) -> Option<u64> {
        Some(self.blocking_lag_ns.load(Relaxed)).filter(|ns| *ns != UNKNOWN)
    }

    pub(crate) fn set_blocking_lag_ns(&self, ns: u64) {
        self.blocking_lag_ns.store(ns, Relaxed);
    }
}

#[derive(Default)]
struct Known {
    /// In the order in which the probe met them.
    runtimes: Vec<Arc<Watched>>,
    last: u32,
}

static KNOWN: OnceLock<RwLock<Known>> = OnceLock::new();

/// Counts changes of the list, so that a thread knows when what it wrote into its slot may be out of date.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

fn known() -> &'static RwLock<Known> {
    KNOWN.get_or_init(RwLock::default)
}

/// Watches a runtime from now on, and its timer unless `timer_probe` says not to. One that is watched already stays as
/// it is.
pub(crate) fn add(handle: &Handle, timer_probe: Option<bool>) {
    let watched = {
        let mut known = known().write();
        if known
            .runtimes
            .iter()
            .any(|of| of.handle.id() == handle.id())
        {
            return;
        }
        known.last += 1;
        let watched = Arc::new(Watched::new(RuntimeId(known.last), handle));
        known.runtimes.push(Arc::clone(&watched));
        GENERATION.fetch_add(1, Release);
        watched
    };
    watched.find_timer(timer_probe);
}

/// The runtimes that are alive, as far as the probe knows.
pub(crate) fn all() -> Vec<Arc<Watched>> {
    known().read().runtimes.clone()
}

/// Forgets the runtimes for which `gone` holds. Their numbers are not used again.
pub(crate) fn forget(gone: impl Fn(&Watched) -> bool) {
    // Dropped outside the lock: the last handle of a runtime frees its memory.
    let forgotten: Vec<_> = {
        let mut known = known().write();
        known.runtimes.extract_if(.., |of| gone(of)).collect()
    };
    if !forgotten.is_empty() {
        GENERATION.fetch_add(1, Release);
    }
}

/// How often the list has changed. One atomic load.
#[inline]
pub(crate) fn generation() -> usize {
    GENERATION.load(Acquire)
}

/// The runtime of the calling thread, where it is one that is watched.
pub(crate) fn current() -> Option<Arc<Watched>> {
    let id = Handle::try_current().ok()?.id();
    let known = known().read();
    known
        .runtimes
        .iter()
        .find(|of| of.handle.id() == id)
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_numbered_once_and_a_number_is_never_used_again() {
        let build = || {
            runtime::Builder::new_current_thread()
                .build()
                .expect("builds")
        };
        let id = |rt: &runtime::Runtime| {
            let _inside = rt.enter();
            current().map(|of| of.info.id.0)
        };
        let (first, second) = (build(), build());
        assert_eq!(id(&first), None);
        add(first.handle(), Some(false));
        let first_id = id(&first).expect("known");
        add(first.handle(), Some(false));
        assert_eq!(id(&first), Some(first_id));
        forget(|of| of.info.id.0 == first_id);
        assert_eq!(id(&first), None);
        add(second.handle(), Some(false));
        let second_id = id(&second).expect("known");
        assert!(second_id > first_id);
        forget(|of| of.info.id.0 == second_id);
    }
}
