//! The handle of an installed probe, and its builder.

use std::{
    env,
    future::Future,
    io,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    path::PathBuf,
    process,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ax_wire::{incident::Reason, recorder::RecorderDump};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::{
    clock::duration_ns,
    incident::{Limits, MAX_LABEL_CHARS},
    publisher::Publisher,
    recorder::{self, DEFAULT_RECORDER_BYTES, DumpError},
    runtime,
    shared::{Settings, Shared},
    spawn::Named,
    watchdog::Watchdog,
};

/// From which length on a worker that does not move is a stall (T).
pub const DEFAULT_STALL_THRESHOLD: Duration = Duration::from_millis(50);

/// From which length on a stall triggers a snapshot (S).
pub const DEFAULT_SNAPSHOT_THRESHOLD: Duration = Duration::from_millis(250);

/// The shortest stall threshold. The watchdog looks at a busy worker every 10 ms, so it can tell nothing shorter.
pub const MIN_STALL_THRESHOLD: Duration = Duration::from_millis(20);

/// From one snapshot that is taken by itself to the next. Shorter, a service in trouble writes more files of the same
/// trouble; each has some hundred kilobytes.
pub const DEFAULT_SNAPSHOT_COOLDOWN: Duration = Duration::from_mins(1);

/// How long after its installation the probe takes no snapshot by itself: a service that starts blocks its workers, and
/// that is known.
pub const DEFAULT_QUIET_START: Duration = Duration::from_secs(10);

/// How long [`Probe::shutdown`], and dropping the last [`Probe`], waits for the probe's threads.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(700);

/// Set to anything but `0` or the empty string, it switches the probe off: [`Builder::install`] then does nothing.
pub const DISABLE_ENV: &str = "AX_DISABLE";

/// The probe of this process, as long as it lives: keep it until the service ends.
///
/// Dropping the last clone says goodbye to the agent and ends the probe, as [`shutdown`](Self::shutdown) does, so that a
/// service which returns from `main` is shown as ended and not as lost. `let _ = ..` and a call whose result nobody
/// takes drop it at once, and then nothing is observed: write `let _probe = ..`. Each installation returns a clone of
/// the same, one for each runtime.
///
/// Two threads of its own, `ax-watchdog` and `ax-publisher`, do all the work, so they go on while every worker is
/// blocked. A process that forks has them in the parent only: nothing writes to the connection in the child, whose copy
/// of it closes at `exec`, as every descriptor of the probe does. A child that goes on without `exec` is not observed,
/// cannot install a probe, and holds that copy open, so that the agent learns of the parent's end by its silence.
///
/// # Incidents
///
/// When a worker has not moved for the snapshot threshold, or the schedule or timer lag has reached it, the watchdog
/// takes down what only the service knows: workers, lag, lanes, the running jobs, the queues. The agent writes it to a
/// file with what it knows besides; where none answers within 200 ms the probe writes the file, with up to five minutes
/// of its own history ([`HISTORY_POINTS`](crate::HISTORY_POINTS)). One incident is taken for a time in which something
/// is wrong without a second's break; then none for [`DEFAULT_SNAPSHOT_COOLDOWN`], at most
/// [`AUTOMATIC_PER_HOUR`](crate::AUTOMATIC_PER_HOUR), none in the first [`DEFAULT_QUIET_START`] and none while a debugger
/// holds the process. What is left out so is counted and shown. A folder that cannot be written to is logged once, as a
/// `tracing` error, and each snapshot that it costs is counted.
#[derive(Clone)]
#[must_use = "the probe ends when it is dropped: keep it until the service ends (`let _probe = ..`)"]
pub struct Probe {
    /// `None`: switched off.
    guard: Option<Arc<Guard>>,
}

/// Ends the probe when its last clone is dropped.
struct Guard {
    shared: Arc<Shared>,
    /// The process that installed it. A fork copies it, but not the threads.
    pid: u32,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if process::id() == self.pid {
            end(&self.shared);
        }
    }
}

/// Why a probe could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Not called from inside a runtime.
    #[error(
        "no tokio runtime here: call `install()` inside `async fn main` or a task, or `install_on(runtime.handle())`"
    )]
    NoRuntime,
    /// The system gave no thread.
    #[error("cannot start the thread {name}: {source}")]
    Thread {
        /// Which one.
        name: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

struct Installed {
    shared: Arc<Shared>,
    guard: Weak<Guard>,
    threads: Vec<JoinHandle<()>>,
    /// Another name was given to a later installation, and the log says so.
    warned_of_name: AtomicBool,
}

/// The probe of the process. Locked by its installation and its end only, until that is over: what is installed
/// meanwhile begins after it.
static INSTALLED: Mutex<Option<Installed>> = Mutex::new(None);

/// Ends this probe, if it is installed still.
fn end(shared: &Arc<Shared>) {
    let mut installed = INSTALLED.lock();
    if let Some(of_this) = installed.take_if(|installed| Arc::ptr_eq(&installed.shared, shared)) {
        of_this.end();
    }
}

impl Installed {
    fn end(self) {
        self.shared.stop();
        recorder::stop();
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() >= deadline {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        runtime::forget(|_| true);
    }

    fn warn_of_other_name(&self, name: &str) {
        let own = &self.shared.settings.service;
        if own != name && !self.warned_of_name.swap(true, Relaxed) {
            tracing::warn!(
                installed = own,
                ignored = name,
                "the process has a probe under another name, which stays"
            );
        }
    }
}

/// Settings of a probe. Made by [`Probe::builder`].
#[must_use = "nothing is observed until it is installed"]
pub struct Builder {
    settings: Settings,
}

impl Probe {
    /// Begins to set up the probe of a service, under the name that the dashboard shows.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let _probe = ax_probe::Probe::builder("checkout").install()?;
    ///     // the service as it was
    ///     Ok(())
    /// }
    /// ```
    pub fn builder(service: impl Into<String>) -> Builder {
        Builder {
            settings: Settings {
                service: service.into(),
                service_version: None,
                stall_threshold_ns: duration_ns(DEFAULT_STALL_THRESHOLD),
                snapshot_threshold_ns: duration_ns(DEFAULT_SNAPSHOT_THRESHOLD),
                socket: None,
                schedule_probe: true,
                timer_probe: None,
                blocking_probe: true,
                stacks: false,
                allow_control: false,
                limits: Limits {
                    cooldown_ns: duration_ns(DEFAULT_SNAPSHOT_COOLDOWN),
                    quiet_start_ns: duration_ns(DEFAULT_QUIET_START),
                },
                recorder_bytes: DEFAULT_RECORDER_BYTES,
                snapshot_folder: None,
            },
        }
    }

    /// Whether anything is observed: `false` where [`DISABLE_ENV`] is set.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.guard.is_some()
    }

    /// Threads of the probe that ended by a panic, which is a fault of the probe: what they did is missing since then,
    /// the service goes on. 0 as long as all is well.
    #[must_use]
    pub fn panicked_threads(&self) -> u64 {
        let guard = self.guard.as_ref();
        guard.map_or(0, |guard| guard.shared.panics.load(Relaxed))
    }

    /// Gives a name to the body of a `block_on`, which is no task and so is not seen otherwise: on a multi-thread
    /// runtime it runs on the calling thread, which is no worker. A long poll of it is a stall like that of a worker.
    ///
    /// Without it, what the body does between two `.await`s is not seen on a multi-thread runtime (on `current_thread`
    /// it is, without a name). A body that awaits a spawned task does nothing, so that nothing is missing.
    ///
    /// # Examples
    ///
    /// ```
    /// # let runtime = tokio::runtime::Runtime::new()?;
    /// let probe = ax_probe::Probe::builder("checkout").install_on(runtime.handle())?;
    /// runtime.block_on(probe.watch("main", async {
    ///     // the body
    /// }));
    /// # probe.shutdown();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn watch<F: Future>(&self, name: &str, future: F) -> Named<F> {
        Named::root(name, Location::caller(), future)
    }

    /// Takes a snapshot now, for a reason that the service's own code knows: `label` is in the file, and is cut off after
    /// [`MAX_LABEL_CHARS`](crate::MAX_LABEL_CHARS) characters.
    ///
    /// Returns at once; the evidence is taken within some milliseconds. There is no cooldown, but at most
    /// [`CAPTURES_PER_MINUTE`](crate::CAPTURES_PER_MINUTE) are taken and the rest is counted as suppressed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn balance() -> i64 { 0 }
    /// # fn check(probe: &ax_probe::Probe) {
    /// if balance() < 0 {
    ///     probe.capture("negative balance");
    /// }
    /// # }
    /// ```
    pub fn capture(&self, label: &str) {
        if let Some(guard) = &self.guard {
            let label = label.chars().take(MAX_LABEL_CHARS).collect();
            guard.shared.incidents.ask(Reason::Code { label });
            guard.shared.watchdog.nudge();
        }
    }

    /// What the [flight recorder](crate::recorder) holds now, with a receipt of what that covers. Takes some milliseconds
    /// on the calling thread; recording goes on meanwhile. An incident carries the newest of it by itself.
    ///
    /// # Errors
    ///
    /// [`DumpError`]: there is no recorder, or another dump is being taken.
    pub fn recorded(&self) -> Result<RecorderDump, DumpError> {
        recorder::dump(usize::MAX)
    }

    /// Says goodbye to the agent and ends the probe's threads, whatever clones there are. Once it has ended, dropping
    /// them does nothing. A probe may be installed anew afterwards.
    ///
    /// Blocks the calling thread until both have ended, some milliseconds and [`SHUTDOWN_TIMEOUT`] at most. A service
    /// that ends without this and without dropping the probe, by `process::exit` or a signal, is shown as lost instead
    /// of ended; nothing else is different.
    pub fn shutdown(&self) {
        if let Some(guard) = &self.guard {
            end(&guard.shared);
        }
    }
}

impl Builder {
    /// From which length on a worker that does not move is a stall: [`DEFAULT_STALL_THRESHOLD`] unless set, at least
    /// [`MIN_STALL_THRESHOLD`].
    pub fn stall_threshold(mut self, threshold: Duration) -> Self {
        self.settings.stall_threshold_ns = duration_ns(threshold.max(MIN_STALL_THRESHOLD));
        self
    }

    /// From which length on a stall triggers a snapshot: [`DEFAULT_SNAPSHOT_THRESHOLD`] unless set.
    pub fn snapshot_threshold(mut self, threshold: Duration) -> Self {
        self.settings.snapshot_threshold_ns = duration_ns(threshold);
        self
    }

    /// The folder of the snapshots that the probe writes itself, instead of `$STATE_DIRECTORY/ax-snapshots`,
    /// `$XDG_STATE_HOME/ax/snapshots` or `~/.local/state/ax/snapshots`. It is made where it is missing, and must be this
    /// user's alone (mode 0700). The newest [`MAX_SNAPSHOT_FILES`](crate::MAX_SNAPSHOT_FILES) of this service stay.
    pub fn snapshot_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.settings.snapshot_folder = Some(folder.into());
        self
    }

    /// From one snapshot that is taken by itself to the next: [`DEFAULT_SNAPSHOT_COOLDOWN`] unless set.
    pub fn snapshot_cooldown(mut self, cooldown: Duration) -> Self {
        self.settings.limits.cooldown_ns = duration_ns(cooldown);
        self
    }

    /// How long from now on no snapshot is taken by itself: [`DEFAULT_QUIET_START`] unless set. Trouble that goes on
    /// longer is taken when it is over.
    pub fn quiet_start(mut self, quiet: Duration) -> Self {
        self.settings.limits.quiet_start_ns = duration_ns(quiet);
        self
    }

    /// The service's own version, such as `env!("CARGO_PKG_VERSION")`.
    pub fn service_version(mut self, version: impl Into<String>) -> Self {
        self.settings.service_version = Some(version.into());
        self
    }

    /// The agent's socket, instead of the search through [`ax_wire::socket::candidates`].
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.socket = Some(path.into());
        self
    }

    /// Whether a no-op task is injected ten times a second, to time the runtime's queue. On unless set.
    ///
    /// Without both this and the timer probe nothing of ours runs on the workers; a runtime that was dropped then stays
    /// in the list until [`Probe::shutdown`].
    pub fn schedule_probe(mut self, on: bool) -> Self {
        self.settings.schedule_probe = on;
        self
    }

    /// Whether the injected task sleeps for a millisecond, to see how late the runtime's timer is.
    ///
    /// Unless set, it does where the runtime has a timer. Whether it has one can only be tried: on a runtime without
    /// `enable_time` the try is one panic of a thread that is there for it alone, `ax-timer-check`, whose message the
    /// panic hook prints; `false` spares it. In a program that is built with `panic = "abort"` it cannot be tried, and the probe stays off unless
    /// this is `true`, which then promises that every runtime it is installed on has called `enable_time`.
    ///
    /// While a test of the service pauses tokio's clock the probe does not sleep, so that it does not drive virtual time
    /// away (the first sleep after the pause may: one millisecond).
    pub fn timer_probe(mut self, on: bool) -> Self {
        self.settings.timer_probe = Some(on);
        self
    }

    /// Whether an empty closure goes through the blocking pool once a second, to time its queue. On unless set. It
    /// keeps one thread of the pool alive.
    pub fn blocking_probe(mut self, on: bool) -> Self {
        self.settings.blocking_probe = on;
        self
    }

    /// Whether the stack of a worker that does not move is taken. Off unless set, for it sends a signal to a thread of the
    /// service; Linux on x86-64 and aarch64 only.
    ///
    /// A stack is taken by a signal to that thread, at most two for a stall: when it is found and at ten times the
    /// threshold. The first stall of the process picks a real-time signal that has no handler, from `SIGRTMAX` down, and
    /// keeps it; where the service has taken it back meanwhile none is sent. The handler holds the thread up for about
    /// 1 us and allocates, locks and unwinds nothing.
    ///
    /// Leave it off for a service
    /// - whose code, or a C library in it, takes an interrupted system call for a failure. The kernel begins most of them
    ///   again by itself (`SA_RESTART`), but `poll`, a bare `nanosleep` and reads and writes with a timeout on the socket
    ///   (`TcpStream::set_read_timeout`) end with `EINTR`. Rust's `thread::sleep`, locks and plain reads go on;
    /// - whose workers wait for real-time signals with `sigwait`, which would return the probe's;
    /// - that runs under an address sanitizer, which takes the copy of a stack for a fault. A debugger stops at the signal
    ///   unless it is told not to (`handle SIG64 nostop noprint` in gdb).
    pub fn stacks(mut self, on: bool) -> Self {
        self.settings.stacks = on;
        self
    }

    /// Whether the service's own user and root may change it from the dashboard while it runs: pause, resume and resize a
    /// lane, cancel and retry a job, delay a downstream that [allows it](https://docs.rs/ax-scheduler) besides. Off unless
    /// set: every order is then refused, and the dashboard says so. Each order is logged with its outcome, as a `tracing`
    /// warning; they are carried out on a thread of their own, `ax-control`, which the first order starts.
    pub fn allow_control(mut self, on: bool) -> Self {
        self.settings.allow_control = on;
        self
    }

    /// Memory of the [flight recorder](crate::recorder): [`DEFAULT_RECORDER_BYTES`] unless set, 0 for none. More covers
    /// a longer time before an incident. The first installation of the process decides.
    pub fn recorder_bytes(mut self, bytes: usize) -> Self {
        self.settings.recorder_bytes = bytes;
        self
    }

    /// Observes the runtime that this is called in, whichever flavor, from now on. Takes some 100 us.
    ///
    /// A process has one probe: when one is installed already, this adds the runtime to it and returns a clone of its
    /// guard, and the settings of the first installation stay, its name among them; the log warns once of another name.
    /// Runtimes may come and go; one that was dropped is forgotten within 200 ms.
    ///
    /// A `current_thread` runtime that nobody drives (no `block_on` is running) cannot be told from one that is
    /// blocked: give the probe one that is driven all the time.
    ///
    /// # Errors
    ///
    /// [`InstallError`]: outside a runtime, or when the system gives no thread.
    pub fn install(self) -> Result<Probe, InstallError> {
        let handle = Handle::try_current().map_err(|_| InstallError::NoRuntime)?;
        self.install_on(&handle)
    }

    /// Like [`install`](Self::install), from outside the runtime.
    ///
    /// # Errors
    ///
    /// [`InstallError::Thread`].
    pub fn install_on(self, handle: &Handle) -> Result<Probe, InstallError> {
        if disabled() {
            return Ok(Probe { guard: None });
        }
        let mut installed = INSTALLED.lock();
        if let Some(of_before) = installed.as_ref()
            && let Some(guard) = of_before.guard.upgrade()
        {
            of_before.warn_of_other_name(&self.settings.service);
            runtime::add(handle, guard.shared.settings.timer_probe);
            return Ok(Probe { guard: Some(guard) });
        }
        if let Some(of_before) = installed.take() {
            // Its last clone is being dropped by another thread, which waits for the lock.
            of_before.end();
        }
        // Before the threads begin, so that the first hello names it.
        runtime::add(handle, self.settings.timer_probe);
        let (started, guard) = start(self.settings)?;
        *installed = Some(started);
        Ok(Probe { guard: Some(guard) })
    }
}

#[cfg(test)]
impl Builder {
    pub(crate) fn into_settings(self) -> Settings {
        self.settings
    }
}

fn disabled() -> bool {
    env::var_os(DISABLE_ENV).is_some_and(|value| !value.is_empty() && value != "0")
}

fn start(settings: Settings) -> Result<(Installed, Arc<Guard>), InstallError> {
    recorder::start(settings.recorder_bytes);
    let shared = Arc::new(Shared::new(settings));
    let watchdog = start_thread("ax-watchdog", &shared, Watchdog::run)?;
    let publisher = start_thread("ax-publisher", &shared, Publisher::run).inspect_err(|_| {
        shared.stop();
    })?;
    let guard = Arc::new(Guard {
        shared: Arc::clone(&shared),
        pid: process::id(),
    });
    let installed = Installed {
        shared,
        guard: Arc::downgrade(&guard),
        threads: vec![watchdog, publisher],
        warned_of_name: AtomicBool::new(false),
    };
    Ok((installed, guard))
}

fn start_thread(
    name: &'static str,
    shared: &Arc<Shared>,
    run: fn(&Arc<Shared>),
) -> Result<JoinHandle<()>, InstallError> {
    let shared = Arc::clone(shared);
    let body = move || {
        // A fault of ours must not be one of the service: the thread ends, and the probe counts it.
        if catch_unwind(AssertUnwindSafe(|| run(&shared))).is_err() {
            shared.panics.fetch_add(1, Relaxed);
            tracing::error!(
                thread = name,
                "a thread of the probe panicked and has ended"
            );
        }
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|source| InstallError::Thread { name, source })
}
