//! What the lists of the screens are made of.

use super::App;
use crate::view::{
    alerts::AlertRow,
    evidence::{EvidenceRow, evidence_rows},
    services::ServiceRow,
    snapshots::SnapshotRow,
};

impl App {
    /// The rows of the list of services.
    pub fn service_rows(&self) -> Vec<ServiceRow> {
        self.world
            .services
            .iter()
            .map(|summary| ServiceRow {
                summary: summary.clone(),
                now_unix_ns: self.world.now_unix_ns,
                shown: Some(summary.instance) == self.shown,
            })
            .collect()
    }

    /// The rows of the list of alerts.
    pub fn alert_rows(&self) -> Vec<AlertRow> {
        let alerts = self.view().map(|view| view.alerts.as_slice());
        alerts
            .unwrap_or_default()
            .iter()
            .map(|alert| AlertRow {
                alert: alert.clone(),
                now_unix_ns: self.world.now_unix_ns,
                zone: self.zone.clone(),
            })
            .collect()
    }

    /// The rows of the list of snapshots.
    pub fn snapshot_rows(&self) -> Vec<SnapshotRow> {
        let snapshots = self.view().map(|view| view.snapshots.as_slice());
        snapshots
            .unwrap_or_default()
            .iter()
            .map(|snapshot| SnapshotRow {
                snapshot: snapshot.clone(),
                now_unix_ns: self.world.now_unix_ns,
                zone: self.zone.clone(),
            })
            .collect()
    }

    /// The rows of the list of running and queued jobs.
    pub fn evidence_rows(&self) -> Vec<EvidenceRow> {
        self.opened.as_deref().map_or_else(Vec::new, evidence_rows)
    }
}
