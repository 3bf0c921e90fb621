//! What the end-to-end tests share: an agent on a private socket, a viewer of it, child processes that never outlive
//! their test, and waiting with patience.

#![expect(
    dead_code,
    reason = "each test binary compiles its own copy and uses a part of it"
)]

pub mod record;
pub mod terminal;
pub mod watched;

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use ax_agent::{Agent, CancellationToken, Config};
use ax_wire::{
    ToAgent, ToViewer,
    frame::{Subscribe, decode, encode},
    hello::PROTOCOL,
    view::ServiceView,
};

/// Longest wait for anything; generous, since machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Whether the long version of the tests was asked for.
pub fn full() -> bool {
    env::var_os("AX_FULL").is_some_and(|value| value == "1")
}

/// Finds a program that a test needs; where it is missing, prints `skipped: needs NAME`, and fails if
/// `AX_REQUIRE_ALL=1`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: needs {name}");
        let required = env::var_os("AX_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(!required, "AX_REQUIRE_ALL=1 and {name} is not installed");
    }
    found
}

/// Asks until there is an answer.
///
/// # Panics
///
/// After [`PATIENCE`], naming what was waited for.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "waited {PATIENCE:?} in vain for: {what}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// An agent in this process, on a thread and a runtime of its own, with a socket that nobody else knows.
pub struct PrivateAgent {
    socket: PathBuf,
    snapshots: PathBuf,
    stop: CancellationToken,
    thread: Option<thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl PrivateAgent {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("ax/agent.sock");
        let snapshots = folder.path().join("snapshots");
        let config = Config {
            socket: socket.clone(),
            snapshots: ax_agent::snapshot::Settings::in_folder(Some(snapshots.clone())),
            ..Config::per_user()
        };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let agent = Agent::bind(config).expect("a free socket");
                agent.run(stopped).await;
            });
        });
        eventually("the agent's socket", || socket.exists().then_some(()));
        Self {
            socket,
            snapshots,
            stop,
            thread: Some(thread),
            _folder: folder,
        }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder of its snapshots, which it makes when it writes one.
    pub fn snapshots(&self) -> &Path {
        &self.snapshots
    }

    pub fn viewer(&self) -> Viewer {
        Viewer::connect(&self.socket)
    }
}

impl Drop for PrivateAgent {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A viewer that speaks the protocol over a plain socket.
pub struct Viewer {
    lines: BufReader<UnixStream>,
}

impl Viewer {
    pub fn connect(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).expect("an agent that listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket takes a timeout");
        let mut line = Vec::new();
        let subscribe = ToAgent::Subscribe(Subscribe { protocol: PROTOCOL });
        encode(&subscribe, &mut line).expect("encodes");
        stream.write_all(&line).expect("the agent reads");
        Self {
            lines: BufReader::new(stream),
        }
    }

    pub fn send(&mut self, frame: &ToAgent) {
        let mut line = Vec::new();
        encode(frame, &mut line).expect("encodes");
        let stream = self.lines.get_mut();
        stream.write_all(&line).expect("the agent reads");
    }

    pub fn next_frame(&mut self) -> ToViewer {
        let mut line = Vec::new();
        let read = self.lines.read_until(b'\n', &mut line);
        assert!(
            matches!(read, Ok(bytes) if bytes > 0),
            "the agent went away: {read:?}"
        );
        decode(&line).expect("a frame")
    }

    /// The next view of the service of this name.
    pub fn next_view(&mut self, service: &str) -> ServiceView {
        let start = Instant::now();
        loop {
            if let ToViewer::View(view) = self.next_frame()
                && view.summary.service == service
            {
                return *view;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "waited {PATIENCE:?} in vain for a view of {service}"
            );
        }
    }

    /// The first view of the service that shows figures: a service is in view before its first sample, and one that dies
    /// before it leaves nothing behind.
    pub fn first_figures(&mut self, service: &str) -> ServiceView {
        self.wait_view(service, "its first figures", |view| {
            view.point.is_some().then(|| view.clone())
        })
    }

    /// Reads views of the service until one answers.
    pub fn wait_view<T>(
        &mut self,
        service: &str,
        what: &str,
        mut ask: impl FnMut(&ServiceView) -> Option<T>,
    ) -> T {
        let start = Instant::now();
        loop {
            let view = self.next_view(service);
            if let Some(answer) = ask(&view) {
                return answer;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "waited {PATIENCE:?} in vain for: {what}; last view: {view:#?}"
            );
        }
    }
}

/// A child process that is killed, by its id, when the test ends.
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // Both fail where the child has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The `ax-top` of this build, with its own socket and nothing from the environment that changes what it does.
pub fn ax_top(socket: &Path) -> Command {
    program(env!("CARGO_BIN_EXE_ax-top"), socket)
}

/// The `ax-agent` of this build.
pub fn ax_agent(socket: &Path) -> Command {
    program(env!("CARGO_BIN_EXE_ax-agent"), socket)
}

fn program(path: &str, socket: &Path) -> Command {
    let mut command = Command::new(path);
    // Beside the socket, so that no test writes snapshots to the home of whoever runs it.
    let state = socket.with_file_name("state");
    command
        .env("AX_SOCKET", socket)
        .env("XDG_STATE_HOME", state)
        .env_remove("STATE_DIRECTORY")
        .env_remove("AX_DISABLE")
        .stdin(Stdio::null());
    command
}

/// Runs to the end and returns the output, which is printed when the exit code is another one.
pub fn run_to_end(command: &mut Command, code: i32) -> Output {
    let output = command.output().expect("the program starts");
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}\nstdout: {}\nstderr: {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The whole answer to a request without a body.
pub fn http(address: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .expect("the service reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("the service answers");
    answer
}
