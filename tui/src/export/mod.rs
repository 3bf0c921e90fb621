//! `ax-top export`: a snapshot in the formats of other tools.
//!
//! | format | for |
//! | --- | --- |
//! | `perfetto` | Chrome trace events: <https://ui.perfetto.dev>, `chrome://tracing` |
//! | `collapsed` | flame graphs, such as inferno's |
//! | `speedscope` | <https://www.speedscope.app> |
//! | `otlp-json` | OpenTelemetry: a line of traces and a line of metrics, as the collector's file receiver reads them |

pub mod collapsed;
mod otlp;
mod perfetto;
mod speedscope;

use clap::ValueEnum;
use serde_json::Value;

use crate::opened::Opened;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Chrome trace events in JSON, for Perfetto
    Perfetto,
    /// Collapsed stacks, for flame graphs
    Collapsed,
    /// A profile for speedscope
    Speedscope,
    /// OpenTelemetry traces and metrics, a line of JSON each
    OtlpJson,
}

/// The snapshot holds no stacks, and the format nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the snapshot holds no stacks, of which this format is made: no worker was stuck, or the service takes none; \
     use --format perfetto or otlp-json"
)]
pub struct NoStacks;

/// The text of a snapshot in that format.
///
/// # Errors
///
/// [`NoStacks`], for the formats that hold nothing but stacks.
pub fn export(opened: &Opened, format: Format) -> Result<String, NoStacks> {
    let of_stacks = matches!(format, Format::Collapsed | Format::Speedscope);
    if of_stacks && opened.stacks().is_empty() {
        return Err(NoStacks);
    }
    Ok(match format {
        Format::Perfetto => line(&perfetto::trace(opened)),
        Format::Collapsed => collapsed::lines(opened).join("\n") + "\n",
        Format::Speedscope => line(&speedscope::profile(opened)),
        Format::OtlpJson => line(&otlp::traces(opened)) + &line(&otlp::metrics(opened)),
    })
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}
