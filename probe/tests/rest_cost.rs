//! What the probe costs a service that has nothing to do, without an agent and with one. `AX_FULL=1 AX_BLESS=1` keeps it in
//! `tests/results/`.

mod common;
#[path = "../../tests/support/record.rs"]
mod record;

use std::{env, fs, thread, time::Duration};

use ax_probe::Probe;
use common::{FakeAgent, turn};
use record::Record;
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

/// CPU time of this process's thread of that name.
fn thread_cpu(name: &str) -> Duration {
    let threads = fs::read_dir("/proc/self/task").expect("procfs").flatten();
    let read =
        |path: &std::path::Path, file| fs::read_to_string(path.join(file)).unwrap_or_default();
    let mut named = threads
        .map(|thread| thread.path())
        .filter(|path| read(path, "comm").trim_end() == name);
    let path = named.next().expect("it runs");
    let schedule = read(&path, "schedstat");
    let on_cpu_ns = schedule.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(on_cpu_ns.expect("the first field"))
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
    let watchdog_before = thread_cpu("ax-watchdog");
    let alone = cost_percent(span);
    let watchdog = thread_cpu("ax-watchdog").saturating_sub(watchdog_before);
    let watchdog = 100.0 * watchdog.as_secs_f64() / span.as_secs_f64();
    probe.shutdown();

    let agent = FakeAgent::start();
    let probe = agent.observe(&runtime);
    // The agent is a thread of this test, so its reading and decoding is in the figure.
    let with_agent = cost_percent(span);
    probe.shutdown();
    assert!(agent.frames().len() as u64 > span.as_secs());
    let mut record = Record::new(
        "rest-cost.txt",
        "AX_FULL=1 AX_BLESS=1 cargo test --release -p ax-probe --test rest_cost -- --nocapture",
    );
    record.line(format!(
        "Percent of one core, process at rest, {span:?} each"
    ));
    record.line(format!("  without the probe         {without:.3}"));
    record.line(format!("  with it, and no agent     {alone:.3}"));
    record.line(format!("    of that the watchdog    {watchdog:.3}"));
    record.line(format!(
        "  with it, and an agent     {with_agent:.3} (the test's agent included)"
    ));
    record.line(format!(
        "asserted: the probe without an agent costs less than {most} ({what})"
    ));
    assert!(alone - without < most, "{alone} % of a core");
    if full {
        record.finish();
    }
}
