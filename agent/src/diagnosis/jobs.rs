//! Running jobs that hold their slots and do not move.

use ax_wire::incident::RunningJob;

use super::case::{Case, LaneCase};

/// A job that has run for less is not yet stuck.
const LEAST_NS: u64 = 3_000_000_000;

/// A job is stuck once it has run for so many times as long as jobs of its kind usually do.
const TIMES_USUAL: f64 = 3.0;

/// From when on a job is stuck of whose kind nothing has ended yet.
pub(crate) const UNKNOWN_NS: u64 = 60_000_000_000;

/// The running jobs that have outlived what is usual and have not been polled for long.
#[derive(Default)]
pub(crate) struct StuckJobs<'a> {
    pub(crate) jobs: Vec<StuckJob<'a>>,
    /// Jobs that may be: nothing is known of how long such jobs run.
    pub(crate) unknown: usize,
}

/// One of them.
#[derive(Clone, Copy)]
pub(crate) struct StuckJob<'a> {
    pub(crate) job: &'a RunningJob,
    /// What is usual for its type or lane, in nanoseconds.
    pub(crate) usual_ns: Option<u64>,
}

/// What a job waits for, by its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsAt<'a> {
    Downstream(&'a str),
    Pool(&'a str),
    /// For a job of the lane, or for room in it.
    Lane(&'a str),
    /// What its code calls it.
    Label(&'a str),
    Unknown,
}

impl<'a> StuckJob<'a> {
    pub(crate) fn waits_at(&self) -> WaitsAt<'a> {
        let Some(waits) = &self.job.waits_for else {
            return WaitsAt::Unknown;
        };
        let label = waits.label.as_str();
        match label.split_once(' ') {
            Some(("downstream", name)) => WaitsAt::Downstream(name),
            Some(("pool", name)) => WaitsAt::Pool(name),
            Some(("lane", name)) => WaitsAt::Lane(name),
            _ => WaitsAt::Label(label),
        }
    }

    pub(crate) fn lane(&self) -> Option<&'a str> {
        self.job.task.lane.as_deref()
    }

    /// Since when it has not moved.
    pub(crate) fn unmoved_ns(&self) -> u64 {
        let waits = self.job.waits_for.as_ref().map(|waits| waits.since_ns);
        let unpolled = self.job.unpolled_ns.unwrap_or(self.job.elapsed_ns);
        waits.unwrap_or(unpolled).max(unpolled)
    }
}

impl<'a> StuckJobs<'a> {
    pub(crate) fn of(case: &Case<'a>) -> Self {
        let mut found = Self::default();
        let unmoved = case.latest.oldest_jobs.iter().filter(|job| {
            let unpolled_ns = job.unpolled_ns.unwrap_or(0);
            job.poll_age_ns.is_none() && unpolled_ns >= LEAST_NS && job.elapsed_ns >= LEAST_NS
        });
        for job in unmoved {
            let usual_ns = usual_run_ns(case, job);
            match usual_ns {
                Some(usual) if job.elapsed_ns as f64 >= TIMES_USUAL * usual as f64 => {
                    found.jobs.push(StuckJob { job, usual_ns });
                }
                None if job.elapsed_ns >= UNKNOWN_NS => {
                    found.jobs.push(StuckJob { job, usual_ns });
                }
                Some(_) => {}
                None => found.unknown += 1,
            }
        }
        found
    }

    /// Those of one lane.
    pub(crate) fn of_lane(&self, lane: &str) -> impl Iterator<Item = StuckJob<'a>> {
        self.jobs
            .iter()
            .copied()
            .filter(move |stuck| stuck.lane() == Some(lane))
    }
}

/// The slowest of a hundred jobs of the type; of the lane, where none of the type has ended.
fn usual_run_ns(case: &Case<'_>, job: &RunningJob) -> Option<u64> {
    let of_type = case.types().find(|of| {
        let known = &of.entry.value.latest;
        known.name == job.task.name && known.kind == job.task.kind && known.lane == job.task.lane
    });
    let of_type = of_type.and_then(|of| of.usual(|second| Some(second.run.p99_ns()? as f64)));
    let of_lane = || {
        let lane = case.lane(job.task.lane.as_deref()?)?;
        usual_of_lane(&lane)
    };
    of_type.map(|usual| usual.median as u64).or_else(of_lane)
}

fn usual_of_lane(lane: &LaneCase<'_, '_>) -> Option<u64> {
    let usual = lane.usual(|second| Some(second.run.p99_ns()? as f64))?;
    Some(usual.median as u64)
}
