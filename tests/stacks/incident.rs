//! The whole way of an incident with stacks: the snapshot, the names in its file, `ax-top symbolize`, and how long it takes.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use ax_agent::symbol::fold::culprit;
use ax_wire::{
    incident::{Incident, Writer},
    snapshot_file,
    stack::ThreadStack,
};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    HOW, own_binary,
    service::{Mode, WORKERS_OF_INCIDENT},
    start_service,
    support::{Guarded, PATIENCE, ax_agent, ax_top, eventually, full, record::Record, run_to_end},
};

/// The real agent, with folders of its own.
struct Agent {
    folder: tempfile::TempDir,
    _process: Guarded,
}

impl Agent {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("run/agent.sock");
        let mut agent = ax_agent(&socket);
        agent
            .arg("--snapshots")
            .arg(folder.path().join("snapshots"))
            .args(["--log", "warn"]);
        let process = Guarded(agent.spawn().expect("the agent starts"));
        eventually("the agent's socket", || socket.exists().then_some(()));
        Self {
            folder,
            _process: process,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("run/agent.sock")
    }

    fn snapshots(&self) -> PathBuf {
        self.folder.path().join("snapshots")
    }
}

/// The files in a folder that may not be there yet.
fn files(folder: &Path) -> HashSet<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| {
            let name = path.file_name().unwrap_or_default();
            snapshot_file::incident_of(name).is_some()
        })
        .collect()
}

fn incident_of(file: &Path) -> Incident {
    let snapshot = snapshot_file::read(file).expect("always whole");
    snapshot.incident.expect("taken")
}

fn names_it(stack: &ThreadStack) -> bool {
    culprit(stack).is_some_and(|function| function.name.ends_with("kinds::odd"))
}

fn mono_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(now).expect("is not negative");
    now.as_nanos() as u64
}

/// The agent writes the snapshot, then the names into it, of both stacks; and `ax-top symbolize` reads it.
#[test]
fn the_snapshot_of_an_incident_gets_the_names() {
    let agent = Agent::start();
    let (socket, folder) = (agent.socket(), agent.folder.path());
    let _service = start_service(&own_binary(), Mode::Incident, &socket, folder);
    let file = eventually("a snapshot", || {
        files(&agent.snapshots()).into_iter().next()
    });
    let incident = eventually("names of two stacks", || {
        let incident = incident_of(&file);
        let both = incident.stacks.len() == 2 && incident.stacks.iter().all(names_it);
        both.then_some(incident)
    });
    assert_eq!(incident.stalls.len(), 1);
    let lines = |stack: &ThreadStack| culprit(stack).and_then(|function| function.line);
    let lines: HashSet<_> = incident.stacks.iter().map(lines).collect();
    assert_eq!(lines.len(), 1, "it does not move");

    let output = folder.join("with-names.json");
    let mut symbolize = ax_top(&socket);
    symbolize
        .arg("symbolize")
        .arg(&file)
        .arg("--output")
        .arg(&output);
    let printed = run_to_end(symbolize.arg("--with").arg(own_binary()), 0);
    let printed = String::from_utf8(printed.stdout).expect("text");
    assert!(printed.contains("-> stacks::kinds::odd"), "{printed}");
    assert!(printed.contains("frames of the runtime"), "{printed}");
    let copy = incident_of(&output);
    assert_eq!(copy.stacks, incident.stacks);

    let damaged = folder.join("damaged");
    let mut bytes = fs::read(own_binary()).expect("reads");
    // The table of sections, which the header says to be at the end, is gone; and a file of which only the magic is right.
    bytes.truncate(bytes.len() / 2);
    fs::write(&damaged, &bytes).expect("writes");
    let magic = folder.join("magic");
    fs::write(&magic, b"\x7fELF\x02\x01\x01\0garbage\x1b[2J").expect("writes");
    for (with, why) in [
        (Path::new(env!("CARGO_BIN_EXE_ax-agent")), "another build"),
        (Path::new("/etc/passwd"), "no ELF file"),
        (Path::new("/nonexistent"), "cannot be opened"),
        (Path::new("/dev/zero"), "no regular file"),
        (&damaged, "no ELF file"),
        (&magic, "no ELF file"),
    ] {
        let mut symbolize = ax_top(&socket);
        symbolize
            .arg("symbolize")
            .arg(&file)
            .arg("--with")
            .arg(with);
        let refused = run_to_end(&mut symbolize, 65);
        let said = String::from_utf8(refused.stderr).expect("text");
        assert!(said.contains(why), "{}: {said}", with.display());
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
}

/// A service without an agent leaves addresses; whoever opens the file on that host sees names, though the service is gone.
#[test]
fn what_the_service_wrote_itself_is_named_when_it_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = folder.path().join("nobody.sock");
    let (file, service) = written_by_the_service(folder.path(), &nobody);
    drop(service);
    let incident = incident_of(&file);
    assert!(!incident.stacks.is_empty());
    assert!(incident.stacks.iter().all(|stack| !stack.is_named()));
    for (arguments, wanted) in [
        (
            &["report"][..],
            r#"<li class="culprit"><code>stacks::kinds::odd"#,
        ),
        (&["export", "--format", "collapsed"], "stacks::kinds::odd"),
        (&["symbolize"], "-> stacks::kinds::odd"),
    ] {
        let mut command = ax_top(&nobody);
        let output = run_to_end(command.args(arguments).arg(&file), 0);
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    assert_eq!(incident_of(&file), incident, "the file stays as it is");

    // On a host without that file, or with another build in its place, there is a reason instead.
    let text = fs::read_to_string(&file).expect("reads");
    let own = own_binary();
    let own = own.to_str().expect("plain");
    let elsewhere = folder.path().join("elsewhere.json");
    for (path, why) in [
        ("/nonexistent/shop", "cannot be opened"),
        (env!("CARGO_BIN_EXE_ax-agent"), "another build"),
    ] {
        fs::write(&elsewhere, text.replace(own, path)).expect("writes");
        let mut command = ax_top(&nobody);
        let output = run_to_end(command.arg("symbolize").arg(&elsewhere), 0);
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(said.contains(why) && !said.contains("kinds::odd"), "{said}");
    }
}

/// The first file of a service that blocks all its workers, and the service.
fn written_by_the_service(folder: &Path, socket: &Path) -> (PathBuf, Guarded) {
    let snapshots = folder.join("snapshots");
    let service = start_service(&own_binary(), Mode::Wedged, socket, folder);
    let file = eventually("a snapshot", || files(&snapshots).into_iter().next());
    (file, service)
}

/// How long after the first poll began that did not return.
struct Took {
    on_disk: Duration,
    named: Option<Duration>,
}

/// Blocks all workers of a service and waits for its file, and with an agent for the names in it.
fn time_one(agent: Option<&Agent>) -> Took {
    let own = tempfile::tempdir().expect("a folder");
    let (folder, socket, snapshots) = match agent {
        Some(agent) => (agent.folder.path(), agent.socket(), agent.snapshots()),
        None => (
            own.path(),
            own.path().join("nobody.sock"),
            own.path().join("snapshots"),
        ),
    };
    let service = start_service(&own_binary(), Mode::Wedged, &socket, folder);
    // There are files of the services before, and of the one before that it has gone.
    let prefix = format!("stacks-{}-", service.0.id());
    let is_its = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix)
    };
    let asked = Instant::now();
    let (file, there_ns) = loop {
        if let Some(file) = files(&snapshots).into_iter().find(is_its) {
            break (file, mono_ns());
        }
        assert!(asked.elapsed() < PATIENCE, "no snapshot");
        thread::sleep(Duration::from_millis(1));
    };
    let snapshot = snapshot_file::read(&file).expect("always whole");
    let (writer, incident) = (snapshot.writer, snapshot.incident.expect("taken"));
    assert_eq!(incident.stalls.len(), WORKERS_OF_INCIDENT);
    let began = incident.stalls.iter().map(|stall| stall.began_mono_ns);
    let began_ns = began.min().expect("each has begun");
    let since = |now_ns: u64| Duration::from_nanos(now_ns - began_ns);
    let on_disk = since(there_ns);
    if agent.is_none() {
        assert_eq!(writer, Writer::Probe);
        return Took {
            on_disk,
            named: None,
        };
    }
    assert_eq!(writer, Writer::Agent);
    let named_ns = eventually("names", || {
        let stacks = incident_of(&file).stacks;
        let all = stacks.len() >= WORKERS_OF_INCIDENT && stacks.iter().all(names_it);
        all.then(mono_ns)
    });
    Took {
        on_disk,
        named: Some(since(named_ns)),
    }
}

/// Budgets: the snapshot threshold of 250 ms and 250 ms more with an agent, 450 ms more without; names a second later. On a
/// busy machine a class is asserted; the long run asserts the budgets.
#[test]
fn the_snapshot_is_on_disk_in_time_though_every_worker_is_blocked() {
    let rounds = if full() { 50 } else { 1 };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut record = Record::new("snapshot-time.txt", HOW);
    record.line(format!(
        "Every worker of {WORKERS_OF_INCIDENT} blocked, {rounds} times each, ms after the first poll began that did not return."
    ));
    record.line(format!(
        "{:<28} {:>8} {:>8} {:>8}",
        "", "median", "maximum", "budget"
    ));
    let agent = Agent::start();
    let mut row = |what: &str, mut times: Vec<Duration>, budget_ms: u64| {
        times.sort_unstable();
        let (median, max) = (times[times.len() / 2], times[times.len() - 1]);
        record.line(format!(
            "{what:<28} {:>8.0} {:>8.0} {budget_ms:>8}",
            ms(median),
            ms(max)
        ));
        let most = if full() { budget_ms } else { 8_000 };
        assert!(max <= Duration::from_millis(most), "{what}: {max:?}");
    };
    let took: Vec<_> = (0..rounds).map(|_| time_one(Some(&agent))).collect();
    let on_disk = took.iter().map(|took| took.on_disk).collect();
    row("on disk, by the agent", on_disk, 500);
    let named = took.iter().filter_map(|took| took.named).collect();
    row("with the names of all stacks", named, 1_500);
    let alone = (0..rounds).map(|_| time_one(None).on_disk).collect();
    row("on disk, by the service", alone, 700);
    if full() {
        record.finish();
    }
}
