//! What the demo's service can do on this machine, measured once for each runtime.

use std::{
    collections::HashMap,
    process::Stdio,
    sync::{Mutex, PoisonError},
};

use ax_wire::{sample::RouteSample, view::ServiceView};

use crate::{
    file::Flavor,
    support::{Guarded, PrivateAgent, ax_top},
};

/// More requests a second than the service answers.
const TOO_MANY: &str = "4000";

/// Seconds that are measured, and before them those that are not: connections are made.
const MEASURED: usize = 5;
const WARM_UP: usize = 3;

/// Requests a second of which one worker answers all well, on every route: what comes in, times the share that the route
/// with the least room answers well. The other CPU of a small machine is for the demo's own traffic, whose work is not the
/// service's.
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
    let mut counts: Vec<(u64, Routes)> = Vec::new();
    while counts.len() <= WARM_UP + MEASURED {
        let view = viewer.next_view("demo");
        counts.push((view.at_unix_ns, routes(&view)));
    }
    let ((from, before), (to, after)) = (&counts[WARM_UP], &counts[WARM_UP + MEASURED]);
    let seconds = (to - from) as f64 / 1e9;
    let (mut came_per_s, mut least_share) = (0.0, 1.0_f64);
    for (name, (came, well)) in after {
        let (came_before, well_before) = before.get(name).copied().unwrap_or_default();
        let (came, well) = ((came - came_before) as f64, (well - well_before) as f64);
        came_per_s += came / seconds;
        if came > 0.0 {
            least_share = least_share.min(well / came);
        }
    }
    let capacity = (came_per_s * least_share) as u64;
    println!(
        "capacity of {}: {capacity} requests a second",
        flavor.name()
    );
    capacity
}

/// Of each route, how many requests were answered, and how many of them well.
type Routes = HashMap<String, (u64, u64)>;

fn routes(view: &ServiceView) -> Routes {
    let of = |route: &RouteSample| {
        let failed = route.client_errors_total + route.server_errors_total;
        let well = route.successes_total + route.redirections_total;
        (route.name.clone(), (well + failed, well))
    };
    view.routes.iter().map(of).collect()
}
