//! The table of downstreams: what the service calls and waits for.

use ax_wire::view::DownstreamView;
use ratatui::layout::HorizontalAlignment::{Left, Right};

use crate::{
    format::{UNKNOWN, duration, ms, rate},
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// Clients in use and unused: `3+7`.
fn pool(row: &DownstreamView) -> String {
    row.pool.map_or_else(
        || UNKNOWN.to_owned(),
        |pool| format!("{}+{}", pool.in_use, pool.idle),
    )
}

/// The age of the call that began first, of those under way.
fn oldest_ns(row: &DownstreamView) -> Option<u64> {
    row.oldest.iter().map(|call| call.age_ns).max()
}

/// Who has most calls under way, or a delay that somebody has put in.
fn note(row: &DownstreamView) -> Cell {
    if let Some(delay) = row.injected_delay_ns {
        return Cell::new(format!("delayed {}", duration(delay)), Tone::Warning);
    }
    let busiest = row.callers.iter().max_by_key(|caller| caller.in_flight);
    let busiest = busiest.filter(|caller| caller.in_flight > 0);
    Cell::plain(busiest.map_or_else(String::new, |caller| {
        format!("{} {}", caller.in_flight, caller.name)
    }))
}

/// One row a downstream.
pub static DOWNSTREAMS: Table<DownstreamView> = Table {
    title: "Downstreams",
    empty: "this service names no downstream",
    order: RowOrder::Kept,
    row_key: |row| row.name.clone(),
    columns: &[
        Column {
            title: "downstream",
            width: 12,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(row.name.clone(), Tone::Strong),
            sort: |row| SortKey::Text(row.name.clone()),
        },
        Column {
            title: "in flight",
            width: 9,
            align: Right,
            keep: 19,
            cell: |row| Cell::plain(row.in_flight.to_string()),
            sort: |row| SortKey::number(Some(row.in_flight)),
        },
        Column {
            title: "waiting",
            width: 7,
            align: Right,
            keep: 18,
            cell: |row| Cell::plain(row.waiting.to_string()),
            sort: |row| SortKey::number(Some(row.waiting)),
        },
        Column {
            title: "pool",
            width: 7,
            align: Right,
            keep: 6,
            cell: |row| Cell::plain(pool(row)),
            sort: |row| SortKey::number(row.pool.map(|pool| pool.in_use)),
        },
        Column {
            title: "calls/s",
            width: 7,
            align: Right,
            keep: 15,
            cell: |row| Cell::plain(rate(row.calls_per_s)),
            sort: |row| SortKey::Number(row.calls_per_s),
        },
        Column {
            title: "errors",
            width: 6,
            align: Right,
            keep: 14,
            cell: |row| {
                let tone = if row.errors_total > 0 {
                    Tone::Warning
                } else {
                    Tone::Plain
                };
                Cell::new(row.errors_total.to_string(), tone)
            },
            sort: |row| SortKey::number(Some(row.errors_total)),
        },
        Column {
            title: "p50",
            width: 8,
            align: Right,
            keep: 5,
            cell: |row| Cell::plain(ms(row.latency.p50_ns)),
            sort: |row| SortKey::number(row.latency.p50_ns),
        },
        Column {
            title: "p99",
            width: 8,
            align: Right,
            keep: 17,
            cell: |row| Cell::plain(ms(row.latency.p99_ns)),
            sort: |row| SortKey::number(row.latency.p99_ns),
        },
        Column {
            title: "wait p99",
            width: 8,
            align: Right,
            keep: 16,
            cell: |row| Cell::plain(ms(row.wait.p99_ns)),
            sort: |row| SortKey::number(row.wait.p99_ns),
        },
        Column {
            title: "oldest",
            width: 8,
            align: Right,
            keep: 13,
            cell: |row| Cell::plain(ms(oldest_ns(row))),
            sort: |row| SortKey::number(oldest_ns(row)),
        },
        Column {
            title: "most calls by",
            width: 20,
            align: Left,
            keep: 7,
            cell: note,
            sort: |row| SortKey::number(row.callers.iter().map(|caller| caller.in_flight).max()),
        },
    ],
};
