//! What the kernel says of this process and its threads, read from its own `/proc`.
//!
//! Whatever cannot be read (another system, a hidden `/proc`, a kernel without scheduler statistics) is unknown.

use std::{
    fs::{self, File},
    io::{Seek as _, SeekFrom},
};

use ax_wire::sample::{ProcessSample, ThreadSample};
use procfs::{
    FromRead,
    process::{Schedstat, Stat, StatM, Status},
};
use rustix::{
    process::{Resource, getrlimit},
    time::ClockId,
};

use crate::{cgroup, clock, stall::CpuTimes, syscalls};

/// The two files of a thread that the watchdog reads at its ticks, kept open: 2 and 5 us a reading, a quarter of
/// what opening them each time would take.
pub(crate) struct ThreadFiles {
    tid: u32,
    schedstat: File,
    stat: File,
}

impl ThreadFiles {
    pub(crate) fn open(tid: u32) -> Option<Self> {
        let open = |file| File::open(path(tid, file)).ok();
        Some(Self {
            tid,
            schedstat: open("schedstat")?,
            stat: open("stat")?,
        })
    }

    pub(crate) fn tid(&self) -> u32 {
        self.tid
    }

    pub(crate) fn cpu_times(&self) -> Option<CpuTimes> {
        cpu_times(&reread(&self.schedstat)?)
    }

    /// Whether the thread is on a CPU or waits for one.
    pub(crate) fn runnable(&self) -> Option<bool> {
        let stat: Stat = reread(&self.stat)?;
        Some(stat.state == 'R')
    }
}

fn reread<T: FromRead>(mut file: &File) -> Option<T> {
    file.seek(SeekFrom::Start(0)).ok()?;
    T::from_read(file).ok()
}

fn path(tid: u32, file: &str) -> String {
    format!("/proc/self/task/{tid}/{file}")
}

fn cpu_times(stat: &Schedstat) -> Option<CpuTimes> {
    // A kernel without the account shows zeros; a thread of which we know has run.
    (stat.pcount != 0).then_some(CpuTimes {
        on_cpu_ns: stat.sum_exec_runtime,
        run_queue_ns: stat.run_delay,
        runs: stat.pcount,
    })
}

/// What the kernel says of one thread. About 60 us.
pub(crate) fn thread_sample(tid: u32) -> Option<ThreadSample> {
    let status = Status::from_file(path(tid, "status")).ok()?;
    let schedstat = Schedstat::from_file(path(tid, "schedstat")).ok();
    let cpu = schedstat.as_ref().and_then(cpu_times);
    Some(ThreadSample {
        state: status.state.chars().next(),
        on_cpu_ns_total: cpu.map(|cpu| cpu.on_cpu_ns),
        run_queue_ns_total: cpu.map(|cpu| cpu.run_queue_ns),
        voluntary_switches_total: status.voluntary_ctxt_switches,
        involuntary_switches_total: status.nonvoluntary_ctxt_switches,
        waits_in: syscalls::waits_in(tid),
    })
}

/// The signals that a thread keeps from itself, the first one in the lowest bit.
pub(crate) fn blocked_signals(tid: u32) -> Option<u64> {
    let status = Status::from_file(path(tid, "status")).ok()?;
    Some(status.sigblk)
}

/// CPU time of one thread.
fn cpu_ns(tid: u32) -> Option<u64> {
    let schedstat = Schedstat::from_file(path(tid, "schedstat")).ok()?;
    cpu_times(&schedstat).map(|cpu| cpu.on_cpu_ns)
}

/// The process as a whole; `own` are the probe's threads. About 150 us, and more where the kernel (before 6.2) makes us
/// count the open files one by one.
pub(crate) fn process_sample(own: &[u32]) -> ProcessSample {
    let stat = Stat::from_file("/proc/self/stat").ok();
    let share = cgroup::cpu_share();
    let own: Vec<_> = own.iter().filter_map(|tid| cpu_ns(*tid)).collect();
    ProcessSample {
        cpu_ns_total: Some(clock::read_ns(ClockId::ProcessCPUTime)),
        probe_cpu_ns_total: (!own.is_empty()).then(|| own.iter().sum()),
        rss_bytes: rss_bytes(),
        threads: stat.and_then(|stat| u64::try_from(stat.num_threads).ok()),
        open_files: open_files(),
        open_files_limit: getrlimit(Resource::Nofile).current,
        cgroup_cpu: share.quota,
        cpu_pressure_ns_total: share.pressure_ns,
    }
}

/// Resident memory of the process. About 5 us.
pub(crate) fn rss_bytes() -> Option<u64> {
    let memory = StatM::from_file("/proc/self/statm").ok()?;
    Some(memory.resident * procfs::page_size())
}

/// Whether a debugger holds the process. About 30 us.
pub(crate) fn is_debugged() -> bool {
    Status::from_file("/proc/self/status").is_ok_and(|status| status.tracerpid != 0)
}

fn open_files() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    let size = fs::metadata(FOLDER).ok()?.len();
    if size > 0 {
        return Some(size);
    }
    // The folder itself is open while it is read.
    let counted = fs::read_dir(FOLDER).ok()?.count() as u64;
    Some(counted.saturating_sub(1))
}

/// When the process started, by the wall clock.
pub(crate) fn process_start_unix_ns() -> Option<u64> {
    let stat = Stat::from_file("/proc/self/stat").ok()?;
    let since_boot = stat.starttime * (1_000_000_000 / procfs::ticks_per_second());
    let age = clock::read_ns(ClockId::Boottime).saturating_sub(since_boot);
    Some(clock::unix_ns().saturating_sub(age))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_that_computes_is_told_from_one_that_sleeps() {
        let own = rustix::thread::gettid().as_raw_pid().unsigned_abs();
        let files = ThreadFiles::open(own).expect("our own thread");
        assert_eq!(files.runnable(), Some(true));
        let sample = thread_sample(own).expect("our own thread");
        assert_eq!(sample.state, Some('R'));
        let before = files.cpu_times().expect("schedstat");
        std::thread::sleep(Duration::from_millis(2));
        let after = files.cpu_times().expect("schedstat");
        assert!(after.runs > before.runs, "{before:?} {after:?}");
        assert!(after.on_cpu_ns - before.on_cpu_ns < 2_000_000);
    }

    #[test]
    fn a_thread_that_is_not_there_is_unknown() {
        assert!(ThreadFiles::open(u32::MAX).is_none());
        assert_eq!(thread_sample(u32::MAX), None);
        assert_eq!(process_sample(&[u32::MAX]).probe_cpu_ns_total, None);
    }

    #[test]
    fn the_process_is_known_as_a_whole() {
        let own = rustix::thread::gettid().as_raw_pid().unsigned_abs();
        let before = process_sample(&[own]);
        let _file = File::open("/proc/self/stat").expect("opens");
        let after = process_sample(&[own]);
        assert!(after.cpu_ns_total >= before.cpu_ns_total);
        assert!(after.probe_cpu_ns_total <= after.cpu_ns_total);
        assert!(after.rss_bytes > Some(100_000));
        assert!(after.threads >= Some(1));
        assert!(after.open_files > Some(3));
        assert!(after.open_files_limit > after.open_files);
        let started = process_start_unix_ns().expect("known");
        assert!(clock::unix_ns() - started < 3_600_000_000_000);
    }
}
