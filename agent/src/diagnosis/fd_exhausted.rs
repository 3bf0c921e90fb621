//! No file descriptors are left: what has to open one fails.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, count, rate},
    case::Case,
};

/// From this share of the limit on, the next burst finds none.
const NEARLY: f64 = 0.9;

/// So many left are as good as none.
const AS_GOOD_AS_NONE: u64 = 8;

pub(super) struct FdExhausted;

impl Rule for FdExhausted {
    fn id(&self) -> VerdictId {
        VerdictId::FdExhausted
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let process = &case.latest.process;
        let Some((open, limit)) = process.open_files.zip(process.open_files_limit) else {
            return Answer::needs("the number of open files, which this system does not tell");
        };
        let left = limit.saturating_sub(open);
        if (open as f64) < NEARLY * limit as f64 && left > AS_GOOD_AS_NONE {
            return Answer::Fine;
        }
        let severity = if left <= AS_GOOD_AS_NONE {
            Severity::Critical
        } else {
            Severity::Warning
        };
        let sentence = format!(
            "{open} of {limit} file descriptors are open: connections, files and sockets that need one more fail."
        );
        let mut seconds = case.newest();
        let newest = seconds.next().and_then(|second| second.host.open_files);
        let oldest = seconds.last().and_then(|second| second.host.open_files);
        let grows = newest
            .zip(oldest)
            .map(|(newest, oldest)| newest.saturating_sub(oldest) as f64 / 2.0);
        Finding::new(VerdictId::FdExhausted, severity, sentence)
            .sure(0.95)
            .evidence(count("open file descriptors", open).against(limit as f64))
            .evidence_if(grows.filter(|grows| *grows > 0.0).map(|grows| rate("opened more", grows)))
            .next(format!(
                "see what they are (`ls -l /proc/{}/fd | awk '{{print $NF}}' | sort | uniq -c | sort -n`)",
                case.hello().pid
            ))
            .next("close what leaks; bound the connections; raise the limit (`LimitNOFILE=`, `ulimit -n`)")
            .into()
    }
}
