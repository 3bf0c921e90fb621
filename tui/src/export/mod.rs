//! `ax-top export`: a snapshot in the formats of other tools.
//!
//! | format | for |
//! | --- | --- |
//! | `perfetto` | Chrome trace events: <https://ui.perfetto.dev>, `chrome://tracing` |
//! | `otlp-json` | OpenTelemetry: a line of traces and a line of metrics, as the collector's file receiver reads them |

mod otlp;
mod perfetto;

use clap::ValueEnum;
use serde_json::Value;

use crate::opened::Opened;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Chrome trace events in JSON, for Perfetto
    Perfetto,
    /// OpenTelemetry traces and metrics, a line of JSON each
    OtlpJson,
}

/// The text of a snapshot in that format.
pub fn export(opened: &Opened, format: Format) -> String {
    match format {
        Format::Perfetto => line(&perfetto::trace(opened)),
        Format::OtlpJson => line(&otlp::traces(opened)) + &line(&otlp::metrics(opened)),
    }
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}
