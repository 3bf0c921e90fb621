//! The table of routes: what came in, how long it took, what was answered.

use ax_wire::{
    sample::{RouteSample, TaskKind},
    view::{ServiceView, TypeView},
};
use ratatui::layout::HorizontalAlignment::{Left, Right};

use crate::{
    format::{count, ms, rate},
    theme::Tone,
    widget::table::{Cell, Column, RowOrder, SortKey, Table},
};

/// A route as the table shows it.
#[derive(Clone, Debug)]
pub struct RouteRow {
    route: RouteSample,
    /// The requests on it.
    requests: Option<TypeView>,
}

/// The rows of the table.
pub fn route_rows(view: &ServiceView) -> Vec<RouteRow> {
    let requests = |route: &RouteSample| {
        let mut types = view.types.iter();
        types.find(|known| known.kind == TaskKind::Request && known.name == route.name)
    };
    let rows = view.routes.iter().map(|route| RouteRow {
        route: route.clone(),
        requests: requests(route).cloned(),
    });
    rows.collect()
}

impl RouteRow {
    fn run(&self, quantile: fn(&TypeView) -> Option<u64>) -> Option<u64> {
        self.requests.as_ref().and_then(quantile)
    }

    fn per_s(&self) -> Option<f64> {
        self.requests.as_ref()?.rates.finished_per_s
    }
}

fn errors(total: u64, tone: Tone) -> Cell {
    Cell::new(
        total.to_string(),
        if total > 0 { tone } else { Tone::Plain },
    )
}

/// One row a route.
pub static ROUTES: Table<RouteRow> = Table {
    title: "Requests",
    empty: "no request has come in through the tower layer",
    order: RowOrder::Kept,
    row_key: |row| row.route.name.clone(),
    columns: &[
        Column {
            title: "route",
            width: 16,
            align: Left,
            keep: 20,
            cell: |row| Cell::new(row.route.name.clone(), Tone::Strong),
            sort: |row| SortKey::Text(row.route.name.clone()),
        },
        Column {
            title: "run",
            width: 5,
            align: Right,
            keep: 15,
            cell: |row| Cell::plain(count(row.run(|requests| Some(requests.running)))),
            sort: |row| SortKey::number(row.run(|requests| Some(requests.running))),
        },
        Column {
            title: "req/s",
            width: 6,
            align: Right,
            keep: 18,
            cell: |row| Cell::plain(rate(row.per_s())),
            sort: |row| SortKey::Number(row.per_s()),
        },
        Column {
            title: "p50",
            width: 8,
            align: Right,
            keep: 9,
            cell: |row| Cell::plain(ms(row.run(|requests| requests.run.p50_ns))),
            sort: |row| SortKey::number(row.run(|requests| requests.run.p50_ns)),
        },
        Column {
            title: "p99",
            width: 8,
            align: Right,
            keep: 17,
            cell: |row| Cell::plain(ms(row.run(|requests| requests.run.p99_ns))),
            sort: |row| SortKey::number(row.run(|requests| requests.run.p99_ns)),
        },
        Column {
            title: "max",
            width: 8,
            align: Right,
            keep: 8,
            cell: |row| Cell::plain(ms(row.run(|requests| requests.run.max_ns))),
            sort: |row| SortKey::number(row.run(|requests| requests.run.max_ns)),
        },
        Column {
            title: "2xx",
            width: 7,
            align: Right,
            keep: 12,
            cell: |row| Cell::plain(row.route.successes_total.to_string()),
            sort: |row| SortKey::number(Some(row.route.successes_total)),
        },
        Column {
            title: "3xx",
            width: 6,
            align: Right,
            keep: 3,
            cell: |row| Cell::plain(row.route.redirections_total.to_string()),
            sort: |row| SortKey::number(Some(row.route.redirections_total)),
        },
        Column {
            title: "4xx",
            width: 6,
            align: Right,
            keep: 11,
            cell: |row| Cell::plain(row.route.client_errors_total.to_string()),
            sort: |row| SortKey::number(Some(row.route.client_errors_total)),
        },
        Column {
            title: "429",
            width: 6,
            align: Right,
            keep: 10,
            cell: |row| errors(row.route.too_many_requests_total, Tone::Warning),
            sort: |row| SortKey::number(Some(row.route.too_many_requests_total)),
        },
        Column {
            title: "5xx",
            width: 6,
            align: Right,
            keep: 16,
            cell: |row| errors(row.route.server_errors_total, Tone::Critical),
            sort: |row| SortKey::number(Some(row.route.server_errors_total)),
        },
    ],
};
