//! The faults of the demo as such: each undoes what it did, and one that the machine does not allow says so at once. That
//! they lead to their verdicts is tried in `scenarios.rs`.

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::Stdio,
};

use support::{Guarded, ax_top, eventually};

/// A demo service with a fault that begins at once and ends soon, while the service goes on.
struct Demo {
    service: Guarded,
    pid: u32,
    _folder: tempfile::TempDir,
}

impl Demo {
    /// Starts it and waits until the fault begins. The error is what it said when it ended before that.
    fn with(fault: &str, set: &[&str]) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = ax_top(&folder.path().join("agent.sock"));
        command.args(["demo-service", "--rate", "0", "--fault", fault]);
        command.args(["--after-ms", "0", "--lasting-ms", "1500"]);
        for number in set {
            command.args(["--set", number]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut service = Guarded(command.stderr(Stdio::piped()).spawn().expect("starts"));
        let stdout = service.0.stdout.take().expect("piped");
        let began = format!("fault {fault} began ");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        if !lines.any(|line| line.starts_with(&began)) {
            let mut said = String::new();
            let mut stderr = service.0.stderr.take().expect("piped");
            stderr.read_to_string(&mut said).expect("text");
            return Err(said);
        }
        Ok(Self {
            pid: service.0.id(),
            service,
            _folder: folder,
        })
    }

    fn proc(&self, of: &str) -> String {
        format!("/proc/{}/{of}", self.pid)
    }

    fn open_files(&self) -> usize {
        fs::read_dir(self.proc("fd")).expect("it lives").count()
    }

    /// The processes that it has started and not yet waited for.
    fn children(&self) -> Vec<String> {
        let tasks = fs::read_dir(self.proc("task")).expect("it lives");
        let children = tasks.filter_map(|task| {
            // A thread may have ended meanwhile.
            fs::read_to_string(task.ok()?.path().join("children")).ok()
        });
        let children: String = children.collect();
        children.split_whitespace().map(str::to_owned).collect()
    }

    fn group(&self) -> String {
        fs::read_to_string(self.proc("cgroup")).expect("it lives")
    }

    /// Ends it, and expects that it ends well.
    fn end(mut self) {
        drop(self.service.0.stdin.take());
        let status = eventually("the demo to end", || {
            self.service.0.try_wait().expect("waits")
        });
        assert!(status.success(), "{status}");
    }
}

#[test]
fn files_are_closed_again() {
    let demo = Demo::with("fd-exhausted", &["limit=128", "files_per_s=10000"]).expect("begins");
    eventually("no descriptor to be left", || {
        (demo.open_files() >= 128).then_some(())
    });
    eventually("them to be closed", || {
        (demo.open_files() < 100).then_some(())
    });
    demo.end();
}

#[test]
fn processes_end_with_the_fault() {
    let demo = Demo::with("cpu-starvation", &["threads=2"]).expect("begins");
    let children = eventually("the neighbour", || {
        Some(demo.children()).filter(|children| !children.is_empty())
    });
    eventually("it to be gone", || demo.children().is_empty().then_some(()));
    let gone = |pid: &String| !Path::new("/proc").join(pid).exists();
    assert!(children.iter().all(gone), "{children:?}");
    demo.end();
}

#[test]
fn the_control_group_is_removed() {
    let demo = match Demo::with("cpu-throttled", &["quota_percent=50"]) {
        Ok(demo) => demo,
        Err(said) => {
            assert!(said.contains("control group"), "{said}");
            assert!(said.contains("cpu-throttled cannot be prepared"), "{said}");
            println!("skipped: needs a control group of its own: {said}");
            return;
        }
    };
    let ours = format!("ax-demo-{}", demo.pid);
    let group = eventually("it to be moved", || {
        let groups = demo.group();
        groups
            .lines()
            .find(|line| line.ends_with(&ours))
            .map(str::to_owned)
    });
    eventually("it to be moved out", || {
        (!demo.group().contains(&ours)).then_some(())
    });
    let controllers = group.split(':').nth(1).expect("a field").to_owned();
    let places = [
        format!("/sys/fs/cgroup/{controllers}/{ours}"),
        format!("/sys/fs/cgroup/{ours}"),
    ];
    eventually("it to be removed", || {
        places
            .iter()
            .all(|place| !Path::new(place).exists())
            .then_some(())
    });
    demo.end();
}

/// A fault that has stopped every worker does not keep the service from ending with its parent.
#[test]
fn a_service_without_a_worker_ends_with_its_standard_input() {
    for fault in ["runtime-deadlock", "async-deadlock", "futurelock"] {
        let demo = Demo::with(fault, &[]).expect("begins");
        demo.end();
    }
}
