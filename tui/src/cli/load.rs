//! `ax-top load`: a load session; `load show FILE`, `load compare A B`.

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ax_agent::load::{Analysis, Comparison, analyze, compare};
use ax_wire::{
    session::{
        self, Arrivals, Driver, End, EndKind, Injection, Limits, Load, Plan, SESSION_VERSION,
        Session as Recorded, SessionFileError,
    },
    view::ServiceView,
};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use super::{
    Failure, block_on, file, print, print_json,
    session::{Session, matches},
    span,
};
use crate::{
    client::Sockets,
    event::{Signals, now_unix_ns},
    format::printable,
    load::{
        abort::Abort,
        command::{Placeholder, without_secrets},
        generator::{self, target::Wanted},
        page,
        plan::{self, Steps},
        progress::Progress,
        runner::{Inside, Runner, Source},
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
gone, the command failed); 69 nothing answers at the URL; 130 interrupted. In each case the session so far is in its file.";

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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Spread {
    /// At equal distances
    Uniform,
    /// At random, as independent clients come
    Poisson,
}

#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
struct Run {
    /// Send requests there with the own generator, on a schedule that answers do not move
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// The method of the requests
    #[arg(long, short = 'X', default_value = "GET", requires = "url")]
    method: String,
    /// A header, `Name: value`; can be given more than once. Values are not kept in the session
    #[arg(long, short = 'H', value_name = "HEADER", requires = "url")]
    header: Vec<String>,
    /// The body, or @FILE
    #[arg(long, value_name = "TEXT", requires = "url")]
    body: Option<String>,
    /// Steps: 100..2000x8 (from, to, how many), 100,200,500, or 300. Requests per second; connections where the command
    /// has {connections}
    #[arg(long, value_parser = plan::steps, default_value = "100..1000x6")]
    steps: Steps,
    /// How long each step lasts
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "15s")]
    step_for: Duration,
    /// Load before the first step that is not counted
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "3s", requires = "url")]
    warm_up: Duration,
    /// How near to come to the knee by halving, between the last good step and the first bad one
    #[arg(long, value_name = "SHARE", value_parser = plan::share, default_value = "3%")]
    precision: f64,
    /// Make the planned steps alone
    #[arg(long)]
    no_search: bool,
    /// The least share of the offered load that a good step achieves
    #[arg(long, value_name = "SHARE", value_parser = plan::share, default_value = "95%")]
    achieved: f64,
    /// A good step's 99th percentile of latency is at most this
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    p99: Option<Duration>,
    /// A good step's 99th percentile of event-loop lag is at most this
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "50ms")]
    lag_p99: Duration,
    /// At most this share of a good step's requests fails
    #[arg(long, value_name = "SHARE", value_parser = plan::share, default_value = "1%")]
    errors: f64,
    /// End it when this breaks: `lag_p99>1s`, `p99>2s`, `errors>20%`, `pending>10000`; can be given more than once
    #[arg(long, value_name = "THRESHOLD", value_parser = Abort::parse)]
    abort: Vec<Abort>,
    /// Put a delay on each call of a downstream while it runs: db:+500ms. The service must allow it
    #[arg(long, value_name = "DELAY", value_parser = plan::injection)]
    inject: Vec<Injection>,
    /// How long an answer may take
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "10s", requires = "url")]
    timeout: Duration,
    /// Most requests under way at once; what is due beyond is dropped and counted, never made up for
    #[arg(long, value_name = "COUNT", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..=65_536), requires = "url")]
    max_in_flight: u64,
    /// Threads of the generator
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), requires = "url")]
    threads: u32,
    /// How the send times are spread
    #[arg(long, value_enum, default_value_t = Spread::Uniform, requires = "url")]
    arrivals: Spread,
    /// Certificates to trust for https instead of the system's, a PEM file
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// Allow a host other than this one: load on somebody else's service is an attack
    #[arg(long, requires = "url")]
    i_own_this_host: bool,
    /// The service to look into, by name or pid; where only one is connected, that one
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
    /// Take this lane's jobs as what the command achieves
    #[arg(long, value_name = "LANE", requires = "command")]
    lane: Option<String>,
    /// Where the session goes; by default a new file in ~/.local/state/ax/sessions
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object, `{"session": .., "analysis": ..}`
    #[arg(long)]
    json: bool,
    /// Write a page of HTML that loads nothing, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// No progress on the standard error
    #[arg(long, short)]
    quiet: bool,
    /// Run another load tool, once a step where it has {rate} or {connections}, else once; {seconds} is --step-for
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
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
    if let Some(html) = html {
        file::create(html, page::page(recorded, &analysis).as_bytes())?;
    }
    if json {
        print_json(&Report {
            session: recorded,
            analysis: &analysis,
        })
    } else {
        print(&text::report(recorded, &analysis, with_steps))
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
    let source = source(arguments).await?;
    let mut signals = Signals::new()?;
    let mut agent = Session::start(Sockets::from_env());
    let view = tokio::select! {
        view = watched(&mut agent, arguments) => view?,
        () = signals.any() => return Err(Failure::Interrupted),
    };
    let recorded = recorded(arguments, &source, view.as_ref());
    let path = match &arguments.output {
        Some(path) => path.clone(),
        None => default_file(view.as_ref())?,
    };
    let inside = view.map(|view| Inside {
        watch: Watch::new(&view, now_unix_ns()),
        agent,
    });
    let runner = Runner {
        session: recorded,
        source,
        abort: arguments.abort.clone(),
        path,
        inside,
        progress: Progress::new(!arguments.quiet),
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

async fn source(arguments: &Run) -> Result<Source, Failure> {
    let Some(url) = &arguments.url else {
        if arguments.command.is_empty() {
            return Err(Failure::Usage(
                "say where to: --url http://127.0.0.1:PORT/, or the load tool to run: ax-top load -- wrk ..".to_owned(),
            ));
        }
        return Ok(Source::Command(arguments.command.clone()));
    };
    let body = match arguments.body.as_deref() {
        None => Vec::new(),
        Some(body) => match body.strip_prefix('@') {
            None => body.as_bytes().to_vec(),
            Some(path) => std::fs::read(path).map_err(|error| {
                Failure::BadData(format!("cannot read the body from {path}: {error}"))
            })?,
        },
    };
    let wanted = Wanted {
        url: url.clone(),
        method: arguments.method.clone(),
        headers: arguments.header.clone(),
        body,
        ca: arguments.ca.clone(),
        any_host: arguments.i_own_this_host,
    };
    let target = wanted.resolve().await;
    let target = target.map_err(|error| Failure::Usage(printable(&error.to_string())))?;
    Ok(Source::Http {
        target: Arc::new(target),
        settings: generator::Settings {
            arrivals: arrivals(arguments),
            max_in_flight: arguments.max_in_flight,
            threads: arguments.threads,
            timeout: arguments.timeout,
        },
    })
}

fn arrivals(arguments: &Run) -> Arrivals {
    match arguments.arrivals {
        Spread::Uniform => Arrivals::Uniform,
        Spread::Poisson => Arrivals::Poisson,
    }
}

/// The newest view of the service to look into. `None`: there is none, and the own generator can do without.
async fn watched(agent: &mut Session, arguments: &Run) -> Result<Option<ServiceView>, Failure> {
    let wanted = arguments.service.as_deref();
    let seen = agent
        .wait(|world| {
            let mut services = world.services.iter();
            services.any(|service| {
                matches(service, wanted) && world.newest_view(service.instance).is_some()
            })
        })
        .await;
    let needed = wanted.is_some() || arguments.url.is_none() || !arguments.inject.is_empty();
    let found = seen.and_then(|()| {
        let live: Vec<_> = agent
            .wanted(wanted)?
            .into_iter()
            .filter_map(|service| agent.world.newest_view(service.instance))
            .filter(|view| view.summary.state == ax_wire::view::ServiceState::Live)
            .collect();
        match live[..] {
            [one] => Ok(one.as_ref().clone()),
            [] => Err(Failure::Unknown(
                "no figures of the service have come: is its probe installed?".to_owned(),
            )),
            _ => {
                let names: Vec<_> = live
                    .iter()
                    .map(|view| {
                        format!(
                            "{} (pid {})",
                            printable(&view.summary.service),
                            view.summary.pid
                        )
                    })
                    .collect();
                Err(Failure::Usage(format!(
                    "several services are connected, say which one is loaded with --service: {}",
                    names.join(", ")
                )))
            }
        }
    });
    match found {
        Ok(view) => Ok(Some(view)),
        Err(failure @ Failure::Usage(_)) => Err(failure),
        Err(failure) if needed => Err(failure),
        Err(_) => Ok(None),
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

fn recorded(arguments: &Run, source: &Source, view: Option<&ServiceView>) -> Recorded {
    let (driver, loads) = match source {
        Source::Http { target, settings } => (
            Driver::Http {
                url: target.url.clone(),
                method: target.method.to_string(),
                header_names: target.headers.keys().map(ToString::to_string).collect(),
                body_bytes: target.body.len() as u64,
                arrivals: settings.arrivals,
                max_in_flight: settings.max_in_flight,
            },
            arguments.steps.rates(),
        ),
        Source::Command(command) => (
            Driver::Command {
                arguments: without_secrets(command),
                lane: arguments.lane.clone(),
            },
            match Placeholder::of(command) {
                Placeholder::Rate => arguments.steps.rates(),
                Placeholder::Connections => arguments.steps.connections(),
                Placeholder::None => vec![Load::Unknown],
            },
        ),
    };
    let ns = |span: Duration| span.as_nanos() as u64;
    Recorded {
        version: SESSION_VERSION,
        written_by: format!("ax-top {}", env!("CARGO_PKG_VERSION")),
        began_unix_ns: now_unix_ns(),
        written_unix_ns: now_unix_ns(),
        end: End {
            kind: EndKind::Unfinished,
            why: None,
        },
        plan: Plan {
            loads,
            step_ns: ns(arguments.step_for),
            warm_up_ns: if arguments.url.is_some() {
                ns(arguments.warm_up)
            } else {
                0
            },
            precision: (!arguments.no_search).then_some(arguments.precision),
            limits: Limits {
                achieved_share: arguments.achieved,
                p99_ns: arguments.p99.map(ns),
                lag_p99_ns: Some(ns(arguments.lag_p99)),
                error_share: Some(arguments.errors),
            },
            injections: arguments.inject.clone(),
            abort: arguments.abort.iter().map(ToString::to_string).collect(),
        },
        driver,
        service: view.map(|view| view.hello.clone()),
        background: Vec::new(),
        steps: Vec::new(),
        verdicts: Vec::new(),
        marks: Vec::new(),
        warnings: Vec::new(),
    }
}
