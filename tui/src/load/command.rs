//! Another load tool, run once a step.

use std::{
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::Stdio,
    time::Duration,
};

use ax_wire::session::{CommandRun, End, EndKind, Load};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
};

use super::{ends::end, secrets::without_secrets};

/// How much of each of its outputs is kept: the end, where tools print their summary.
const KEPT_BYTES: usize = 64 * 1024;

/// How long it may take to end once it was told to.
const GRACE: Duration = Duration::from_secs(2);

/// How much longer than it was to a command may take at least, before it counts as hung.
const OVERDUE: Duration = Duration::from_secs(30);

/// Whether a command line has a place for a step's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    Rate,
    Connections,
    None,
}

impl Placeholder {
    /// Which one a command line has.
    pub fn of(arguments: &[String]) -> Self {
        let has = |what: &str| arguments.iter().any(|argument| argument.contains(what));
        if has("{rate}") {
            Self::Rate
        } else if has("{connections}") {
            Self::Connections
        } else {
            Self::None
        }
    }
}

/// How long a command may take. One that was told for how long has a time of its own, and beyond twice that hangs; any
/// other may take as long as it likes.
pub fn longest(arguments: &[String], length: Duration) -> Duration {
    let told = arguments
        .iter()
        .any(|argument| argument.contains("{seconds}"));
    if told {
        length + length.max(OVERDUE)
    } else {
        Duration::from_secs(u64::from(u32::MAX))
    }
}

/// Why it was stopped, then.
pub fn overdue(length: Duration, longest: Duration) -> End {
    let why = format!(
        "it was to take {} s and had not ended after {} s, so it was stopped",
        length.as_secs(),
        longest.as_secs()
    );
    end(EndKind::CommandFailed, why)
}

/// The command line of one step.
pub fn filled(arguments: &[String], load: Load, length: Duration) -> Vec<String> {
    let rate = match load {
        // As exactly as the step is judged by it: a tool that takes whole rates only must say so.
        Load::RatePerS(rate) => format!("{}", (rate * 1e3).round() / 1e3),
        _ => String::new(),
    };
    let connections = match load {
        Load::Connections(count) => count.to_string(),
        _ => String::new(),
    };
    let seconds = length.as_secs().max(1).to_string();
    arguments
        .iter()
        .map(|argument| {
            argument
                .replace("{rate}", &rate)
                .replace("{connections}", &connections)
                .replace("{seconds}", &seconds)
        })
        .collect()
}

/// A command that runs. It is killed with its children when dropped.
pub struct Running {
    child: Child,
    arguments: Vec<String>,
    outputs: [tokio::task::JoinHandle<(Vec<u8>, u64)>; 2],
}

impl Running {
    /// Starts it, in a process group of its own.
    ///
    /// # Errors
    ///
    /// There is no such program, or the system refuses.
    pub fn start(arguments: &[String]) -> io::Result<Self> {
        let (program, rest) = arguments
            .split_first()
            .ok_or_else(|| io::Error::other("no command was given"))?;
        let mut command = std::process::Command::new(program);
        command
            .args(rest)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = Command::from(command).kill_on_drop(true).spawn()?;
        let stdout = child
            .stdout
            .take()
            .map(|output| tokio::spawn(end_of(output)));
        let stderr = child
            .stderr
            .take()
            .map(|output| tokio::spawn(end_of(output)));
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            return Err(io::Error::other("its output could not be taken"));
        };
        Ok(Self {
            child,
            arguments: without_secrets(arguments),
            outputs: [stdout, stderr],
        })
    }

    /// Waits for its end. Cancel safe.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub async fn ended(&mut self) -> io::Result<()> {
        self.child.wait().await.map(|_| ())
    }

    /// Ends it and its children, politely first.
    pub async fn stop(&mut self) {
        self.signal(rustix::process::Signal::TERM);
        if tokio::time::timeout(GRACE, self.child.wait())
            .await
            .is_err()
        {
            self.signal(rustix::process::Signal::KILL);
            // It has been killed; what is left is to be told so.
            let _ = self.child.wait().await;
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let group = self
            .child
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let Some(group) = group {
            // Fails where all of them have ended.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// What became of it.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub async fn outcome(mut self) -> io::Result<CommandRun> {
        let status = self.child.wait().await?;
        // A grandchild that keeps the pipe open must not keep the session waiting.
        self.signal(rustix::process::Signal::TERM);
        let [stdout, stderr] = self.outputs;
        let (stdout, cut_out) = tokio::time::timeout(GRACE, stdout)
            .await
            .map_or_else(|_| Default::default(), Result::unwrap_or_default);
        let (stderr, cut_err) = tokio::time::timeout(GRACE, stderr)
            .await
            .map_or_else(|_| Default::default(), Result::unwrap_or_default);
        Ok(CommandRun {
            arguments: self.arguments,
            exit_code: status.code(),
            signal: status.signal(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            cut_bytes: cut_out + cut_err,
        })
    }
}

/// The end of an output, and how much came before it.
async fn end_of(mut output: impl AsyncRead + Unpin) -> (Vec<u8>, u64) {
    let (mut kept, mut cut) = (Vec::new(), 0);
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = output.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..read]);
        let surplus = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..surplus);
        cut += surplus as u64;
    }
    (kept, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_step_fills_the_command_line() {
        let typed = arguments("wrk -c{connections} -d{seconds}s --latency http://127.0.0.1:1/");
        assert_eq!(Placeholder::of(&typed), Placeholder::Connections);
        let filled = filled(&typed, Load::Connections(20), Duration::from_secs(5));
        assert_eq!(filled[..3], ["wrk", "-c20", "-d5s"]);
        let rate =
            |rate| super::filled(&arguments("t {rate}"), Load::RatePerS(rate), Duration::MAX);
        assert_eq!(
            (rate(20.0)[1].as_str(), rate(2.5)[1].as_str()),
            ("20", "2.5")
        );
        assert_eq!(
            Placeholder::of(&arguments("t --rps {rate}")),
            Placeholder::Rate
        );
        assert_eq!(Placeholder::of(&arguments("t")), Placeholder::None);
    }

    #[tokio::test]
    async fn its_end_and_the_end_of_its_output_are_kept() {
        let script = "head -c 100000 /dev/zero | tr '\\0' a; echo END; echo oops >&2; exit 7";
        let command = ["sh", "-c", script].map(str::to_owned);
        let mut running = Running::start(&command).expect("starts");
        running.ended().await.expect("ends");
        let run = running.outcome().await.expect("is told");
        assert_eq!((run.exit_code, run.stderr.as_str()), (Some(7), "oops\n"));
        assert!(run.stdout.ends_with("aEND\n"));
        assert_eq!(run.stdout.len() as u64 + run.cut_bytes, 100_004);
        assert!(Running::start(&["/nonexistent/tool".to_owned()]).is_err());
    }

    #[tokio::test]
    async fn it_is_stopped_with_its_children() {
        let command = ["sh", "-c", "sleep 600 & wait"].map(str::to_owned);
        let mut running = Running::start(&command).expect("starts");
        running.stop().await;
        let run = running.outcome().await.expect("is told");
        assert_eq!((run.exit_code, run.signal), (None, Some(15)));
    }
}
