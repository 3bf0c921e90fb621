//! The quota of the control group is spent: the whole process stands still until the next period.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, amount, share, time},
    case::Case,
    words::percent,
};

/// From this share of periods on, it is felt.
const FELT: f64 = 0.15;

/// From this one on, little else is.
const SEVERE: f64 = 0.5;

pub(super) struct CpuThrottled;

impl Rule for CpuThrottled {
    fn id(&self) -> VerdictId {
        VerdictId::CpuThrottled
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let Some(cgroup) = case.latest.process.cgroup_cpu else {
            return Answer::Fine;
        };
        let Some(throttled) = case.mean(|host| host.throttled_share) else {
            return Answer::needs("two samples with the account of the control group");
        };
        let last = case
            .newest()
            .next()
            .and_then(|second| second.host.throttled_share);
        if throttled < FELT || last.is_none_or(|last| last <= 0.0) {
            return Answer::Fine;
        }
        let severity = if throttled >= SEVERE {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let used = case.cpus_used();
        let sentence = format!(
            "The control group allows {:.2} CPUs and was stopped in {} of its periods: the process stands still until the \
             next one.",
            cgroup.cpus(),
            percent(throttled)
        );
        let run_queue = case.mean(|host| host.run_queue_share);
        Finding::new(VerdictId::CpuThrottled, severity, sentence)
            .sure(0.95)
            .evidence(share("periods stopped, over 3 s", throttled).against(FELT))
            .evidence_if(used.map(|used| amount("CPUs used", used).against(cgroup.cpus())))
            .evidence_if(run_queue.map(|share_of| share("workers without a CPU", share_of)))
            .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns))
            .next("raise the CPU quota (cpu.max, the container's CPU limit), or remove it and keep the request")
            .next("or use less: fewer workers than CPUs allowed, lower limits on the lanes")
            .into()
    }
}
