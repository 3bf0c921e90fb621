//! One sample against the one before it.

use ax_wire::sample::{RuntimeSample, Sample, WorkerSample, WorkerState};

use super::per_second;

/// The newest sample, and the one before it where there is one. Rates and shares are over the real time between.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    before: Option<&'a Sample>,
    latest: &'a Sample,
}

impl<'a> Change<'a> {
    pub(super) fn new(before: Option<&'a Sample>, latest: &'a Sample) -> Self {
        Self { before, latest }
    }

    /// The newest sample, without its lanes, types and lag points.
    #[must_use]
    pub fn latest(&self) -> &'a Sample {
        self.latest
    }

    /// The sample before the newest one.
    #[must_use]
    pub fn before(&self) -> Option<&'a Sample> {
        self.before
    }

    /// The time between the two; never zero.
    #[must_use]
    pub fn interval_ns(&self) -> Option<u64> {
        let before = self.before?;
        Some(self.latest.at_mono_ns.saturating_sub(before.at_mono_ns)).filter(|ns| *ns > 0)
    }

    /// CPUs that the process used.
    #[must_use]
    pub fn cpus_used(&self) -> Option<f64> {
        self.share(
            self.before?.process.cpu_ns_total,
            self.latest.process.cpu_ns_total,
        )
    }

    /// The part of it that is the probe's own.
    #[must_use]
    pub fn probe_cpus_used(&self) -> Option<f64> {
        self.share(
            self.before?.process.probe_cpu_ns_total,
            self.latest.process.probe_cpu_ns_total,
        )
    }

    /// Share of the time that a worker of the newest sample was outside parking. At most 1: tokio publishes its counter
    /// in steps of up to 61 polls, so that a second may be told more than it had; and none while a worker is stuck in one
    /// poll, which is as busy as can be.
    #[must_use]
    pub fn busy_share(&self, runtime: &RuntimeSample, worker: &WorkerSample) -> Option<f64> {
        if worker.state == WorkerState::Stalled {
            return Some(1.0);
        }
        let before = self.worker_before(runtime, worker)?;
        self.share(Some(before.busy_ns_total), Some(worker.busy_ns_total))
            .map(|share| share.min(1.0))
    }

    /// The busy shares of all workers, runtime by runtime.
    #[must_use]
    pub fn busy_shares(&self) -> Vec<Option<f64>> {
        let runtimes = self.latest.runtimes.iter();
        runtimes
            .flat_map(|runtime| runtime.workers.iter().map(move |worker| (runtime, worker)))
            .map(|(runtime, worker)| self.busy_share(runtime, worker))
            .collect()
    }

    /// Share of the time that a worker of the newest sample was on a CPU.
    #[must_use]
    pub fn on_cpu_share(&self, runtime: &RuntimeSample, worker: &WorkerSample) -> Option<f64> {
        let before = self.worker_before(runtime, worker)?;
        self.share(
            before.thread?.on_cpu_ns_total,
            worker.thread?.on_cpu_ns_total,
        )
        .map(|share| share.min(1.0))
    }

    /// Share of the time that a worker of the newest sample was runnable and waited for a CPU.
    #[must_use]
    pub fn run_queue_share(&self, runtime: &RuntimeSample, worker: &WorkerSample) -> Option<f64> {
        let before = self.worker_before(runtime, worker)?;
        self.share(
            before.thread?.run_queue_ns_total,
            worker.thread?.run_queue_ns_total,
        )
        .map(|share| share.min(1.0))
    }

    /// The same worker on the same thread in the sample before: a worker that moved to another thread
    /// (`block_in_place`) has begun to count anew.
    fn worker_before(
        &self,
        runtime: &RuntimeSample,
        worker: &WorkerSample,
    ) -> Option<&'a WorkerSample> {
        let runtimes = &self.before?.runtimes;
        let known = runtimes
            .iter()
            .find(|known| known.info.id == runtime.info.id)?;
        let mut workers = known.workers.iter();
        workers.find(|known| known.index == worker.index && known.tid == worker.tid)
    }

    /// What was added to a counter of nanoseconds, a nanosecond of real time. Unknown where the counter went backwards.
    fn share(&self, before: Option<u64>, after: Option<u64>) -> Option<f64> {
        let added_ns = after?.checked_sub(before?)?;
        Some(per_second(added_ns, self.interval_ns()?) / 1e9)
    }
}
