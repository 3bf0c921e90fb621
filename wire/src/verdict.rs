//! Verdicts: "why is it slow?", answered by the agent's diagnosis rules, with the figures that say so.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    alert::{Severity, Unit},
    id::{JobId, TraceId},
};

/// What all rules together say of one service at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Findings, the likeliest cause first; a service in which nothing is wrong has one, [`VerdictId::Healthy`]. Empty
    /// where too little is known to say even that.
    pub verdicts: Vec<Verdict>,
    /// Rules that could not be answered yet.
    #[serde(default)]
    pub unsure: Vec<Unsure>,
}

impl Diagnosis {
    /// The likeliest cause of what is wrong. `None` where nothing is, or too little is known.
    #[must_use]
    pub fn cause(&self) -> Option<&Verdict> {
        self.verdicts.first().filter(|v| v.id != VerdictId::Healthy)
    }
}

/// One finding of one rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Which cause.
    pub id: VerdictId,
    /// What of the service it is about, where the cause has several places: a lane, a downstream, a pool.
    #[serde(default)]
    pub subject: Option<String>,
    /// How bad.
    pub severity: Severity,
    /// How sure the rule is: 0 to 1.
    pub confidence: f64,
    /// Since when it is so.
    pub since_unix_ns: u64,
    /// For a person: the cause, in one sentence.
    pub sentence: String,
    /// The figures behind it.
    pub evidence: Vec<Evidence>,
    /// Who waits because of it, the worst hit first. Bounded.
    pub who_is_hurt: Vec<Hurt>,
    /// What a person can do now, the most useful first.
    pub next_steps: Vec<String>,
    /// The job, the task or the code that does it, where that is known.
    #[serde(default)]
    pub culprit: Option<Culprit>,
    /// Findings that follow from this one, and stand below it for that reason.
    #[serde(default)]
    pub explains: Vec<Explained>,
}

/// A figure that a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// What was measured, such as `longest poll`.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// What it is held against: a threshold, a limit, the usual figure. `None` where it stands for itself.
    #[serde(default)]
    pub against: Option<f64>,
    /// What both are.
    pub unit: Unit,
}

/// Somebody who waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hurt {
    /// What it is.
    pub kind: HurtKind,
    /// Its name: `GET /invoice`, `render_pdf`, `db`.
    pub name: String,
    /// How many requests or jobs are affected now or were in the window. `None`: unknown.
    pub affected: Option<u64>,
    /// How many of them ended with an error. `None`: unknown.
    pub errors: Option<u64>,
    /// Its usual 99th percentile. `None`: unknown.
    pub usual_p99_ns: Option<u64>,
    /// Its 99th percentile since the cause began. `None`: unknown.
    pub p99_ns: Option<u64>,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HurtKind {
    /// Requests of a route.
    Route,
    /// Jobs of a type.
    JobType,
    /// Jobs of a lane.
    Lane,
    /// Something that this reader does not know.
    #[serde(other)]
    Other,
}

/// Who does it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Culprit {
    /// Its job type or the name of its task.
    pub task_type: Option<String>,
    /// Where it was started: `src/pdf.rs:88`.
    pub place: Option<String>,
    /// The job.
    pub job: Option<JobId>,
    /// Its trace.
    pub trace: Option<TraceId>,
    /// The first frame of the user's own code in its stack.
    pub frame: Option<String>,
}

/// A finding that another one explains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explained {
    /// Which finding.
    pub id: VerdictId,
    /// What of the service it is about.
    #[serde(default)]
    pub subject: Option<String>,
    /// Why it only looks so, in one sentence.
    pub because: String,
}

/// A rule that could not be answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unsure {
    /// Which rule.
    pub id: VerdictId,
    /// What is missing, and how much more of it is needed, for a person.
    pub needs: String,
}

macro_rules! verdict_ids {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// A cause that the rules tell from the others.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum VerdictId {
            $($(#[$doc])+ #[serde(rename = $name)] $variant,)+
            /// A cause that this reader does not know.
            #[serde(other, rename = "other")]
            Other,
        }

        impl VerdictId {
            /// Every cause that this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name, as people type it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Other => "other",
                }
            }
        }
    };
}

verdict_ids! {
    /// Nothing is wrong.
    Healthy = "healthy",
    /// A poll computes for too long on a worker.
    CpuBoundPoll = "cpu-bound-poll",
    /// A poll sleeps in the kernel: a file, a name look-up, a process, a socket, a sleep.
    BlockingCall = "blocking-call",
    /// A poll waits for a lock of the standard library.
    LockContention = "lock-contention",
    /// Every worker is inside a poll and none moves.
    RuntimeDeadlock = "runtime-deadlock",
    /// The loop is idle while jobs wait for ever for a lock or a permit.
    AsyncDeadlock = "async-deadlock",
    /// Workers could run and get no CPU.
    CpuStarvation = "cpu-starvation",
    /// The quota of the control group is spent.
    CpuThrottled = "cpu-throttled",
    /// Threads that are no workers use the CPU.
    CpuOutsideRuntime = "cpu-outside-runtime",
    /// A task wakes itself again and again without progress.
    BusyPoll = "busy-poll",
    /// A downstream takes longer than it used to.
    DownstreamSlow = "downstream-slow",
    /// Callers queue for a pool of clients while the downstream is fast.
    PoolTooSmall = "pool-too-small",
    /// More jobs arrive than a lane can run.
    LaneSaturated = "lane-saturated",
    /// Jobs hold slots and make no progress.
    SlotLeak = "slot-leak",
    /// Much work runs on the blocking pool.
    BlockingPoolBusy = "blocking-pool-busy",
    /// Work waits for a thread of the blocking pool.
    BlockingPoolExhausted = "blocking-pool-exhausted",
    /// Retries are most of the load.
    RetryStorm = "retry-storm",
    /// Jobs of low priority are not begun.
    PriorityStarvation = "priority-starvation",
    /// Jobs wait for what cannot finish.
    StuckDependencies = "stuck-dependencies",
    /// Memory grows: a backlog, or a leak.
    MemoryGrowth = "memory-growth",
    /// No file descriptors are left.
    FdExhausted = "fd-exhausted",
    /// The process is stopped or has gone silent.
    ProcessFrozen = "process-frozen",
}

impl fmt::Display for VerdictId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_written_as_it_is_named_and_a_newer_one_is_read() {
        for id in VerdictId::ALL {
            let json = serde_json::to_string(id).expect("writes");
            assert_eq!(json, format!("\"{id}\""));
            assert_eq!(
                serde_json::from_str::<VerdictId>(&json).expect("reads"),
                *id
            );
        }
        let newer = serde_json::from_str::<VerdictId>("\"bad-karma\"").expect("reads");
        assert_eq!(newer, VerdictId::Other);
    }
}
