//! Firing alerts over a restart of the agent: a killed agent that comes back goes on with them.

use serde::{Deserialize, Serialize};

use super::hub::ServiceMap;
use crate::{alert::states::Active, clock::Now};

/// Older ones are about another day.
const MAX_AGE_NS: u64 = 15 * 60 * 1_000_000_000;

/// The alerts of one service.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    uid: u32,
    service: String,
    firing: Vec<Active>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    saved_unix_ns: u64,
    services: Vec<Saved>,
}

/// Alerts whose service has not come back yet.
#[derive(Debug, Default)]
pub(super) struct SavedAlerts(Vec<Saved>);

impl SavedAlerts {
    /// Those of the last run, where they are young enough.
    pub(super) fn read(json: Option<&[u8]>, now: Now) -> Self {
        let file: File = match json.map(serde_json::from_slice).transpose() {
            Ok(file) => file.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(
                    "alerts begin anew: those from before the restart cannot be read: {error}"
                );
                File::default()
            }
        };
        let age_ns = now.unix_ns.saturating_sub(file.saved_unix_ns);
        Self(if age_ns < MAX_AGE_NS {
            file.services
        } else {
            Vec::new()
        })
    }

    /// Those of one service, once.
    pub(super) fn take(&mut self, uid: u32, service: &str) -> Vec<Active> {
        let mut saved = self.0.iter();
        match saved.position(|saved| saved.uid == uid && saved.service == service) {
            Some(position) => self.0.swap_remove(position).firing,
            None => Vec::new(),
        }
    }
}

/// All that fire, as JSON.
pub(super) fn save(services: &ServiceMap, now: Now) -> Vec<u8> {
    let services = services.values().map(|service| {
        let key = service.key();
        Saved {
            uid: key.uid,
            service: key.name,
            firing: service.book.firing(),
        }
    });
    let file = File {
        saved_unix_ns: now.unix_ns,
        services: services.filter(|saved| !saved.firing.is_empty()).collect(),
    };
    // Plain data: strings, numbers, lists.
    serde_json::to_vec(&file).unwrap_or_default()
}
