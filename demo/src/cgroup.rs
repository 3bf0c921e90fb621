//! A control group of our own with a quota of CPU time, where the machine lets us make one (root; version 1 or 2).

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// The period of the quota: that of the kernel unless set, which is what services meet.
const PERIOD_US: u64 = 100_000;

/// How our groups are named, before the process id.
const PREFIX: &str = "ax-demo-";

/// A control group that allows its processes a share of one CPU. Dropped, it lets this process out again, and is
/// removed.
pub(crate) struct Quota {
    group: PathBuf,
    /// Where the process was before.
    home: PathBuf,
}

impl Quota {
    /// Makes the group, with no process in it.
    pub(crate) fn new(percent: u64) -> anyhow::Result<Self> {
        let read =
            |file: &str| fs::read_to_string(file).with_context(|| format!("cannot read {file}"));
        let place = place(&read("/proc/self/mounts")?, &read("/proc/self/cgroup")?)
            .context("this machine has no control group with the cpu controller")?;
        remove_left_over(&place.parent);
        let group = place.parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&group).with_context(|| {
            format!(
                "cannot make the control group {}, which needs root",
                group.display()
            )
        })?;
        // From here on it is removed whatever happens.
        let quota = Self {
            group,
            home: place.home,
        };
        let quota_us = PERIOD_US * percent / 100;
        match place.version {
            Version::One => quota.write("cpu.cfs_quota_us", &quota_us.to_string())?,
            Version::Two => quota.write("cpu.max", &format!("{quota_us} {PERIOD_US}"))?,
        }
        Ok(quota)
    }

    /// Moves this process in.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        self.write("cgroup.procs", &std::process::id().to_string())
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let file = self.group.join(file);
        fs::write(&file, text).with_context(|| format!("cannot write {text} to {}", file.display()))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let pid = std::process::id().to_string();
        let out = fs::write(self.home.join("cgroup.procs"), pid);
        if let Err(error) = out.and_then(|()| fs::remove_dir(&self.group)) {
            eprintln!(
                "demo-service: the control group {} stays: {error}",
                self.group.display()
            );
        }
    }
}

/// Removes the groups of demos that were killed. A group that has a process in it cannot be removed.
fn remove_left_over(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another demo may have been faster.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where a group can be made.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    version: Version,
    parent: PathBuf,
    /// The group of this process.
    home: PathBuf,
}

/// Reads `/proc/self/mounts` and `/proc/self/cgroup`.
fn place(mounts: &str, groups: &str) -> Option<Place> {
    let mut version_two = None;
    for mount in mounts.lines() {
        let mut fields = mount.split(' ');
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let options = fields.next().unwrap_or_default();
        if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
            let home = Path::new(at).join(group_of(groups, |controllers| {
                controllers.split(',').any(|controller| controller == "cpu")
            })?);
            return Some(Place {
                version: Version::One,
                parent: home.clone(),
                home,
            });
        }
        if kind == "cgroup2" {
            version_two = Some(at);
        }
    }
    let root = Path::new(version_two?);
    let home = root.join(group_of(groups, str::is_empty)?);
    // A group of version 2 that has processes has no groups below it with a controller, so it stands beside ours.
    let parent = if home == root { root } else { home.parent()? };
    Some(Place {
        version: Version::Two,
        parent: parent.to_owned(),
        home,
    })
}

/// The path below its mount of the group with these controllers.
fn group_of(groups: &str, controllers: impl Fn(&str) -> bool) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (found, path) = line.split_once(':')?;
        controllers(found).then(|| path.trim_start_matches('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
        proc /proc proc rw 0 0\n\
        cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

    #[test]
    fn version_1_is_taken_where_it_has_the_cpu() {
        let groups = "5:cpuset:/\n4:cpu,cpuacct:/docker/abc\n0::/\n";
        let place = place(V1_MOUNTS, groups).expect("has one");
        assert_eq!(place.version, Version::One);
        assert_eq!(
            place.home,
            Path::new("/sys/fs/cgroup/cpu,cpuacct/docker/abc")
        );
        assert_eq!(place.parent, place.home);
    }

    #[test]
    fn in_version_2_the_new_group_stands_beside_the_own_one() {
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let beside = place(mounts, "0::/system.slice/demo.service\n").expect("has one");
        assert_eq!(beside.version, Version::Two);
        assert_eq!(beside.parent, Path::new("/sys/fs/cgroup/system.slice"));
        assert_eq!(
            beside.home,
            Path::new("/sys/fs/cgroup/system.slice/demo.service")
        );
        let at_the_root = place(mounts, "0::/\n").expect("has one");
        assert_eq!(at_the_root.parent, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn where_there_is_none_there_is_none() {
        assert_eq!(place("proc /proc proc rw 0 0\n", "0::/\n"), None);
    }
}
