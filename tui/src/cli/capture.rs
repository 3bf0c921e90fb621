//! `ax-top capture SERVICE`: a snapshot of a service, now.

use std::time::Duration;

use ax_wire::{
    frame::{Capture, Captured},
    incident::SnapshotSummary,
    view::{ServiceState, ServiceSummary},
};
use tokio::time::timeout;

use super::{
    Failure, print, print_json,
    session::{Session, matches},
};
use crate::{
    client::Sockets,
    format::{age, printable},
    world::{Link, World},
};

/// An agent answers within a second, also for a service that does not.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Its name or pid
    service: String,
    /// Print one JSON object, a line about the snapshot
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let snapshot = take(&arguments.service).await?;
    if arguments.json {
        print_json(&snapshot)
    } else {
        print(&format!("{}\n", printable(&snapshot.path)))
    }
}

/// Takes a snapshot of the service with this name or pid.
///
/// # Errors
///
/// There is none such, several, or the agent took none: the text says which.
pub async fn take(service: &str) -> Result<SnapshotSummary, Failure> {
    let wanted = Some(service);
    let mut session = Session::start(Sockets::from_env());
    let is_there = |world: &World| {
        world
            .services
            .iter()
            .any(|service| matches(service, wanted))
    };
    session.wait(is_there).await?;
    let instance = one(&session.wanted(wanted)?, session.world.now_unix_ns)?.instance;
    session.capture(Capture { instance });
    let answer = timeout(ANSWER_WITHIN, answer(&mut session)).await;
    let captured = answer.unwrap_or_else(|_| {
        Err(Failure::NotNow(format!(
            "the agent did not say within {} s what became of it",
            ANSWER_WITHIN.as_secs()
        )))
    })?;
    captured
        .outcome
        .map_err(|why| Failure::NotNow(format!("no snapshot: {}", printable(&why))))
}

/// The one service that can be asked.
fn one<'a>(found: &[&'a ServiceSummary], now_unix_ns: u64) -> Result<&'a ServiceSummary, Failure> {
    let speaks = |service: &&&ServiceSummary| service.state == ServiceState::Live;
    let mut live = found.iter().filter(speaks);
    match (live.next(), live.next()) {
        (Some(only), None) => Ok(*only),
        (Some(_), Some(_)) => {
            let pids: Vec<_> = found
                .iter()
                .filter(speaks)
                .map(|service| service.pid.to_string())
                .collect();
            Err(Failure::Usage(format!(
                "several services have that name; say which by its pid: {}",
                pids.join(", ")
            )))
        }
        (None, _) => {
            let gone = found.iter().map(|service| {
                let ago = age(now_unix_ns.saturating_sub(service.last_seen_unix_ns));
                let name = printable(&service.service);
                let how = match service.state {
                    ServiceState::Silent => "is connected but silent",
                    ServiceState::Ended => "has ended",
                    _ => "was lost",
                };
                format!("{name} (pid {}) {how}; last heard {ago} ago", service.pid)
            });
            let gone: Vec<_> = gone.collect();
            Err(Failure::NotNow(format!("no snapshot: {}", gone.join(", "))))
        }
    }
}

async fn answer(session: &mut Session) -> Result<Captured, Failure> {
    loop {
        session.next().await?;
        if let Some(captured) = session.world.captured.take() {
            return Ok(captured);
        }
        if let Link::Connecting { .. } = session.world.link {
            return Err(Failure::NotNow(
                "the agent went away before it answered; try again".to_owned(),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn it_asks_the_one_that_speaks_and_says_why_there_is_none() {
        let now = fixture::NOW_UNIX_NS;
        let live = fixture::healthy().summary;
        let mut lost = fixture::other().summary;
        lost.state = ServiceState::Lost;
        let chosen = one(&[&lost, &live], now).expect("one speaks");
        assert_eq!(chosen.pid, live.pid);
        let two = one(&[&live, &live], now).expect_err("which?");
        assert!(matches!(&two, Failure::Usage(text) if text.contains("4121, 4121")));
        lost.last_seen_unix_ns -= 5_000_000_000;
        let none = one(&[&lost], now).expect_err("nobody speaks").to_string();
        assert_eq!(
            none,
            "no snapshot: invoices (pid 5000) was lost; last heard 5 s ago"
        );
        lost.state = ServiceState::Silent;
        let none = one(&[&lost], now).expect_err("nobody speaks").to_string();
        assert!(none.contains("is connected but silent"), "{none}");
    }
}
