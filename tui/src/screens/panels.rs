//! The table of panels: what the keys act on, what is in it, and what enter does there.

use crate::{
    app::{App, Request},
    list::{AnyList, List},
    view::{
        alerts::ALERTS,
        dependencies::{self, TREE},
        downstreams::DOWNSTREAMS,
        evidence::{EVIDENCE, EvidenceRow},
        help,
        jobs::JOBS,
        lanes::{LANES, LANES_IN_FULL},
        routes::ROUTES,
        services::SERVICES,
        snapshots::{SNAPSHOTS, SnapshotRow},
        stacks::{STACKS, StackRow},
        traces::{self, TRACES},
        types::TYPES,
        verdicts::VERDICTS,
    },
};

/// Which part of a page the keys act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Panel {
    Lanes,
    Types,
    Workers,
    LanesInFull,
    Routes,
    Downstreams,
    JobTypes,
    Jobs,
    FailedTraces,
    SlowTraces,
    RecentTraces,
    Trace,
    WorkersInFull,
    Dependencies,
    Verdicts,
    Alerts,
    Snapshots,
    Stacks,
    Evidence,
    Help,
    Services,
}

/// What is in a panel.
#[derive(Clone, Copy)]
pub enum Content {
    /// A table with a selected row.
    List(&'static dyn AnyList),
    /// So many lines to scroll through.
    Lines(fn(&App) -> usize),
}

/// One panel.
pub struct PanelRow {
    pub panel: Panel,
    pub content: Content,
    /// What the enter key does to its selected row.
    pub enter: Option<fn(&mut App) -> Option<Request>>,
}

/// The panels, in the order of [`Panel`].
pub static PANELS: [PanelRow; 21] = [
    PanelRow {
        panel: Panel::Lanes,
        content: Content::List(&List {
            table: &LANES,
            rows: App::lane_rows,
            detail: None,
        }),
        enter: Some(App::open_lane),
    },
    PanelRow {
        panel: Panel::Types,
        content: Content::List(&List {
            table: &TYPES,
            rows: App::type_rows,
            detail: None,
        }),
        enter: None,
    },
    PanelRow {
        panel: Panel::Workers,
        content: Content::Lines(App::worker_count),
        enter: None,
    },
    PanelRow {
        panel: Panel::LanesInFull,
        content: Content::List(&List {
            table: &LANES_IN_FULL,
            rows: App::lane_rows,
            detail: None,
        }),
        enter: Some(App::open_lane),
    },
    PanelRow {
        panel: Panel::Routes,
        content: Content::List(&List {
            table: &ROUTES,
            rows: App::route_rows,
            detail: None,
        }),
        enter: None,
    },
    PanelRow {
        panel: Panel::Downstreams,
        content: Content::List(&List {
            table: &DOWNSTREAMS,
            rows: App::downstream_rows,
            detail: None,
        }),
        enter: None,
    },
    PanelRow {
        panel: Panel::JobTypes,
        content: Content::List(&List {
            table: &TYPES,
            rows: App::type_rows,
            detail: None,
        }),
        enter: Some(App::open_jobs_of_type),
    },
    PanelRow {
        panel: Panel::Jobs,
        content: Content::List(&List {
            table: &JOBS,
            rows: App::job_rows,
            detail: None,
        }),
        enter: Some(App::open_trace_of_job),
    },
    PanelRow {
        panel: Panel::FailedTraces,
        content: Content::List(&List {
            table: &TRACES,
            rows: App::failed_traces,
            detail: Some(traces::detail),
        }),
        enter: Some(App::open_trace),
    },
    PanelRow {
        panel: Panel::SlowTraces,
        content: Content::List(&List {
            table: &TRACES,
            rows: App::slow_traces,
            detail: Some(traces::detail),
        }),
        enter: Some(App::open_trace),
    },
    PanelRow {
        panel: Panel::RecentTraces,
        content: Content::List(&List {
            table: &TRACES,
            rows: App::recent_traces,
            detail: Some(traces::detail),
        }),
        enter: Some(App::open_trace),
    },
    PanelRow {
        panel: Panel::Trace,
        content: Content::Lines(App::trace_lines),
        enter: None,
    },
    PanelRow {
        panel: Panel::WorkersInFull,
        content: Content::Lines(App::worker_count),
        enter: None,
    },
    PanelRow {
        panel: Panel::Dependencies,
        content: Content::List(&List {
            table: &TREE,
            rows: App::tree_rows,
            detail: Some(dependencies::detail),
        }),
        enter: Some(App::look_around),
    },
    PanelRow {
        panel: Panel::Verdicts,
        content: Content::List(&List {
            table: &VERDICTS,
            rows: App::verdict_rows,
            detail: Some(crate::view::verdicts::detail),
        }),
        enter: Some(App::jump_to_verdict),
    },
    PanelRow {
        panel: Panel::Alerts,
        content: Content::List(&List {
            table: &ALERTS,
            rows: App::alert_rows,
            detail: Some(crate::view::alerts::detail),
        }),
        enter: Some(App::jump_to_alert),
    },
    PanelRow {
        panel: Panel::Snapshots,
        content: Content::List(&List {
            table: &SNAPSHOTS,
            rows: App::snapshot_rows,
            detail: Some(SnapshotRow::detail),
        }),
        enter: Some(App::open_selected_snapshot),
    },
    PanelRow {
        panel: Panel::Stacks,
        content: Content::List(&List {
            table: &STACKS,
            rows: App::stack_rows,
            detail: Some(StackRow::detail),
        }),
        enter: None,
    },
    PanelRow {
        panel: Panel::Evidence,
        content: Content::List(&List {
            table: &EVIDENCE,
            rows: App::evidence_rows,
            detail: Some(EvidenceRow::detail),
        }),
        enter: None,
    },
    PanelRow {
        panel: Panel::Help,
        content: Content::Lines(help::line_count),
        enter: None,
    },
    PanelRow {
        panel: Panel::Services,
        content: Content::List(&List {
            table: &SERVICES,
            rows: App::service_rows,
            detail: None,
        }),
        enter: Some(App::show_selected_service),
    },
];

impl Panel {
    /// Those whose rows are traces.
    pub const TRACES: [Self; 3] = [Self::FailedTraces, Self::SlowTraces, Self::RecentTraces];

    /// Its row.
    pub fn row(self) -> &'static PanelRow {
        &PANELS[self as usize]
    }
}
