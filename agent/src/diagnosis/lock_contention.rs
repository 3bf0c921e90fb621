//! A poll waits for a lock of the standard library on a worker.

use ax_wire::verdict::VerdictId;

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, count, share, time},
    case::Case,
    runtime_deadlock,
    stalls::{Group, Manner},
    words::{duration, find_unnamed, poll_of, worker_of},
};

pub(super) struct LockContention;

impl Rule for LockContention {
    fn id(&self) -> VerdictId {
        VerdictId::LockContention
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        // Where nothing at all moves it is more than contention, and that is said instead.
        if runtime_deadlock::deadlocked(case).is_some() {
            return Answer::Fine;
        }
        let group = Group::of(&case.stalls, case.severe_ns(), |seen| {
            seen.manner == Manner::Lock
        });
        let Some(group) = group else {
            return Answer::Fine;
        };
        let stall = group.worst.stall;
        let off = stall
            .on_cpu_ns
            .map(|on| 1.0 - (on as f64 / stall.length_ns.max(1) as f64).min(1.0));
        let sentence = format!(
            "{} waited {} for a lock on {}, and held the worker up.",
            poll_of(stall.task.as_ref()),
            duration(group.longest_ns()),
            worker_of(stall)
        );
        let named = group.stalls.iter().any(|seen| seen.frame.is_some());
        Finding::new(VerdictId::LockContention, group.severity(case), sentence)
            .sure(if named { 0.95 } else { 0.8 })
            .since(group.began_mono_ns)
            .by(group.culprit())
            .evidence(time("longest wait", group.longest_ns()).against(case.stall_ns() as f64))
            .evidence_if(off.map(|off| share("off the CPU in a futex meanwhile", off)))
            .evidence(count("stalls in the last 5 s", group.stalls.len() as u64))
            .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns))
            .next_if(find_unnamed(stall.task.as_ref()).map(str::to_owned))
            .next("hold the lock for less: no I/O, no computing and no `.await` while it is held")
            .next("where it has to be held across an `.await`, take `tokio::sync::Mutex`")
            .into()
    }
}
