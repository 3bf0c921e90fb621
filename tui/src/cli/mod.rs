//! The command line: one file a command.

mod bundle;
mod capture;
mod check;
mod config;
mod dashboard;
mod demo;
mod diagnose;
mod export;
mod file;
mod load;
mod open;
mod record;
mod replay;
mod report;
mod rules;
mod services;
pub mod session;
mod shell;
mod snapshots;
pub mod span;
mod status;
mod symbolize;
mod watch;

use std::{
    ffi::OsString,
    future::Future,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use ax_wire::socket;
use clap::{Parser, Subcommand};
use serde::Serialize;

pub use self::span::parse as parse_span;
use crate::{
    Hooks,
    config::{Settings, Wishes},
    event::Signals,
    exit,
};

const EXIT_CODES: &str = "\
Exit codes: 0 done, 3 no such service (of check: 0 healthy, 1 warning, 2 critical, 3 unknown), 64 wrong usage, 65 a file is not what it should be,
69 no agent or demo service could be started,
70 a fault of ax-top, 74 input or output failed, 75 no snapshot now: try again later, 130 interrupted
before there was anything to say.

Environment: AX_SOCKET names the only socket to use. NO_COLOR switches colour off, and so does a TERM that has none (dumb,
vt100). Where LC_ALL, LC_CTYPE or LANG names a locale without UTF-8, the dashboard is drawn in ASCII, as with --ascii.";

/// See what async Rust services on this host are doing, live.
///
/// Without a command: the dashboard. It attaches to the agent of this host or user; where there is none, it is one
/// itself for as long as it runs.
#[derive(Debug, Parser)]
#[command(name = "ax-top", version, after_help = EXIT_CODES)]
struct Cli {
    /// Draw the dashboard in ASCII, whatever the locale
    #[arg(long)]
    ascii: bool,
    /// Leave the mouse to the terminal, so that it selects text
    #[arg(long)]
    no_mouse: bool,
    /// Ask nothing of a service: take no snapshot from the dashboard, control nothing
    #[arg(long)]
    readonly: bool,
    /// Read this configuration (ax-top config says which one is read otherwise)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the services that are connected
    Services(services::Arguments),
    /// Say how the services are, once
    Status(status::Arguments),
    /// Say whether the services are healthy, as an exit code: 0 healthy, 1 warning, 2 critical, 3 unknown
    Check(check::Arguments),
    /// Say why a service is slow, or was when a snapshot was taken
    Diagnose(diagnose::Arguments),
    /// Say how the services are, a line a second for each
    Watch(watch::Arguments),
    /// Say what the alert rules are, what each says of each service, and why one does not fire
    Rules(rules::Arguments),
    /// Take a snapshot of a service now, and print its path
    Capture(capture::Arguments),
    /// List the snapshots on disk, or remove some
    Snapshots(snapshots::Arguments),
    /// Browse a snapshot in the terminal
    Open(open::Arguments),
    /// Make a page of HTML of a snapshot, for a browser
    Report(report::Arguments),
    /// Turn a snapshot into the format of another tool
    Export(export::Arguments),
    /// Pack a snapshot and its report into one redacted archive, to hand on
    Bundle(bundle::Arguments),
    /// Name the functions in the stacks of a snapshot, from the file of the build
    Symbolize(symbolize::Arguments),
    /// Record what a service does, to play it again later
    Record(record::Arguments),
    /// Play a recording on the screens of the dashboard
    Replay(replay::Arguments),
    /// Say where the configuration is, print the defaults, check a file
    Config(config::Arguments),
    /// Print the completions of a shell
    Completions(shell::Completions),
    /// Print the manual
    Man(shell::Man),
    /// Raise the load on a service step by step, and see where it stops being healthy
    Load(Box<load::Arguments>),
    /// Start a demo service and look at it
    Demo(demo::Arguments),
    /// The demo service itself
    #[command(name = crate::demo::SUBCOMMAND, hide = true, disable_help_flag = true)]
    DemoService {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Why a command did not do what it was asked for. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Unknown(String),
    #[error("{0}")]
    BadData(String),
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    NotNow(String),
    #[error("the second session is worse than the first")]
    Regression,
    #[error("{0}")]
    EndedEarly(String),
    #[error("interrupted")]
    Interrupted,
    #[error("a fault of ax-top: {0}")]
    Internal(String),
    #[error("input or output failed: {0}")]
    Io(#[from] io::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Unknown(_) => exit::UNKNOWN,
            Self::BadData(_) => exit::BAD_DATA,
            Self::Unavailable(_) => exit::UNAVAILABLE,
            Self::NotNow(_) => exit::NOT_NOW,
            Self::Regression => exit::REGRESSION,
            Self::EndedEarly(_) => exit::ENDED_EARLY,
            Self::Interrupted => exit::INTERRUPTED,
            Self::Internal(_) => exit::INTERNAL,
            Self::Io(_) => exit::IO_ERROR,
        }
    }

    /// The reader of our output has gone away, which is its right.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// See [`crate::main`].
pub fn main(hooks: Hooks) -> ExitCode {
    if let Some(code) = ax_agent::symbol::child_main() {
        return code;
    }
    let cli = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    if let Some(why) = socket::named_by_env().as_deref().and_then(socket::distrust) {
        eprintln!("ax-top: warning: {why}");
    }
    let wishes = Wishes {
        file: cli.config,
        ascii: cli.ascii,
        no_mouse: cli.no_mouse,
        readonly: cli.readonly,
    };
    match (cli.command, hooks.demo) {
        (Some(Command::DemoService { arguments }), Some(serve)) => serve(arguments),
        (Some(Command::Demo(ref demo)), Some(serve)) if let Some(list) = demo.list_faults() => {
            serve(list)
        }
        (command, _) => ExitCode::from(report(run(command, hooks, &wishes))),
    }
}

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Cli, u8> {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => Ok(cli),
        Err(error) => {
            let wrong = error.use_stderr();
            // Where even this cannot be printed, the exit code is all that is left.
            let _ = error.print();
            Err(if wrong { exit::USAGE } else { exit::OK })
        }
    }
}

fn report(result: Result<u8, Failure>) -> u8 {
    match result {
        Ok(code) => code,
        Err(failure) if failure.is_broken_pipe() => exit::OK,
        Err(failure) => {
            // The code tells it to a script in any case.
            let _ = writeln!(io::stderr(), "ax-top: {failure}");
            failure.code()
        }
    }
}

/// Returns the exit code.
fn run(command: Option<Command>, hooks: Hooks, wishes: &Wishes) -> Result<u8, Failure> {
    let settings = || Settings::load(wishes);
    let done = match command {
        None => dashboard::run(&settings()?),
        Some(Command::Check(arguments)) => {
            return until_interrupted(check::run(&arguments)).or_else(check::unknown);
        }
        Some(Command::Services(arguments)) => until_interrupted(services::run(&arguments)),
        Some(Command::Status(arguments)) => until_interrupted(status::run(&arguments)),
        Some(Command::Diagnose(arguments)) => until_interrupted(diagnose::run(&arguments)),
        Some(Command::Rules(arguments)) => until_interrupted(rules::run(&arguments)),
        Some(Command::Capture(arguments)) => until_interrupted(capture::run(&arguments)),
        Some(Command::Snapshots(arguments)) => until_interrupted(snapshots::run(&arguments)),
        Some(Command::Open(arguments)) => open::run(&arguments, &settings()?),
        Some(Command::Record(arguments)) => record::run(&arguments),
        Some(Command::Replay(arguments)) => replay::run(&arguments, &settings()?),
        Some(Command::Config(arguments)) => config::run(&arguments, wishes),
        Some(Command::Completions(arguments)) => shell::completions(&arguments),
        Some(Command::Man(arguments)) => shell::man(&arguments),
        Some(Command::Bundle(arguments)) => bundle::run(&arguments),
        Some(Command::Report(arguments)) => report::run(&arguments),
        Some(Command::Export(arguments)) => export::run(&arguments),
        Some(Command::Symbolize(arguments)) => symbolize::run(&arguments),
        Some(Command::Load(arguments)) => load::run(&arguments),
        Some(Command::Watch(arguments)) => match until_interrupted(watch::run(&arguments)) {
            // It goes on until it is told to stop.
            Err(Failure::Interrupted) => Ok(()),
            result => result,
        },
        Some(Command::Demo(arguments)) if hooks.demo.is_some() => {
            demo::run(&arguments, &settings()?)
        }
        Some(Command::Demo(_) | Command::DemoService { .. }) => Err(Failure::Unavailable(
            "this ax-top was built without the demo service (feature `demo`)".to_owned(),
        )),
    };
    done.map(|()| exit::OK)
}

/// Runs a command on a runtime of one thread; the client and an embedded agent end with it.
fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(command)
}

fn until_interrupted<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            result = command => result,
            () = signals.any() => Err(Failure::Interrupted),
        }
    })
}

/// Writes text to the standard output, whole and at once.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes a value as one line of JSON.
fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value);
    let mut line = json.map_err(|error| Failure::Internal(error.to_string()))?;
    line.push('\n');
    print(&line)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parsed(line: &str) -> Result<Option<Command>, u8> {
        parse(line.split(' ').map(OsString::from)).map(|cli| cli.command)
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_usage_exits_64_and_help_0() {
        for wrong in [
            "ax-top nonsense",
            "ax-top status --nonsense",
            "ax-top status one two",
            "ax-top watch --for soon",
            "ax-top watch --for",
            "ax-top demo --json",
            "ax-top demo --after 5s",
            "ax-top demo --headless --list-faults",
            "ax-top demo --for 5s",
            "ax-top demo --headless --for 0s",
            "ax-top capture",
            "ax-top snapshots --prune",
            "ax-top snapshots --keep 3",
            "ax-top record",
            "ax-top record -o x --max-size 0",
            "ax-top replay x --json",
            "ax-top replay x --speed 0",
            "ax-top config --print-default --check",
            "ax-top completions nonsense",
        ] {
            assert_eq!(parsed(wrong).expect_err(wrong), exit::USAGE, "{wrong}");
        }
        for help in ["ax-top --help", "ax-top status --help", "ax-top --version"] {
            assert_eq!(parsed(help).expect_err(help), exit::OK, "{help}");
        }
    }

    #[test]
    fn the_demo_service_gets_its_arguments_as_they_are() {
        let parsed = parsed("ax-top demo-service --port 0 --help").expect("parses");
        let Some(Command::DemoService { arguments }) = parsed else {
            panic!("another command");
        };
        assert_eq!(arguments, ["--port", "0", "--help"]);
    }

    #[test]
    fn a_reader_that_goes_away_is_no_error() {
        let pipe = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(report(Err(pipe.into())), exit::OK);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(report(Err(full.into())), exit::IO_ERROR);
    }
}
