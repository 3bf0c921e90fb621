//! `ax-top status [SERVICE]`: the overview as text, once.

use std::fmt::Write as _;

use ax_wire::view::{LaneView, ServiceState, ServiceView};
use serde::Serialize;

use super::{
    Failure, print, print_json,
    session::{Session, matches},
};
use crate::{
    client::Sockets,
    format::{
        age, cell, count, maybe_duration, megabytes, ms, percent, printable, rate, service_name,
        uptime,
    },
    headline::{self, cpu_share},
    view::{
        lanes,
        services::{state_word, up_ns},
    },
    words,
    world::{World, last_words, lost_total},
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Its name or pid; all services where it is left out. Each with that name is told, with its pid
    service: Option<String>,
    /// Print one JSON object, `{"services": [..]}`, a view of each service
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Status<'a> {
    services: Vec<&'a ServiceView>,
}

/// Runs the command.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let wanted = arguments.service.as_deref();
    let mut session = Session::start(Sockets::from_env());
    session.wait(|world| all_known(world, wanted)).await?;
    let world = &session.world;
    let services = session.wanted(wanted)?;
    let views = || {
        services
            .iter()
            .filter_map(|service| world.newest_view(service.instance))
    };
    if arguments.json {
        print_json(&Status {
            services: views().map(AsRef::as_ref).collect(),
        })?;
    } else {
        let texts: Vec<_> = views().map(|view| text(view, world.now_unix_ns)).collect();
        print(&texts.join("\n"))?;
    }
    if views().next().is_none() {
        let said = services.iter().map(|service| match service.state {
            ServiceState::Live => format!(
                "no sample of {} (pid {}) has come yet; try again in a second",
                printable(service_name(&service.service)),
                service.pid
            ),
            _ => headline::of_silence(service, world.now_unix_ns).sentence,
        });
        let said: Vec<_> = said.collect();
        return Err(Failure::Unknown(said.join("\n        ")));
    }
    Ok(())
}

/// Whether there is a service that was asked for, and figures of each: those of one that is gone are its last.
fn all_known(world: &World, wanted: Option<&str>) -> bool {
    let mut wanted = world
        .services
        .iter()
        .filter(|service| matches(service, wanted))
        .peekable();
    wanted.peek().is_some() && wanted.all(|service| world.newest_view(service.instance).is_some())
}

/// The overview of one service as text.
pub fn text(view: &ServiceView, now_unix_ns: u64) -> String {
    if view.summary.state == ServiceState::Live {
        figures(view, "", now_unix_ns)
    } else {
        let (state, _) = state_word(view.summary.state);
        figures(&last_words(view), &format!("{state}  "), now_unix_ns)
    }
}

fn figures(view: &ServiceView, state: &str, now_unix_ns: u64) -> String {
    let summary = &view.summary;
    let said = headline::of_service(view, now_unix_ns);
    let up = up_ns(summary, now_unix_ns);
    let (lag, process) = (&view.lag, &view.process);
    let mut text = format!(
        "{}  pid {}  up {}  {state}{}\n",
        printable(service_name(&summary.service)),
        summary.pid,
        uptime(up),
        said.first().map_or("", |worst| worst.severity.label()),
    );
    for (at, headline) in said.iter().enumerate() {
        let label = match at {
            0 => String::new(),
            _ => format!("{}  ", headline.severity.label()),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {label}{}", headline.sentence);
    }
    let _ = writeln!(
        text,
        "lag    p50 {}  p99 {}  max {} ({} s)      cpu {} % of {}   rss {} MB   threads {}   dropped {}",
        maybe_duration(lag.p50_ns),
        maybe_duration(lag.p99_ns),
        maybe_duration(lag.max_ns),
        view.window_ns / 1_000_000_000,
        percent(cpu_share(view)),
        view.hello.cpus,
        megabytes(process.rss_bytes),
        count(process.threads),
        lost_total(view)
    );
    if !view.lanes.is_empty() {
        let _ = writeln!(
            text,
            "{:<16} {:>9} {:>8} {:>11} {:>11} {:>7} {:>7}",
            "lane", "run/limit", "pending", "wait p99 ms", "run p99 ms", "done/s", "fail/s"
        );
    }
    for lane in &view.lanes {
        text.push_str(&lane_line(lane));
    }
    for line in snapshot_lines(view, now_unix_ns) {
        let _ = writeln!(text, "snapshots  {}", printable(&line));
    }
    text
}

/// The newest snapshot, and what has none.
fn snapshot_lines(view: &ServiceView, now_unix_ns: u64) -> impl Iterator<Item = String> {
    let newest = view.snapshots.first().map(|snapshot| {
        let culprit = snapshot.culprit.as_ref();
        let culprit = culprit.map_or_else(String::new, |culprit| format!(" in {culprit}"));
        format!(
            "{}{culprit}, {} ago: {}",
            words::reason(&snapshot.reason),
            age(now_unix_ns.saturating_sub(snapshot.at_unix_ns)),
            snapshot.path
        )
    });
    newest.into_iter().chain(words::suppressed(
        &view.snapshots_suppressed,
        view.dropped.snapshots_failed_total,
    ))
}

fn lane_line(lane: &LaneView) -> String {
    let text = format!(
        "{} {:>9} {:>8} {:>11} {:>11} {:>7} {:>7}  {}",
        cell(&lane.name, 16),
        format!("{}/{}", lane.running, lane.limit),
        lane.pending,
        ms(lane.queue_wait.p99_ns),
        ms(lane.run.p99_ns),
        rate(lane.recent.finished_per_s),
        rate(lane.recent.unsuccessful_per_s),
        lanes::note(lane)
    );
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn says_what_is_wrong_first_then_how_bad_then_where() {
        insta::assert_snapshot!(text(&fixture::firing(), fixture::NOW_UNIX_NS));
    }

    #[test]
    fn waits_for_the_figures_of_every_service_that_speaks() {
        let mut world = fixture::world(vec![fixture::healthy()]);
        assert!(all_known(&world, None));
        assert!(!all_known(&world, Some("invoices")));
        world.services.push(fixture::other().summary);
        assert!(!all_known(&world, None));
        assert!(all_known(&world, Some("checkout")));
    }

    #[test]
    fn what_is_gone_shows_its_last_figures_as_such() {
        let mut view = fixture::stalled();
        view.summary.state = ServiceState::Lost;
        let world = fixture::world(vec![view.clone()]);
        assert!(all_known(&world, None));
        let text = text(&view, fixture::NOW_UNIX_NS + 5_000_000_000);
        assert!(
            text.starts_with("checkout  pid 4121  up 2h13m  LOST  CRITICAL\n"),
            "{text}"
        );
        assert!(text.contains("was lost 5 s ago"), "{text}");
        assert!(text.contains("cpu - % of 2   rss 212 MB"), "{text}");
        assert!(
            text.contains("10/10       57        88.0       431.0       -       -"),
            "{text}"
        );
    }
}
