//! Firing alerts over a restart of the agent: a killed agent that comes back goes on with them.

use serde::{Deserialize, Serialize};

use ax_wire::{InstanceId, rules::SilenceInfo};

use super::hub::ServiceMap;
use crate::{
    alert::states::{Acted, Active, Book},
    clock::Now,
    snapshot::ServiceKey,
};

/// Older ones are about another day.
const MAX_AGE_NS: u64 = 15 * 60 * 1_000_000_000;

/// The alerts of one service.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    uid: u32,
    service: String,
    #[serde(default)]
    seat: u32,
    /// The one that the alerts are about.
    #[serde(default)]
    instance: Option<InstanceId>,
    firing: Vec<Active>,
    #[serde(default)]
    acted: Vec<Acted>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    saved_unix_ns: u64,
    services: Vec<Saved>,
    #[serde(default)]
    silences: Vec<SilenceInfo>,
}

/// Alerts whose service has not come back yet.
#[derive(Debug, Default)]
pub(super) struct SavedAlerts {
    services: Vec<Saved>,
    silences: Vec<SilenceInfo>,
}

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
        Self {
            services: if age_ns < MAX_AGE_NS {
                file.services
            } else {
                Vec::new()
            },
            // These have an end of their own.
            silences: file.silences,
        }
    }

    /// The silences that were asked for, once.
    pub(super) fn take_silences(&mut self) -> Vec<SilenceInfo> {
        std::mem::take(&mut self.silences)
    }

    /// Those of one service, once; `instance` is the one that has come.
    pub(super) fn take(&mut self, key: &ServiceKey, instance: InstanceId) -> Book {
        let mut saved = self.services.iter();
        let ours = saved.position(|saved| {
            (saved.uid, &saved.service, saved.seat) == (key.uid, &key.name, key.seat)
        });
        ours.map_or_else(Book::default, |position| {
            let saved = self.services.swap_remove(position);
            let mut book = Book::resume(saved.firing, saved.acted);
            if saved.instance != Some(instance) {
                book.is_of_before();
            }
            book
        })
    }
}

/// All that fire, when rules acted, and what is silenced, as JSON.
pub(super) fn save(services: &ServiceMap, silences: &[SilenceInfo], now: Now) -> Vec<u8> {
    let services = services.values().map(|service| {
        let key = service.key();
        Saved {
            uid: key.uid,
            service: key.name,
            seat: key.seat,
            instance: Some(service.instance()),
            firing: service.book.firing(),
            acted: service.book.acted(),
        }
    });
    let file = File {
        saved_unix_ns: now.unix_ns,
        services: services
            .filter(|saved| !saved.firing.is_empty() || !saved.acted.is_empty())
            .collect(),
        silences: silences.to_vec(),
    };
    // Plain data: strings, numbers, lists.
    serde_json::to_vec(&file).unwrap_or_default()
}
