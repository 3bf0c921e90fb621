//! The table of lanes.

use ax_wire::view::LaneView;
use ratatui::layout::HorizontalAlignment::{Left, Right};

use super::workers::bar;
use crate::{
    format::{age, count, ms, rate},
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// How full a lane is, 0 to 1.
fn fill(lane: &LaneView) -> Option<f64> {
    (lane.limit > 0).then(|| lane.running as f64 / lane.limit as f64)
}

fn loss(per_s: Option<f64>, tone: Tone) -> Cell {
    let tone = if per_s.is_some_and(|per_s| per_s > 0.0) {
        tone
    } else {
        Tone::Plain
    };
    Cell::new(rate(per_s), tone)
}

/// What is remarkable about a lane, in words.
pub fn note(lane: &LaneView) -> String {
    lane.full_ns
        .map_or_else(String::new, |full| format!("full {}", age(full)))
}

/// One row a lane.
pub static LANES: Table<LaneView> = Table {
    title: "Lanes",
    empty: "this service has no lanes",
    order: RowOrder::Kept,
    row_key: |lane| format!("{}/{}", lane.scheduler, lane.name),
    columns: &[
        Column {
            title: "lane",
            width: 12,
            align: Left,
            keep: 20,
            cell: |lane| Cell::new(lane.name.clone(), Tone::Strong),
            sort: |lane| SortKey::Text(lane.name.clone()),
        },
        Column {
            title: "fill",
            width: 10,
            align: Left,
            keep: 8,
            cell: |lane| Cell::plain(bar(fill(lane))),
            sort: |lane| SortKey::Number(fill(lane)),
        },
        Column {
            title: "run/limit",
            width: 9,
            align: Right,
            keep: 19,
            cell: |lane| Cell::plain(format!("{}/{}", lane.running, lane.limit)),
            sort: |lane| SortKey::number(Some(lane.running)),
        },
        Column {
            title: "pending",
            width: 7,
            align: Right,
            keep: 18,
            cell: |lane| Cell::plain(lane.pending.to_string()),
            sort: |lane| SortKey::number(Some(lane.pending)),
        },
        Column {
            title: "wait p50",
            width: 8,
            align: Right,
            keep: 5,
            cell: |lane| Cell::plain(ms(lane.queue_wait.p50_ns)),
            sort: |lane| SortKey::number(lane.queue_wait.p50_ns),
        },
        Column {
            title: "wait p99",
            width: 8,
            align: Right,
            keep: 17,
            cell: |lane| Cell::plain(ms(lane.queue_wait.p99_ns)),
            sort: |lane| SortKey::number(lane.queue_wait.p99_ns),
        },
        Column {
            title: "run p50",
            width: 8,
            align: Right,
            keep: 4,
            cell: |lane| Cell::plain(ms(lane.run.p50_ns)),
            sort: |lane| SortKey::number(lane.run.p50_ns),
        },
        Column {
            title: "run p99",
            width: 8,
            align: Right,
            keep: 16,
            cell: |lane| Cell::plain(ms(lane.run.p99_ns)),
            sort: |lane| SortKey::number(lane.run.p99_ns),
        },
        Column {
            title: "done/s",
            width: 6,
            align: Right,
            keep: 15,
            cell: |lane| Cell::plain(rate(lane.recent.finished_per_s)),
            sort: |lane| SortKey::Number(lane.recent.finished_per_s),
        },
        Column {
            title: "fail/s",
            width: 6,
            align: Right,
            keep: 11,
            cell: |lane| loss(lane.rates.unsuccessful_per_s, Tone::Warning),
            sort: |lane| SortKey::Number(lane.rates.unsuccessful_per_s),
        },
        Column {
            title: "reject/s",
            width: 8,
            align: Right,
            keep: 10,
            cell: |lane| loss(lane.rates.rejected_per_s, Tone::Warning),
            sort: |lane| SortKey::Number(lane.rates.rejected_per_s),
        },
        Column {
            title: "head age",
            width: 8,
            align: Right,
            keep: 9,
            cell: |lane| Cell::plain(ms(lane.head_age_ns)),
            sort: |lane| SortKey::number(lane.head_age_ns),
        },
        Column {
            title: "full for",
            width: 11,
            align: Left,
            keep: 12,
            cell: |lane| Cell::new(note(lane), Tone::Warning),
            sort: |lane| SortKey::number(lane.full_ns),
        },
        Column {
            title: "waiting",
            width: 7,
            align: Right,
            keep: 1,
            cell: |lane| Cell::plain(count(Some(lane.waiting))),
            sort: |lane| SortKey::number(Some(lane.waiting)),
        },
    ],
};
