//! A poll computes for too long on a worker, and everything behind it waits.

use ax_wire::{alert::Severity, verdict::VerdictId};

use super::{
    Rule,
    answer::{Against as _, Answer, Finding, count, rate, share, time},
    case::Case,
    stalls::{Group, Manner},
    words::{culprit_of, duration, find_unnamed, percent, poll_of, worker_of},
};

/// Workers that are busy for so much of the time take on more than they can do.
const OVERLOADED: f64 = 0.95;

/// So much of that time is spent on a CPU: a worker in a call that blocks is busy, too.
const ON_CPU: f64 = 0.7;

pub(super) struct CpuBoundPoll;

impl Rule for CpuBoundPoll {
    fn id(&self) -> VerdictId {
        VerdictId::CpuBoundPoll
    }

    fn check(&self, case: &Case<'_>) -> Answer {
        if let Some(found) = long_polls(case) {
            return found.into();
        }
        if let Some(needs) = case.lacks_seconds(super::case::HELD) {
            return Answer::needs(needs);
        }
        overload(case).into()
    }
}

/// Stalls in which the thread was on a CPU.
fn long_polls(case: &Case<'_>) -> Option<Finding> {
    let sure = Group::of(&case.stalls, case.severe_ns(), |seen| {
        seen.manner == Manner::Computes
    });
    // Many short polls that tokio had not yet published look alike: the loop must be late as well.
    let unsure = || {
        let group = Group::of(&case.stalls, case.severe_ns(), |seen| {
            seen.manner == Manner::MayCompute
        });
        group.filter(|_| !case.loop_is_fine())
    };
    let (group, confidence) = match sure {
        Some(group) => (group, 0.95),
        None => (unsure()?, 0.6),
    };
    let stall = group.worst.stall;
    let own_ns = stall
        .length_ns
        .saturating_sub(stall.run_queue_ns.unwrap_or(0))
        .max(1);
    let computed = stall.on_cpu_ns.map(|on| on as f64 / own_ns as f64);
    let sentence = format!(
        "{} computed for {} on {} without letting go.",
        poll_of(stall.task.as_ref()),
        duration(group.longest_ns()),
        worker_of(stall)
    );
    let finding = Finding::new(VerdictId::CpuBoundPoll, group.severity(case), sentence)
        .sure(confidence)
        .since(group.began_mono_ns)
        .by(group.culprit())
        .evidence(time("longest poll", group.longest_ns()).against(case.stall_ns() as f64))
        .evidence_if(computed.map(|c| share("on a CPU meanwhile", c.min(1.0)).against(0.8)))
        .evidence(count("stalls in the last 5 s", group.stalls.len() as u64))
        .evidence(time("event-loop lag p99 over 3 s", case.lag.p99_ns))
        .next_if(find_unnamed(stall.task.as_ref()).map(str::to_owned))
        .next("move the computation to `spawn_blocking`, a blocking lane or a thread pool")
        .next("or split it, with `tokio::task::yield_now().await` between the parts");
    Some(finding)
}

/// No poll is long, and yet the workers never come to rest.
fn overload(case: &Case<'_>) -> Option<Finding> {
    let busy = case.mean(|host| host.busy_share)?;
    let workers: usize = case.latest.runtimes.iter().map(|r| r.workers.len()).sum();
    let on_cpu = case.mean(|host| host.worker_cpus)? / workers.max(1) as f64;
    let late = !case.loop_is_fine();
    if !late || busy < OVERLOADED || on_cpu < ON_CPU {
        return None;
    }
    let heaviest = case.types().max_by_key(|of| {
        let polled = of.newest().map(|second| {
            let one_ns = second.poll.p50_ns().unwrap_or(0);
            one_ns.saturating_mul(second.poll.count())
        });
        polled.fold(0, u64::saturating_add)
    });
    let polls: u64 = heaviest
        .iter()
        .flat_map(|of| of.newest().map(|second| second.poll.count()))
        .sum();
    let heaviest = heaviest.filter(|_| polls > 0);
    let latest = heaviest.map(|of| &of.entry.value.latest);
    let most = latest.map_or_else(String::new, |of| {
        format!("; most of it in polls of `{}`", of.name)
    });
    let sentence = format!(
        "The workers have more to compute than they can: {} busy without one long poll{most}.",
        percent(busy)
    );
    let culprit = latest.map(|of| {
        culprit_of(&ax_wire::sample::TaskRef {
            name: of.name.clone(),
            kind: of.kind,
            job: None,
            lane: of.lane.clone(),
            place: of.place.clone(),
            trace: None,
        })
    });
    let finding = Finding::new(VerdictId::CpuBoundPoll, Severity::Warning, sentence)
        .sure(0.7)
        .by(culprit)
        .evidence(share("workers busy", busy).against(OVERLOADED))
        .evidence(share("workers on a CPU", on_cpu))
        .evidence(
            time("event-loop lag p99 over 3 s", case.lag.p99_ns).against(case.stall_ns() as f64),
        )
        .evidence(rate("its polls", polls as f64 / super::case::HELD as f64))
        .next("take on less at once: lower the lanes' limits, or refuse sooner")
        .next("move what computes to `spawn_blocking` or a blocking lane; add workers or machines");
    Some(finding)
}
