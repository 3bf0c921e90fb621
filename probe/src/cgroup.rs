//! The CPU quota of the control group that this process is in, and the kernel's account of CPU pressure.
//!
//! Control groups have two versions, which a host may mix, and a quota may be set on any ancestor of the group. Looked
//! for anew each time: a process may be moved.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use ax_wire::sample::CgroupCpuSample;

/// Ancestors that are looked at: a pod's container is some five groups deep.
const MAX_LEVELS: usize = 16;

/// Where one version of control groups is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The group that the mount shows as its top.
    root: String,
    point: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// What is known of how much CPU this process may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuShare {
    /// Of the group or the ancestor with the smallest quota.
    pub(crate) quota: Option<CgroupCpuSample>,
    pub(crate) pressure_ns: Option<u64>,
}

/// The mounts, which are looked up once: they do not change under a running process.
struct Cgroups {
    mounts: Vec<Mount>,
}

/// See [`Cgroups::read`].
pub(crate) fn cpu_share() -> CpuShare {
    static CGROUPS: OnceLock<Cgroups> = OnceLock::new();
    CGROUPS.get_or_init(Cgroups::find).read()
}

impl Cgroups {
    fn find() -> Self {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self {
            mounts: parse_mounts(&mountinfo),
        }
    }

    /// Reads it. Some 20 us for each level of the group.
    fn read(&self) -> CpuShare {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let pressure = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let mut share = CpuShare {
            quota: None,
            pressure_ns: parse_pressure(&pressure),
        };
        for mount in &self.mounts {
            let Some(group) = parse_group(&groups, mount.version) else {
                continue;
            };
            for (depth, folder) in levels(mount, group).into_iter().enumerate() {
                let found = quota(&folder, mount.version);
                share.quota = [share.quota, found]
                    .into_iter()
                    .flatten()
                    .min_by(|a, b| a.cpus().total_cmp(&b.cpus()));
                // A group that is not the top has an account of its own, which tells of this service alone.
                if depth == 0 && mount.version == Version::Two && folder != mount.point {
                    let own = fs::read_to_string(folder.join("cpu.pressure")).unwrap_or_default();
                    share.pressure_ns = parse_pressure(&own).or(share.pressure_ns);
                }
            }
        }
        share
    }
}

/// `36 35 98:0 /root /point options - cgroup2 source super-options`.
fn parse_mounts(mountinfo: &str) -> Vec<Mount> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let version = match kind {
            "cgroup2" => Version::Two,
            "cgroup" if options.split(',').any(|option| option == "cpu") => Version::One,
            _ => return None,
        };
        let mut left = left.split(' ').skip(3);
        Some(Mount {
            root: left.next()?.to_owned(),
            point: PathBuf::from(left.next()?),
            version,
        })
    });
    mounts.collect()
}

/// The group that this process is in: `4:cpu,cpuacct:/path` of version one, `0::/path` of version two.
fn parse_group(groups: &str, version: Version) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match version {
            Version::One => controllers.split(',').any(|controller| controller == "cpu"),
            Version::Two => number == "0" && controllers.is_empty(),
        };
        is_it.then_some(path)
    })
}

/// The folders of a group and its ancestors, as far as the mount shows them.
fn levels(mount: &Mount, group: &str) -> Vec<PathBuf> {
    let within = Path::new(group)
        .strip_prefix(&mount.root)
        .unwrap_or(Path::new(""));
    // A group outside of what the mount shows begins with `..`: its top is as near as we come.
    let within = if within.starts_with("..") {
        Path::new("")
    } else {
        within
    };
    let levels = within.ancestors().take(MAX_LEVELS);
    levels.map(|level| mount.point.join(level)).collect()
}

fn quota(folder: &Path, version: Version) -> Option<CgroupCpuSample> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let (quota_us, period_us) = match version {
        Version::Two => parse_max(&read("cpu.max")?)?,
        Version::One => (
            // Without a quota it is -1, which is no number of ours.
            read("cpu.cfs_quota_us")?.trim().parse().ok()?,
            read("cpu.cfs_period_us")?.trim().parse().ok()?,
        ),
    };
    let stat = read("cpu.stat")?;
    let figure = |name: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(key, _)| *key == name)?;
        value.trim().parse::<u64>().ok()
    };
    let throttled_ns = match version {
        Version::One => figure("throttled_time"),
        Version::Two => figure("throttled_usec").map(|us| us.saturating_mul(1_000)),
    };
    Some(CgroupCpuSample {
        quota_ns: u64::saturating_mul(quota_us, 1_000),
        period_ns: u64::saturating_mul(period_us, 1_000),
        periods_total: figure("nr_periods")?,
        throttled_periods_total: figure("nr_throttled")?,
        throttled_ns_total: throttled_ns?,
    })
}

/// `50000 100000`; `None` for `max 100000`.
fn parse_max(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some((quota.parse().ok()?, period.parse().ok()?))
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`, in microseconds.
fn parse_pressure(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some
        .split(' ')
        .find_map(|figure| figure.strip_prefix("total="))?;
    Some(total.trim().parse::<u64>().ok()?.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &str = "\
23 1 0:5 / /dev rw - devtmpfs dev rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 /pod7 /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn the_mounts_that_know_of_cpus_are_found() {
        let mounts = parse_mounts(MIXED);
        let told: Vec<_> = mounts
            .iter()
            .map(|mount| (&*mount.root, mount.point.to_str(), mount.version))
            .collect();
        assert_eq!(
            told,
            [
                ("/", Some("/sys/fs/cgroup/cpu"), Version::One),
                ("/pod7", Some("/sys/fs/cgroup/unified"), Version::Two),
            ]
        );
    }

    #[test]
    fn a_group_is_told_by_its_version() {
        let groups = "4:memory:/m\n1:cpu,cpuacct:/a/b\n0::/pod7/c\n";
        assert_eq!(parse_group(groups, Version::One), Some("/a/b"));
        assert_eq!(parse_group(groups, Version::Two), Some("/pod7/c"));
        assert_eq!(parse_group("nonsense", Version::Two), None);
        let mounts = parse_mounts(MIXED);
        let paths = |mount: &Mount, group| {
            let levels = levels(mount, group).into_iter();
            levels
                .map(|level| level.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            paths(&mounts[1], "/pod7/c"),
            ["/sys/fs/cgroup/unified/c", "/sys/fs/cgroup/unified/"]
        );
        // From inside a namespace, a group above its top.
        assert_eq!(
            paths(&mounts[0], "/../../other"),
            ["/sys/fs/cgroup/cpu/"],
            "outside of the mount"
        );
    }

    /// Both versions from files, as the kernel writes them.
    #[test]
    fn a_quota_is_read_with_what_became_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            fs::write(folder.path().join(file), text).expect("writes");
        };
        write("cpu.max", "50000 100000\n");
        write(
            "cpu.stat",
            "usage_usec 9\nnr_periods 40\nnr_throttled 12\nthrottled_usec 700\n",
        );
        let two = quota(folder.path(), Version::Two).expect("has one");
        assert!((two.cpus() - 0.5).abs() < 1e-9);
        assert_eq!((two.periods_total, two.throttled_periods_total), (40, 12));
        assert_eq!(two.throttled_ns_total, 700_000);
        write("cpu.max", "max 100000\n");
        assert_eq!(quota(folder.path(), Version::Two), None);

        write("cpu.cfs_quota_us", "20000\n");
        write("cpu.cfs_period_us", "100000\n");
        write(
            "cpu.stat",
            "nr_periods 5\nnr_throttled 3\nthrottled_time 900\n",
        );
        let one = quota(folder.path(), Version::One).expect("has one");
        assert_eq!((one.quota_ns, one.period_ns), (20_000_000, 100_000_000));
        assert_eq!(one.throttled_ns_total, 900);
        write("cpu.cfs_quota_us", "-1\n");
        assert_eq!(quota(folder.path(), Version::One), None);
    }

    #[test]
    fn pressure_is_the_time_in_which_some_task_waited() {
        let text = "some avg10=24.00 avg60=53.17 avg300=34.37 total=59\nfull avg10=0.00 total=7\n";
        assert_eq!(parse_pressure(text), Some(59_000));
        assert_eq!(parse_pressure(""), None);
    }

    #[test]
    fn this_process_is_read_without_a_fault() {
        let share = Cgroups::find().read();
        if let Some(quota) = share.quota {
            assert!(quota.cpus() > 0.0);
        }
    }
}
