//! That the probe goes on when the whole service does not.

mod support;

use std::{
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use ax_probe::Probe;
use support::{
    PrivateAgent,
    watched::{SERVICE, build},
};

/// The probe goes on from its own threads when every worker is stuck.
#[test]
fn samples_arrive_while_all_workers_are_blocked() {
    let agent = PrivateAgent::start();
    let runtime = build(Some(2), "wedged");
    let together = Arc::new(Barrier::new(3));
    let probe = Probe::builder(SERVICE)
        .socket(agent.socket())
        .install_on(runtime.handle())
        .expect("installs");
    let mut viewer = agent.viewer();
    viewer.next_view(SERVICE);
    for _ in 0..2 {
        let together = Arc::clone(&together);
        runtime.spawn(async move {
            together.wait();
            thread::sleep(Duration::from_secs(2));
        });
    }
    together.wait();
    let start = Instant::now();
    let mut lags_ms = Vec::new();
    while start.elapsed() < Duration::from_millis(1_900) {
        let view = viewer.next_view(SERVICE);
        if start.elapsed() < Duration::from_millis(1_990) {
            lags_ms.push(view.lag.max_ns.unwrap_or(0) as f64 / 1e6);
        }
    }
    println!(
        "while both workers were blocked for 2 s: {} views, worst lag so far {lags_ms:?} ms",
        lags_ms.len()
    );
    assert!(
        !lags_ms.is_empty(),
        "no sample came while the workers were blocked"
    );
    assert!(lags_ms.iter().any(|lag| *lag > 500.0), "{lags_ms:?}");
    drop((probe, runtime));
}
