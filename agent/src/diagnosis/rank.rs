//! Puts the cause first. Much that looks wrong follows from something else: a lane is full because the loop was stalled,
//! a pool is empty because the process got no CPU. What is explained stands below what explains it.

use ax_wire::verdict::{Explained, VerdictId};

use super::{
    RULES,
    answer::{Finding, Reach},
};

/// A finding in its place, with those that follow from it.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) finding: Finding,
    pub(crate) explains: Vec<Explained>,
}

/// Likeliest cause first.
pub(crate) fn rank(findings: Vec<Finding>) -> Vec<Ranked> {
    let mut findings = findings;
    findings.sort_by(|a, b| {
        let order = |finding: &Finding| (std::cmp::Reverse(finding.severity), tier(finding.id));
        order(a)
            .cmp(&order(b))
            .then(b.confidence.total_cmp(&a.confidence))
    });
    // The nearest cause of each, where one has any: the first in the order of rules, which goes from the machine to the
    // service's own lanes.
    let mut by_tier: Vec<usize> = (0..findings.len()).collect();
    by_tier.sort_by_key(|at| tier(findings[*at].id));
    let causes: Vec<Option<(usize, String)>> = findings
        .iter()
        .enumerate()
        .map(|(at, finding)| {
            by_tier
                .iter()
                .filter(|cause| **cause != at)
                .find_map(|cause| Some((*cause, because(&findings[*cause], finding)?)))
        })
        .collect();
    let root = |mut at: usize| {
        // A circle of explanations would be a fault of ours; it ends where it began.
        for _ in 0..findings.len() {
            match &causes[at] {
                Some((cause, _)) => at = *cause,
                None => break,
            }
        }
        at
    };
    let explained_by: Vec<Option<(usize, Explained)>> = (0..findings.len())
        .map(|at| {
            let (_, because) = causes[at].as_ref()?;
            let explained = Explained {
                id: findings[at].id,
                subject: findings[at].subject.clone(),
                because: because.clone(),
            };
            Some((root(at), explained))
        })
        .collect();
    let mut ranked: Vec<(bool, Ranked)> = findings
        .into_iter()
        .enumerate()
        .map(|(at, finding)| {
            let explains = explained_by
                .iter()
                .flatten()
                .filter(|(cause, _)| *cause == at);
            let explains = explains.map(|(_, explained)| explained.clone()).collect();
            let is_explained = explained_by[at].is_some();
            (is_explained, Ranked { finding, explains })
        })
        .collect();
    ranked.sort_by_key(|(is_explained, _)| *is_explained);
    ranked.into_iter().map(|(_, ranked)| ranked).collect()
}

/// The place of a cause in [`RULES`].
fn tier(id: VerdictId) -> usize {
    let mut rules = RULES.iter();
    rules
        .position(|rule| rule.id() == id)
        .unwrap_or(RULES.len())
}

/// Below this a finding of an overloaded loop has named no poll.
const NAMED_A_POLL: f64 = 0.8;

/// Why `other` only looks so, where `cause` is there.
fn because(cause: &Finding, other: &Finding) -> Option<String> {
    use VerdictId as V;
    let what = looks(other);
    let overload = other.id == V::CpuBoundPoll && other.confidence < NAMED_A_POLL;
    let waits = matches!(
        other.id,
        V::DownstreamSlow
            | V::PoolTooSmall
            | V::LaneSaturated
            | V::PriorityStarvation
            | V::RetryStorm
            | V::BlockingPoolExhausted
            | V::BlockingPoolBusy
            | V::MemoryGrowth
    );
    let shares = shares_a_lane(cause, other);
    match cause.id {
        V::ProcessFrozen => Some(format!("{what} because the process does not run")),
        V::CpuThrottled if waits || overload || other.id == V::CpuStarvation => Some(format!(
            "{what} because the process was stopped by its CPU quota"
        )),
        V::RuntimeDeadlock if waits || matches!(other.id, V::BlockingCall | V::SlotLeak) => {
            Some(format!("{what} because no worker moves"))
        }
        V::LockContention | V::BlockingCall | V::CpuBoundPoll if waits => {
            Some(format!("{what} because the loop was stalled"))
        }
        V::CpuOutsideRuntime
            if other.id == V::CpuStarvation || other.id == V::BlockingPoolBusy || overload =>
        {
            Some(format!(
                "{what} because the service's other threads have the CPUs"
            ))
        }
        V::BusyPoll
            if other.id == V::CpuStarvation || overload || other.id == V::CpuOutsideRuntime =>
        {
            Some(format!(
                "{what} because a task that wakes itself keeps them busy"
            ))
        }
        V::CpuStarvation if waits || overload => {
            Some(format!("{what} because the workers got no CPU"))
        }
        V::FdExhausted
            if matches!(
                other.id,
                V::DownstreamSlow | V::RetryStorm | V::LaneSaturated | V::PoolTooSmall
            ) =>
        {
            Some(format!("{what} because no connection can be opened"))
        }
        V::BlockingPoolExhausted if waits || matches!(other.id, V::SlotLeak) => Some(format!(
            "{what} because its work waits for a blocking thread"
        )),
        V::AsyncDeadlock
            if matches!(
                other.id,
                V::SlotLeak
                    | V::LaneSaturated
                    | V::PoolTooSmall
                    | V::PriorityStarvation
                    | V::MemoryGrowth
            ) && (shares || other.id == V::MemoryGrowth) =>
        {
            Some(format!(
                "{what} because jobs that wait for each other hold the slots"
            ))
        }
        V::DownstreamSlow if other.id == V::PoolTooSmall && cause.subject == other.subject => Some(
            format!("{what} because each call keeps its client for longer"),
        ),
        V::DownstreamSlow
            if matches!(
                other.id,
                V::LaneSaturated
                    | V::SlotLeak
                    | V::RetryStorm
                    | V::PriorityStarvation
                    | V::MemoryGrowth
                    | V::BlockingPoolBusy
            ) && (shares || matches!(other.id, V::MemoryGrowth | V::BlockingPoolBusy)) =>
        {
            let name = cause.subject.as_deref().unwrap_or("it");
            Some(format!("{what} because its jobs wait for `{name}`"))
        }
        V::PoolTooSmall
            if matches!(
                other.id,
                V::LaneSaturated | V::SlotLeak | V::PriorityStarvation | V::MemoryGrowth
            ) && (shares || other.id == V::MemoryGrowth) =>
        {
            let name = cause.subject.as_deref().unwrap_or("it");
            Some(format!(
                "{what} because its jobs queue for a client of `{name}`"
            ))
        }
        V::RetryStorm if matches!(other.id, V::LaneSaturated | V::PriorityStarvation) && shares => {
            Some(format!("{what} because retries take its slots"))
        }
        V::SlotLeak if matches!(other.id, V::LaneSaturated | V::PriorityStarvation) && shares => {
            Some(format!(
                "{what} because jobs that do not move keep its slots"
            ))
        }
        V::PriorityStarvation if other.id == V::LaneSaturated && shares => {
            Some(format!("{what} because what waits is of low priority"))
        }
        V::LaneSaturated if other.id == V::MemoryGrowth => {
            Some(format!("{what} because jobs pile up in a full lane"))
        }
        _ => None,
    }
}

fn shares_a_lane(cause: &Finding, other: &Finding) -> bool {
    match (&cause.reach, &other.reach) {
        (Reach::Everyone, _) => true,
        (Reach::Lanes(own), Reach::Lanes(others)) => own.iter().any(|lane| others.contains(lane)),
        _ => false,
    }
}

/// `lane db looks saturated`.
fn looks(finding: &Finding) -> String {
    use VerdictId as V;
    let subject = finding.subject.as_deref().unwrap_or_default();
    match finding.id {
        V::LaneSaturated => format!("lane {subject} looks saturated"),
        V::PriorityStarvation => format!("low priorities of lane {subject} look starved"),
        V::SlotLeak => format!("lane {subject} looks as if its slots leaked"),
        V::RetryStorm => format!("lane {subject} retries"),
        V::DownstreamSlow => format!("{subject} looks slow"),
        V::PoolTooSmall => format!("the pool of {subject} looks too small"),
        V::BlockingPoolExhausted => "the blocking pool looks exhausted".to_owned(),
        V::BlockingPoolBusy => "the blocking pool looks busy".to_owned(),
        V::MemoryGrowth => "memory grows".to_owned(),
        V::CpuStarvation => "the workers look starved".to_owned(),
        V::CpuBoundPoll => "the workers look overloaded".to_owned(),
        other => format!("{other} is seen"),
    }
}
