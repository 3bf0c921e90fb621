//! The stalls of the last seconds, and what each of them was.

use ax_wire::{
    alert::Severity,
    event::{Stall, StallKind},
    sample::KernelWait,
    stack::ThreadStack,
    verdict::Culprit,
};

use super::{case::Case, words::culprit_of};
use crate::{history::TrackedStall, symbol::fold, window::Window};

/// For how long an ended stall is spoken of. Longer would blame it for what came after.
const SPOKEN_OF_NS: u64 = 5_000_000_000;

/// From this share of its own time on a CPU on a poll computes; below it sleeps.
const COMPUTES: f64 = 0.8;

/// From this share of its time without a CPU on, a stall says nothing of the poll.
const STARVED: f64 = 0.5;

/// What a stall was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It computed.
    Computes,
    /// It computed, in one poll or in many that tokio had not yet published.
    MayCompute,
    /// It waited for a lock of the standard library, or something else behind a futex.
    Lock,
    /// It slept in the kernel.
    Sleeps(Option<KernelWait>),
    /// Its thread got no CPU.
    Starved,
}

/// One stall.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenStall<'a> {
    pub(crate) stall: &'a Stall,
    pub(crate) ongoing: bool,
    pub(crate) manner: Manner,
    /// The first function of the service's own code on its stack.
    pub(crate) frame: Option<&'a str>,
}

impl<'a> SeenStall<'a> {
    /// Those that go on, and those that ended a moment ago.
    pub(crate) fn all(window: Window<'a>) -> Vec<Self> {
        let oldest = window.newest_mono_ns().saturating_sub(SPOKEN_OF_NS);
        let recent = window.stalls().filter(|known| {
            let stall = &known.stall;
            known.ongoing || stall.began_mono_ns.saturating_add(stall.length_ns) > oldest
        });
        recent.map(Self::new).collect()
    }

    fn new(known: &'a TrackedStall) -> Self {
        let stack = known.stack.as_deref();
        Self {
            stall: &known.stall,
            ongoing: known.ongoing,
            manner: manner(known),
            frame: stack.and_then(fold::culprit).map(|f| f.name.as_str()),
        }
    }
}

fn manner(known: &TrackedStall) -> Manner {
    let stall = &known.stall;
    let starved_ns = stall.run_queue_ns.unwrap_or(0);
    let length_ns = stall.length_ns.max(1);
    if stall.kind == StallKind::Starved || starved_ns as f64 >= STARVED * length_ns as f64 {
        return Manner::Starved;
    }
    let own_ns = length_ns.saturating_sub(starved_ns).max(1);
    let thread = stall.thread;
    let computes = match stall.on_cpu_ns {
        Some(on_cpu_ns) => on_cpu_ns as f64 >= COMPUTES * own_ns as f64,
        // Without the account the state at the moment of the look is all that is known.
        None => thread.is_none_or(|thread| thread.state == Some('R')),
    };
    if computes {
        return match stall.kind {
            StallKind::Stall => Manner::Computes,
            _ => Manner::MayCompute,
        };
    }
    let waits_in = thread.and_then(|thread| thread.waits_in);
    let lock = known.stack.as_deref().and_then(waits_for_lock);
    match (lock, waits_in) {
        (Some(true), _) | (None, Some(KernelWait::Futex)) => Manner::Lock,
        // It wanted to run when it was looked at: what is missing in the account is CPU that it did not get, such as
        // that of a machine which is itself a guest.
        (None, None) if thread.is_some_and(|thread| thread.state == Some('R')) => Manner::Starved,
        _ => Manner::Sleeps(waits_in),
    }
}

/// Whether the functions that the service's own code called last are those of a lock. `None`: no name says so, or
/// otherwise.
fn waits_for_lock(stack: &ThreadStack) -> Option<bool> {
    /// Innermost first: a condition takes a lock of its own.
    const OTHERS: [&str; 6] = [
        "Condvar",
        "condvar",
        "mpsc",
        "thread::park",
        "park_timeout",
        "JoinHandle",
    ];
    const LOCKS: [&str; 7] = [
        "sync::mutex",
        "sync::poison::mutex",
        "sync::rwlock",
        "sync::poison::rwlock",
        "raw_mutex",
        "raw_rwlock",
        "pthread_mutex_lock",
    ];
    let own = fold::culprit(stack);
    let functions = stack.frames.iter().flat_map(|frame| &frame.functions);
    let called =
        functions.take_while(|function| own.is_none_or(|own| !std::ptr::eq(own, *function)));
    let mut said = called.filter_map(|function| {
        let any = |names: &[&str]| names.iter().any(|name| function.name.contains(name));
        if any(&OTHERS) {
            Some(false)
        } else {
            any(&LOCKS).then_some(true)
        }
    });
    said.next()
}

/// The stalls of one manner together.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    pub(crate) stalls: Vec<SeenStall<'a>>,
    /// The longest one of the task that held workers for longest in all.
    pub(crate) worst: SeenStall<'a>,
    pub(crate) total_ns: u64,
    pub(crate) began_mono_ns: u64,
}

impl<'a> Group<'a> {
    /// `None` where there is too little of it: one hiccup is not a cause. `severe_ns` is what one must last to be told by
    /// itself.
    pub(crate) fn of(
        stalls: &[SeenStall<'a>],
        severe_ns: u64,
        belongs: impl Fn(&SeenStall<'a>) -> bool,
    ) -> Option<Self> {
        let stalls: Vec<_> = stalls
            .iter()
            .filter(|stall| belongs(stall))
            .copied()
            .collect();
        let total_ns = stalls.iter().map(|seen| seen.stall.length_ns).sum();
        let longest_ns = stalls.iter().map(|seen| seen.stall.length_ns).max()?;
        let told = longest_ns >= severe_ns || total_ns >= severe_ns || stalls.len() >= 3;
        if !told {
            return None;
        }
        let name = |seen: &SeenStall<'a>| seen.stall.task.as_ref().map(|task| &task.name);
        let held_by = |seen: &SeenStall<'a>| -> u64 {
            let same = stalls.iter().filter(|other| name(other) == name(seen));
            same.map(|other| other.stall.length_ns).sum()
        };
        let worst = *stalls
            .iter()
            .max_by_key(|seen| (held_by(seen), seen.stall.length_ns))?;
        Some(Self {
            worst,
            total_ns,
            began_mono_ns: stalls.iter().map(|seen| seen.stall.began_mono_ns).min()?,
            stalls,
        })
    }

    /// Critical where one is long, or all together take a fifth of the time.
    pub(crate) fn severity(&self, case: &Case<'_>) -> Severity {
        let severe_ns = case.severe_ns();
        if self.longest_ns() >= severe_ns || self.total_ns >= SPOKEN_OF_NS / 5 {
            Severity::Critical
        } else {
            Severity::Warning
        }
    }

    /// The longest.
    pub(crate) fn longest_ns(&self) -> u64 {
        let lengths = self.stalls.iter().map(|seen| seen.stall.length_ns);
        lengths.max().unwrap_or(0)
    }

    /// Who did it, with what its stack says.
    pub(crate) fn culprit(&self) -> Option<Culprit> {
        let name = |seen: &SeenStall<'a>| seen.stall.task.as_ref().map(|task| &task.name);
        let same = |seen: &&SeenStall<'a>| name(seen) == name(&self.worst);
        let frame = self.worst.frame.or_else(|| {
            let mut others = self.stalls.iter().filter(same);
            others.find_map(|seen| seen.frame)
        });
        let named = self.worst.stall.task.as_ref().map(culprit_of);
        if named.is_none() && frame.is_none() {
            return None;
        }
        Some(Culprit {
            frame: frame.map(str::to_owned),
            ..named.unwrap_or_default()
        })
    }
}
