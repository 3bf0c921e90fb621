//! What the kernel says of the process, its threads and its control group.

use serde::{Deserialize, Serialize};

/// Most names of threads that a sample tells apart; the threads of further names are left out.
pub const MAX_THREAD_GROUPS: usize = 16;

/// What the kernel says of one thread. Counters are since the thread started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadSample {
    /// Scheduling state letter of `/proc`: `R`, `S`, `D`, `T`, ...
    pub state: Option<char>,
    /// Time on a CPU.
    pub on_cpu_ns_total: Option<u64>,
    /// Time runnable, waiting for a CPU.
    pub run_queue_ns_total: Option<u64>,
    /// Times it gave up its CPU by itself (it blocked).
    pub voluntary_switches_total: Option<u64>,
    /// Times the CPU was taken from it.
    pub involuntary_switches_total: Option<u64>,
    /// What it sleeps for in the kernel; `None` while it runs, and where that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_in: Option<KernelWait>,
}

/// What a thread sleeps for, by the system call that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KernelWait {
    /// `futex`: a lock, a condition, a thread that is parked or joined.
    Futex,
    /// `nanosleep`, `clock_nanosleep`.
    Sleep,
    /// `epoll_wait`, `poll`, `select`: also where an idle worker waits.
    Poll,
    /// `read` and its kin.
    Read,
    /// `write`, `sendfile` and their kin: a pipe or a disk that is full.
    Write,
    /// `fsync` and its kin.
    Sync,
    /// `open`, `stat`, `rename` and other calls on names of files.
    File,
    /// `flock`, and `fcntl` that waits for a lock.
    FileLock,
    /// `connect`, `accept`, `recvfrom`, `sendto` and their kin.
    Socket,
    /// `wait4`, `waitid`: the end of another process.
    Child,
    /// A fault on a page that had to be fetched, or another sleep outside system calls.
    Memory,
    /// Another system call, or one that this reader does not know.
    #[serde(other)]
    Other,
}

impl KernelWait {
    /// What people know it by: `slept in the kernel ({label})`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Sleep => "nanosleep",
            Self::Poll => "poll",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "fsync",
            Self::File => "open, stat",
            Self::FileLock => "flock",
            Self::Socket => "connect, recv, send",
            Self::Child => "wait4",
            Self::Memory => "page fault",
            Self::Other => "system call",
        }
    }
}

/// The process as a whole. Counters are since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessSample {
    /// CPU time, user and system, of all threads.
    pub cpu_ns_total: Option<u64>,
    /// CPU time of the probe's own threads, included in the above.
    pub probe_cpu_ns_total: Option<u64>,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// Soft limit on open file descriptors.
    pub open_files_limit: Option<u64>,
    /// What its control group may use and was refused. `None`: it is in none with a quota, or that cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_cpu: Option<CgroupCpuSample>,
    /// Time in which a task of this host, or of this control group where it has an account of its own, was runnable and
    /// had no CPU (`some` of the kernel's pressure), since that account began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pressure_ns_total: Option<u64>,
}

/// The CPU quota of a control group, and what became of it. Counters are since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CgroupCpuSample {
    /// CPU time that the group may use in a period.
    pub quota_ns: u64,
    /// The period.
    pub period_ns: u64,
    /// Periods in which the group wanted to run.
    pub periods_total: u64,
    /// Periods in which it was stopped, because the quota was spent.
    pub throttled_periods_total: u64,
    /// Time in which it was stopped, the CPUs together.
    pub throttled_ns_total: u64,
}

impl CgroupCpuSample {
    /// The quota in CPUs.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        self.quota_ns as f64 / self.period_ns.max(1) as f64
    }
}

/// The threads of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadGroupSample {
    /// Their name, digits at its end left out.
    pub name: String,
    /// What they are.
    pub kind: ThreadGroupKind,
    /// How many.
    pub threads: u64,
    /// CPU time of those that are alive, since each started.
    pub cpu_ns_total: u64,
}

/// What threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadGroupKind {
    /// Workers of a runtime.
    Worker,
    /// Threads that carry the name of a runtime's workers and are none: its blocking pool.
    Blocking,
    /// The probe's own.
    Probe,
    /// Threads that something else of the service has started, or a kind that this reader does not know.
    #[serde(other)]
    Other,
}
