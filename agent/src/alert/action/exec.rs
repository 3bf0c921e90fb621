//! Running a program: no shell, a group of its own, an end at its timeout.

use std::{process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    time::timeout,
};

use super::{Exec, facts::Facts};
use crate::text::{clean, duration};

/// What is read of a program's complaint; the beginning says most.
const MAX_COMPLAINT_BYTES: u64 = 4_096;

/// After a program has ended, how long is waited for the rest of its complaint: something that it has left running may
/// hold the pipe open.
const COMPLAINT_WITHIN: Duration = Duration::from_millis(200);

/// Kills the group of a program that is still running when it is dropped: at the timeout, and when the agent stops.
struct Group(Option<Pid>);

impl Group {
    /// The program has ended by itself: what it has left running is none of ours.
    fn ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails only where all of them have just ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs it to its end. Returns what came of it, for a person.
///
/// Cancel safe: dropping the future kills the program and its group.
///
/// # Errors
///
/// It could not be started, failed, or was killed at its timeout.
pub(crate) async fn run(exec: &Exec, facts: &Facts) -> Result<String, String> {
    let (program, arguments) = exec.argv.split_first().ok_or("no program is named")?;
    let body = match &exec.body {
        Some(template) => template.fill(facts),
        None => facts.json().clone(),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .envs(facts.environment())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let mut group = Group(pid.and_then(Pid::from_raw));
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A program that does not read what it is told may end all the same, and its exit code says how.
            let _ = stdin.write_all(body.to_string().as_bytes()).await;
        }
    };
    let listen = async move {
        let mut complaint = Vec::new();
        if let Some(mut stderr) = stderr {
            let mut first = (&mut stderr).take(MAX_COMPLAINT_BYTES);
            let _ = first.read_to_end(&mut complaint).await;
            // The rest is read to be rid of it: a full pipe would hold the program up.
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        }
        complaint
    };
    let listening = tokio::spawn(listen);
    let ended = async {
        let (status, ()) = tokio::join!(child.wait(), feed);
        status
    };
    let Ok(status) = timeout(exec.timeout, ended).await else {
        drop(group);
        listening.abort();
        let after = duration(exec.timeout.as_nanos() as u64);
        return Err(format!(
            "{program} was killed: it had not ended after {after}"
        ));
    };
    group.ended();
    let status = status.map_err(|error| format!("cannot wait for {program}: {error}"))?;
    if status.success() {
        listening.abort();
        return Ok(format!("{program} ended well"));
    }
    let complaint = timeout(COMPLAINT_WITHIN, listening).await;
    let complaint = complaint.ok().and_then(Result::ok).unwrap_or_default();
    Err(format!("{program} failed: {status}{}", said(&complaint)))
}

/// The first line of a complaint, made safe.
fn said(complaint: &[u8]) -> String {
    let complaint = String::from_utf8_lossy(complaint);
    let mut lines = complaint.lines().filter(|line| !line.trim().is_empty());
    lines.next().map_or_else(String::new, |line| {
        let mut line = line.to_owned();
        clean(&mut line);
        format!(": {line}")
    })
}
