//! The tables of lanes: the one of the overview, and the one of the screen of their own.

use ax_wire::view::LaneView;
use ratatui::layout::HorizontalAlignment::{Left, Right};

use super::workers::bar;
use crate::{
    format::{age, ms, rate},
    theme::Tone,
    widget::table::{Cell, Column, RowKey, RowOrder, SortKey, Table},
};

/// How full a lane is, 0 to 1.
pub(super) fn fill(lane: &LaneView) -> Option<f64> {
    (lane.limit > 0).then(|| lane.running as f64 / lane.limit as f64)
}

fn loss(per_s: Option<f64>) -> Cell {
    let lost = per_s.is_some_and(|per_s| per_s > 0.0);
    Cell::new(rate(per_s), if lost { Tone::Warning } else { Tone::Plain })
}

fn lost(total: u64) -> Cell {
    let tone = if total > 0 {
        Tone::Warning
    } else {
        Tone::Plain
    };
    Cell::new(total.to_string(), tone)
}

/// `31/40`; of a lane that is paused, whose limit does not hold for now, `31 PAUSE`.
fn running(lane: &LaneView) -> Cell {
    if lane.paused {
        return Cell::new(format!("{} PAUSE", lane.running), Tone::Warning);
    }
    Cell::plain(format!("{}/{}", lane.running, lane.limit))
}

/// What is remarkable about a lane, in words.
pub fn note(lane: &LaneView) -> String {
    if lane.paused {
        return "PAUSED".to_owned();
    }
    lane.full_ns
        .map_or_else(String::new, |full| format!("full {}", age(full)))
}

/// What tells a lane from the others.
pub fn lane_key(lane: &LaneView) -> RowKey {
    format!("{}/{}", lane.scheduler, lane.name)
}

const LANE: Column<LaneView> = Column {
    title: "lane",
    width: 12,
    align: Left,
    keep: 20,
    cell: |lane| Cell::new(lane.name.clone(), Tone::Strong),
    sort: |lane| SortKey::Text(lane.name.clone()),
};

const FILL: Column<LaneView> = Column {
    title: "fill",
    width: 10,
    align: Left,
    keep: 8,
    cell: |lane| Cell::plain(bar(fill(lane))),
    sort: |lane| SortKey::Number(fill(lane)),
};

const RUNNING: Column<LaneView> = Column {
    title: "run/limit",
    width: 9,
    align: Right,
    keep: 19,
    cell: running,
    sort: |lane| SortKey::number(Some(lane.running)),
};

const PENDING: Column<LaneView> = Column {
    title: "pending",
    width: 7,
    align: Right,
    keep: 18,
    cell: |lane| Cell::plain(lane.pending.to_string()),
    sort: |lane| SortKey::number(Some(lane.pending)),
};

const WAIT_P50: Column<LaneView> = Column {
    title: "wait p50",
    width: 8,
    align: Right,
    keep: 5,
    cell: |lane| Cell::plain(ms(lane.queue_wait.p50_ns)),
    sort: |lane| SortKey::number(lane.queue_wait.p50_ns),
};

const WAIT_P99: Column<LaneView> = Column {
    title: "wait p99",
    width: 8,
    align: Right,
    keep: 17,
    cell: |lane| Cell::plain(ms(lane.queue_wait.p99_ns)),
    sort: |lane| SortKey::number(lane.queue_wait.p99_ns),
};

const RUN_P50: Column<LaneView> = Column {
    title: "run p50",
    width: 8,
    align: Right,
    keep: 4,
    cell: |lane| Cell::plain(ms(lane.run.p50_ns)),
    sort: |lane| SortKey::number(lane.run.p50_ns),
};

const RUN_P99: Column<LaneView> = Column {
    title: "run p99",
    width: 8,
    align: Right,
    keep: 16,
    cell: |lane| Cell::plain(ms(lane.run.p99_ns)),
    sort: |lane| SortKey::number(lane.run.p99_ns),
};

const DONE: Column<LaneView> = Column {
    title: "done/s",
    width: 6,
    align: Right,
    keep: 15,
    cell: |lane| Cell::plain(rate(lane.recent.finished_per_s)),
    sort: |lane| SortKey::Number(lane.recent.finished_per_s),
};

const FAILED: Column<LaneView> = Column {
    title: "fail/s",
    width: 6,
    align: Right,
    keep: 11,
    cell: |lane| loss(lane.rates.unsuccessful_per_s),
    sort: |lane| SortKey::Number(lane.rates.unsuccessful_per_s),
};

const REJECTED: Column<LaneView> = Column {
    title: "reject/s",
    width: 8,
    align: Right,
    keep: 10,
    cell: |lane| loss(lane.rates.rejected_per_s),
    sort: |lane| SortKey::Number(lane.rates.rejected_per_s),
};

const HEAD_AGE: Column<LaneView> = Column {
    title: "head age",
    width: 8,
    align: Right,
    keep: 9,
    cell: |lane| Cell::plain(ms(lane.head_age_ns)),
    sort: |lane| SortKey::number(lane.head_age_ns),
};

const FULL: Column<LaneView> = Column {
    title: "full for",
    width: 11,
    align: Left,
    keep: 12,
    cell: |lane| Cell::new(note(lane), Tone::Warning),
    sort: |lane| SortKey::number(lane.full_ns),
};

const WAITING: Column<LaneView> = Column {
    title: "waiting",
    width: 7,
    align: Right,
    keep: 1,
    cell: |lane| Cell::plain(lane.waiting.to_string()),
    sort: |lane| SortKey::number(Some(lane.waiting)),
};

const RETRIED: Column<LaneView> = Column {
    title: "retried",
    width: 7,
    align: Right,
    keep: 12,
    cell: |lane| Cell::plain(lane.retried_total.to_string()),
    sort: |lane| SortKey::number(Some(lane.retried_total)),
};

const SHED: Column<LaneView> = Column {
    title: "shed",
    width: 6,
    align: Right,
    keep: 3,
    cell: |lane| lost(lane.overload.shed_total),
    sort: |lane| SortKey::number(Some(lane.overload.shed_total)),
};

const SPILLED: Column<LaneView> = Column {
    title: "spilled",
    width: 7,
    align: Right,
    keep: 2,
    cell: |lane| Cell::plain(lane.overload.spilled_total.to_string()),
    sort: |lane| SortKey::number(Some(lane.overload.spilled_total)),
};

/// What the two tables share.
const FRAME: Table<LaneView> = Table {
    title: "Lanes",
    empty: "this service has no lanes",
    order: RowOrder::Kept,
    row_key: lane_key,
    columns: &[],
};

/// One row a lane, for the overview: does it keep up?
pub static LANES: Table<LaneView> = Table {
    columns: &[
        LANE, FILL, RUNNING, PENDING, WAIT_P50, WAIT_P99, RUN_P50, RUN_P99, DONE, FAILED, REJECTED,
        HEAD_AGE, FULL, WAITING,
    ],
    ..FRAME
};

/// One row a lane, for the screen of lanes: what is in it?
pub static LANES_IN_FULL: Table<LaneView> = Table {
    columns: &[
        LANE,
        RUNNING,
        PENDING,
        Column {
            keep: 14,
            ..HEAD_AGE
        },
        Column {
            keep: 13,
            ..WAITING
        },
        RETRIED,
        WAIT_P99,
        RUN_P99,
        DONE,
        FAILED,
        REJECTED,
        SHED,
        SPILLED,
        Column { keep: 9, ..FULL },
    ],
    ..FRAME
};
