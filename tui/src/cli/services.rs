//! `ax-top services`: who is connected.

use std::fmt::Write as _;

use ax_wire::view::Services;

use super::{Failure, print, print_json, session::Session};
use crate::{
    client::Sockets,
    format::{middle_cut, uptime},
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
            "{:<30} {:>8} {:>6} {:<7} {:>8}",
            middle_cut(&summary.service, 30),
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
}
