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
    format::{duration, printable},
    world::World,
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
    let (silences, world) = ask(request).await?;
    for silence in silences {
        let left = duration(silence.until_unix_ns.saturating_sub(now_unix_ns()));
        print(&format!("silenced for {left}: {}\n", what(&silence)))?;
        if let Some(doubt) = doubt(&silence, &world) {
            eprintln!("ax-top: {doubt}");
        }
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
    for silence in ask(request).await?.0 {
        print(&format!("no longer silenced: {}\n", what(&silence)))?;
    }
    Ok(())
}

/// A silence of a name that is written wrong silences nobody.
fn doubt(silence: &SilenceInfo, world: &World) -> Option<String> {
    let wanted = silence.service.as_ref()?;
    let mut names: Vec<&str> = world
        .services
        .iter()
        .map(|of| of.service.as_str())
        .collect();
    names.dedup();
    (!names.contains(&wanted.as_str())).then(|| {
        let there = match &*names {
            [] => "none is".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        printable(&format!(
            "no service of the name {wanted} is connected; {there}"
        ))
    })
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
/// Returns what changed, and what the agent told besides.
async fn ask(request: SilenceRequest) -> Result<(Vec<SilenceInfo>, World), Failure> {
    let mut session = Session::start(Sockets::from_env().without_embedding());
    session.wait(|world| world.listed).await?;
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
    match answer.outcome {
        Ok(silences) => Ok((silences, session.world)),
        Err(why) => Err(Failure::Usage(format!(
            "nothing changed: {}",
            printable(&why)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_silence_of_nobody_is_doubted() {
        let silence = |service: Option<&str>| SilenceInfo {
            rule: Some("lag-high".to_owned()),
            service: service.map(str::to_owned),
            subject: None,
            uid: None,
            until_unix_ns: fixture::NOW_UNIX_NS,
            reason: "nightly import".to_owned(),
            by: "user 1000".to_owned(),
        };
        let world = fixture::world(vec![fixture::healthy()]);
        assert_eq!(doubt(&silence(None), &world), None);
        assert_eq!(doubt(&silence(Some("checkout")), &world), None);
        assert_eq!(
            doubt(&silence(Some("chekout")), &world).as_deref(),
            Some("no service of the name chekout is connected; there are: checkout")
        );
    }
}
