//! `ax-top record [SERVICE] -o FILE`: what the agent tells, in a file.

use std::{path::PathBuf, time::Duration};

use ax_wire::{ToViewer, view::Services};

use super::{Failure, block_on, print, print_json, session::matches, span};
use crate::{
    client::{self, Sockets},
    event::{Signals, now_unix_ns},
    format::{age, printable},
    record::{Limits, Receipt, RecordingError, Room, Writer},
    world::Update,
};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Its name or pid; all services where it is left out
    service: Option<String>,
    /// The file to write, which must not be there yet
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Stop after so long (30s, 5m, 1h); Ctrl-C stops earlier, in order
    #[arg(long = "for", value_name = "SPAN", value_parser = span::parse, default_value = "1h")]
    span: Duration,
    /// Stop at so many megabytes
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    max_size: u64,
    /// Print what was written as a JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let limits = Limits {
        bytes: arguments.max_size.saturating_mul(1_000_000),
        length_ns: arguments.span.as_nanos() as u64,
    };
    let writer = Writer::create(&arguments.output, limits)?;
    let (receipt, why) = block_on(record(writer, arguments.service.as_deref()))?;
    if arguments.json {
        return print_json(&receipt);
    }
    let length = receipt.to_unix_ns.saturating_sub(receipt.from_unix_ns);
    print(&format!(
        "{}: {} frames, {}, {:.0} kB; {why}. ax-top replay plays it\n",
        receipt.path.display(),
        receipt.frames,
        age(length),
        receipt.bytes as f64 / 1e3
    ))
}

async fn record(
    mut writer: Writer,
    wanted: Option<&str>,
) -> Result<(Receipt, &'static str), Failure> {
    let mut signals = Signals::new()?;
    let mut client = client::start(Sockets::from_env());
    let mut known = Services::default();
    let why = loop {
        let update = tokio::select! {
            () = signals.any() => break "stopped",
            update = client.updates.recv() => update,
        };
        let update = update.ok_or_else(|| Failure::Internal("the client has died".to_owned()))?;
        let frame = match update {
            Update::Frame(frame) => frame,
            Update::HandOver(answer) => {
                // A recorder has no charts of its own; nobody waits where the client is ending.
                let _ = answer.send(Vec::new());
                continue;
            }
            Update::Link(_) => continue,
        };
        if let Some(frame) = of_wanted(frame, &mut known, wanted)
            && let Room::Full(why) = writer.add(now_unix_ns(), &frame)?
        {
            break why;
        }
    };
    Ok((writer.finish()?, why))
}

/// What a frame tells of the services that were asked for.
fn of_wanted(frame: ToViewer, known: &mut Services, wanted: Option<&str>) -> Option<ToViewer> {
    match frame {
        ToViewer::Services(mut services) => {
            services.services.retain(|service| matches(service, wanted));
            known.clone_from(&services);
            Some(ToViewer::Services(services))
        }
        ToViewer::View(view) => matches(&view.summary, wanted).then_some(ToViewer::View(view)),
        ToViewer::Backfill(backfill) => {
            let mut services = known.services.iter();
            let is_known = services.any(|service| service.instance == backfill.instance);
            is_known.then_some(ToViewer::Backfill(backfill))
        }
        _ => None,
    }
}

impl From<RecordingError> for Failure {
    fn from(error: RecordingError) -> Self {
        match error {
            RecordingError::Io { path, error } => Self::Io(std::io::Error::new(
                error.kind(),
                printable(&format!("{}: {error}", path.display())),
            )),
            other => Self::BadData(printable(&other.to_string())),
        }
    }
}
