//! `ax-top watch [SERVICE]`: a line a second for each service.

use std::{collections::HashMap, time::Duration};

use ax_wire::{InstanceId, view::ServiceView};
use jiff::tz::TimeZone;
use tokio::time::{Instant, sleep_until};

use super::{
    Failure, print, print_json,
    session::{PATIENCE, Session, matches},
    span,
};
use crate::{
    client::Sockets,
    format::{megabytes, middle_cut, ms, percent, rate, time_of_day},
    headline::{self, cpu_share},
    world::lost_total,
};

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
    let mut told: HashMap<InstanceId, u64> = HashMap::new();
    let mut until = Instant::now() + PATIENCE;
    let mut hinted = false;
    loop {
        tokio::select! {
            news = session.next() => news?,
            () = sleep_until(until), if !told.is_empty() || !hinted => match arguments.span {
                Some(_) if !told.is_empty() => return Ok(()),
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
            if told.get(&service.instance) == Some(&view.at_unix_ns) {
                continue;
            }
            if arguments.json {
                print_json(view.as_ref())?;
            } else {
                print(&line(view, &zone))?;
            }
            if let (true, Some(span)) = (told.is_empty(), arguments.span) {
                until = Instant::now() + span;
            }
            hinted |= arguments.span.is_none();
            told.insert(service.instance, view.at_unix_ns);
        }
    }
}

fn nobody(session: &Session, wanted: Option<&str>) -> Failure {
    match session.wanted(wanted) {
        Ok(_) => Failure::Unknown("no sample has come of what is connected".to_owned()),
        Err(failure) => failure,
    }
}

fn line(view: &ServiceView, zone: &TimeZone) -> String {
    let running: u64 = view.lanes.iter().map(|lane| lane.running).sum();
    let pending: u64 = view.lanes.iter().map(|lane| lane.pending).sum();
    let finished: Option<f64> = view
        .lanes
        .iter()
        .map(|lane| lane.rates.finished_per_s)
        .sum();
    format!(
        "{} {:<16} {:<8} lag ms p50 {:>6} p99 {:>7} max {:>7}  cpu {:>3} %  rss {:>5} MB  \
         running {running:>4} pending {pending:>5} done/s {:>6} dropped {}\n",
        time_of_day(view.at_unix_ns, zone),
        middle_cut(&view.summary.service, 16),
        headline::of_view(view).severity.label(),
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
            line(&fixture::stalled(), &TimeZone::UTC),
            "14:03:27 checkout         CRITICAL lag ms p50    0.1 p99    31.0 max   412.0  cpu  12 %  \
             rss   212 MB  running   41 pending    57 done/s   1624 dropped 12\n"
        );
    }
}
