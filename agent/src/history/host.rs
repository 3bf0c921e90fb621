//! One second of the process on its host: who used the CPUs, who waited for one, what was held open.

use ax_wire::sample::{ProcessSample, Sample};

use super::Change;

/// What diagnosis reads of a second beside its charts. Shares are 0 to 1, CPUs as in `cpus_used`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostSecond {
    /// CPUs that the workers used.
    pub worker_cpus: Option<f32>,
    /// CPUs that neither workers nor the probe used.
    pub outside_cpus: Option<f32>,
    /// Of the time in which workers could run, the share in which they had no CPU.
    pub cpu_wait_share: Option<f32>,
    /// Share of the time in which the average worker had no CPU and could have used one.
    pub run_queue_share: Option<f32>,
    /// Share of the control group's periods in which its quota was spent.
    pub throttled_share: Option<f32>,
    /// CPUs that the quota allows.
    pub quota_cpus: Option<f32>,
    /// Share of the time in which some task of the host waited for a CPU.
    pub pressure_share: Option<f32>,
    /// Busy share of the average worker.
    pub busy_share: Option<f32>,
    /// Closures of the blocking pools that have a name and run.
    pub blocking_running: u32,
    /// How long a blocking pool lets a closure wait; the slowest of several.
    pub blocking_lag_ns: Option<u64>,
    /// Tasks alive.
    pub alive_tasks: u64,
    /// Open file descriptors.
    pub open_files: Option<u64>,
}

impl HostSecond {
    pub(super) fn of(change: Change<'_>) -> Self {
        let latest = change.latest();
        let before = change.before();
        let process = &latest.process;
        let (worker_cpus, run_queue) = workers(change);
        let outside = change.cpus_used().zip(worker_cpus).map(|(all, inside)| {
            let own = change.probe_cpus_used().unwrap_or(0.0);
            (all - inside - own).max(0.0)
        });
        let counted: Vec<f64> = change.busy_shares().into_iter().flatten().collect();
        let workers: usize = latest.runtimes.iter().map(|r| r.workers.len()).sum();
        let runnable = worker_cpus.zip(run_queue).map(|(on, off)| (on + off, off));
        let narrow = |value: f64| value as f32;
        let runtimes = latest.runtimes.iter();
        Self {
            worker_cpus: worker_cpus.map(narrow),
            outside_cpus: outside.map(narrow),
            cpu_wait_share: runnable
                .filter(|(all, _)| *all > 0.0)
                .map(|(all, off)| narrow(off / all)),
            run_queue_share: run_queue
                .filter(|_| workers > 0)
                .map(|off| narrow(off / workers as f64)),
            throttled_share: before.and_then(|before| throttled(&before.process, process)),
            quota_cpus: process.cgroup_cpu.map(|cgroup| narrow(cgroup.cpus())),
            pressure_share: before.and_then(|before| pressure(before, latest)),
            busy_share: (!counted.is_empty())
                .then(|| narrow(counted.iter().sum::<f64>() / counted.len() as f64)),
            blocking_running: narrow_count(
                runtimes
                    .clone()
                    .map(|runtime| runtime.blocking.watched_running)
                    .fold(0, u64::saturating_add),
            ),
            blocking_lag_ns: runtimes
                .clone()
                .filter_map(|runtime| runtime.blocking.lag_ns)
                .max(),
            alive_tasks: runtimes
                .map(|runtime| runtime.alive_tasks)
                .fold(0, u64::saturating_add),
            open_files: process.open_files,
        }
    }
}

fn narrow_count(count: u64) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}

/// What all workers together spent on CPUs, and waiting for one, in CPUs. Unknown where no worker's thread is known.
fn workers(change: Change<'_>) -> (Option<f64>, Option<f64>) {
    let (mut on, mut off) = (None::<f64>, None::<f64>);
    for runtime in &change.latest().runtimes {
        for worker in &runtime.workers {
            let add = |sum: &mut Option<f64>, share: Option<f64>| {
                if let Some(share) = share {
                    *sum = Some(sum.unwrap_or(0.0) + share);
                }
            };
            add(&mut on, change.on_cpu_share(runtime, worker));
            add(&mut off, change.run_queue_share(runtime, worker));
        }
    }
    (on, off)
}

/// None where no period has passed, or the process has been moved to another group.
fn throttled(before: &ProcessSample, after: &ProcessSample) -> Option<f32> {
    let (before, after) = (before.cgroup_cpu?, after.cgroup_cpu?);
    let periods = after.periods_total.checked_sub(before.periods_total)?;
    let stopped = after
        .throttled_periods_total
        .checked_sub(before.throttled_periods_total)?;
    if periods == 0 {
        // A group that does not want to run is not stopped.
        return Some(0.0);
    }
    Some((stopped as f64 / periods as f64).min(1.0) as f32)
}

fn pressure(before: &Sample, after: &Sample) -> Option<f32> {
    let waited = after
        .process
        .cpu_pressure_ns_total?
        .checked_sub(before.process.cpu_pressure_ns_total?)?;
    let interval = after.at_mono_ns.checked_sub(before.at_mono_ns)?.max(1);
    Some((waited as f64 / interval as f64).min(1.0) as f32)
}
