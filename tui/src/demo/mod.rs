//! The demo service as a child process, and its private place for a socket.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ax_wire::socket::{self, SOCKET_ENV};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::exit;

/// The hidden subcommand that is the demo service.
pub const SUBCOMMAND: &str = "demo-service";

/// It listens within some 50 ms; a machine may be very busy.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// How long it may take to end after the end of its standard input, before it is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// How long its standard error is read on after it has ended.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(200);

/// Lines of its standard error that are kept to be shown when it dies: 200 bytes each, so 4 KiB at most.
const KEPT_LINES: usize = 20;
const KEPT_LINE_BYTES: u64 = 200;

/// How its first line begins.
const LISTENING: &str = "listening ";

/// Longest first line: a longer one is no address.
const FIRST_LINE_BYTES: u64 = 200;

/// Where a demo's agent listens: `$AX_SOCKET` where it is set, else a private temporary folder that is removed at the
/// end.
pub struct Place {
    socket: PathBuf,
    /// Removed when dropped.
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    /// Makes the folder if one is needed.
    ///
    /// # Errors
    ///
    /// The system's temporary folder cannot be written.
    pub fn from_env() -> io::Result<Self> {
        if std::env::var_os(SOCKET_ENV).is_some_and(|path| !path.is_empty()) {
            return Ok(Self {
                socket: socket::per_user(),
                _folder: None,
            });
        }
        Self::private()
    }

    fn private() -> io::Result<Self> {
        // Ours alone, or the agent would refuse it.
        let folder = tempfile::Builder::new()
            .prefix("ax-demo-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        Ok(Self {
            socket: folder.path().join("agent.sock"),
            _folder: Some(folder),
        })
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Why the demo service does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot start the demo service: {0}")]
    Spawn(#[source] io::Error),
    #[error("the demo service does not know these arguments: {0}")]
    Usage(String),
    #[error("the demo service did not say within {LISTENS_WITHIN:?} where it listens")]
    Silent,
    #[error("the demo service ended before it listened: {0}")]
    Ended(String),
    #[error("the demo service began with {line:?} in place of its address; {ended}")]
    NoAddress { line: String, ended: String },
}

/// A running demo service. Killed when dropped; [`Service::stop`] ends it in good order.
pub struct Service {
    child: Child,
    stdin: Option<ChildStdin>,
    url: String,
    last_words: LastWords,
    stderr: JoinHandle<()>,
}

impl Service {
    /// Starts this program again as the demo service and waits until it listens.
    ///
    /// # Errors
    ///
    /// [`StartError`]; the child has been ended by then.
    pub async fn start(socket: &Path, arguments: &[OsString]) -> Result<Self, StartError> {
        let program = std::env::current_exe().map_err(StartError::Spawn)?;
        let mut child = Command::new(program)
            .arg(SUBCOMMAND)
            .args(arguments)
            .env(SOCKET_ENV, socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in the terminal is for ax-top, which then ends its child in good order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(StartError::Spawn)?;
        let missing = || StartError::Spawn(io::ErrorKind::BrokenPipe.into());
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let last_words = LastWords::default();
        let mut service = Self {
            stdin: child.stdin.take(),
            child,
            url: String::new(),
            stderr: last_words.listen(stderr),
            last_words,
        };
        let mut stdout = BufReader::new(stdout);
        let line = timeout(LISTENS_WITHIN, first_line(&mut stdout)).await;
        let line = line
            .map_err(|_| StartError::Silent)?
            .map_err(StartError::Spawn)?;
        if let Some(url) = line.strip_prefix(LISTENING) {
            url.trim_end().clone_into(&mut service.url);
        } else {
            service.stdin = None;
            let ended = timeout(ENDS_WITHIN, service.ended()).await;
            let ended = ended.unwrap_or_else(|_| "it still runs and is killed".to_owned());
            let status = service.child.try_wait().ok().flatten();
            let code = status.and_then(|status| status.code());
            return Err(if code == Some(i32::from(exit::USAGE)) {
                StartError::Usage(ended)
            } else if line.is_empty() {
                StartError::Ended(ended)
            } else {
                StartError::NoAddress {
                    line: line.trim_end().to_owned(),
                    ended,
                }
            });
        }
        // What else it prints is nothing to us, but a full pipe would block it.
        tokio::spawn(async move { tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await });
        Ok(service)
    }

    /// Where it serves HTTP.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id; `None` once it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until it ends by itself, and tells how, with its last words. Cancel safe.
    pub async fn ended(&mut self) -> String {
        let status = match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => format!("unknown ({error})"),
        };
        if !self.stderr.is_finished() {
            // A process that it left behind may hold its standard error open.
            let _ = timeout(LAST_WORDS_WITHIN, &mut self.stderr).await;
        }
        self.last_words.after(&status)
    }

    /// Ends it: end of input, two seconds of grace, then a kill.
    pub async fn stop(mut self) {
        self.stdin = None;
        if timeout(ENDS_WITHIN, self.child.wait()).await.is_err() {
            // It fails only where the child has ended meanwhile.
            let _ = self.child.kill().await;
        }
    }
}

async fn first_line(stdout: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    stdout
        .take(FIRST_LINE_BYTES)
        .read_until(b'\n', &mut line)
        .await?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// The end of what the child wrote to its standard error. A lock and not a channel: the writer never waits, the
/// reader comes once.
#[derive(Clone, Default)]
struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    /// Keeps them until the child has closed its standard error.
    fn listen(&self, stderr: ChildStderr) -> JoinHandle<()> {
        let kept = self.clone();
        let mut stderr = BufReader::new(stderr);
        tokio::spawn(async move {
            let mut chunk = Vec::new();
            loop {
                chunk.clear();
                let mut piece = (&mut stderr).take(KEPT_LINE_BYTES);
                match piece.read_until(b'\n', &mut chunk).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => kept.keep(&chunk),
                }
            }
        })
    }

    fn keep(&self, line: &[u8]) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(line).trim_end().to_owned());
    }

    fn after(&self, status: &str) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return status.to_owned();
        }
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        format!("{status}: {}", lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_words_are_kept() {
        let words = LastWords::default();
        assert_eq!(words.after("exit status: 1"), "exit status: 1");
        for line in 0..30 {
            words.keep(format!("line {line}\n").as_bytes());
        }
        let told = words.after("exit status: 1");
        assert!(
            told.starts_with("exit status: 1: line 10\nline 11\n"),
            "{told}"
        );
        assert!(told.ends_with("line 29"), "{told}");
    }

    #[test]
    fn the_private_place_is_ours_alone_and_goes_away() {
        let place = Place::private().expect("a folder");
        let folder = place.socket().parent().expect("has a folder").to_owned();
        socket::check_private_folder(&folder).expect("private");
        drop(place);
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn the_first_line_is_bounded() {
        let endless = vec![b'x'; 10_000];
        let line = first_line(&mut &endless[..]).await.expect("reads");
        assert_eq!(line.len() as u64, FIRST_LINE_BYTES);
        let line = first_line(&mut &b"listening http://127.0.0.1:1\nmore"[..]).await;
        assert_eq!(line.expect("reads"), "listening http://127.0.0.1:1\n");
    }
}
