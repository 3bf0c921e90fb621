//! `ax-top rules [SERVICE]`: what the alert rules are, what each says of each service, and why one is quiet.

mod silence;
mod text;

use std::time::Duration;

use ax_wire::{ToAgent, rules::RulesReport};
use tokio::time::timeout;

use super::{
    Failure, print, print_json,
    session::{Session, matches},
};
use crate::{client::Sockets, event::now_unix_ns, world::World};

/// An agent answers within a second.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    change: Option<Change>,
    /// Its name or pid; all services where it is left out
    service: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the rules that are built in as a configuration file, with every metric that there is
    #[arg(long, conflicts_with_all = ["service", "json"])]
    print_default: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Tell nobody of a rule's alerts for a while; they are kept and shown
    Silence(silence::Arguments),
    /// End a silence
    Unsilence(silence::EndArguments),
}

/// Runs the command.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.change {
        Some(Change::Silence(silence)) => return silence::run(silence).await,
        Some(Change::Unsilence(end)) => return silence::end(end).await,
        None => {}
    }
    if arguments.print_default {
        return print(&ax_agent::alert::default_file());
    }
    let report = ask(arguments.service.as_deref()).await?;
    if arguments.json {
        print_json(&report)
    } else {
        print(&text::report(&report, now_unix_ns()))
    }
}

/// What the agent's rules are, and what they say of this service, or of all.
///
/// # Errors
///
/// There is no such service, or the agent does not say.
pub async fn ask(wanted: Option<&str>) -> Result<RulesReport, Failure> {
    let mut session = Session::start(Sockets::from_env());
    let is_there = |world: &World| {
        let mut services = world.services.iter();
        services.any(|service| matches(service, wanted))
    };
    session.wait(is_there).await?;
    if wanted.is_some() {
        session.wanted(wanted)?;
    }
    session.ask(ToAgent::Rules);
    let report = async {
        loop {
            session.next().await?;
            if let Some(rules) = session.world.rules.take() {
                return Ok(rules);
            }
        }
    };
    let report = timeout(ANSWER_WITHIN, report).await.unwrap_or_else(|_| {
        let text =
            "the agent did not say what its rules are: it is older than this ax-top, or stopped";
        Err(Failure::Unavailable(text.to_owned()))
    })?;
    Ok(of_service(&report, wanted))
}

/// What of the report is about this service.
fn of_service(report: &RulesReport, wanted: Option<&str>) -> RulesReport {
    let mut report = report.clone();
    if let Some(wanted) = wanted {
        report.services.retain(|service| {
            service.service == wanted || wanted.parse().is_ok_and(|pid: u32| pid == service.pid)
        });
        let names: Vec<String> = report.services.iter().map(|s| s.service.clone()).collect();
        report
            .actions
            .retain(|taken| names.contains(&taken.service));
    }
    report
}
