//! Ways to block a worker, each in a function of its own name.

use std::{
    env, fs,
    future::Future as _,
    hint,
    io::{Read as _, Write as _},
    net::ToSocketAddrs as _,
    path::PathBuf,
    pin::pin,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, Mode, OFlags, mkfifoat},
    time::{ClockId, clock_gettime},
};

/// Names the folder for the pipes.
pub const FOLDER_ENV: &str = "AX_STACKS_FOLDER";

/// The pipe where the resolver looks for aliases.
pub const ALIASES: &str = "aliases";

/// How long each blocks, or computes.
pub const BLOCK: Duration = Duration::from_millis(250);

/// What this thread has computed: on a busy machine less than the time that goes by. No function, which would be the user's
/// innermost one where the stack is taken in it.
macro_rules! on_cpu {
    () => {
        Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("is not negative")
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sleep,
    Compute,
    Mutex,
    File,
    Command,
    Resolve,
    Json,
    Print,
    BlockOn,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::Sleep,
        Self::Compute,
        Self::Mutex,
        Self::File,
        Self::Command,
        Self::Resolve,
        Self::Json,
        Self::Print,
        Self::BlockOn,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Sleep => "thread::sleep",
            Self::Compute => "CPU loop",
            Self::Mutex => "std Mutex",
            Self::File => "fs on a FIFO",
            Self::Command => "Command",
            Self::Resolve => "getaddrinfo",
            Self::Json => "serde_json",
            Self::Print => "println",
            Self::BlockOn => "block_on",
        }
    }

    /// The name of the function that blocks.
    pub fn function(self) -> &'static str {
        match self {
            Self::Sleep => "sleeps",
            Self::Compute => "computes",
            Self::Mutex => "waits_for_a_lock",
            Self::File => "reads_a_pipe",
            Self::Command => "runs_a_program",
            Self::Resolve => "resolves_a_name",
            Self::Json => "serializes",
            Self::Print => "prints",
            Self::BlockOn => "blocks_on",
        }
    }

    /// Blocks the calling thread in that function for about [`BLOCK`].
    pub fn block(self) {
        match self {
            Self::Sleep => sleeps(),
            Self::Compute => computes(),
            Self::Mutex => {
                let lock = Arc::new(Mutex::new(1));
                hold(&lock);
                hint::black_box(waits_for_a_lock(&lock));
            }
            Self::File => {
                let pipe = make_pipe("data");
                let writer = pipe.clone();
                after_the_block(move || fs::write(writer, "data").expect("a reader waits"));
                reads_a_pipe(&pipe);
            }
            Self::Command => runs_a_program(),
            Self::Resolve => {
                let done = Arc::new(AtomicBool::new(false));
                answer_aliases(&done);
                resolves_a_name();
                done.store(true, Relaxed);
            }
            Self::Json => {
                let numbers: Vec<u64> = (0..200_000).collect();
                serializes(&serde_json::json!({ "numbers": numbers }));
            }
            Self::Print => {
                fill_the_output();
                prints();
            }
            Self::BlockOn => blocks_on(),
        }
    }
}

#[inline(never)]
fn sleeps() {
    thread::sleep(BLOCK);
    not_the_last_call();
}

#[inline(never)]
fn computes() {
    let until = on_cpu!() + BLOCK;
    let mut number = 7_u64;
    while on_cpu!() < until {
        for factor in 0..500_000_u64 {
            number = number.rotate_left(5) ^ factor.wrapping_mul(0x9e37_79b9);
        }
        hint::black_box(number);
    }
}

#[inline(never)]
fn waits_for_a_lock(lock: &Mutex<u64>) -> u64 {
    *lock.lock().expect("nobody panics")
}

#[inline(never)]
fn reads_a_pipe(pipe: &PathBuf) {
    let text = fs::read_to_string(pipe).expect("a writer comes");
    hint::black_box(text);
}

#[inline(never)]
fn runs_a_program() {
    let seconds = BLOCK.as_secs_f64().to_string();
    let status = Command::new("sleep").arg(seconds).status();
    assert!(status.expect("sleep starts").success());
}

#[inline(never)]
fn resolves_a_name() {
    // No name, so that none is asked for outside this machine.
    let _ = hint::black_box(("axblocked", 80).to_socket_addrs().map(Iterator::count));
}

#[inline(never)]
fn serializes(value: &serde_json::Value) {
    let until = on_cpu!() + BLOCK;
    while on_cpu!() < until {
        hint::black_box(serde_json::to_string(value).expect("is JSON"));
    }
}

#[inline(never)]
fn prints() {
    println!("a line for a reader that is slow");
    not_the_last_call();
}

#[inline(never)]
fn blocks_on() {
    let until = Instant::now() + BLOCK;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        thread::sleep(until.saturating_duration_since(Instant::now()));
        // The receiver waits below.
        let _ = sender.send(());
    });
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut receiver = pin!(receiver);
    while receiver
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_pending()
    {
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A function whose last act is a call is not on the stack during it: the compiler jumps instead.
fn not_the_last_call() {
    hint::black_box(());
}

#[inline(never)]
pub fn odd(time: Duration) {
    thread::sleep(time);
    hint::black_box(1);
}

#[inline(never)]
pub fn even(time: Duration) {
    thread::sleep(time);
    hint::black_box(2);
}

fn after_the_block(act: impl FnOnce() + Send + 'static) {
    thread::spawn(|| {
        thread::sleep(BLOCK);
        act();
    });
}

/// Lets another thread hold the lock from now on.
fn hold(lock: &Arc<Mutex<u64>>) {
    let lock = Arc::clone(lock);
    let (sender, held) = mpsc::channel();
    thread::spawn(move || {
        let _guard = lock.lock().expect("nobody panics");
        sender.send(()).expect("somebody waits");
        thread::sleep(BLOCK);
    });
    held.recv().expect("it is held");
}

fn make_pipe(name: &str) -> PathBuf {
    let folder = env::var_os(FOLDER_ENV).expect("set by the test");
    let pipe = PathBuf::from(folder).join(name);
    let _ = fs::remove_file(&pipe);
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("makes a pipe");
    pipe
}

/// Gives the resolver its aliases after the block, as often as it asks: one that is no name.
fn answer_aliases(done: &Arc<AtomicBool>) {
    let pipe = make_pipe(ALIASES);
    let done = Arc::clone(done);
    after_the_block(move || {
        let no_name = "x".repeat(200);
        while !done.load(Relaxed) {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK;
            if let Ok(pipe) = rustix::fs::open(&pipe, flags, Mode::empty()) {
                // It may have read enough before.
                let _ = writeln!(fs::File::from(pipe), "axblocked {no_name}.");
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Makes the standard output a pipe that is full, and that is emptied only after the block.
fn fill_the_output() {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    rustix::stdio::dup2_stdout(&writer).expect("replaces the output");
    rustix::io::ioctl_fionbio(&writer, true).expect("a pipe takes it");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("a pipe takes it");
    after_the_block(move || {
        // Reads on for as long as the process prints.
        let mut bytes = vec![0; 4096];
        while reader.read(&mut bytes).is_ok_and(|read| read > 0) {}
        drop(writer);
    });
}
