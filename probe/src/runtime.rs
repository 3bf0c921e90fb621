//! The runtimes that the probe watches.

use std::sync::OnceLock;

use ax_wire::RuntimeId;
use parking_lot::RwLock;
use tokio::runtime::{Handle, Id};

#[derive(Default)]
struct Known {
    /// In the order in which the probe met them.
    runtimes: Vec<(Id, RuntimeId)>,
    last: u32,
}

static KNOWN: OnceLock<RwLock<Known>> = OnceLock::new();

fn known() -> &'static RwLock<Known> {
    KNOWN.get_or_init(RwLock::default)
}

/// Our number of a runtime that is watched.
pub(crate) fn id_of(handle: &Handle) -> Option<RuntimeId> {
    let id = handle.id();
    let known = known().read();
    known
        .runtimes
        .iter()
        .find(|(known, _)| *known == id)
        .map(|(_, ours)| *ours)
}
