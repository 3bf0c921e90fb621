//! `ax-top load`: a load session; `load show FILE`, `load compare A B`.

mod arguments;
mod service;

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use ax_agent::load::{Analysis, Comparison, analyze, compare};
use ax_wire::{
    session::{self, EndKind, Session as Recorded, SessionFileError},
    view::ServiceView,
};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use self::arguments::Run;
use super::{Failure, block_on, file, print, print_json, session::Session};
use crate::{
    client::Sockets,
    event::{Signals, now_unix_ns},
    format::printable,
    load::{
        page,
        progress::Progress,
        runner::{Inside, Runner},
        text,
        watch::Watch,
    },
};

/// Seeds the bootstrap, so that the same two files always compare alike.
const SEED: u64 = 1;

const HELP: &str = "\
Examples:
  ax-top load --url http://127.0.0.1:8080/ --steps 100..2000x8 --step-for 15s
  ax-top load --steps 1..64x7 -- wrk -c{connections} -d{seconds}s http://127.0.0.1:8080/
  ax-top load show FILE --html X.html
  ax-top load compare BEFORE AFTER --fail-on regression

Exit codes: 0 done; 4 a regression, with --fail-on regression; 5 it ended before its plan did (a threshold, the service
gone, the command failed); 69 nothing answers at the URL, or only failures such as 404; 130 interrupted. In each case the session so far is in its file.";

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = HELP)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Tell what a session says
    Show(Show),
    /// Say what changed from one session to another, beyond noise
    Compare(Compare),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The session
    file: PathBuf,
    /// Print one JSON object, `{"session": .., "analysis": ..}`
    #[arg(long)]
    json: bool,
    /// Write a page of HTML that loads nothing
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Compare {
    /// The session to compare with
    before: PathBuf,
    /// The session that may have changed
    after: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Exit with 4 where something became worse
    #[arg(long, value_name = "WHAT")]
    fail_on: Option<FailOn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Regression,
}

/// What `--json` prints. Keys are only ever added.
#[derive(Serialize)]
struct Report<'a> {
    session: &'a Recorded,
    analysis: &'a Analysis,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.action {
        Some(Action::Show(show)) => {
            let recorded = read(&show.file)?;
            tell(&recorded, show.json, show.html.as_deref(), true)
        }
        Some(Action::Compare(compare)) => compare_files(compare),
        None => block_on(load(&arguments.run)),
    }
}

/// Reads a session.
pub fn read(path: &Path) -> Result<Recorded, Failure> {
    session::read(path).map_err(|error| Failure::BadData(printable(&error.to_string())))
}

fn tell(
    recorded: &Recorded,
    json: bool,
    html: Option<&Path>,
    with_steps: bool,
) -> Result<(), Failure> {
    let analysis = analyze(recorded);
    // The answer comes first: a page that cannot be written must not cost it.
    if json {
        print_json(&Report {
            session: recorded,
            analysis: &analysis,
        })?;
    } else {
        print(&text::report(recorded, &analysis, with_steps))?;
    }
    match html {
        Some(html) => file::create(html, page::page(recorded, &analysis).as_bytes()),
        None => Ok(()),
    }
}

fn compare_files(arguments: &Compare) -> Result<(), Failure> {
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let comparison: Comparison = compare(&before, &after, SEED);
    if arguments.json {
        print_json(&comparison)?;
    } else {
        print(&text::comparison(&comparison))?;
    }
    if arguments.fail_on.is_some() && comparison.is_regression() {
        return Err(Failure::Regression);
    }
    Ok(())
}

async fn load(arguments: &Run) -> Result<(), Failure> {
    arguments.check()?;
    let source = arguments.source().await?;
    let mut signals = Signals::new()?;
    let mut agent = Session::start(Sockets::from_env());
    let found = tokio::select! {
        found = service::find(&mut agent, arguments, &source) => found?,
        () = signals.any() => return Err(Failure::Interrupted),
    };
    let mut recorded = arguments.recorded(&source, found.view.as_ref());
    recorded.warnings.extend(found.doubt);
    let path = match &arguments.output {
        Some(path) => path.clone(),
        None => default_file(found.view.as_ref())?,
    };
    let inside = found.view.map(|view| Inside {
        watch: Watch::new(&view, now_unix_ns()),
        agent,
    });
    let runner = Runner {
        session: recorded,
        source,
        abort: arguments.abort.clone(),
        background: arguments.background,
        path,
        inside,
        progress: Progress::new(!arguments.quiet),
        injected: Vec::new(),
    };
    let recorded = runner.run(&mut signals).await?;
    let told = !arguments.quiet && io::stdout().is_terminal() && io::stderr().is_terminal();
    tell(&recorded, arguments.json, arguments.html.as_deref(), !told)?;
    let why = || text::ended(&recorded.end);
    match recorded.end.kind {
        EndKind::Completed => Ok(()),
        EndKind::Interrupted => Err(Failure::Interrupted),
        EndKind::Unreachable | EndKind::Refused => Err(Failure::Unavailable(why())),
        _ => Err(Failure::EndedEarly(why())),
    }
}

fn default_file(view: Option<&ServiceView>) -> Result<PathBuf, Failure> {
    let folder = session::default_folder();
    let folder = folder.map_err(|error: SessionFileError| {
        Failure::Usage(format!("{error}; name a file with --output"))
    })?;
    let service = view.map_or("load", |view| view.summary.service.as_str());
    Ok(folder.join(session::file_name(service)))
}
