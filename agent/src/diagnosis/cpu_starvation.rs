//! Workers could run and get no CPU: others on the host, or threads of our own, have them.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, amount, share, time},
    case::{Case, HELD},
    stalls::Manner,
    words::{duration, percent},
};
use crate::history::SILENT_AFTER_NS;

/// Of the time in which workers could run, the share without a CPU from which on they starve: half of it at a machine
/// that is as full as it can be is still usual.
const STARVES: f64 = 0.4;

/// And of all time, so that a worker which hardly runs is not spoken of.
const FELT: f64 = 0.1;

/// Below so many times what is usual, it is as usual.
const ALWAYS: f64 = 1.5;

/// Lag that nobody feels.
const LEAST_LAG_NS: u64 = 10_000_000;

/// Share of throttled periods from which on the quota is what takes the CPU away.
const THROTTLED: f64 = 0.05;

pub(super) struct CpuStarvation;

impl Rule for CpuStarvation {
    fn id(&self) -> VerdictId {
        VerdictId::CpuStarvation
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(finding) = silenced(case) {
            return finding.into();
        }
        if let Some(needs) = case.lacks_seconds(HELD) {
            return Answer::needs(needs);
        }
        let waits = case.mean(|host| host.cpu_wait_share);
        let Some((waits, of_time)) = waits.zip(case.mean(|host| host.run_queue_share)) else {
            return Answer::needs(
                "the kernel's account of the workers' threads (schedstat), which is not there",
            );
        };
        let throttled = case.mean(|host| host.throttled_share);
        if throttled.is_some_and(|throttled| throttled >= THROTTLED) {
            return Answer::Fine;
        }
        let starved = case
            .stalls
            .iter()
            .filter(|seen| seen.manner == Manner::Starved);
        let longest_ns = starved.map(|seen| seen.stall.length_ns).max();
        let each = case.held(|second| {
            let host = &second.host;
            let above = |share: Option<f32>, least: f64| {
                share.is_some_and(|share| f64::from(share) >= 0.6 * least)
            };
            above(host.cpu_wait_share, STARVES) && above(host.run_queue_share, FELT)
        });
        let late = case.lag.p99_ns >= LEAST_LAG_NS;
        if waits < STARVES || of_time < FELT || !each || !late {
            return Answer::Fine;
        }
        // On a host that is always full it is true, and no news.
        let usual = case.usual(|second| Some(f64::from(second.host.cpu_wait_share?)));
        let always = usual.is_some_and(|usual| waits < ALWAYS * usual.median);
        let severity = match (case.loop_is_fine(), always) {
            (true, true) => Severity::Info,
            (true, false) | (false, true) => Severity::Warning,
            (false, false) => Severity::Critical,
        };
        let pressure = case.mean(|host| host.pressure_share);
        let sentence = format!(
            "The workers wait for a CPU in {} of the time in which they could run: others have the CPUs.",
            percent(waits)
        );
        Finding::new(VerdictId::CpuStarvation, severity, sentence)
            .sure(if pressure.is_some_and(|share| share > 0.2) { 0.9 } else { 0.75 })
            .evidence(share("waits for a CPU, of the time it could run", waits).against(STARVES))
            .evidence(share("waits for a CPU, of all time", of_time).against(FELT))
            .evidence_if(pressure.map(|of| share("CPU pressure of the host", of)))
            .evidence_if(longest_ns.map(|ns| time("longest time without a CPU", ns)))
            .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns).against(LEAST_LAG_NS as f64))
            .next("look who has the CPUs (`top`); move or limit that neighbour")
            .next("give the service a larger share (cpu.weight, CPUAffinity), or fewer workers than CPUs")
            .into()
    }
}

/// A process that runs and does not come to say so: what runs is not enough for a thread that wakes once a second.
fn silenced(case: &Case<'_>) -> Option<Finding> {
    let history = case.window.history();
    let silent_ns = history.silent_ns(case.now)?;
    let outside = history.outside()?;
    if silent_ns < SILENT_AFTER_NS || !outside.runs() {
        return None;
    }
    let sentence = format!(
        "The process runs a little and has said nothing for {}: it gets hardly any CPU.",
        duration(silent_ns)
    );
    let finding = Finding::new(VerdictId::CpuStarvation, Severity::Critical, sentence)
        .sure(0.7)
        .since(case.window.newest_mono_ns())
        .evidence(time("silent for", silent_ns))
        .evidence_if(
            outside
                .cpus_used
                .map(|cpus| amount("CPUs used meanwhile", cpus)),
        )
        .next("look who has the CPUs (`top`); move or limit that neighbour")
        .next("give the service a larger share (cpu.weight, CPUAffinity)");
    Some(finding)
}
