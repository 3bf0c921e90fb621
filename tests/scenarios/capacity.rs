//! What the demo's service can do on this machine, measured once for each runtime.

use std::{
    collections::HashMap,
    process::Stdio,
    sync::{Mutex, PoisonError},
};

use ax_wire::view::ServiceView;

use crate::{
    file::Flavor,
    support::{Guarded, PrivateAgent, ax_top},
};

/// More requests a second than the service answers.
const TOO_MANY: &str = "10000";

/// Seconds that are measured, and before them those that are not: connections are made.
const MEASURED: usize = 5;
const WARM_UP: usize = 3;

/// Requests a second that one worker answers well. The other CPU of a small machine is for the demo's own traffic, whose
/// work is not the service's.
pub fn of(flavor: Flavor) -> u64 {
    static KNOWN: Mutex<Option<HashMap<Flavor, u64>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known
        .get_or_insert_default()
        .entry(flavor)
        .or_insert_with(|| measure(flavor))
}

fn measure(flavor: Flavor) -> u64 {
    let agent = PrivateAgent::start();
    let service = ax_top(agent.socket())
        .args(["demo-service", "--workers", "1", "--rate", TOO_MANY])
        .args(["--flavor", flavor.name()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let _service = Guarded(service.expect("the demo starts"));
    let mut viewer = agent.viewer();
    viewer.first_figures("demo");
    let mut counts: Vec<(u64, u64)> = Vec::new();
    while counts.len() <= WARM_UP + MEASURED {
        let view = viewer.next_view("demo");
        counts.push((view.at_unix_ns, answered_well(&view)));
    }
    let ((from, before), (to, after)) = (counts[WARM_UP], counts[WARM_UP + MEASURED]);
    let capacity = (after - before) * 1_000_000_000 / (to - from).max(1);
    println!(
        "capacity of {}: {capacity} requests a second",
        flavor.name()
    );
    capacity
}

fn answered_well(view: &ServiceView) -> u64 {
    view.routes.iter().map(|route| route.successes_total).sum()
}
