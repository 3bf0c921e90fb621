//! `ax-top watch [SERVICE]`: a line a second for each service.

use std::{collections::HashMap, time::Duration};

use ax_wire::{
    InstanceId,
    view::{ServiceState, ServiceSummary, ServiceView},
};
use jiff::tz::TimeZone;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::{
    Failure, print, print_json,
    session::{PATIENCE, Session, matches},
    span,
};
use crate::{
    client::Sockets,
    event::now_unix_ns,
    format::{cell, megabytes, ms, percent, rate, service_name, time_of_day},
    headline::{self, cpu_share},
    view::services::state_word,
    world::lost_total,
};

/// How often a line comes of each service.
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Its name or pid; all services where it is left out
    service: Option<String>,
    /// Print each line as a JSON object, the view of one service
    #[arg(long)]
    json: bool,
    /// Stop after so long, from the first line on (500ms, 5s, 2m, 1h); else at Ctrl-C
    #[arg(long = "for", value_name = "SPAN", value_parser = span::parse)]
    span: Option<Duration>,
}

/// Runs the command.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let wanted = arguments.service.as_deref();
    let zone = TimeZone::system();
    let mut session = Session::start(Sockets::from_env());
    let mut told = Told::default();
    let mut until = Instant::now() + PATIENCE;
    let mut hinted = false;
    let mut clock = interval(SECOND);
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            news = session.next() => news?,
            // A service that is silent sends nothing that could be waited for.
            _ = clock.tick() => session.world.now_unix_ns = now_unix_ns(),
            () = sleep_until(until), if told.any() || !hinted => match arguments.span {
                Some(_) if told.any() => return Ok(()),
                Some(_) => return Err(nobody(&session, wanted)),
                None => {
                    eprintln!("ax-top: {}; waiting on", nobody(&session, wanted));
                    hinted = true;
                }
            },
        }
        let services = session.world.services.iter();
        for service in services.filter(|service| matches(service, wanted)) {
            let Some(view) = session.world.newest_view(service.instance) else {
                continue;
            };
            let is_first = !told.any();
            if !told.takes(service, view.at_unix_ns, session.world.now_unix_ns) {
                continue;
            }
            if arguments.json {
                print_json(view.as_ref())?;
            } else {
                print(&line(view, session.world.now_unix_ns, &zone))?;
            }
            if let (true, Some(span)) = (is_first, arguments.span) {
                until = Instant::now() + span;
            }
            hinted |= arguments.span.is_none();
        }
    }
}

/// What was told last of each service.
#[derive(Default)]
struct Told(HashMap<InstanceId, (u64, ServiceState)>);

impl Told {
    /// Whether anything was.
    fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether there is something to tell, which is then told: each view of a service that speaks; of a silent one a line
    /// a second, since what changes is how long it has been; that one is gone, once.
    fn takes(&mut self, service: &ServiceSummary, view_unix_ns: u64, now_unix_ns: u64) -> bool {
        let at = match service.state {
            ServiceState::Live => view_unix_ns,
            ServiceState::Silent => now_unix_ns / SECOND.as_nanos() as u64,
            _ => 0,
        };
        let news = (at, service.state);
        self.0.insert(service.instance, news) != Some(news)
    }
}

fn nobody(session: &Session, wanted: Option<&str>) -> Failure {
    match session.wanted(wanted) {
        Ok(_) => Failure::Unknown("no sample has come of what is connected".to_owned()),
        Err(failure) => failure,
    }
}

fn line(view: &ServiceView, now_unix_ns: u64, zone: &TimeZone) -> String {
    let summary = &view.summary;
    let said = headline::of_service(view, now_unix_ns);
    let label = said.first().map_or("", |worst| worst.severity.label());
    let who = format!(
        "{} {} {:>7}",
        time_of_day(now_unix_ns, zone),
        cell(service_name(&summary.service), 16),
        summary.pid
    );
    if summary.state != ServiceState::Live {
        let (state, _) = state_word(summary.state);
        let sentence = said.first().map_or("", |worst| worst.sentence.as_str());
        return format!("{who} {state:<8} {sentence}\n");
    }
    let running: u64 = view.lanes.iter().map(|lane| lane.running).sum();
    let pending: u64 = view.lanes.iter().map(|lane| lane.pending).sum();
    let finished: Option<f64> = view
        .lanes
        .iter()
        .map(|lane| lane.recent.finished_per_s)
        .sum();
    format!(
        "{who} {label:<8} lag ms p50 {:>6} p99 {:>7} max {:>7}  cpu {:>3} %  rss {:>5} MB  \
         running {running:>4} pending {pending:>5} done/s {:>6} dropped {}\n",
        ms(view.lag.p50_ns),
        ms(view.lag.p99_ns),
        ms(view.lag.max_ns),
        percent(cpu_share(view)),
        megabytes(view.process.rss_bytes),
        rate(finished),
        lost_total(view)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_line_says_it_all() {
        assert_eq!(
            line(&fixture::stalled(), fixture::NOW_UNIX_NS, &TimeZone::UTC),
            "14:03:27 checkout            4121 CRITICAL lag ms p50    0.1 p99    31.0 max   412.0  cpu  12 %  \
             rss   212 MB  running   41 pending    57 done/s    790 dropped 12\n"
        );
    }

    /// A process that is stopped sends nothing, and each second says for how long it has not.
    #[test]
    fn a_freeze_is_told_each_second_until_it_is_over() {
        const S: u64 = 1_000_000_000;
        let mut view = fixture::stalled();
        let (at, start) = (view.at_unix_ns, fixture::NOW_UNIX_NS);
        let mut told = Told::default();
        let mut service = view.summary.clone();
        assert!(told.takes(&service, at, start));
        assert!(!told.takes(&service, at, start + S / 10), "the same view");
        service.state = ServiceState::Silent;
        view.summary.state = ServiceState::Silent;
        let lines: Vec<_> = (30..70)
            .map(|tenths| start + tenths * S / 10)
            .filter(|now| told.takes(&service, at, *now))
            .map(|now| line(&view, now, &TimeZone::UTC))
            .collect();
        assert_eq!(lines.len(), 4, "{lines:#?}");
        for (line, seconds) in lines.iter().zip(3..) {
            let said = format!("has said nothing for {seconds} s\n");
            assert!(line.contains(" SILENT ") && line.ends_with(&said), "{line}");
        }
        service.state = ServiceState::Live;
        assert!(
            told.takes(&service, at + 7 * S, start + 7 * S),
            "it goes on"
        );
        service.state = ServiceState::Lost;
        let gone = (0..50).filter(|at| told.takes(&service, at + 7 * S, start + (8 + at) * S));
        assert_eq!(gone.count(), 1, "told once");
    }

    #[test]
    fn a_service_that_is_gone_is_told_as_gone() {
        let mut view = fixture::stalled();
        view.summary.state = ServiceState::Lost;
        assert_eq!(
            line(&view, fixture::NOW_UNIX_NS + 2_000_000_000, &TimeZone::UTC),
            "14:03:29 checkout            4121 LOST     checkout (pid 4121) was lost 2 s ago: its connection \
             broke without a goodbye\n"
        );
    }
}
