//! The table of job types and named tasks.

use ax_wire::{
    sample::TaskKind,
    view::{Quantiles, TypeView},
};
use ratatui::layout::HorizontalAlignment::{Left, Right};

use crate::{
    format::{UNKNOWN, ms},
    theme::Tone,
    widget::{
        chart::sparkline,
        table::{Cell, Column, RowOrder, SortKey, Table},
    },
};

/// Columns of the trend.
const TREND: usize = 16;

/// From this length on a poll is marked: the stall threshold's default (T).
const LONG_POLL_NS: u64 = 50_000_000;

/// Where the work runs: a lane, or for what is no job its kind.
fn home(row: &TypeView) -> String {
    match (&row.lane, row.kind) {
        (Some(lane), _) => lane.clone(),
        (None, TaskKind::Task) => "(task)".to_owned(),
        (None, TaskKind::Blocking) => "(blocking)".to_owned(),
        (None, TaskKind::Request) => "(request)".to_owned(),
        (None, TaskKind::Job | TaskKind::Other) => UNKNOWN.to_owned(),
    }
}

fn poll_max(poll: &Quantiles) -> Cell {
    match poll.max_ns {
        Some(max) if max >= LONG_POLL_NS => {
            Cell::new(format!("{}!", ms(Some(max))), Tone::Critical)
        }
        max => Cell::plain(format!("{} ", ms(max))),
    }
}

fn trend(row: &TypeView) -> String {
    let values: Vec<_> = row
        .run_p99_trend_ns
        .iter()
        .map(|ns| ns.map(|ns| ns as f64))
        .collect();
    sparkline(&values, TREND, None)
}

/// One row a job type or named task.
pub static TYPES: Table<TypeView> = Table {
    title: "Job types",
    empty: "no job has been submitted and no named task spawned",
    order: RowOrder::Kept,
    row_key: |row| format!("{:?}/{}/{}", row.kind, home(row), row.name),
    columns: &[
        Column {
            title: "job type",
            width: 12,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(row.name.clone(), Tone::Strong),
            sort: |row| SortKey::Text(row.name.clone()),
        },
        Column {
            title: "lane",
            width: 10,
            align: Left,
            keep: 14,
            cell: |row| Cell::plain(home(row)),
            sort: |row| SortKey::Text(home(row)),
        },
        Column {
            title: "run",
            width: 5,
            align: Right,
            keep: 19,
            cell: |row| Cell::plain(row.running.to_string()),
            sort: |row| SortKey::number(Some(row.running)),
        },
        Column {
            title: "pend",
            width: 5,
            align: Right,
            keep: 13,
            cell: |row| Cell::plain(row.pending.to_string()),
            sort: |row| SortKey::number(Some(row.pending)),
        },
        Column {
            title: "wait p50",
            width: 8,
            align: Right,
            keep: 4,
            cell: |row| Cell::plain(ms(row.queue_wait.p50_ns)),
            sort: |row| SortKey::number(row.queue_wait.p50_ns),
        },
        Column {
            title: "wait p99",
            width: 8,
            align: Right,
            keep: 17,
            cell: |row| Cell::plain(ms(row.queue_wait.p99_ns)),
            sort: |row| SortKey::number(row.queue_wait.p99_ns),
        },
        Column {
            title: "wait max",
            width: 8,
            align: Right,
            keep: 3,
            cell: |row| Cell::plain(ms(row.queue_wait.max_ns)),
            sort: |row| SortKey::number(row.queue_wait.max_ns),
        },
        Column {
            title: "run p50",
            width: 8,
            align: Right,
            keep: 6,
            cell: |row| Cell::plain(ms(row.run.p50_ns)),
            sort: |row| SortKey::number(row.run.p50_ns),
        },
        Column {
            title: "run p99",
            width: 8,
            align: Right,
            keep: 16,
            cell: |row| Cell::plain(ms(row.run.p99_ns)),
            sort: |row| SortKey::number(row.run.p99_ns),
        },
        Column {
            title: "run max",
            width: 8,
            align: Right,
            keep: 5,
            cell: |row| Cell::plain(ms(row.run.max_ns)),
            sort: |row| SortKey::number(row.run.max_ns),
        },
        Column {
            title: "poll max ",
            width: 9,
            align: Right,
            keep: 18,
            cell: |row| poll_max(&row.poll),
            sort: |row| SortKey::number(row.poll.max_ns),
        },
        Column {
            title: "fail",
            width: 6,
            align: Right,
            keep: 15,
            cell: |row| {
                let failed = row.counters.unsuccessful_total();
                let tone = if failed > 0 {
                    Tone::Warning
                } else {
                    Tone::Plain
                };
                Cell::new(failed.to_string(), tone)
            },
            sort: |row| SortKey::number(Some(row.counters.unsuccessful_total())),
        },
        Column {
            title: "run p99 trend",
            width: TREND as u16,
            align: Left,
            keep: 7,
            cell: |row| Cell::plain(trend(row)),
            sort: |row| SortKey::number(row.run_p99_trend_ns.last().copied().flatten()),
        },
    ],
};
