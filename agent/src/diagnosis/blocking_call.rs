//! A poll sleeps in the kernel on a worker: a file, a name look-up, a process, a socket, a sleep.

use ax_wire::{sample::KernelWait, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, count, share, time},
    case::Case,
    stalls::{Group, Manner},
    words::{duration, find_unnamed, poll_of, worker_of},
};

pub(super) struct BlockingCall;

impl Rule for BlockingCall {
    fn id(&self) -> VerdictId {
        VerdictId::BlockingCall
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        let sleeps = |manner| matches!(manner, Manner::Sleeps(_));
        let group = Group::of(&case.stalls, case.severe_ns(), |seen| sleeps(seen.manner));
        let Some(group) = group else {
            return Answer::Fine;
        };
        let stall = group.worst.stall;
        let waits_in = match group.worst.manner {
            Manner::Sleeps(waits_in) => waits_in,
            _ => None,
        };
        let what = waits_in.map_or_else(
            || "in the kernel".to_owned(),
            |waits_in| format!("in the kernel ({})", waits_in.label()),
        );
        let sentence = format!(
            "{} slept {} {what} on {}.",
            poll_of(stall.task.as_ref()),
            duration(group.longest_ns()),
            worker_of(stall)
        );
        let own_ns = stall.length_ns.max(1);
        let off = stall
            .on_cpu_ns
            .map(|on| 1.0 - (on as f64 / own_ns as f64).min(1.0));
        Finding::new(VerdictId::BlockingCall, group.severity(case), sentence)
            .sure(if waits_in.is_some() { 0.95 } else { 0.85 })
            .since(group.began_mono_ns)
            .by(group.culprit())
            .evidence(time("longest poll", group.longest_ns()).against(case.stall_ns() as f64))
            .evidence_if(off.map(|off| share("off the CPU meanwhile", off)))
            .evidence(count("stalls in the last 5 s", group.stalls.len() as u64))
            .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns))
            .next_if(find_unnamed(stall.task.as_ref()).map(str::to_owned))
            .next(advice(waits_in))
            .next("or run it on a blocking lane, or in `spawn_blocking`")
            .into()
    }
}

fn advice(waits_in: Option<KernelWait>) -> &'static str {
    match waits_in {
        Some(KernelWait::Sleep) => "await `tokio::time::sleep` in place of `std::thread::sleep`",
        Some(KernelWait::Child) => "use `tokio::process` in place of `std::process`",
        Some(KernelWait::Socket | KernelWait::Poll) => {
            "use an asynchronous client, and `tokio::net::lookup_host` for names"
        }
        Some(KernelWait::Read | KernelWait::Write | KernelWait::File | KernelWait::Sync) => {
            "use `tokio::fs`; for a log, a writer that does not block (`tracing_appender::non_blocking`)"
        }
        _ => "use the asynchronous form of the call",
    }
}
