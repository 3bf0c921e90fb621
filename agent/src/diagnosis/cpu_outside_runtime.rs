//! The CPU is used, and not by the workers: threads of our own that the runtime does not know of.

use ax_wire::{
    alert::Severity,
    sample::{ThreadGroupKind, ThreadGroupSample},
    verdict::{Culprit, VerdictId},
};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, amount, share, time},
    case::{Case, HELD},
};

/// Of the CPUs that the process may use, the share that goes elsewhere: on a busy machine it gets no more.
const MUCH: f64 = 0.2;

/// Less than this is nothing, however small the quota is.
const LEAST_CPUS: f64 = 0.1;

/// Times what is usual: a service may well compute on threads of its own.
const TIMES: f64 = 2.0;

/// From this share of the CPUs on it is said whatever is usual.
const NEARLY_ALL: f64 = 0.8;

/// And of the CPU that it does use, so much.
const MOST: f64 = 0.6;

pub(super) struct CpuOutsideRuntime;

impl Rule for CpuOutsideRuntime {
    fn id(&self) -> VerdictId {
        VerdictId::CpuOutsideRuntime
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(needs) = case.lacks_seconds(HELD) {
            return Answer::needs(needs);
        }
        let outside = case.mean(|host| host.outside_cpus);
        let Some((outside, used)) = outside.zip(case.cpus_used()) else {
            return Answer::needs(
                "the CPU time of the workers' threads, which the probe could not read: it has not met them yet, or has no file \
                 descriptor left",
            );
        };
        let usual = case.usual(|second| Some(f64::from(second.host.outside_cpus?)));
        let least = MUCH * case.cpus();
        let much = match usual {
            Some(usual) => least.max(TIMES * usual.median),
            None => NEARLY_ALL * case.cpus(),
        };
        let much = much.min(NEARLY_ALL * case.cpus()).max(LEAST_CPUS);
        let each = case.held(|second| {
            let of_second = second.host.outside_cpus.map(f64::from);
            of_second.is_some_and(|cpus| cpus >= 0.75 * much)
        });
        if outside < much || outside < MOST * used || !each {
            return Answer::Fine;
        }
        let group = busiest(case);
        let who = group.map_or_else(
            || "threads that are no workers".to_owned(),
            |(group, _)| match group.kind {
                ThreadGroupKind::Blocking => "the blocking pool".to_owned(),
                _ => format!("threads named `{}`", group.name),
            },
        );
        let sentence = format!(
            "{outside:.1} of {:.1} CPUs are used by {who}, outside the event loop.",
            case.cpus()
        );
        let culprit = group.map(|(group, _)| Culprit {
            task_type: blocking_task(case, group),
            place: None,
            frame: Some(format!("thread {}", group.name)),
            ..Culprit::default()
        });
        Finding::new(VerdictId::CpuOutsideRuntime, Severity::Warning, sentence)
            .sure(if group.is_some() { 0.9 } else { 0.8 })
            .by(culprit)
            .evidence(amount("CPUs used outside the workers", outside).against(much))
            .evidence(share("of the CPU that the process uses", outside / used.max(1e-9)).against(MOST))
            .evidence_if(case.mean(|host| host.worker_cpus).map(|cpus| amount("CPUs used by the workers", cpus)))
            .evidence_if(group.map(|(group, cpus)| amount(&format!("CPUs used by {}", group.name), cpus)))
            .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns))
            .next(format!(
                "look at those threads (`top -H -p {}`); limit how many run at once",
                case.hello().pid
            ))
            .next("run the work on a lane with a limit below the number of CPUs, so that the workers keep theirs")
            .into()
    }
}

/// The threads, workers and our own left out, that used most since the sample before, and how many CPUs they used.
fn busiest<'a>(case: &Case<'a>) -> Option<(&'a ThreadGroupSample, f64)> {
    let change = case.window.change()?;
    let before = change.before()?;
    let interval_ns = change.interval_ns()? as f64;
    let groups = case.latest.threads.iter().filter(|group| {
        matches!(
            group.kind,
            ThreadGroupKind::Blocking | ThreadGroupKind::Other
        )
    });
    let used = groups.filter_map(|group| {
        let mut known = before.threads.iter();
        let known = known.find(|known| known.name == group.name && known.kind == group.kind)?;
        let added = group.cpu_ns_total.checked_sub(known.cpu_ns_total)?;
        Some((group, added as f64 / interval_ns))
    });
    used.max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, cpus)| *cpus > 0.1)
}

/// The blocking closure with a name that runs most, where it is the blocking pool.
fn blocking_task(case: &Case<'_>, group: &ThreadGroupSample) -> Option<String> {
    if group.kind != ThreadGroupKind::Blocking {
        return None;
    }
    let types = case.types().map(|of| &of.entry.value.latest);
    let running =
        types.filter(|of| of.kind == ax_wire::sample::TaskKind::Blocking && of.running > 0);
    running
        .max_by_key(|of| of.running)
        .map(|of| of.name.clone())
}
