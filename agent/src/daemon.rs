//! The agent as a daemon: `ax-agent`.

use std::{path::PathBuf, process::ExitCode};

use ax_wire::socket::SYSTEM_SOCKET;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::{Agent, BindError, Config, symbol};

/// It ended because it was told to.
pub const EXIT_OK: u8 = 0;

/// It could not listen, or the system refused it something else.
pub const EXIT_FAILURE: u8 = 1;

/// The command line was wrong (`EX_USAGE`).
pub const EXIT_USAGE: u8 = 64;

/// Another agent already serves that folder (`EX_TEMPFAIL`: try again when it has ended).
pub const EXIT_ALREADY_RUNNING: u8 = 75;

/// Gathers what services of this host measure, and shows it to ax-top.
///
/// Its lock, `agent.lock`, stays beside the socket when it ends; the next agent takes it over.
///
/// Exit codes: 0 ended by a signal, 1 failure, 64 wrong usage, 75 another agent is running.
#[derive(Debug, Parser)]
#[command(name = "ax-agent", version)]
struct Args {
    /// Socket to listen on; by default where services look for this user's agent: `$AX_SOCKET`, else `agent.sock` in
    /// `$XDG_RUNTIME_DIR/ax`, else in `ax-UID` in the temporary folder
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Serve all users of this host, by default on /run/ax/agent.sock: a viewer sees the services of its own user, root
    /// and the group `ax` see all. To be run as root
    #[arg(long)]
    system: bool,

    /// Folder for snapshots, ours alone; by default `ax-snapshots` in `$STATE_DIRECTORY`, else `ax/snapshots` in
    /// `$XDG_STATE_HOME` or ~/.local/state
    #[arg(long, value_name = "FOLDER")]
    snapshots: Option<PathBuf>,

    /// What to log on stderr: error, warn, info, debug, trace, or a filter such as `ax_agent=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_filter)]
    log: String,
}

/// A filter is parsed here, so that a wrong one is wrong usage; and again when it is used, because it cannot be cloned.
/// Takes what `EnvFilter` takes, but for a bare word that is no level: it would be a target, and switch all else off.
fn log_filter(text: &str) -> Result<String, String> {
    let is_level = |level: &str| level.parse::<LevelFilter>().is_ok();
    let known = text.split(',').all(|part| match part.rsplit_once('=') {
        Some((_, level)) => is_level(level),
        None => is_level(part),
    });
    if !known {
        return Err("expected error, warn, info, debug, trace or off, or TARGET=LEVEL".to_owned());
    }
    EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

/// Runs the daemon on this process's arguments until SIGINT or SIGTERM.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = symbol::child_main() {
        return code;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Nothing can be told about a terminal that is gone.
            let _ = error.print();
            let code = if error.use_stderr() {
                EXIT_USAGE
            } else {
                EXIT_OK
            };
            return code.into();
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&args.log))
        .with_writer(std::io::stderr)
        .init();
    match serve(args) {
        Ok(()) => EXIT_OK.into(),
        Err(error) => {
            eprintln!("ax-agent: {error}");
            let code = match error {
                Failure::Bind(BindError::AlreadyRunning { .. }) => EXIT_ALREADY_RUNNING,
                Failure::Bind(_) | Failure::Runtime(_) => EXIT_FAILURE,
            };
            code.into()
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("cannot start: {0}")]
    Runtime(#[from] std::io::Error),
}

/// What the arguments come to.
fn config(args: Args) -> Config {
    let mut config = match (args.system, args.socket) {
        (true, socket) => Config::system(socket.unwrap_or_else(|| SYSTEM_SOCKET.into())),
        (false, Some(socket)) => Config::at(socket),
        (false, None) => Config::per_user(),
    };
    if args.snapshots.is_some() {
        config.snapshots.folder = args.snapshots;
    }
    config.snapshots.symbolizer = Some(symbol::OWN_PROGRAM.into());
    config
}

fn serve(args: Args) -> Result<(), Failure> {
    let config = config(args);
    if let Some(folder) = &config.snapshots.folder {
        tracing::info!("snapshots go to {}", folder.display());
    } else {
        tracing::warn!("snapshots are off: no folder for them is known; name one with --snapshots");
    }
    // One thread is plenty for a budget of 2 % of a core, and keeps memory in one arena.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let agent = Agent::bind(config)?;
        tracing::info!("listening on {}", agent.socket().display());
        let signalled = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            tracing::info!("stopping");
            stop.cancel();
        };
        tokio::join!(agent.run(stop.clone()), signalled);
        Ok(())
    })
}
