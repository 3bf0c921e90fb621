//! What is typed after `ax-top load`, and what is made of it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ax_wire::{
    session::{
        Arrivals, Driver, End, EndKind, Injection, Limits, Load, Plan, SESSION_VERSION, Session,
    },
    view::ServiceView,
};
use clap::ValueEnum;

use crate::{
    cli::{Failure, span},
    event::now_unix_ns,
    format::printable,
    load::{
        abort::Abort,
        command::Placeholder,
        generator::{self, target::Wanted},
        plan::{self, Steps},
        runner::Source,
        secrets::without_secrets,
    },
};

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
pub struct Run {
    /// Send requests there with the own generator, on a schedule that answers do not move
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub url: Option<String>,
    /// The method of the requests
    #[arg(long, short = 'X', default_value = "GET", conflicts_with = "command")]
    method: String,
    /// A header, `Name: value`; can be given more than once. Values are not kept in the session
    #[arg(long, short = 'H', value_name = "HEADER", conflicts_with = "command")]
    header: Vec<String>,
    /// The body, or @FILE
    #[arg(long, value_name = "TEXT", conflicts_with = "command")]
    body: Option<String>,
    /// Steps: 100..2000x8 (from, to, how many), 100,200,500, or 300. Requests per second; connections where the command
    /// has {connections}. Unless told: 100..1000x6, or 1 to 64 connections
    #[arg(long, value_parser = plan::steps)]
    steps: Option<Steps>,
    /// How long each step lasts
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "15s")]
    step_for: Duration,
    /// Load before the first step that is not counted
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "3s", conflicts_with = "command")]
    warm_up: Duration,
    /// How long the service is watched at rest before a wrapped command, so that its other traffic is not taken for load
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "5s", conflicts_with = "url")]
    pub background: Duration,
    /// How near to come to the knee by halving, between the last good step and the first bad one
    #[arg(long, value_name = "SHARE", value_parser = plan::share, default_value = "3%", conflicts_with = "no_search")]
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
    pub abort: Vec<Abort>,
    /// Put a delay on each call of a downstream while it runs: db:+500ms. The service must allow it
    #[arg(long, value_name = "DELAY", value_parser = plan::injection)]
    pub inject: Vec<Injection>,
    /// How long an answer may take
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "10s", conflicts_with = "command")]
    timeout: Duration,
    /// Most requests under way at once; what is due beyond is dropped and counted, never made up for
    #[arg(long, value_name = "COUNT", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..=65_536), conflicts_with = "command")]
    max_in_flight: u64,
    /// Threads of the generator
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with = "command")]
    threads: u32,
    /// How the send times are spread
    #[arg(long, value_enum, default_value_t = Spread::Uniform, conflicts_with = "command")]
    arrivals: Spread,
    /// Certificates to trust for https instead of the system's, a PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    ca: Option<PathBuf>,
    /// Allow a host other than this one: load on somebody else's service is an attack
    #[arg(long, conflicts_with = "command")]
    i_own_this_host: bool,
    /// The service to look into, by name or pid; unless told, the one that listens at the address
    #[arg(long, value_name = "SERVICE")]
    pub service: Option<String>,
    /// Take this lane's jobs as what the command achieves
    #[arg(long, value_name = "LANE", conflicts_with = "url")]
    pub lane: Option<String>,
    /// Where the session goes, a new file; by default in ~/.local/state/ax/sessions
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON object, `{"session": .., "analysis": ..}`
    #[arg(long)]
    pub json: bool,
    /// Write a page of HTML that loads nothing, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// No progress on the standard error
    #[arg(long, short)]
    pub quiet: bool,
    /// Run another load tool, once a step where it has {rate} or {connections}, else once; {seconds} is --step-for
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Run {
    /// Refuses what would be ignored or mended without a word, and what would fail only in the end.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to do.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |text: &str| Err(Failure::Usage(text.to_owned()));
        let has = |what: &str| self.command.iter().any(|part| part.contains(what));
        if self.url.is_none() && self.command.is_empty() {
            return wrong(
                "say where to: --url http://127.0.0.1:PORT/, or the load tool to run: ax-top load -- wrk ..",
            );
        }
        if has("{rate}") && has("{connections}") {
            return wrong("the command has both {rate} and {connections}: steps raise one of them");
        }
        let one_shot = self.url.is_none() && Placeholder::of(&self.command) == Placeholder::None;
        if one_shot && self.steps.is_some() {
            return wrong(
                "the command has neither {rate} nor {connections}, so --steps would change nothing: put one of them in it",
            );
        }
        if has("{seconds}") && self.step_for.subsec_nanos() != 0 {
            return wrong("{seconds} takes whole seconds: say --step-for 2s");
        }
        if u64::from(self.threads) > self.max_in_flight {
            return wrong(
                "--max-in-flight is shared by the threads: have no more --threads than that",
            );
        }
        for path in [&self.output, &self.html].into_iter().flatten() {
            check_new(path)?;
        }
        Ok(())
    }

    /// What makes the load.
    ///
    /// # Errors
    ///
    /// The body cannot be read, or no request can go to the URL.
    pub async fn source(&self) -> Result<Source, Failure> {
        let Some(url) = &self.url else {
            return Ok(Source::Command(self.command.clone()));
        };
        let body = match self.body.as_deref() {
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
            method: self.method.clone(),
            headers: self.header.clone(),
            body,
            ca: self.ca.clone(),
            any_host: self.i_own_this_host,
        };
        let target = wanted.resolve().await;
        let target = target.map_err(|error| Failure::Usage(printable(&error.to_string())))?;
        Ok(Source::Http {
            target: Arc::new(target),
            settings: generator::Settings {
                arrivals: match self.arrivals {
                    Spread::Uniform => Arrivals::Uniform,
                    Spread::Poisson => Arrivals::Poisson,
                },
                max_in_flight: self.max_in_flight,
                threads: self.threads,
                timeout: self.timeout,
            },
        })
    }

    /// The session before its first step.
    pub fn recorded(&self, source: &Source, view: Option<&ServiceView>) -> Session {
        let rates = || {
            self.steps
                .as_ref()
                .map_or_else(plan::default_rates, Steps::rates)
        };
        let connections = || {
            let steps = self.steps.as_ref();
            steps.map_or_else(plan::default_connections, Steps::connections)
        };
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
                rates(),
            ),
            Source::Command(command) => (
                Driver::Command {
                    arguments: without_secrets(command),
                    lane: self.lane.clone(),
                },
                match Placeholder::of(command) {
                    Placeholder::Rate => rates(),
                    Placeholder::Connections => connections(),
                    Placeholder::None => vec![Load::Unknown],
                },
            ),
        };
        let ns = |span: Duration| span.as_nanos() as u64;
        Session {
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
                step_ns: ns(self.step_for),
                warm_up_ns: if self.url.is_some() {
                    ns(self.warm_up)
                } else {
                    0
                },
                precision: (!self.no_search).then_some(self.precision),
                limits: Limits {
                    achieved_share: self.achieved,
                    p99_ns: self.p99.map(ns),
                    lag_p99_ns: Some(ns(self.lag_p99)),
                    error_share: Some(self.errors),
                },
                injections: self.inject.clone(),
                abort: self.abort.iter().map(ToString::to_string).collect(),
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
}

/// Whether a file can be made there, before anything takes minutes that it would be lost after.
fn check_new(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if path.symlink_metadata().is_ok() {
        return Err(Failure::Usage(format!(
            "{shown} is already there and is not overwritten; name another file, or remove it"
        )));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // It is removed again at once.
    tempfile::tempfile_in(folder).map(drop).map_err(|error| {
        std::io::Error::new(error.kind(), format!("cannot write {shown}: {error}")).into()
    })
}

#[cfg(test)]
mod tests;
