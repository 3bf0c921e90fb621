//! What another user can do: nothing to a per-user agent, and on the system agent only what is its own.
//!
//! The other user is `nobody`. Its part is played by a copy of this program, started through `setpriv` with a role in
//! the environment.

mod support;

use std::{
    env,
    fs::{self, Permissions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use ax_wire::{
    InstanceId, ToAgent, ToViewer,
    frame::{Capture, Subscribe, decode, encode},
    hello::{ClockAnchor, Hello, PROTOCOL},
    sample::{Dropped, ProcessSample, Sample},
};
use support::{Guarded, PATIENCE, Viewer, ax_agent, eventually, find_program};

const ROLE: &str = "AX_TEST_ROLE";
const ARGUMENT: &str = "AX_TEST_ARGUMENT";
const NOBODY: u32 = 65_534;

/// Folders of one test: others may pass through the outer one, so that only our own modes protect what is inside.
struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
}

fn start_agent(arguments: &[&str], socket: &Path, snapshots: &Path) -> Guarded {
    let mut command = ax_agent(socket);
    command.args(arguments).arg("--socket").arg(socket);
    command
        .arg("--snapshots")
        .arg(snapshots)
        .stderr(Stdio::null());
    let agent = Guarded(command.spawn().expect("the agent starts"));
    eventually("the agent's socket", || socket.exists().then_some(()));
    agent
}

impl Place {
    /// `None` where we are not root, or have no `setpriv`.
    fn new() -> Option<Self> {
        if rustix::process::geteuid().as_raw() != 0 {
            println!("skipped: needs root");
            return None;
        }
        find_program("setpriv")?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("chmod");
        let program = folder.path().join("test-program");
        fs::copy(env::current_exe().expect("has a path"), &program).expect("copies");
        Some(Self { folder, program })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts one of the roles below, as nobody or as ourselves.
    fn role(&self, uid: u32, role: &str, argument: &Path) -> Child {
        let mut command = if uid == 0 {
            Command::new(&self.program)
        } else {
            let mut command = Command::new("setpriv");
            let uid = uid.to_string();
            command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
            command.arg(&self.program);
            command
        };
        command
            .args(["--ignored", "--exact", "play_a_role", "--nocapture"])
            .env(ROLE, role)
            .env(ARGUMENT, argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts")
    }

    /// What a role says.
    fn said(&self, uid: u32, role: &str, argument: &Path) -> String {
        let output = self.role(uid, role, argument).wait_with_output();
        String::from_utf8_lossy(&output.expect("ends").stdout).into_owned()
    }
}

/// The other user's part: not a test, and does nothing unless a test has started it.
#[test]
#[ignore = "the other half of the tests here, which start it"]
fn play_a_role() {
    let (Ok(role), Some(argument)) = (env::var(ROLE), env::var_os(ARGUMENT)) else {
        return;
    };
    let argument = PathBuf::from(argument);
    match role.as_str() {
        "connect" => match UnixStream::connect(&argument) {
            Ok(mut stream) => {
                let mut answer = String::new();
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let _ = stream.read_to_string(&mut answer);
                println!("connected: {answer}");
            }
            Err(error) => println!("cannot connect: {error}"),
        },
        "read" => println!("{}", outcome(fs::read(&argument).is_ok())),
        "list" => println!("{}", outcome(fs::read_dir(&argument).is_ok())),
        "plant" => {
            let file = fs::write(argument.join("planted"), "x").is_ok();
            let link = symlink("/etc/passwd", argument.join("agent.sock.new")).is_ok();
            println!("{}", outcome(file || link));
        }
        "view" => view(&argument),
        service => speak(service, &argument),
    }
}

fn outcome(done: bool) -> &'static str {
    if done { "DONE" } else { "DENIED" }
}

fn send(stream: &mut UnixStream, frame: &ToAgent) {
    let mut line = Vec::new();
    encode(frame, &mut line).expect("encodes");
    stream.write_all(&line).expect("the agent reads");
}

/// Prints the services that a viewer of this user sees, and what becomes of a capture of each instance named on stdin.
fn view(socket: &Path) {
    let mut stream = UnixStream::connect(socket).expect("connects");
    send(
        &mut stream,
        &ToAgent::Subscribe(Subscribe { protocol: PROTOCOL }),
    );
    stream.set_read_timeout(Some(PATIENCE)).expect("is set");
    let mut lines = BufReader::new(stream.try_clone().expect("is cloned")).lines();
    let mut next =
        || decode::<ToViewer>(lines.next().expect("a line").expect("is read").as_bytes());
    loop {
        if let ToViewer::Services(seen) = next().expect("a frame") {
            let names = seen.services.iter().map(|service| service.service.as_str());
            println!("sees: {}", names.collect::<Vec<_>>().join(" "));
            break;
        }
    }
    for instance in std::io::stdin().lines().map_while(Result::ok) {
        let instance = InstanceId(instance.parse().expect("an id"));
        send(&mut stream, &ToAgent::Capture(Capture { instance }));
        loop {
            match next().expect("a frame") {
                ToViewer::Captured(captured) => {
                    println!("captured: {:?}", captured.outcome);
                    break;
                }
                ToViewer::View(view) => println!("view of {}", view.summary.service),
                _ => {}
            }
        }
    }
}

/// A service of this user, until it is killed.
fn speak(service: &str, socket: &Path) {
    let mut stream = UnixStream::connect(socket).expect("connects");
    let hello = Hello {
        protocol: PROTOCOL,
        service: service.to_owned(),
        instance: InstanceId::new_now(),
        pid: std::process::id(),
        process_start_unix_ns: 1,
        service_version: None,
        build_id: None,
        probe_version: "0".to_owned(),
        cpus: 1,
        runtimes: Vec::new(),
        features: Vec::new(),
        clock: ClockAnchor {
            mono_ns: 0,
            unix_ns: 0,
        },
        stall_threshold_ns: 1,
        snapshot_threshold_ns: 1,
    };
    send(&mut stream, &ToAgent::Hello(Box::new(hello)));
    for seq in 1_u64.. {
        let sample = Sample {
            seq,
            at_mono_ns: seq * 100_000_000,
            interval_ns: 100_000_000,
            clock: None,
            lag: Vec::new(),
            runtimes: Vec::new(),
            process: ProcessSample::default(),
            threads: Vec::new(),
            lanes: Vec::new(),
            oldest_jobs: Vec::new(),
            waiting_jobs: Vec::new(),
            types: Vec::new(),
            routes: Vec::new(),
            downstreams: Vec::new(),
            dropped: Dropped::default(),
            incidents_suppressed_total: 0,
        };
        send(&mut stream, &ToAgent::Sample(Box::new(sample)));
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn nobody_can_connect_to_a_per_user_agent_nor_read_nor_plant_a_file() {
    let Some(place) = Place::new() else {
        return;
    };
    let (socket, snapshots) = (place.path("ax/agent.sock"), place.path("state/snapshots"));
    let _agent = start_agent(&[], &socket, &snapshots);
    // A death leaves a file.
    let mut service = Guarded(place.role(0, "checkout", &socket));
    let mut viewer = Viewer::connect(&socket);
    viewer.first_figures("checkout");
    service.0.kill().expect("is killed");
    let view = viewer.wait_view("checkout", "its last seen", |v| {
        v.snapshots
            .first()
            .map(|summary| PathBuf::from(&summary.path))
    });

    let folder = socket.parent().expect("has one");
    let connected = place.said(NOBODY, "connect", &socket);
    assert!(
        connected.contains("cannot connect: Permission denied"),
        "{connected}"
    );
    for (role, argument) in [
        ("list", folder),
        ("plant", folder),
        ("read", &folder.join("agent.lock")),
        ("list", &snapshots),
        ("plant", &snapshots),
        ("read", &view),
    ] {
        let said = place.said(NOBODY, role, argument);
        assert!(
            said.contains("DENIED"),
            "{role} {}: {said}",
            argument.display()
        );
    }
    // Even where somebody has opened folder and socket to all, the agent asks the kernel who it is.
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("chmod");
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).expect("chmod");
    let refused = place.said(NOBODY, "connect", &socket);
    assert!(
        refused.contains("serves user 0 and root, not user 65534"),
        "{refused}"
    );
}

#[test]
fn on_the_system_agent_a_user_sees_its_own_services_and_files_alone() {
    let Some(place) = Place::new() else {
        return;
    };
    let (socket, snapshots) = (place.path("run/agent.sock"), place.path("state"));
    let _agent = start_agent(&["--system"], &socket, &snapshots);
    let mode = |path: &Path| fs::metadata(path).expect("is there").mode() & 0o777;
    assert_eq!((mode(&place.path("run")), mode(&socket)), (0o755, 0o666));
    let mut roots = Guarded(place.role(0, "of-root", &socket));
    let mut nobodys = Guarded(place.role(NOBODY, "of-nobody", &socket));
    let mut viewer = Viewer::connect(&socket);
    let of_root = viewer.first_figures("of-root").summary;
    let of_nobody = viewer.first_figures("of-nobody").summary;
    assert_eq!((of_root.uid, of_nobody.uid), (0, NOBODY), "root sees both");

    let mut other = place.role(NOBODY, "view", &socket);
    let mut ask = other.stdin.take().expect("is piped");
    writeln!(ask, "{}", of_root.instance).expect("is read");
    drop(ask);
    let said = other.wait_with_output().expect("ends").stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("sees: of-nobody\n"), "{said}");
    assert!(said.contains("there is no such service"), "{said}");
    assert!(!said.contains("view of of-root"), "{said}");
    let planted = place.said(NOBODY, "plant", &place.path("run"));
    assert!(planted.contains("DENIED"), "{planted}");

    // Each one's death leaves a file of its own.
    for service in [&mut roots, &mut nobodys] {
        service.0.kill().expect("is killed");
    }
    let mut file = |service: &str| {
        viewer.wait_view(service, "its last seen", |view| {
            let summary = view.snapshots.first();
            summary.map(|summary| PathBuf::from(&summary.path))
        })
    };
    let (of_root, of_nobody) = (file("of-root"), file("of-nobody"));
    let owner = |path: &Path| fs::metadata(path).expect("is there").uid();
    assert_eq!((owner(&of_root), owner(&of_nobody)), (0, NOBODY));
    assert_eq!((mode(&snapshots), mode(&of_nobody)), (0o711, 0o600));
    let read = |path| place.said(NOBODY, "read", path);
    assert!(read(&of_nobody).contains("DONE"), "its own");
    assert!(read(&of_root).contains("DENIED"), "root's");
    let listed = place.said(NOBODY, "list", &snapshots);
    assert!(listed.contains("DENIED"), "{listed}");
}
