//! `ax-top replay FILE`: a recording on the screens of the dashboard. Needs no agent.

use std::path::PathBuf;

use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Failure, block_on, dashboard::need_terminal, print, print_json};
use crate::{
    config::Settings,
    event,
    format::{age, printable, time_of_day},
    record::{Contents, Player},
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recording
    file: PathBuf,
    /// Seconds of the recording in a second; ( and ) change it
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Play what there is of a recording that is cut off
    #[arg(long)]
    salvage: bool,
    /// Without a screen: say what is in it
    #[arg(long)]
    info: bool,
    /// Print that as a JSON object
    #[arg(long, requires = "info")]
    json: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text
        .trim_end_matches('x')
        .parse()
        .map_err(|_| "say a number: 1, 10, 1000".to_owned())?;
    if (0.1..=10_000.0).contains(&speed) {
        Ok(speed)
    } else {
        Err("say a number from 0.1 to 10000".to_owned())
    }
}

/// What `--json` prints. Keys are only ever added.
#[derive(Serialize)]
struct Info<'a> {
    #[serde(flatten)]
    contents: &'a Contents,
    services: &'a [String],
}

/// Runs the command.
pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let mut player = Player::open(&arguments.file, arguments.salvage)?;
    if !arguments.info {
        need_terminal("ax-top replay FILE --info, also with --json")?;
        return block_on(async { Ok(event::play(player, arguments.speed, settings).await?) });
    }
    let services = player.services()?;
    let contents = player.contents();
    if arguments.json {
        return print_json(&Info {
            contents,
            services: &services,
        });
    }
    let zone = TimeZone::system();
    let names: Vec<String> = services.iter().map(|name| printable(name)).collect();
    print(&format!(
        "{}: {} from {} to {}, {:.0} kB, of {}{}\n",
        contents.path.display(),
        age(contents.to_unix_ns.saturating_sub(contents.from_unix_ns)),
        time_of_day(contents.from_unix_ns, &zone),
        time_of_day(contents.to_unix_ns, &zone),
        contents.bytes as f64 / 1e3,
        names.join(", "),
        if contents.whole { "" } else { " (cut off)" }
    ))
}
