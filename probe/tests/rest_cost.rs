//! What the probe costs a service that has nothing to do, without an agent and with one.

mod common;

use std::{env, thread, time::Duration};

use ax_probe::Probe;
use common::{FakeAgent, turn};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;

/// CPU time of the whole process: the probe's threads, and what its tasks cost the workers.
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn cost_percent(span: Duration) -> f64 {
    let before = process_cpu();
    thread::sleep(span);
    let used = process_cpu().saturating_sub(before);
    100.0 * used.as_secs_f64() / span.as_secs_f64()
}

#[test]
fn rest_cost() {
    let _turn = turn();
    let full = env::var_os("AX_FULL").is_some();
    let span = Duration::from_secs(if full { 20 } else { 3 });
    // The budget is that of an optimised build; without optimisation the same work takes twice the time, and a class is
    // all that can be told of it.
    let (most, what) = if cfg!(debug_assertions) {
        (2.0, "a class, in a build without optimisation")
    } else {
        (0.5, "the budget")
    };
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    let runtime = runtime.expect("builds");

    let without = cost_percent(Duration::from_secs(1));
    let folder = tempfile::tempdir().expect("a folder");
    let probe = Probe::builder("rest").socket(folder.path().join("nobody.sock"));
    let probe = probe.install_on(runtime.handle()).expect("installs");
    thread::sleep(Duration::from_millis(500));
    let alone = cost_percent(span);
    probe.shutdown();

    let agent = FakeAgent::start();
    let probe = agent.observe(&runtime);
    // The agent is a thread of this test, so its reading and decoding is in the figure.
    let with_agent = cost_percent(span);
    probe.shutdown();
    assert!(agent.frames().len() as u64 > span.as_secs());
    println!("percent of one core, process at rest, {span:?} each");
    println!("  without the probe         {without:.3}");
    println!("  with it, and no agent     {alone:.3}");
    println!("  with it, and an agent     {with_agent:.3} (the test's agent included)");
    println!("asserted: the probe without an agent costs less than {most} ({what})");
    assert!(alone - without < most, "{alone} % of a core");
}
