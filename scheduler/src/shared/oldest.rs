//! The jobs of a lane that have run longest, told once a second: who holds slots and does not move.

use std::sync::Arc;

use ax_wire::{incident::RunningJob, sample::MAX_OLDEST_JOBS};

use super::{Shared, facts::told};
use crate::cell::Job;

/// Runners that are looked at under the lock: some 50 us.
const RUNNERS: usize = 1_024;

/// A job that has run for less is not told.
const LEAST_NS: u64 = 1_000_000_000;

impl Shared {
    /// Appends them, the oldest first. None where the lock is held; of more than [`RUNNERS`] runners the first so many are
    /// looked at.
    pub(crate) fn oldest_jobs(&self, now_ns: u64, out: &mut Vec<RunningJob>) {
        if self.running() == 0 {
            return;
        }
        let Some(core) = self.core.try_lock() else {
            return;
        };
        // Oldest first, and few: put in order as they come.
        let mut oldest: Vec<Arc<dyn Job>> = Vec::with_capacity(MAX_OLDEST_JOBS + 1);
        for entry in core.runners.iter().take(RUNNERS) {
            let Some(job) = &entry.job else { continue };
            let started_ns = job.header().started_ns();
            if now_ns.saturating_sub(started_ns) < LEAST_NS {
                continue;
            }
            let at = oldest.partition_point(|known| known.header().started_ns() <= started_ns);
            if at < MAX_OLDEST_JOBS {
                oldest.insert(at, Arc::clone(job));
                oldest.truncate(MAX_OLDEST_JOBS);
            }
        }
        drop(core);
        out.extend(oldest.iter().map(|job| told(job.header(), now_ns)));
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending, time::Duration};

    use super::*;
    use crate::{Scheduler, time};

    /// F56: who holds the slots, since when, at what, and when it was last polled.
    #[tokio::test(start_paused = true)]
    async fn the_oldest_come_first_with_what_they_wait_for() {
        let ax = Scheduler::new();
        let lane = ax.lane("oldest").limit(20).open().expect("opens");
        let submit = |name: &str| {
            let job = ax.job(name, |_| async {
                crate::at("the rates", pending::<Result<(), Infallible>>()).await
            });
            job.lane(&lane).submit().expect("has room")
        };
        let first = submit("first");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let later: Vec<_> = (0..15).map(|_| submit("later")).collect();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let _young = submit("young");
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut told = Vec::new();
        lane.shared.oldest_jobs(time::now_ns(), &mut told);
        assert_eq!(told.len(), MAX_OLDEST_JOBS);
        assert_eq!(told[0].task.job, Some(first.id()));
        let waits = told[0].waits_for.as_ref().expect("has a label");
        assert_eq!(waits.label, "the rates");
        assert!(told[0].unpolled_ns >= Some(3_400_000_000), "{:?}", told[0]);
        assert!(told.iter().all(|job| job.task.name != "young"));
        assert!(told[1].task.job == Some(later[0].id()));
    }
}
