//! `ax-top services`: who is connected.

use std::fmt::Write as _;

use ax_wire::view::Services;

use super::{Failure, print, print_json, session::Session};
use crate::{
    client::Sockets,
    format::{cell, service_name, uptime},
    view::services::{state_word, up_ns},
    world::World,
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON object, `{"services": [..], "agent_dropped": {..}}`
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut session = Session::start(Sockets::from_env());
    session.wait(|world| !world.services.is_empty()).await?;
    let world = &session.world;
    if arguments.json {
        print_json(&Services {
            services: world.services.clone(),
            agent_dropped: world.agent_dropped,
            file_problem: world.file_problem.clone(),
        })?;
    } else if !world.services.is_empty() {
        print(&text(world))?;
    }
    session.wanted(None).map(|_| ())
}

fn text(world: &World) -> String {
    let mut text = format!(
        "{:<30} {:>8} {:>6} {:<7} {:>8}\n",
        "service", "pid", "uid", "state", "up"
    );
    for summary in &world.services {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} {:>8} {:>6} {:<7} {:>8}",
            cell(service_name(&summary.service), 30),
            summary.pid,
            summary.uid,
            state_word(summary.state).0,
            uptime(up_ns(summary, world.now_unix_ns))
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn one_line_a_service() {
        let world = fixture::world(vec![fixture::healthy(), fixture::other()]);
        let lines: Vec<_> = text(&world).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("checkout"));
        assert!(
            lines[1].ends_with("4121   1000 live       2h13m"),
            "{}",
            lines[1]
        );
    }

    #[test]
    fn no_name_and_no_start_time_breaks_the_columns() {
        let mut world = fixture::world(Vec::new());
        for (name, start) in [
            ("決済サービス", fixture::NOW_UNIX_NS),
            ("", 0),
            (&*"x".repeat(10_000), u64::MAX),
        ] {
            let mut summary = fixture::healthy().summary;
            name.clone_into(&mut summary.service);
            summary.process_start_unix_ns = start;
            world.services.push(summary);
        }
        let text = text(&world);
        assert!(text.contains("(unnamed)"), "{text}");
        for line in text.lines() {
            assert_eq!(crate::format::width(line), 63, "{text}");
        }
    }
}
