//! The process is stopped, or has gone silent.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Answer, Finding, amount, time},
    case::Case,
    words::duration,
};
use crate::history::Outside;

/// A service that sends a sample a second and none for so long is stopped, where the kernel says so.
const STOPPED_NS: u64 = 1_500_000_000;

/// And silent, where the kernel says nothing.
const SILENT_NS: u64 = 3_000_000_000;

pub(super) struct ProcessFrozen;

impl Rule for ProcessFrozen {
    fn id(&self) -> VerdictId {
        VerdictId::ProcessFrozen
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let history = case.window.history();
        let pid = case.hello().pid;
        let Some(silent_ns) = history.silent_ns(case.now) else {
            return Answer::Fine;
        };
        let outside = history.outside();
        let stopped = outside.is_some_and(|outside| matches!(outside.state, 'T' | 't'));
        let began = case.window.newest_mono_ns();
        if stopped && silent_ns >= STOPPED_NS {
            let sentence = format!(
                "The process is stopped (state T) and has said nothing for {}.",
                duration(silent_ns)
            );
            return Finding::new(VerdictId::ProcessFrozen, Severity::Critical, sentence)
                .sure(0.99)
                .since(began)
                .evidence(time("silent for", silent_ns))
                .next(format!("wake it with `kill -CONT {pid}`; find who stopped it: a debugger, a job control, a freezer"))
                .into();
        }
        // One that runs is not frozen, whatever it does not come to.
        if silent_ns < SILENT_NS || outside.is_some_and(Outside::runs) {
            return Answer::Fine;
        }
        let cpus = outside.and_then(|outside| outside.cpus_used);
        let state = outside.map(|outside| outside.state);
        let why = match (state, cpus) {
            (Some('D'), _) => {
                "it waits in the kernel for a disk or a network file system (state D)"
            }
            (Some('Z' | 'X'), _) => "it is dead and its parent has not asked for it (state Z)",
            (_, Some(_)) => {
                "it uses no CPU: a freezer, a suspended machine, or memory that is swapped out"
            }
            (_, None) => "whether it runs is not known from here",
        };
        let sentence = format!(
            "The process has gone silent for {}: {why}.",
            duration(silent_ns)
        );
        Finding::new(VerdictId::ProcessFrozen, Severity::Critical, sentence)
            .sure(if cpus.is_some() { 0.85 } else { 0.6 })
            .since(began)
            .evidence(time("silent for", silent_ns))
            .evidence_if(cpus.map(|cpus| amount("CPUs used meanwhile", cpus)))
            .next(format!(
                "look at its state and stacks from outside (`cat /proc/{pid}/status /proc/{pid}/wchan`, `gdb -p {pid}`)"
            ))
            .next("look at the freezer of its control group, and at memory (swap)")
            .into()
    }
}
