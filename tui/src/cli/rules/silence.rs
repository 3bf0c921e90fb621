//! `ax-top rules silence RULE --for 1h` and its end.

use std::time::Duration;

use ax_wire::{
    ToAgent,
    rules::{SilenceInfo, SilenceRequest},
};
use tokio::time::timeout;

use super::ANSWER_WITHIN;
use crate::{
    cli::{Failure, print, session::Session, span},
    client::Sockets,
    event::now_unix_ns,
    format::{age, printable},
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The rule; all rules where it is left out, and a service or a subject is named
    #[arg(required_unless_present_any = ["service", "subject"])]
    rule: Option<String>,
    /// For how long (500ms, 5s, 2m, 1h, 7d)
    #[arg(long = "for", value_name = "SPAN", value_parser = span::parse)]
    span: Duration,
    /// Why, for those who wonder
    #[arg(long, default_value = "asked for")]
    reason: String,
    /// Of this service only, by name
    #[arg(long)]
    service: Option<String>,
    /// Of this lane, type, downstream or runtime only
    #[arg(long)]
    subject: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct EndArguments {
    /// The rule, as it was silenced
    #[arg(required_unless_present_any = ["service", "subject"])]
    rule: Option<String>,
    /// The service, where one was named
    #[arg(long)]
    service: Option<String>,
    /// The subject, where one was named
    #[arg(long)]
    subject: Option<String>,
}

pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let request = SilenceRequest {
        rule: arguments.rule.clone(),
        service: arguments.service.clone(),
        subject: arguments.subject.clone(),
        for_ns: arguments.span.as_nanos() as u64,
        reason: arguments.reason.clone(),
    };
    for silence in ask(request).await? {
        let left = age(silence.until_unix_ns.saturating_sub(now_unix_ns()));
        print(&format!("silenced for {left}: {}\n", what(&silence)))?;
    }
    Ok(())
}

pub async fn end(arguments: &EndArguments) -> Result<(), Failure> {
    let request = SilenceRequest {
        rule: arguments.rule.clone(),
        service: arguments.service.clone(),
        subject: arguments.subject.clone(),
        for_ns: 0,
        reason: String::new(),
    };
    for silence in ask(request).await? {
        print(&format!("no longer silenced: {}\n", what(&silence)))?;
    }
    Ok(())
}

/// What a silence covers.
pub fn what(silence: &SilenceInfo) -> String {
    let rule = silence.rule.as_deref().unwrap_or("every rule");
    let part = |word: &str, name: &Option<String>| {
        let name = name.as_ref();
        name.map_or_else(String::new, |name| format!(" {word} {name}"))
    };
    printable(&format!(
        "{rule}{}{}",
        part("of", &silence.service),
        part("on", &silence.subject)
    ))
}

/// Asks an agent that stays: one in this process would forget it at once.
async fn ask(request: SilenceRequest) -> Result<Vec<SilenceInfo>, Failure> {
    let mut session = Session::start(Sockets::from_env().without_embedding());
    session.wait(|_| true).await?;
    session.ask(ToAgent::Silence(request));
    let answer = async {
        loop {
            session.next().await?;
            if let Some(answer) = session.world.silenced.take() {
                return Ok::<_, Failure>(answer);
            }
        }
    };
    let answer = timeout(ANSWER_WITHIN, answer).await.unwrap_or_else(|_| {
        let text = "the agent did not answer: it is older than this ax-top, or stopped";
        Err(Failure::Unavailable(text.to_owned()))
    })?;
    answer
        .outcome
        .map_err(|why| Failure::Usage(format!("nothing changed: {}", printable(&why))))
}
