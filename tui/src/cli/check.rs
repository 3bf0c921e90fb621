//! `ax-top check [SERVICE]`: healthy or not, as an exit code, for scripts and monitors.

use std::fmt::Write as _;

use ax_wire::{
    alert::{Alert, AlertState},
    verdict::Verdict,
    view::{ServiceState, ServiceView},
};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{
    Failure, print, print_json,
    session::{Session, matches},
};
use crate::{
    client::Sockets,
    exit,
    format::{age, printable, service_name, time_of_day},
    headline::{self, Severity},
    verdict,
    words::alert_sentence,
    world::World,
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Its name or pid; all services where it is left out, of which the worst counts
    service: Option<String>,
    /// Print one JSON object, `{"state": .., "services": [..]}`
    #[arg(long)]
    json: bool,
}

/// What is said of all services that were asked for.
#[derive(Serialize)]
struct Report<'a> {
    /// The worst of them.
    state: State,
    services: Vec<Line<'a>>,
}

/// What is said of one service. Keys are only ever added.
#[derive(Serialize)]
struct Line<'a> {
    service: &'a str,
    pid: u32,
    state: State,
    /// What is wrong, or that nothing is.
    sentence: String,
    /// How many other sentences are as bad.
    others: usize,
    /// The likeliest cause, where something is wrong and the diagnosis has one.
    cause: Option<&'a Verdict>,
    /// Alerts that fire and are silenced: they do not count.
    silenced: Vec<&'a Alert>,
}

/// Mildest first: what is not known is worse than a warning only where nothing else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Healthy,
    Unknown,
    Warning,
    Critical,
}

impl State {
    fn code(self) -> u8 {
        match self {
            Self::Healthy => exit::OK,
            Self::Warning => exit::WARNING,
            Self::Critical => exit::CRITICAL,
            Self::Unknown => exit::UNKNOWN,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Severity> for State {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Healthy | Severity::Info => Self::Healthy,
            Severity::Unknown => Self::Unknown,
            Severity::Warning => Self::Warning,
            Severity::Critical | Severity::Page => Self::Critical,
        }
    }
}

/// Runs the command; returns the exit code.
pub async fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let wanted = arguments.service.as_deref();
    let mut session = Session::start(Sockets::from_env());
    session.wait(|world| all_diagnosed(world, wanted)).await?;
    let world = &session.world;
    let mut lines = Vec::new();
    for service in session.current(wanted)? {
        let view = world.newest_view(service.instance);
        lines.push(match view {
            Some(view) => line(view, world.now_unix_ns),
            None => Line {
                service: &service.service,
                pid: service.pid,
                state: State::Unknown,
                sentence: "no sample has come yet; try again in a second".to_owned(),
                others: 0,
                cause: None,
                silenced: Vec::new(),
            },
        });
    }
    let state = lines.iter().map(|line| line.state).max();
    let state = state.unwrap_or(State::Unknown);
    if arguments.json {
        print_json(&Report {
            state,
            services: lines,
        })?;
    } else {
        let (now, zone) = (world.now_unix_ns, TimeZone::system());
        let lines = lines.iter().map(|line| text(line, now, &zone));
        print(&lines.collect::<String>())?;
    }
    Ok(state.code())
}

/// A monitor is told that nothing is known, whichever way that came about.
pub fn unknown(failure: Failure) -> Result<u8, Failure> {
    match failure {
        Failure::Unavailable(why) => Err(Failure::Unknown(why)),
        other => Err(other),
    }
}

/// Whether something can be said of each service that was asked for: of one that has just come, in three seconds.
fn all_diagnosed(world: &World, wanted: Option<&str>) -> bool {
    let mut wanted = world
        .services
        .iter()
        .filter(|service| matches(service, wanted))
        .peekable();
    wanted.peek().is_some()
        && wanted.all(|service| {
            let view = world.newest_view(service.instance);
            view.is_some_and(|view| {
                let live = view.summary.state == ServiceState::Live;
                !live || !view.diagnosis.verdicts.is_empty()
            })
        })
}

fn line(view: &ServiceView, now_unix_ns: u64) -> Line<'_> {
    let said = headline::of_service(view, now_unix_ns);
    let state = said.iter().map(|said| State::from(said.severity)).max();
    // The first of them is the worst, and its cause where there is one.
    let mut as_bad = said
        .iter()
        .filter(|said| Some(State::from(said.severity)) == state);
    Line {
        service: &view.summary.service,
        pid: view.summary.pid,
        state: state.unwrap_or(State::Unknown),
        sentence: as_bad
            .next()
            .map_or_else(String::new, |worst| worst.sentence.clone()),
        others: as_bad.count(),
        cause: verdict::causes(view).next(),
        silenced: view
            .alerts
            .iter()
            .filter(|alert| alert.state == AlertState::Firing && alert.silenced.is_some())
            .collect(),
    }
}

fn text(line: &Line<'_>, now_unix_ns: u64, zone: &TimeZone) -> String {
    let others = match line.others {
        0 => String::new(),
        others => format!("  (and {others} more: ax-top status)"),
    };
    let mut text = format!(
        "{}  {} (pid {})  {}{others}\n",
        line.state.word(),
        printable(service_name(line.service)),
        line.pid,
        line.sentence
    );
    for alert in &line.silenced {
        let Some(silenced) = &alert.silenced else {
            continue;
        };
        let until = silenced.until_unix_ns;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  silenced until {}, {} more ({}): {}",
            time_of_day(until, zone),
            age(until.saturating_sub(now_unix_ns)),
            printable(&silenced.reason),
            alert_sentence(alert, now_unix_ns)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_code_says_how_bad_it_is() {
        let code = |view: &ServiceView| line(view, fixture::NOW_UNIX_NS).state.code();
        assert_eq!(code(&fixture::diagnosed_healthy()), 0);
        let mut view = fixture::diagnosed();
        assert_eq!(code(&view), 2);
        view.diagnosis.verdicts[0].severity = ax_wire::alert::Severity::Warning;
        view.alerts.clear();
        assert_eq!(code(&view), 1);
        view.summary.state = ServiceState::Ended;
        assert_eq!(code(&view), 3);
    }

    #[test]
    fn a_line_names_the_cause_and_the_json_has_all_of_it() {
        let view = fixture::diagnosed();
        let line = line(&view, fixture::NOW_UNIX_NS);
        assert_eq!(
            text(&line, fixture::NOW_UNIX_NS, &TimeZone::UTC),
            "CRITICAL  checkout (pid 4121)  blocking-call  6 s  A poll of `render_pdf` slept 412 ms in the kernel (wait4) on \
             worker 0.\n"
        );
        let json = serde_json::to_value(&line).expect("is JSON");
        assert_eq!(json["state"], "critical");
        assert_eq!(json["cause"]["id"], "blocking-call");
    }

    /// F82: what nobody is to be told of does not count, and is said with until when.
    #[test]
    fn a_silenced_alert_does_not_count_and_is_said() {
        let mut view = fixture::diagnosed_healthy();
        let mut alert = fixture::firing().alerts.remove(0);
        view.alerts = vec![alert.clone()];
        let now = fixture::NOW_UNIX_NS;
        let loud = line(&view, now);
        assert_eq!((loud.state.code(), loud.silenced.len()), (2, 0));
        alert.silenced = Some(ax_wire::alert::Silenced {
            until_unix_ns: now + 1_800_000_000_000,
            reason: "nightly import".to_owned(),
        });
        view.alerts = vec![alert];
        let quiet = line(&view, now);
        assert_eq!((quiet.state.code(), quiet.silenced.len()), (0, 1));
        let text = text(&quiet, now, &TimeZone::UTC);
        let (_, below) = text.split_once('\n').expect("two lines");
        assert_eq!(
            below,
            "  silenced until 14:33:27, 30 min more (nightly import): backlog-grows api for 62 s: lane api has 57 jobs \
             waiting, 20 more than a minute ago\n"
        );
        let json = serde_json::to_value(&quiet).expect("is JSON");
        assert_eq!(json["silenced"][0]["silenced"]["reason"], "nightly import");
    }

    #[test]
    fn the_worst_of_several_counts() {
        assert!(State::Critical > State::Warning && State::Warning > State::Unknown);
        assert!(State::Unknown > State::Healthy);
    }

    #[test]
    fn it_waits_until_something_can_be_said() {
        let world = fixture::world(vec![fixture::healthy()]);
        assert!(!all_diagnosed(&world, None));
        let world = fixture::world(vec![fixture::diagnosed()]);
        assert!(all_diagnosed(&world, Some("checkout")));
        assert!(!all_diagnosed(&world, Some("invoices")));
    }
}
