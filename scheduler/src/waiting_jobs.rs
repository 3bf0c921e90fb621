//! The jobs that wait for other jobs or a person, told once a second: who waits in vain.

use ax_probe::task_type::place_text;
use ax_wire::sample::{
    MAX_WAITED_FOR, MAX_WAITING_JOBS, TaskRef, WaitedFor, WaitingJob, WaitingReason,
};

use crate::{
    cell::Header,
    hub::Hub,
    ledger::{Dep, Ledger, WaitKind, Waiting},
};

/// Waiting jobs that are looked at under the ledger's lock, which are the oldest: some 100 us.
const LOOKS: usize = 1_024;

impl Hub {
    /// Appends them, the oldest first. None where the ledger's lock is held.
    pub(crate) fn waiting_jobs(&self, now_ns: u64, out: &mut Vec<WaitingJob>) {
        if let Some(ledger) = self.ledger.try_lock() {
            ledger.waiting_jobs(now_ns, out);
        }
    }
}

impl Ledger {
    fn waiting_jobs(&self, now_ns: u64, out: &mut Vec<WaitingJob>) {
        // By id, which is the order of submission. Jobs that wait for their time wait for nobody.
        let waiting =
            self.waiting.values().take(LOOKS).filter(|waiting| {
                matches!(waiting.kind, WaitKind::Dependencies | WaitKind::Person)
            });
        out.extend(
            waiting
                .take(MAX_WAITING_JOBS)
                .map(|waiting| told(waiting, now_ns)),
        );
    }
}

fn told(waiting: &Waiting, now_ns: u64) -> WaitingJob {
    let header = waiting.job.header();
    let on = waiting.unmet.iter().take(MAX_WAITED_FOR);
    let mut on: Vec<_> = on
        .map(|dep| match dep {
            Dep::Job(id) => WaitedFor {
                job: Some(*id),
                name: None,
            },
            Dep::Name(name) => WaitedFor {
                job: None,
                name: Some(name.to_string()),
            },
        })
        .collect();
    on.sort_by(|a, b| (a.job, &a.name).cmp(&(b.job, &b.name)));
    WaitingJob {
        task: task(header),
        name: header
            .plan()
            .and_then(|plan| plan.name.as_deref())
            .map(str::to_owned),
        age_ns: now_ns.saturating_sub(waiting.since_ns),
        reason: match waiting.kind {
            WaitKind::Dependencies => WaitingReason::Dependencies,
            WaitKind::Time => WaitingReason::Time,
            WaitKind::Retry | WaitKind::Budget => WaitingReason::Retry,
            WaitKind::Person => WaitingReason::Person,
        },
        on,
    }
}

fn task(header: &Header) -> TaskRef {
    TaskRef {
        name: header.task.name().to_owned(),
        kind: header.task.kind(),
        job: Some(header.id),
        lane: Some(header.lane.name.to_string()),
        place: Some(place_text(header.place)),
        trace: Some(header.trace()),
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use crate::{Scheduler, time};

    /// F63: who waits for whom, and for what nobody has submitted.
    #[tokio::test(start_paused = true)]
    async fn a_job_that_waits_in_vain_is_told_with_the_name_it_waits_for() {
        let ax = Scheduler::new();
        let lane = ax.lane("waiting-told").limit(2).open().expect("opens");
        let job = |name: &str| {
            let job = ax.job("step", |_| async { Ok::<_, Infallible>(()) });
            job.lane(&lane).named(name)
        };
        let report = job("report").after(["ledger"]).submit().expect("accepted");
        let _mail = job("mail").after([&report]).submit().expect("accepted");
        let _plain = ax
            .job("plain", |_| async { Ok::<_, Infallible>(()) })
            .lane(&lane)
            .submit();
        tokio::time::sleep(Duration::from_secs(7)).await;
        let mut told = Vec::new();
        lane.shared.hub.waiting_jobs(time::now_ns(), &mut told);
        let names: Vec<_> = told.iter().map(|job| job.name.as_deref()).collect();
        assert_eq!(names, [Some("report"), Some("mail")]);
        assert_eq!(told[0].on[0].name.as_deref(), Some("ledger"));
        assert_eq!(told[0].on[0].job, None, "nobody has submitted it");
        assert_eq!(told[1].on[0].job, Some(report.id()));
        assert!(told[0].age_ns >= 7_000_000_000);
    }
}
