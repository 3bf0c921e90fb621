//! Who may connect, who sees what, and how much of the agent one user may take.
//!
//! A per-user agent serves its user and root. The system agent takes services of every user; a viewer sees those of its
//! own user, root and the group `ax` see all. Who somebody is comes from the kernel, with the connection.

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{clock::Now, history::Outside};

/// Whose members see all services of a system agent.
pub const GROUP: &str = "ax";

/// How old the group's list may be: joining a group is rare, and the files are small.
const GROUP_MAX_AGE: Duration = Duration::from_mins(1);

/// The far end of a connection, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// In our own pid namespace; `None` where it has no number there.
    pub(crate) pid: Option<u32>,
}

/// Which services a viewer may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sees {
    All,
    OfUser(u32),
}

impl Sees {
    pub(crate) fn includes(self, uid: u32) -> bool {
        match self {
            Self::All => true,
            Self::OfUser(own) => own == uid,
        }
    }
}

/// Whether a peer of user `peer` may speak to a per-user agent of user `own`: the same user, or root.
pub(crate) fn admits(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// The members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    gid: Option<u32>,
    uids: Vec<u32>,
}

impl Group {
    /// Finds a group in the text of `/etc/group`, and its members' numbers in that of `/etc/passwd`.
    fn parse(name: &str, groups: &str, users: &str) -> Self {
        let group = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next() == Some(name);
            let (gid, members) = (fields.nth(1)?, fields.next()?);
            found.then_some((gid.parse().ok()?, members))
        });
        let Some((gid, members)) = group else {
            return Self::default();
        };
        let uids = users.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let user = fields.next()?;
            let member = !user.is_empty() && members.split(',').any(|member| member == user);
            member.then_some(fields.nth(1)?.parse().ok()?)
        });
        Self {
            gid: Some(gid),
            uids: uids.collect(),
        }
    }

    /// What a viewer of a system agent sees.
    fn sees(&self, peer: Peer) -> Sees {
        let member = self.gid == Some(peer.gid) || self.uids.contains(&peer.uid);
        if peer.uid == 0 || member {
            Sees::All
        } else {
            Sees::OfUser(peer.uid)
        }
    }
}

/// The group [`GROUP`], read again when it is old. Members that only a name service knows are seen by their primary
/// group alone: `newgrp ax` makes it theirs.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    read: Mutex<Option<(Instant, Group)>>,
}

impl Groups {
    pub(crate) fn sees(&self, peer: Peer) -> Sees {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = read.as_ref().filter(|(at, _)| at.elapsed() < GROUP_MAX_AGE);
        if let Some((_, group)) = fresh {
            return group.sees(peer);
        }
        // A file that cannot be read has no members: less is seen, not more.
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let group = Group::parse(GROUP, &text("/etc/group"), &text("/etc/passwd"));
        let sees = group.sees(peer);
        *read = Some((Instant::now(), group));
        sees
    }
}

/// Places that are taken one by one and given back on drop: so many in all, so many for one user.
#[derive(Debug)]
pub(crate) struct Quota {
    most: usize,
    most_of_user: usize,
    /// Taken places by user. Locked for a look-up at each connection, never across an await.
    taken: Mutex<HashMap<u32, usize>>,
}

impl Quota {
    pub(crate) fn new(most: usize, most_of_user: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_user,
            taken: Mutex::default(),
        })
    }

    /// A place, or for a person why there is none.
    pub(crate) fn take(self: &Arc<Self>, uid: u32, what: &str) -> Result<Place, String> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<usize>() >= self.most {
            return Err(format!("all {} {what} are taken", self.most));
        }
        let of_user = taken.entry(uid).or_default();
        if *of_user >= self.most_of_user {
            let most = self.most_of_user;
            return Err(format!("all {most} {what} of user {uid} are taken"));
        }
        *of_user += 1;
        Ok(Place {
            quota: Arc::clone(self),
            uid,
        })
    }
}

/// One place of a [`Quota`].
#[derive(Debug)]
pub(crate) struct Place {
    quota: Arc<Quota>,
    uid: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        let taken = self.quota.taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        if let Some(of_user) = taken.get_mut(&self.uid) {
            *of_user -= 1;
            if *of_user == 0 {
                taken.remove(&self.uid);
            }
        }
    }
}

/// Whether a process is traced, such as by a debugger that holds it. `false` where that cannot be told.
pub(crate) fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|pid| pid.trim() != "0")
}

/// What the kernel tells of a process at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Glimpse {
    at_mono_ns: u64,
    state: char,
    cpu_ns: u64,
}

impl Glimpse {
    /// `None` where there is no such process, or it may not be looked at. About 20 us, and as much for each thread of a
    /// process that sleeps.
    pub(crate) fn of(pid: u32, now: Now) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let main = Self::parse(&stat, now.mono_ns)?;
        // The main thread of a service often only waits for the others: one of these that could run is not frozen.
        let state = match main.state {
            'S' if a_thread_is_runnable(pid, now) => 'R',
            state => state,
        };
        Some(Self { state, ..main })
    }

    fn parse(stat: &str, at_mono_ns: u64) -> Option<Self> {
        // The name of the program stands in brackets and may hold any, so the fields begin after the last.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut ticks = fields.skip(10).map(str::parse::<u64>);
        let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        Some(Self {
            at_mono_ns,
            state,
            cpu_ns: (user + system).saturating_mul(tick_ns),
        })
    }

    /// What it did since an earlier look.
    pub(crate) fn since(self, before: Option<Self>) -> Outside {
        let cpus_used = before.and_then(|before| {
            let passed_ns = self.at_mono_ns.checked_sub(before.at_mono_ns)?;
            let used_ns = self.cpu_ns.checked_sub(before.cpu_ns)?;
            (passed_ns > 0).then(|| used_ns as f64 / passed_ns as f64)
        });
        Outside {
            state: self.state,
            cpus_used,
        }
    }
}

/// Threads that are looked at for one that could run.
const MAX_THREADS: usize = 256;

fn a_thread_is_runnable(pid: u32, now: Now) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let stats = threads.into_iter().flatten().flatten().take(MAX_THREADS);
    let mut seen = stats.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        Glimpse::parse(&stat, now.mono_ns)
    });
    seen.any(|thread| thread.state == 'R')
}

/// Whether a process is there and no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    state.starts_with(|state| !matches!(state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "root:x:0:\naxe:x:7:eve\nax:x:990:alice,bob\n";
    const USERS: &str =
        "root:x:0:0::/root:/bin/sh\nalice:x:1000:100::/:/bin/sh\neve:x:1001:100::/:/bin/sh\n";

    fn peer(uid: u32, gid: u32) -> Peer {
        Peer {
            uid,
            gid,
            pid: None,
        }
    }

    /// The test runs on a thread of its own, and the main thread waits for it.
    #[test]
    fn a_process_whose_other_thread_runs_could_run() {
        let now = Now {
            mono_ns: 1,
            unix_ns: 1,
        };
        let seen = Glimpse::of(std::process::id(), now).expect("it lives");
        assert_eq!(seen.state, 'R');
        assert!(seen.since(None).runs());
    }

    #[test]
    fn only_the_same_user_and_root_are_admitted() {
        assert!(admits(1_000, 1_000));
        assert!(admits(0, 1_000));
        assert!(admits(0, 0));
        assert!(!admits(1_001, 1_000));
        assert!(!admits(1_000, 0));
    }

    #[test]
    fn a_viewer_sees_its_own_and_root_and_the_group_see_all() {
        let group = Group::parse(GROUP, GROUPS, USERS);
        assert_eq!(group.sees(peer(0, 0)), Sees::All);
        assert_eq!(group.sees(peer(1_000, 100)), Sees::All, "alice is listed");
        assert_eq!(group.sees(peer(1_002, 990)), Sees::All, "by primary group");
        assert_eq!(group.sees(peer(1_001, 100)), Sees::OfUser(1_001));
        assert!(Sees::OfUser(7).includes(7) && !Sees::OfUser(7).includes(0));
    }

    #[test]
    fn without_the_group_or_in_a_strange_file_nobody_is_a_member() {
        for groups in ["", "ax", "ax:x:many:alice", "axe:x:7:alice", ":x:0:alice"] {
            let group = Group::parse(GROUP, groups, USERS);
            assert_eq!(group.sees(peer(1_000, 0)), Sees::OfUser(1_000), "{groups}");
        }
        let nameless = Group::parse(GROUP, "ax:x:990:\n", ":x:5:5\n");
        assert_eq!(nameless.sees(peer(5, 5)), Sees::OfUser(5));
    }

    #[test]
    fn a_user_cannot_take_more_than_its_share_and_gives_it_back() {
        let quota = Quota::new(3, 2);
        let of_one: Vec<_> = (0..3).map(|_| quota.take(1, "connections")).collect();
        let refused = of_one[2].as_ref().expect_err("is refused");
        assert!(refused.contains("all 2 connections of user 1"), "{refused}");
        let _other = quota.take(2, "connections").expect("is free");
        assert!(quota.take(3, "connections").is_err(), "three in all");
        drop(of_one);
        quota.take(1, "connections").expect("is free again");
    }

    #[test]
    fn a_glimpse_says_the_state_and_the_cpu_used_since_the_last() {
        let stat = |state: char, user: u64| {
            format!("7 (we)ird) name) {state} 1 7 7 0 -1 4194304 1 2 3 4 {user} 50 0 0 20 0 3")
        };
        let before = Glimpse::parse(&stat('S', 100), 1_000_000_000).expect("parses");
        let after = Glimpse::parse(&stat('T', 150), 2_000_000_000).expect("parses");
        let seen = after.since(Some(before));
        assert_eq!(seen.state, 'T');
        let cpus = seen.cpus_used.expect("two looks");
        let tick_s = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        assert!((cpus - 50.0 * tick_s).abs() < 1e-9, "{cpus}");
        assert_eq!(before.since(None).cpus_used, None);
        assert_eq!(Glimpse::parse("nonsense", 1), None);
    }

    #[test]
    fn this_process_is_alive_and_an_impossible_one_is_not() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(u32::MAX));
        assert!(!is_traced(u32::MAX));
    }
}
