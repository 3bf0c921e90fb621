//! Figures in the sentences of rules.

use ax_wire::alert::Unit;

use crate::text::duration;

/// A figure with its unit.
pub(crate) fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => duration(value.max(0.0) as u64),
        Unit::Bytes => format!("{:.0} MiB", value / 1024.0 / 1024.0),
        Unit::PerSecond => format!("{value:.1}/s"),
        Unit::Share => format!("{:.0} %", value * 100.0),
        Unit::Count | Unit::Other => format!("{value:.0}"),
    }
}
