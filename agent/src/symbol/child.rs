//! The process that reads a stranger's file, and the end of the agent that starts it.
//!
//! The child is the agent's own program under a hidden first argument. It gets one open file as its standard input, an
//! empty environment, limits on memory and time, and, where the agent is root, nobody's rights. It answers with one line of
//! JSON; whatever else happens to it costs the names of one file.

use std::{
    env,
    fs::File,
    io::{self, BufReader, Read as _, Write as _},
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::{
    fs::{Gid, Uid},
    io::Errno,
    process::{Resource, Rlimit, setrlimit},
};

use super::names::{self, Names};

/// The first argument that makes a program the child.
const ARGUMENT: &str = "__ax-symbolize";

/// Stands for "no build id" among the arguments.
const NO_BUILD_ID: &str = "-";

/// How long a file may take. A service of 50 MB of code takes 0.2 s.
const DEADLINE: Duration = Duration::from_secs(10);

/// The child's address space: enough for debug information of 1 GiB that is compressed in the file.
const MAX_MEMORY_BYTES: u64 = 2 << 30;

/// The longest answer: 256 frames of 64 functions with long names, and more.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// Who nobody is.
const NOBODY: u32 = 65_534;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    #[error("the reader could not be started ({0})")]
    Start(io::Error),
    #[error("reading it took more than {DEADLINE:?}")]
    TooLong,
    #[error(
        "the reader ended without an answer; the file is damaged or needs more than 2 GiB of memory"
    )]
    NoAnswer,
    #[error("{0}")]
    Refused(String),
}

/// Lets a child read `file`. `program` must call [`child_main`] first of all.
pub(super) fn read(
    program: &Path,
    file: File,
    build_id: Option<&str>,
    addresses: &[u64],
) -> Result<Names, ChildError> {
    let mut child = Command::new(program)
        .arg(ARGUMENT)
        .arg(build_id.unwrap_or(NO_BUILD_ID))
        .args(addresses.iter().map(|address| format!("{address:x}")))
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(file))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(ChildError::Start)?;
    let answer = answer_of(&mut child);
    // It may hang, or write on: it has had its time. Both fail where it has ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    let names: Result<Names, String> =
        serde_json::from_slice(&answer?).map_err(|_| ChildError::NoAnswer)?;
    let names = names.map_err(ChildError::Refused)?;
    if names.functions.len() == addresses.len() {
        Ok(names)
    } else {
        Err(ChildError::NoAnswer)
    }
}

/// Reads until the child closes its output, or its time is over.
fn answer_of(child: &mut Child) -> Result<Vec<u8>, ChildError> {
    let output = child.stdout.take().ok_or(ChildError::NoAnswer)?;
    let (sender, receiver) = mpsc::channel();
    // Ends with the child, which is killed in any case.
    thread::spawn(move || {
        let mut answer = Vec::new();
        let read = output.take(MAX_ANSWER_BYTES).read_to_end(&mut answer);
        // Nobody listens any more when the time is over.
        let _ = sender.send(read.map(|_| answer));
    });
    match receiver.recv_timeout(DEADLINE) {
        Ok(answer) => answer.map_err(|_| ChildError::NoAnswer),
        Err(_) => Err(ChildError::TooLong),
    }
}

/// Is the child, where the program was started as one; `None` where it was not. Call it first in `main`.
#[must_use]
pub fn child_main() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let answer = work(arguments.filter_map(|argument| argument.into_string().ok()))
        .map_err(|error| error.to_string());
    let written = serde_json::to_writer(io::stdout().lock(), &answer);
    let flushed = io::stdout().flush();
    Some(if written.is_ok() && flushed.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error("the reader could not limit itself ({0})")]
    Limits(#[from] Errno),
    #[error("the reader was started with wrong arguments")]
    Arguments,
    #[error("the reader has no input ({0})")]
    Input(io::Error),
    #[error(transparent)]
    Names(#[from] names::NamesError),
}

fn work(mut arguments: impl Iterator<Item = String>) -> Result<Names, WorkError> {
    limit_ourselves()?;
    let build_id = arguments.next().ok_or(WorkError::Arguments)?;
    let addresses = arguments
        .map(|address| u64::from_str_radix(&address, 16))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| WorkError::Arguments)?;
    let input = rustix::io::dup(io::stdin()).map_err(|error| WorkError::Input(error.into()))?;
    let file = File::from(input);
    let build_id = Some(build_id.as_str()).filter(|id| *id != NO_BUILD_ID);
    Ok(names::read(BufReader::new(file), build_id, &addresses)?)
}

fn limit_ourselves() -> rustix::io::Result<()> {
    let limits = [
        (Resource::As, MAX_MEMORY_BYTES),
        (Resource::Cpu, DEADLINE.as_secs()),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, 8),
    ];
    for (resource, most) in limits {
        let most = Some(most);
        setrlimit(
            resource,
            Rlimit {
                current: most,
                maximum: most,
            },
        )?;
    }
    rustix::thread::set_no_new_privs(true)?;
    match become_nobody() {
        // A root that may not become another user (of a container, without the capability) has little to lose.
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        done => done,
    }
}

/// This process has one thread, so that what these calls change for a thread holds for the process.
fn become_nobody() -> rustix::io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
}
