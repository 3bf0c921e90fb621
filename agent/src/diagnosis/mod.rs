//! "Why is it slow?": rules that name a cause, with the figures that say so.
//!
//! Each file with a rule holds one small type: what it checks, what it says, what to do. A rule is a pure function of a
//! `Case`, which is a window and the time with what several rules need worked out once; it finds something, or
//! nothing, or says how much more it needs to tell. Then `rank` puts the cause before what follows from it, `hurt`
//! says who waits, and the `Casebook` remembers since when.
//!
//! ```text
//!  Window, Now --> Case --> rules --> rank --> hurt --> Casebook --> Diagnosis
//! ```

mod answer;
mod baseline;
mod case;
mod casebook;
mod compared;
mod follows;
mod hurt;
mod jobs;
mod of_snapshot;
mod rank;
mod stalls;
mod words;

mod async_deadlock;
mod blocking_call;
mod blocking_pool;
mod busy_poll;
mod cpu_bound_poll;
mod cpu_outside_runtime;
mod cpu_starvation;
mod cpu_throttled;
mod downstream_slow;
mod fd_exhausted;
mod healthy;
mod lane_saturated;
mod lock_contention;
mod memory_growth;
mod pool_too_small;
mod priority_starvation;
mod process_frozen;
mod retry_storm;
mod runtime_deadlock;
mod slot_leak;
mod stuck_dependencies;

#[cfg(test)]
pub(crate) mod scene;
#[cfg(test)]
mod tests;

use ax_wire::verdict::VerdictId;

use self::{answer::Answer, case::Case};
pub use self::{casebook::Casebook, of_snapshot::of_snapshot};

/// One cause, and how it is told from the others.
trait Rule: Sync {
    /// Which cause.
    fn id(&self) -> VerdictId;

    /// Whether it is there.
    fn check(&self, case: &Case<'_>) -> Answer;
}

/// Every rule. [`VerdictId::Healthy`] has none: it is what is left where all of them found nothing.
const RULES: &[&dyn Rule] = &[
    &process_frozen::ProcessFrozen,
    &cpu_throttled::CpuThrottled,
    &runtime_deadlock::RuntimeDeadlock,
    &lock_contention::LockContention,
    &blocking_call::BlockingCall,
    &cpu_bound_poll::CpuBoundPoll,
    &cpu_outside_runtime::CpuOutsideRuntime,
    &busy_poll::BusyPoll,
    &cpu_starvation::CpuStarvation,
    &fd_exhausted::FdExhausted,
    &blocking_pool::BlockingPoolExhausted,
    &async_deadlock::AsyncDeadlock,
    &downstream_slow::DownstreamSlow,
    &pool_too_small::PoolTooSmall,
    &retry_storm::RetryStorm,
    &stuck_dependencies::StuckDependencies,
    &slot_leak::SlotLeak,
    &priority_starvation::PriorityStarvation,
    &lane_saturated::LaneSaturated,
    &memory_growth::MemoryGrowth,
    &blocking_pool::BlockingPoolBusy,
];
