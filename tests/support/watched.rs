//! Watched runtimes inside the test's own process. The probe belongs to the process and keeps to one agent, so a test
//! binary that uses this has one test.

use std::{future::Future, path::Path, sync::Arc, thread};

use ax_probe::Probe;
use ax_scheduler::{Lane, Scheduler};
use ax_wire::view::{ServiceView, StallView};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Notify,
};

use super::PrivateAgent;

/// The service's name in all tests.
pub const SERVICE: &str = "watched-test";

/// Runs `work` on a runtime of its own that is watched, then waits for a view that answers.
pub fn on_runtime<T, R, F: Future<Output = T>>(
    workers: Option<usize>,
    name: &str,
    agent: &PrivateAgent,
    work: impl FnOnce(Lane, Scheduler) -> F,
    ask: impl FnMut(&ServiceView) -> Option<R>,
) -> (R, T) {
    let runtime = build(workers, name);
    let (probe, done) = runtime.block_on(async {
        let probe = Probe::builder(SERVICE)
            .socket(agent.socket())
            .install()
            .expect("a runtime");
        let ax = Scheduler::new();
        let lane = ax.lane("work").limit(8).open().expect("valid settings");
        (probe, work(lane, ax).await)
    });
    // A current_thread runtime lives only while somebody drives it.
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let driver = thread::spawn(move || runtime.block_on(stopped.notified()));
    // Connected only now: a viewer from before would first be read the views that it left unread.
    let answer = agent.viewer().wait_view(SERVICE, name, ask);
    stop.notify_one();
    driver.join().expect("no panic");
    drop(probe);
    (answer, done)
}

pub fn build(workers: Option<usize>, name: &str) -> Runtime {
    let mut builder = match workers {
        Some(workers) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(workers);
            builder
        }
        None => Builder::new_current_thread(),
    };
    builder.name(name).enable_all().build().expect("a runtime")
}

/// A service that has nothing but a probe; it runs until both are dropped.
pub fn bare(service: &str, socket: &Path) -> (Runtime, Probe) {
    let runtime = build(Some(1), service);
    let probe = Probe::builder(service).socket(socket);
    let probe = probe.install_on(runtime.handle()).expect("installs");
    (runtime, probe)
}

/// The stalls of the runtime of this name.
pub fn stalls_of<'a>(view: &'a ServiceView, runtime: &str) -> impl Iterator<Item = &'a StallView> {
    let id = view
        .runtimes
        .iter()
        .find(|known| known.info.name.as_deref() == Some(runtime))
        .map(|known| known.info.id);
    view.stalls
        .iter()
        .filter(move |stall| Some(stall.stall.runtime) == id)
}
