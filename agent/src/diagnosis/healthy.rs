//! What is said where every rule has found nothing.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    answer::{Finding, Reach, amount, count, share, time},
    case::Case,
    words::{duration, percent},
};

/// `lag p99 0.3 ms, nothing waits, CPU 12 %`.
pub(super) fn finding(case: &Case<'_>) -> Finding {
    let lag = case.window.lag();
    let pending: u64 = case
        .lanes()
        .map(|lane| lane.entry.value.latest.pending)
        .fold(0, u64::saturating_add);
    let used = case.cpus_used();
    let cpus = f64::from(case.hello().cpus.max(1));
    let waits = match pending {
        0 => "nothing waits".to_owned(),
        1 => "1 job waits".to_owned(),
        many => format!("{many} jobs wait"),
    };
    let late = lag.p99_ns.map_or_else(
        || "no lag measured".to_owned(),
        |ns| format!("lag p99 {}", duration(ns)),
    );
    let cpu = used.map_or_else(
        || "CPU unknown".to_owned(),
        |used| format!("CPU {}", percent(used / cpus)),
    );
    Finding::new(
        VerdictId::Healthy,
        Severity::Info,
        format!("{late}, {waits}, {cpu}"),
    )
    .sure(0.9)
    .hurts(Reach::Nobody)
    .evidence_if(
        lag.p99_ns
            .map(|ns| time("event-loop lag p99 over a minute", ns)),
    )
    .evidence(count("jobs queued", pending))
    .evidence_if(used.map(|used| share("CPU", used / cpus)))
    .evidence_if(used.map(|used| amount("CPUs used", used)))
}
