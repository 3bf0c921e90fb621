//! What the dashboard may change of a scheduler, in a service that allows it: orders come by the probe, on a thread of
//! its own.

use std::sync::Arc;

use ax_wire::{
    JobId,
    control::{Action, LaneRef},
};

use crate::{JobRef, JobState, scheduler::Inner, shared::Shared, time};

impl Inner {
    /// Carries an order out, if it is about a lane or job of this scheduler.
    pub(crate) fn carry_out(&self, action: &Action) -> Option<Result<String, String>> {
        match action {
            Action::Pause { lane } => Some(Ok(set_paused(&self.find_lane(lane)?, true))),
            Action::Resume { lane } => Some(Ok(set_paused(&self.find_lane(lane)?, false))),
            Action::Resize { lane, limit } => Some(resize(&self.find_lane(lane)?, *limit)),
            Action::Cancel { job } => self.cancel_job(*job),
            Action::Retry { job } => self.retry_job(*job),
            Action::Inject { .. } | Action::Unknown => None,
        }
    }

    fn find_lane(&self, wanted: &LaneRef) -> Option<Arc<Shared>> {
        let mut lanes = self.lanes().into_iter();
        lanes.find(|lane| wanted.is(&lane.name, self.hub.number))
    }

    fn cancel_job(&self, id: JobId) -> Option<Result<String, String>> {
        let job = JobRef {
            job: self.find(id)?,
        };
        let before = job.status();
        job.cancel();
        let lane = &job.job.header().lane.name;
        Some(match before {
            JobState::Running => Ok(format!(
                "job {id} of lane {lane} was asked to end; after the lane's grace it is dropped"
            )),
            _ if before.is_end() => Err(format!("job {id} has ended: {}", before.name())),
            _ => Ok(format!(
                "job {id} of lane {lane}, which was {}, is cancelled",
                before.name()
            )),
        })
    }

    fn retry_job(&self, id: JobId) -> Option<Result<String, String>> {
        if self.hub.retry_manual(id) {
            return Some(Ok(format!("job {id} is queued again")));
        }
        let state = if let Some(job) = self.find(id) {
            job.header().state.get()
        } else {
            let mut lanes = self.lanes().into_iter();
            lanes.find_map(|lane| lane.records.lock().find(id))?.state
        };
        Some(Err(format!(
            "job {id} is {}, and only a job that waits for a person (`Retry::or_manual`) can be queued again",
            state.name()
        )))
    }
}

fn set_paused(lane: &Arc<Shared>, paused: bool) -> String {
    lane.set_paused(paused);
    let name = &lane.name;
    if paused {
        format!("lane {name} is paused: it begins no job until it is resumed")
    } else {
        format!("lane {name} goes on")
    }
}

fn resize(lane: &Arc<Shared>, limit: u64) -> Result<String, String> {
    let before = lane.counts(time::now_ns()).limit;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    lane.resize(limit, time::now_ns())
        .map_err(|error| error.to_string())?;
    Ok(format!("lane {}: limit {before} -> {limit}", lane.name))
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending, io, time::Duration};

    use tokio::time::sleep;

    use super::*;
    use crate::{Backoff, JobError, JobHandle, Lane, Scheduler};

    const MS: Duration = Duration::from_millis(1);

    fn hang(ax: &Scheduler, lane: &Lane) -> JobHandle<()> {
        let job = ax.job("hang", |_| pending::<Result<(), Infallible>>());
        job.lane(lane).submit().expect("room")
    }

    fn order(ax: &Lane, action: &Action) -> Result<String, String> {
        ax.scheduler.carry_out(action).expect("of this scheduler")
    }

    fn of(lane: &Lane) -> LaneRef {
        LaneRef::named(lane.name())
    }

    /// F97: pause, resume and resize.
    #[tokio::test(start_paused = true)]
    async fn a_lane_is_paused_resumed_and_resized() {
        let ax = Scheduler::new();
        let lane = ax.lane("api").limit(1).open().expect("new");
        let pause = Action::Pause { lane: of(&lane) };
        let told = order(&lane, &pause).expect("done");
        assert!(told.contains("api is paused"), "{told}");
        let _jobs = [(); 3].map(|()| hang(&ax, &lane));
        sleep(MS).await;
        assert_eq!((lane.counts().running, lane.counts().paused), (0, true));
        let resume = Action::Resume { lane: of(&lane) };
        order(&lane, &resume).expect("done");
        sleep(MS).await;
        assert_eq!((lane.counts().running, lane.counts().paused), (1, false));

        let resize = |limit| Action::Resize {
            lane: of(&lane),
            limit,
        };
        assert_eq!(
            order(&lane, &resize(2)).as_deref(),
            Ok("lane api: limit 1 -> 2")
        );
        sleep(MS).await;
        assert_eq!(lane.counts().running, 2);
        for absurd in [0, u64::MAX] {
            let why = order(&lane, &resize(absurd)).expect_err("out of range");
            assert!(why.contains("api"), "{why}");
        }
        assert_eq!(lane.counts().limit, 2);
    }

    /// F97: an order names a lane or job of one scheduler; another one has nothing to do with it.
    #[tokio::test(start_paused = true)]
    async fn what_is_of_another_scheduler_is_left_to_it() {
        let (ours, theirs) = (Scheduler::new(), Scheduler::new());
        let lane = ours.lane("ours").open().expect("new");
        let other = theirs.lane("ours").open().expect("new");
        let numbered = LaneRef {
            scheduler: Some(lane.scheduler.hub.number),
            ..of(&lane)
        };
        let pause = Action::Pause { lane: numbered };
        assert_eq!(other.scheduler.carry_out(&pause), None);
        order(&lane, &pause).expect("done");
        assert!(lane.counts().paused && !other.counts().paused);
        let job = hang(&ours, &lane);
        for action in [
            Action::Cancel { job: job.id() },
            Action::Retry { job: job.id() },
            Action::Pause {
                lane: LaneRef::named("missing"),
            },
            Action::Unknown,
        ] {
            assert_eq!(other.scheduler.carry_out(&action), None, "{action}");
        }
    }

    /// F97: cancel, wherever the job stands.
    #[tokio::test(start_paused = true)]
    async fn a_job_is_cancelled_whether_it_runs_is_queued_or_waits() {
        let ax = Scheduler::new();
        let lane = ax.lane("cancel").limit(1).cancel_grace(MS);
        let lane = lane.open().expect("new");
        let running = hang(&ax, &lane);
        sleep(MS).await;
        let queued: Vec<_> = (0..5_000).map(|_| hang(&ax, &lane)).collect();
        let job = ax.job("later", |_| pending::<Result<(), Infallible>>());
        let job = job.lane(&lane).delay(Duration::from_mins(1)).submit();
        let waits = job.expect("room");
        let cancel = |job: &JobHandle<()>| order(&lane, &Action::Cancel { job: job.id() });
        let last = queued.last().expect("many");
        assert!(cancel(last).expect("done").contains("was ready"));
        assert!(cancel(&waits).expect("done").contains("was waiting"));
        assert!(cancel(&running).expect("done").contains("was asked to end"));
        assert!(matches!(waits.await, Err(JobError::Cancelled)));
        assert!(matches!(running.await, Err(JobError::Cancelled)));
        let counts = lane.counts();
        assert_eq!(counts.counters.cancelled_total, 3);
        let gone = Action::Cancel { job: last.id() };
        // A cancelled job may stand in the queue for a while.
        let again = lane.scheduler.carry_out(&gone);
        assert!(again.is_none_or(|outcome| outcome.is_err()));
    }

    /// F97: retry, from the manual list and from nowhere else.
    #[tokio::test(start_paused = true)]
    async fn a_job_of_the_manual_list_is_queued_again() {
        let ax = Scheduler::new();
        let lane = ax.lane("manual").open().expect("new");
        let failing = ax.job("fails", |cx| async move {
            if cx.token().is_cancelled() {
                return Ok(());
            }
            Err(io::Error::other("no"))
        });
        let once = Backoff::fixed(MS).retries(0).or_manual();
        let failing = failing.lane(&lane).retry(once).submit().expect("room");
        let running = hang(&ax, &lane);
        sleep(MS * 5).await;
        let retry = |job| order(&lane, &Action::Retry { job });
        assert_eq!(ax.manual_list().len(), 1);
        assert!(retry(failing.id()).expect("done").contains("queued again"));
        sleep(MS * 5).await;
        assert_eq!(lane.counts().counters.started_total, 3);
        let why = retry(running.id()).expect_err("it runs");
        assert!(why.contains("is running"), "{why}");
    }
}
