//! What the lists of the screens are made of.

use std::borrow::Cow;

use ax_wire::{
    verdict::VerdictId,
    view::{DownstreamView, LaneView, TypeView},
};

use super::App;
use crate::{
    verdict,
    view::{
        alerts::AlertRow,
        evidence::{EvidenceRow, evidence_rows},
        routes::{RouteRow, route_rows},
        services::ServiceRow,
        snapshots::SnapshotRow,
        stacks::{StackRow, stack_rows},
        verdicts::VerdictRow,
    },
};

/// Rows that stand in the state as they are, or are made of it.
type Rows<'a, R> = Cow<'a, [R]>;

impl App {
    pub fn lane_rows(&self) -> Rows<'_, LaneView> {
        self.view().map_or(&[][..], |view| &view.lanes).into()
    }

    pub fn type_rows(&self) -> Rows<'_, TypeView> {
        self.view().map_or(&[][..], |view| &view.types).into()
    }

    pub fn downstream_rows(&self) -> Rows<'_, DownstreamView> {
        self.view().map_or(&[][..], |view| &view.downstreams).into()
    }

    pub fn route_rows(&self) -> Rows<'_, RouteRow> {
        self.view().map_or_else(Vec::new, route_rows).into()
    }

    /// How many workers there are, over all runtimes.
    pub fn worker_count(&self) -> usize {
        self.view().map_or(0, |view| Self::workers(view).count())
    }

    pub fn service_rows(&self) -> Rows<'_, ServiceRow> {
        let services = self.world.services.iter().map(|summary| ServiceRow {
            summary: summary.clone(),
            now_unix_ns: self.world.now_unix_ns,
            shown: Some(summary.instance) == self.shown,
        });
        services.collect()
    }

    pub fn verdict_rows(&self) -> Rows<'_, VerdictRow> {
        let Some(view) = self.view() else {
            return Vec::new().into();
        };
        let causes: Vec<_> = verdict::causes(view).map(std::ptr::from_ref).collect();
        let rows = view.diagnosis.verdicts.iter().map(|verdict| VerdictRow {
            follows: verdict.id != VerdictId::Healthy
                && !causes.contains(&std::ptr::from_ref(verdict)),
            verdict: verdict.clone(),
            now_unix_ns: self.world.now_unix_ns,
            zone: self.zone.clone(),
        });
        rows.collect()
    }

    pub fn alert_rows(&self) -> Rows<'_, AlertRow> {
        let alerts = self.view().map_or(&[][..], |view| &view.alerts);
        let rows = alerts.iter().map(|alert| AlertRow {
            alert: alert.clone(),
            now_unix_ns: self.world.now_unix_ns,
            zone: self.zone.clone(),
        });
        rows.collect()
    }

    pub fn snapshot_rows(&self) -> Rows<'_, SnapshotRow> {
        let snapshots = self.view().map_or(&[][..], |view| &view.snapshots);
        let rows = snapshots.iter().map(|snapshot| SnapshotRow {
            snapshot: snapshot.clone(),
            now_unix_ns: self.world.now_unix_ns,
            zone: self.zone.clone(),
        });
        rows.collect()
    }

    /// The lines of a snapshot file's stacks.
    pub fn stack_rows(&self) -> Rows<'_, StackRow> {
        let opened = self.opened.as_deref();
        opened.map_or_else(Vec::new, stack_rows).into()
    }

    /// Running and queued jobs of a snapshot file.
    pub fn evidence_rows(&self) -> Rows<'_, EvidenceRow> {
        let opened = self.opened.as_deref();
        opened.map_or_else(Vec::new, evidence_rows).into()
    }
}
