//! What is said where every rule has found nothing.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    answer::{Finding, Reach, amount, count, share, time},
    case::Case,
    words::{duration, percent},
};

/// `lag p99 0.3 ms, nothing waits, CPU 12 %`. Lag is that of now: what was late a while ago and is over does not go
/// together with "healthy", and is told as what it is.
pub(super) fn finding(case: &Case<'_>) -> Finding {
    let minute = case.window.lag();
    let now_ns = minute.p99_ns.map(|_| case.lag.p99_ns);
    let was_late = minute
        .max_ns
        .filter(|max_ns| *max_ns >= case.severe_ns() && *max_ns > case.lag.max_ns);
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
    let late = now_ns.map_or_else(
        || "no lag measured".to_owned(),
        |ns| format!("lag p99 {}", duration(ns)),
    );
    let before = was_late.map_or_else(String::new, |max_ns| {
        format!(" (within the minute {})", duration(max_ns))
    });
    let cpu = used.map_or_else(
        || "CPU unknown".to_owned(),
        |used| format!("CPU {}", percent(used / cpus)),
    );
    Finding::new(
        VerdictId::Healthy,
        Severity::Info,
        format!("{late}{before}, {waits}, {cpu}"),
    )
    .sure(0.9)
    .hurts(Reach::Nobody)
    .evidence_if(now_ns.map(|ns| time("event-loop lag p99 over 3 s", ns)))
    .evidence_if(
        minute
            .p99_ns
            .map(|ns| time("event-loop lag p99 over a minute", ns)),
    )
    .evidence(count("jobs queued", pending))
    .evidence_if(used.map(|used| share("CPU", used / cpus)))
    .evidence_if(used.map(|used| amount("CPUs used", used)))
}
