//! What follows from what: a table of the findings that only look like causes while another one is there.

use ax_wire::{
    alert::Severity,
    verdict::VerdictId::{
        self, AsyncDeadlock, BlockingCall, BlockingPoolBusy, BlockingPoolExhausted, BusyPoll,
        CpuBoundPoll, CpuOutsideRuntime, CpuStarvation, CpuThrottled, DownstreamSlow, FdExhausted,
        LaneSaturated, LockContention, MemoryGrowth, PoolTooSmall, PriorityStarvation, RetryStorm,
        RuntimeDeadlock, SlotLeak,
    },
};

use super::answer::{Finding, Reach};

/// A row: where one of `causes` is there, each of `follows` looks so because of it.
struct Row {
    causes: &'static [VerdictId],
    follows: &'static [VerdictId],
    tie: Tie,
    /// The end of the sentence; `{}` stands for what the cause is about.
    why: &'static str,
}

/// What cause and consequence must have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tie {
    /// Nothing: the cause is about the whole process.
    Process,
    /// A lane that both are about.
    Lane,
    /// What both are about, such as a downstream.
    Subject,
}

/// What waits longer where the loop or the whole process comes too late.
const WAITS: &[VerdictId] = &[
    DownstreamSlow,
    PoolTooSmall,
    LaneSaturated,
    PriorityStarvation,
    RetryStorm,
    BlockingPoolExhausted,
    BlockingPoolBusy,
    MemoryGrowth,
];

/// [`CpuBoundPoll`] stands for a loop that is overloaded without one long poll: a poll that was named is a cause of its
/// own. The first row that fits tells why.
const ROWS: &[Row] = &[
    Row {
        causes: &[CpuThrottled],
        follows: WAITS,
        tie: Tie::Process,
        why: "the process was stopped by its CPU quota",
    },
    // A lock too: who holds it stands still with all the others.
    Row {
        causes: &[CpuThrottled],
        follows: &[CpuStarvation, CpuBoundPoll, LockContention],
        tie: Tie::Process,
        why: "the process was stopped by its CPU quota",
    },
    Row {
        causes: &[RuntimeDeadlock],
        follows: WAITS,
        tie: Tie::Process,
        why: "no worker moves",
    },
    Row {
        causes: &[RuntimeDeadlock],
        follows: &[BlockingCall, SlotLeak],
        tie: Tie::Process,
        why: "no worker moves",
    },
    Row {
        causes: &[LockContention, BlockingCall, CpuBoundPoll],
        follows: WAITS,
        tie: Tie::Process,
        why: "the loop was stalled",
    },
    Row {
        causes: &[CpuOutsideRuntime],
        follows: &[CpuStarvation, BlockingPoolBusy, CpuBoundPoll],
        tie: Tie::Process,
        why: "the service's other threads have the CPUs",
    },
    Row {
        causes: &[BusyPoll],
        follows: &[CpuStarvation, CpuOutsideRuntime, CpuBoundPoll],
        tie: Tie::Process,
        why: "a task that wakes itself keeps them busy",
    },
    // Not the blocking pool and not memory: what a neighbour takes makes things late, and neither many nor large.
    Row {
        causes: &[CpuStarvation],
        follows: &[
            DownstreamSlow,
            PoolTooSmall,
            LaneSaturated,
            PriorityStarvation,
            RetryStorm,
            CpuBoundPoll,
            LockContention,
        ],
        tie: Tie::Process,
        why: "the workers got no CPU",
    },
    Row {
        causes: &[FdExhausted],
        follows: &[DownstreamSlow, RetryStorm, LaneSaturated, PoolTooSmall],
        tie: Tie::Process,
        why: "no connection can be opened",
    },
    Row {
        causes: &[BlockingPoolExhausted],
        follows: WAITS,
        tie: Tie::Process,
        why: "its work waits for a blocking thread",
    },
    Row {
        causes: &[BlockingPoolExhausted],
        follows: &[SlotLeak],
        tie: Tie::Process,
        why: "its work waits for a blocking thread",
    },
    Row {
        causes: &[AsyncDeadlock],
        follows: &[SlotLeak, LaneSaturated, PoolTooSmall, PriorityStarvation],
        tie: Tie::Lane,
        why: "jobs that wait for each other hold the slots",
    },
    Row {
        causes: &[DownstreamSlow],
        follows: &[PoolTooSmall],
        tie: Tie::Subject,
        why: "each call keeps its client for longer",
    },
    Row {
        causes: &[DownstreamSlow],
        follows: &[LaneSaturated, SlotLeak, RetryStorm, PriorityStarvation],
        tie: Tie::Lane,
        why: "its jobs wait for `{}`",
    },
    Row {
        causes: &[DownstreamSlow],
        follows: &[BlockingPoolBusy],
        tie: Tie::Process,
        why: "calls to `{}` keep their threads",
    },
    Row {
        causes: &[PoolTooSmall],
        follows: &[LaneSaturated, SlotLeak, PriorityStarvation],
        tie: Tie::Lane,
        why: "its jobs queue for a client of `{}`",
    },
    Row {
        causes: &[RetryStorm],
        follows: &[LaneSaturated, PriorityStarvation],
        tie: Tie::Lane,
        why: "retries take its slots",
    },
    Row {
        causes: &[SlotLeak],
        follows: &[LaneSaturated, PriorityStarvation],
        tie: Tie::Lane,
        why: "jobs that do not move keep its slots",
    },
    Row {
        causes: &[PriorityStarvation],
        follows: &[LaneSaturated],
        tie: Tie::Lane,
        why: "what waits is of low priority",
    },
    Row {
        causes: &[AsyncDeadlock, DownstreamSlow, PoolTooSmall, LaneSaturated],
        follows: &[MemoryGrowth],
        tie: Tie::Process,
        why: "jobs pile up in a lane that does not move",
    },
];

/// Below this, a finding of an overloaded loop has named no poll.
const NAMED_A_POLL: f64 = 0.8;

/// Why `other` only looks so, where `cause` is there.
pub(super) fn because(cause: &Finding, other: &Finding) -> Option<String> {
    if cause.id == VerdictId::ProcessFrozen {
        return Some(format!("{} because the process does not run", looks(other)));
    }
    // What was always so has not brought about what is new.
    let always = cause.severity == Severity::Info;
    if always || other.id == CpuBoundPoll && other.confidence >= NAMED_A_POLL {
        return None;
    }
    let fits = |row: &&Row| {
        let tied = match row.tie {
            Tie::Process => true,
            Tie::Lane => share_a_lane(cause, other),
            Tie::Subject => cause.subject == other.subject,
        };
        tied && row.causes.contains(&cause.id) && row.follows.contains(&other.id)
    };
    let row = ROWS.iter().find(fits)?;
    let subject = cause.subject.as_deref().unwrap_or("it");
    let why = row.why.replace("{}", subject);
    Some(format!("{} because {why}", looks(other)))
}

fn share_a_lane(cause: &Finding, other: &Finding) -> bool {
    match (&cause.reach, &other.reach) {
        (Reach::Lanes(own), Reach::Lanes(others)) => own.iter().any(|lane| others.contains(lane)),
        (Reach::Everyone | Reach::Stopped, _) => true,
        _ => false,
    }
}

/// `lane db looks saturated`.
fn looks(finding: &Finding) -> String {
    let subject = finding.subject.as_deref().unwrap_or_default();
    match finding.id {
        LaneSaturated => format!("lane {subject} looks saturated"),
        PriorityStarvation => format!("low priorities of lane {subject} look starved"),
        SlotLeak => format!("lane {subject} looks as if its slots leaked"),
        RetryStorm => format!("lane {subject} retries"),
        DownstreamSlow => format!("{subject} looks slow"),
        PoolTooSmall => format!("the pool of {subject} looks too small"),
        BlockingPoolExhausted => "the blocking pool looks exhausted".to_owned(),
        BlockingPoolBusy => "the blocking pool looks busy".to_owned(),
        MemoryGrowth => "memory grows".to_owned(),
        CpuStarvation => "the workers look starved".to_owned(),
        CpuBoundPoll => "the workers look overloaded".to_owned(),
        other => format!("{other} is seen"),
    }
}
