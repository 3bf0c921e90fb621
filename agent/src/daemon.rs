//! The agent as a daemon: `ax-agent`.

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::Arc};

use ax_wire::socket::SYSTEM_SOCKET;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::{
    Agent, BindError, Config,
    config::file::{self, FileConfig, FileError},
    symbol,
};

/// It ended because it was told to.
pub const EXIT_OK: u8 = 0;

/// It could not listen, or the system refused it something else.
pub const EXIT_FAILURE: u8 = 1;

/// The command line was wrong (`EX_USAGE`).
pub const EXIT_USAGE: u8 = 64;

/// Another agent already serves that folder (`EX_TEMPFAIL`: try again when it has ended).
pub const EXIT_ALREADY_RUNNING: u8 = 75;

/// The configuration file is wrong (`EX_CONFIG`); what is said tells where.
pub const EXIT_CONFIG: u8 = 78;

/// Gathers what services of this host measure, and shows it to ax-top.
///
/// Its lock, `agent.lock`, stays beside the socket when it ends; the next agent takes it over.
///
/// SIGHUP has the configuration file read again; a change to it is noticed by itself within a second or two. A file that
/// is wrong by then changes nothing, and the log says where.
///
/// Exit codes: 0 ended by a signal, 1 failure, 64 wrong usage, 75 another agent is running, 78 the configuration file is
/// wrong.
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

    /// Configuration file: rules, what they do, silences, snapshots; by default `ax/agent.toml` in `$XDG_CONFIG_HOME` or
    /// ~/.config, or /etc/ax/agent.toml with --system, where it is there. `ax-top rules --print-default` prints the rules
    /// that are built in
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Say whether the configuration file is right, and end
    #[arg(long)]
    check_config: bool,

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
    // Colours in a journal or a file are noise.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&args.log))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let done = if args.check_config {
        check(&args)
    } else {
        serve(args)
    };
    match done {
        Ok(()) => EXIT_OK.into(),
        Err(error) => {
            eprintln!("ax-agent: {error}");
            let code = match error {
                Failure::Bind(BindError::AlreadyRunning { .. }) => EXIT_ALREADY_RUNNING,
                Failure::Config(_) => EXIT_CONFIG,
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
    #[error("the configuration is not taken:\n{0}")]
    Config(#[from] FileError),
    #[error("cannot start: {0}")]
    Runtime(#[from] std::io::Error),
}

/// The file that is looked at, and what it says. One that nobody named need not be there.
fn read_file(args: &Args) -> Result<(Option<PathBuf>, Option<FileConfig>), FileError> {
    let named = args.config.is_some();
    // Viewers, who are told the path, stand in other folders.
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let named_path = args.config.as_ref().map(absolute);
    let path = named_path.or_else(|| file::default_file(args.system));
    let read = path.as_deref().map(file::read).transpose();
    match read {
        Err(error) if error.is_missing() && !named => Ok((path, None)),
        read => Ok((path, read?)),
    }
}

/// Says what is to be said of the file.
fn check(args: &Args) -> Result<(), Failure> {
    let (path, read) = read_file(args)?;
    let path = path.map_or_else(
        || "no file is known".to_owned(),
        |path| path.display().to_string(),
    );
    let Some(read) = read else {
        println!("{path}: there is none; the rules that are built in are in force");
        return Ok(());
    };
    let rules = read.rules.enabled().count();
    let off = read.rules.rules.len() - rules;
    let silences = read.rules.silences.len();
    println!("{path}: right; rules on {rules}, off {off}, silences {silences}");
    for warning in read.rules.warnings() {
        println!("warning: {warning}");
    }
    Ok(())
}

/// What the arguments and the file come to.
fn config(args: Args) -> Result<Config, FileError> {
    let (path, read) = read_file(&args)?;
    let mut config = match (args.system, args.socket) {
        (true, socket) => Config::system(socket.unwrap_or_else(|| SYSTEM_SOCKET.into())),
        (false, Some(socket)) => Config::at(socket),
        (false, None) => Config::per_user(),
    };
    match (&path, read) {
        (Some(path), Some(read)) => {
            config.apply(read);
            tracing::info!("configuration: {}", path.display());
        }
        (Some(path), None) => tracing::info!("no configuration at {}", path.display()),
        (None, _) => tracing::info!("no place for a configuration is known"),
    }
    config.file = path;
    if args.snapshots.is_some() {
        config.snapshots.folder = args.snapshots;
    }
    config.snapshots.symbolizer = Some(symbol::OWN_PROGRAM.into());
    Ok(config)
}

fn serve(args: Args) -> Result<(), Failure> {
    let config = config(args)?;
    for warning in config.rules.warnings() {
        tracing::warn!("{warning}");
    }
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
        let reload = Arc::clone(&config.reload);
        let agent = Agent::bind(config)?;
        tracing::info!("listening on {}", agent.socket().display());
        let signalled = async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => break,
                    _ = terminate.recv() => break,
                    _ = hang_up.recv() => reload.notify_one(),
                }
            }
            tracing::info!("stopping");
            stop.cancel();
        };
        tokio::join!(agent.run(stop.clone()), signalled);
        Ok(())
    })
}
