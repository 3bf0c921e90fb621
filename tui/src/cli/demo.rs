//! `ax-top demo`: a service to look at, started and stopped with the command.

use std::{ffi::OsString, path::Path, time::Duration};

use ax_wire::{
    alert::Alert,
    incident::SnapshotSummary,
    verdict::Verdict,
    view::{LaneView, ServiceView},
};
use serde::Serialize;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    Failure, block_on, dashboard::need_terminal, print, print_json, session::Session, span, status,
};
use crate::{
    client::Sockets,
    demo::{Place, Service, StartError},
    event::{self, Signals},
    format::duration,
    glyphs::Glyphs,
    world::{Link, World, dropped_frames},
};

/// How long the first sample may take, once the service listens. It takes about a second.
const FIRST_SAMPLE_WITHIN: Duration = Duration::from_secs(10);

/// The demo keeps to itself: a private temporary socket, unless `AX_SOCKET` names one.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Without a screen: let it run, then say how it was
    #[arg(long, group = "without a screen")]
    headless: bool,
    /// Run for so long, from the first sample on (500ms, 5s, 2m, 1h); else until Ctrl-C
    #[arg(long = "for", value_name = "SPAN", value_parser = span::parse, requires = "headless")]
    span: Option<Duration>,
    /// Print one JSON object
    #[arg(long, requires = "without a screen")]
    json: bool,
    /// Let something go wrong, after a quiet time (`--list-faults` says what)
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
    /// How long all goes well before the fault begins; 15s unless set
    #[arg(long, value_name = "SPAN", value_parser = span::parse, requires = "fault")]
    after: Option<Duration>,
    /// How long the fault goes on; to the end unless set
    #[arg(long, value_name = "SPAN", value_parser = span::parse, requires = "fault")]
    lasting: Option<Duration>,
    /// Set a number of the fault
    #[arg(long = "set", value_name = "NUMBER=VALUE", requires = "fault")]
    numbers: Vec<String>,
    /// Say what can go wrong, with the verdict that each fault leads to and its numbers
    #[arg(long, group = "without a screen", conflicts_with_all = ["fault", "pass_on"])]
    list_faults: bool,
    /// Arguments of the demo service, after `--` (`ax-top demo-service --help` lists them)
    #[arg(last = true, value_name = "SERVICE ARGUMENTS")]
    pass_on: Vec<OsString>,
}

impl Arguments {
    /// The arguments of a demo service that prints its gallery of faults, where that is what is asked for.
    pub fn list_faults(&self) -> Option<Vec<OsString>> {
        let json = self.json.then_some("--json");
        let arguments = ["--list-faults"].into_iter().chain(json);
        self.list_faults
            .then(|| arguments.map(OsString::from).collect())
    }

    /// The arguments of the demo service.
    fn service(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        if let Some(fault) = &self.fault {
            arguments.extend(["--fault".into(), fault.into()]);
        }
        for (name, span) in [("--after-ms", self.after), ("--lasting-ms", self.lasting)] {
            if let Some(span) = span {
                arguments.extend([name.into(), span.as_millis().to_string().into()]);
            }
        }
        for number in &self.numbers {
            arguments.extend(["--set".into(), number.into()]);
        }
        arguments.extend(self.pass_on.iter().cloned());
        arguments
    }
}

/// What `--json` prints. Keys are only ever added.
#[derive(Serialize)]
struct Report<'a> {
    /// Every service that the demo's agent saw.
    services: Vec<&'a ServiceView>,
    /// Of the demo service.
    lanes: &'a [LaneView],
    /// Jobs that have ended, in whichever way, since the demo service started.
    finished_jobs: u64,
    lag_p99_ns: Option<u64>,
    /// Frames lost between the service and this command.
    dropped_frames: u64,
    /// Of the demo service, those that have ended too.
    alerts: &'a [Alert],
    /// Of the demo service.
    snapshots: &'a [SnapshotSummary],
    /// Of the demo service at the end, the likeliest cause first.
    verdicts: &'a [Verdict],
    /// Where the demo service served HTTP.
    url: &'a str,
    /// Where the demo's agent listened.
    socket: &'a Path,
}

impl<'a> Report<'a> {
    fn new(world: &'a World, view: &'a ServiceView, url: &'a str, socket: &'a Path) -> Self {
        Self {
            services: world
                .services
                .iter()
                .filter_map(|service| world.newest_view(service.instance))
                .map(AsRef::as_ref)
                .collect(),
            lanes: &view.lanes,
            finished_jobs: view.lanes.iter().map(finished).sum(),
            lag_p99_ns: view.lag.p99_ns,
            dropped_frames: dropped_frames(view),
            alerts: &view.alerts,
            snapshots: &view.snapshots,
            verdicts: &view.diagnosis.verdicts,
            url,
            socket,
        }
    }

    fn text(&self, view: &ServiceView, now_unix_ns: u64) -> String {
        format!(
            "{}{} jobs finished, {} frames dropped\n",
            status::text(view, now_unix_ns),
            self.finished_jobs,
            self.dropped_frames
        )
    }
}

fn finished(lane: &LaneView) -> u64 {
    lane.counters.finished_total()
}

/// Runs the command.
pub fn run(arguments: &Arguments, glyphs: Glyphs) -> Result<(), Failure> {
    if !arguments.headless {
        need_terminal("ax-top demo --headless --for 5s, also with --json")?;
    }
    let place = Place::from_env().map_err(|error| {
        Failure::Unavailable(format!(
            "cannot make a folder for the demo's socket: {error}; TMPDIR names another place"
        ))
    })?;
    block_on(async {
        if arguments.headless {
            headless(arguments, &place).await
        } else {
            let mut service = start(&place, arguments).await?;
            let sockets = Sockets::only(place.socket().to_owned());
            let result = event::run(sockets, Some(&mut service), glyphs).await;
            service.stop().await;
            Ok(result?)
        }
    })
}

async fn start(place: &Place, arguments: &Arguments) -> Result<Service, Failure> {
    Service::start(place.socket(), &arguments.service())
        .await
        .map_err(|error| match error {
            StartError::Usage(_) => Failure::Usage(error.to_string()),
            _ => Failure::Unavailable(error.to_string()),
        })
}

async fn headless(arguments: &Arguments, place: &Place) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let mut session = Session::start(Sockets::only(place.socket().to_owned()));
    session
        .wait(|world| !matches!(world.link, Link::Connecting { .. }))
        .await?;
    let mut service = start(place, arguments).await?;
    eprintln!(
        "ax-top: the demo service is at {}, its agent at {}",
        service.url(),
        place.socket().display()
    );
    let watched = tokio::select! {
        watched = watch(&mut session, &mut service, arguments.span) => watched,
        () = signals.any() => Ok(()),
    };
    let pid = service.pid();
    let url = service.url().to_owned();
    service.stop().await;
    watched?;
    let world = &session.world;
    let view = pid
        .and_then(|pid| view_of(world, pid))
        .ok_or(Failure::Interrupted)?;
    let report = Report::new(world, view, &url, place.socket());
    if arguments.json {
        print_json(&report)
    } else {
        print(&report.text(view, world.now_unix_ns))
    }
}

/// Takes in what the agent tells until the time is over; without a time, until cancelled.
async fn watch(
    session: &mut Session,
    service: &mut Service,
    span: Option<Duration>,
) -> Result<(), Failure> {
    let pid = service.pid();
    let died = |how: String| Failure::Unavailable(format!("the demo service ended: {how}"));
    let first_sample = async {
        while pid.and_then(|pid| view_of(&session.world, pid)).is_none() {
            session.next().await?;
        }
        Ok::<_, Failure>(())
    };
    tokio::select! {
        first = timeout(FIRST_SAMPLE_WITHIN, first_sample) => first.map_err(|_| {
            let waited = duration(FIRST_SAMPLE_WITHIN.as_nanos() as u64);
            Failure::Unavailable(format!("no sample of the demo service has come for {waited}"))
        })??,
        how = service.ended() => return Err(died(how)),
    }
    let until = span.map(|span| Instant::now() + span);
    loop {
        tokio::select! {
            news = session.next() => news?,
            how = service.ended() => return Err(died(how)),
            () = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            } => return Ok(()),
        }
    }
}

/// The newest figures of the process.
fn view_of(world: &World, pid: u32) -> Option<&ServiceView> {
    world
        .services
        .iter()
        .filter(|service| service.pid == pid)
        .find_map(|service| world.newest_view(service.instance))
        .map(AsRef::as_ref)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_report_has_the_promised_keys() {
        let world = fixture::world(vec![fixture::firing(), fixture::other()]);
        let view = view_of(&world, 4_121).expect("is known");
        let report = Report::new(&world, view, "http://127.0.0.1:1", Path::new("/s"));
        let json = serde_json::to_value(&report).expect("is JSON");
        assert_eq!(json["services"].as_array().map(Vec::len), Some(2));
        assert_eq!(json["lanes"][1]["name"], "api");
        assert_eq!(json["finished_jobs"], 97_440);
        assert_eq!(json["lag_p99_ns"], 31_000_000);
        assert_eq!(json["dropped_frames"], 12);
        assert_eq!(json["alerts"][1]["rule"], "lag-high");
        assert_eq!(json["snapshots"][0]["culprit"], "render_pdf");
        assert_eq!(json["verdicts"], serde_json::json!([]));
        assert_eq!(json["url"], "http://127.0.0.1:1");
        assert_eq!(json["socket"], "/s");
    }
}
