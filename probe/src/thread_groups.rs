//! The CPU time of threads by their name, looked at only while threads that are no workers use much of it.

use std::fs;

use ax_wire::sample::{
    MAX_THREAD_GROUPS, ProcessSample, RuntimeSample, ThreadGroupKind, ThreadGroupSample,
};
use procfs::{FromRead as _, process::Stat};

/// Threads that are looked at: 25 us each, and that only while they matter.
const MAX_THREADS: usize = 256;

/// From which share of a CPU on it is worth to know which threads they are.
const WORTH_A_LOOK: f64 = 0.1;

/// What the last sample said.
#[derive(Default)]
pub(crate) struct ThreadGroups {
    outside_ns: Option<u64>,
    at: Option<u64>,
}

impl ThreadGroups {
    /// Looks at the threads, where those that are no workers have used more than a tenth of a CPU since the last look.
    /// `own` are the probe's.
    pub(crate) fn look(
        &mut self,
        runtimes: &[RuntimeSample],
        process: &ProcessSample,
        own: &[u32],
    ) -> Vec<ThreadGroupSample> {
        let now_ns = crate::clock::now_ns();
        let outside_ns = outside_ns(runtimes, process);
        let before = (self.outside_ns.take(), self.at.replace(now_ns));
        self.outside_ns = outside_ns;
        let (Some(outside_ns), (Some(before_ns), Some(at_ns))) = (outside_ns, before) else {
            return Vec::new();
        };
        let used_ns = outside_ns.saturating_sub(before_ns) as f64;
        if used_ns < WORTH_A_LOOK * now_ns.saturating_sub(at_ns) as f64 {
            return Vec::new();
        }
        let workers = runtimes.iter().flat_map(|runtime| &runtime.workers);
        let workers: Vec<u32> = workers.filter_map(|worker| worker.tid).collect();
        groups(&workers, own)
    }
}

/// CPU time of all threads but the workers and our own.
fn outside_ns(runtimes: &[RuntimeSample], process: &ProcessSample) -> Option<u64> {
    let workers = runtimes.iter().flat_map(|runtime| &runtime.workers);
    let inside_ns: u64 = workers
        .filter_map(|worker| worker.thread?.on_cpu_ns_total)
        .sum();
    let own_ns = process.probe_cpu_ns_total.unwrap_or(0);
    Some(process.cpu_ns_total?.saturating_sub(inside_ns + own_ns))
}

fn groups(workers: &[u32], own: &[u32]) -> Vec<ThreadGroupSample> {
    let Ok(folder) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let ids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let threads = ids.take(MAX_THREADS).filter_map(|tid: u32| {
        let file = fs::File::open(format!("/proc/self/task/{tid}/stat")).ok()?;
        let stat = Stat::from_read(file).ok()?;
        let kind = if workers.contains(&tid) {
            ThreadGroupKind::Worker
        } else if own.contains(&tid) {
            ThreadGroupKind::Probe
        } else {
            ThreadGroupKind::Other
        };
        let ticks = stat.utime + stat.stime;
        let cpu_ns = ticks.saturating_mul(1_000_000_000 / procfs::ticks_per_second());
        Some((base_name(&stat.comm).to_owned(), kind, cpu_ns))
    });
    grouped(&threads.collect::<Vec<_>>())
}

/// `http-worker-12` and `http-worker-7` are of one kind.
fn base_name(name: &str) -> &str {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let base = base.trim_end_matches(['-', '_', ':', '#', ' ']);
    if base.is_empty() { name } else { base }
}

fn grouped(threads: &[(String, ThreadGroupKind, u64)]) -> Vec<ThreadGroupSample> {
    let of_workers = |name: &str| {
        let mut workers = threads
            .iter()
            .filter(|(_, kind, _)| *kind == ThreadGroupKind::Worker);
        workers.any(|(known, ..)| known == name)
    };
    let mut groups: Vec<ThreadGroupSample> = Vec::new();
    for (name, kind, cpu_ns) in threads {
        let kind = match kind {
            ThreadGroupKind::Other if of_workers(name) => ThreadGroupKind::Blocking,
            kind => *kind,
        };
        let known = groups
            .iter_mut()
            .find(|group| group.kind == kind && group.name == *name);
        match known {
            Some(group) => {
                group.threads += 1;
                group.cpu_ns_total = group.cpu_ns_total.saturating_add(*cpu_ns);
            }
            None => groups.push(ThreadGroupSample {
                name: name.clone(),
                kind,
                threads: 1,
                cpu_ns_total: *cpu_ns,
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.cpu_ns_total));
    groups.truncate(MAX_THREAD_GROUPS);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_workers_name_that_are_none_are_its_blocking_pool() {
        let thread = |name: &str, kind, ms: u64| (name.to_owned(), kind, ms * 1_000_000);
        let groups = grouped(&[
            thread("tokio-rt-worker", ThreadGroupKind::Worker, 10),
            thread("tokio-rt-worker", ThreadGroupKind::Other, 500),
            thread("tokio-rt-worker", ThreadGroupKind::Other, 400),
            thread("ax-watchdog", ThreadGroupKind::Probe, 1),
            thread("rayon", ThreadGroupKind::Other, 40),
        ]);
        let told: Vec<_> = groups
            .iter()
            .map(|group| (&*group.name, group.kind, group.threads))
            .collect();
        assert_eq!(
            told,
            [
                ("tokio-rt-worker", ThreadGroupKind::Blocking, 2),
                ("rayon", ThreadGroupKind::Other, 1),
                ("tokio-rt-worker", ThreadGroupKind::Worker, 1),
                ("ax-watchdog", ThreadGroupKind::Probe, 1),
            ]
        );
        assert_eq!(groups[0].cpu_ns_total, 900_000_000);
    }

    #[test]
    fn numbers_of_threads_are_no_names() {
        assert_eq!(base_name("http-worker-12"), "http-worker");
        assert_eq!(base_name("7"), "7");
        assert_eq!(base_name("rayon"), "rayon");
    }

    /// Nothing is read while nothing outside the workers runs.
    #[test]
    fn it_looks_only_where_much_runs_outside() {
        let mut groups = ThreadGroups::default();
        let process = |cpu_ns| ProcessSample {
            cpu_ns_total: Some(cpu_ns),
            ..ProcessSample::default()
        };
        assert!(groups.look(&[], &process(0), &[]).is_empty(), "the first");
        assert!(groups.look(&[], &process(0), &[]).is_empty(), "idle");
        let busy = groups.look(&[], &process(u64::MAX / 2), &[]);
        assert!(!busy.is_empty());
    }
}
