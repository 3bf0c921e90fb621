//! The orders of viewers that a service carries out at the moment.

use std::collections::HashMap;

use ax_wire::{InstanceId, control::Action};

use super::connection::ConnectionId;
use crate::clock::Now;

/// How long a service may take for an order. A probe looks at its socket ten times a second.
const OUTCOME_NS: u64 = 5_000_000_000;

/// Orders of one viewer in a second.
const MAX_PER_SECOND: u32 = 10;

/// Orders of one viewer whose outcome has not come.
const MAX_OPEN: usize = 16;

const SECOND_NS: u64 = 1_000_000_000;

/// An order that a service has been given.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) viewer: ConnectionId,
    /// The user who gave it.
    pub(super) uid: u32,
    /// The viewer's number for it.
    pub(super) id: u64,
    pub(super) instance: InstanceId,
    pub(super) action: Action,
    since_mono_ns: u64,
}

/// How many orders a viewer has given lately.
#[derive(Debug, Default)]
struct Rate {
    since_mono_ns: u64,
    count: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Controls {
    /// By the number that the service was told.
    open: HashMap<u64, Open>,
    rates: HashMap<ConnectionId, Rate>,
    given: u64,
}

impl Controls {
    /// Whether a viewer may give one more order now.
    pub(super) fn admit(&mut self, viewer: ConnectionId, now: Now) -> Result<(), String> {
        let rate = self.rates.entry(viewer).or_default();
        if now.mono_ns.saturating_sub(rate.since_mono_ns) >= SECOND_NS {
            *rate = Rate {
                since_mono_ns: now.mono_ns,
                count: 0,
            };
        }
        rate.count = rate.count.saturating_add(1);
        if rate.count > MAX_PER_SECOND {
            return Err(format!(
                "more than {MAX_PER_SECOND} orders in a second: try again"
            ));
        }
        let open = self.open.values().filter(|open| open.viewer == viewer);
        if open.count() >= MAX_OPEN {
            return Err(format!("{MAX_OPEN} orders before it have no outcome yet"));
        }
        Ok(())
    }

    /// The number that the service is to be told. `(viewer, uid, id)` is who gave the order, and its number there.
    pub(super) fn open(
        &mut self,
        (viewer, uid, id): (ConnectionId, u32, u64),
        instance: InstanceId,
        action: Action,
        now: Now,
    ) -> u64 {
        self.given += 1;
        let open = Open {
            viewer,
            uid,
            id,
            instance,
            action,
            since_mono_ns: now.mono_ns,
        };
        self.open.insert(self.given, open);
        self.given
    }

    /// The order has not gone out.
    pub(super) fn withdraw(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// A viewer is gone. Its orders are carried out all the same, and told to nobody.
    pub(super) fn forget(&mut self, viewer: ConnectionId) {
        self.rates.remove(&viewer);
    }

    /// The order that this service has carried out or refused; none for one that nobody waits for any more.
    pub(super) fn concluded(&mut self, instance: InstanceId, number: u64) -> Option<Open> {
        // Otherwise somebody guesses the numbers of others.
        let of_this = self.open.get(&number)?.instance == instance;
        of_this.then(|| self.open.remove(&number)).flatten()
    }

    /// The orders that wait too long, or for a service that is gone.
    pub(super) fn time_out(&mut self, now: Now, gone: impl Fn(InstanceId) -> bool) -> Vec<Open> {
        let late = |open: &Open| now.mono_ns.saturating_sub(open.since_mono_ns) >= OUTCOME_NS;
        let late = self
            .open
            .extract_if(|_, open| late(open) || gone(open.instance));
        late.map(|(_, open)| open).collect()
    }

    /// When the next order has waited too long.
    pub(super) fn next_timeout_mono_ns(&self) -> Option<u64> {
        let since = self.open.values().map(|open| open.since_mono_ns);
        since.min().map(|since| since.saturating_add(OUTCOME_NS))
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::JobId;

    use super::*;

    fn at(ms: u64) -> Now {
        Now {
            mono_ns: ms * 1_000_000,
            unix_ns: ms * 1_000_000,
        }
    }

    fn cancel(job: u64) -> Action {
        Action::Cancel { job: JobId(job) }
    }

    #[test]
    fn an_order_has_one_outcome_and_only_of_the_service_that_got_it() {
        let mut controls = Controls::default();
        let viewer = ConnectionId::next();
        let (service, other) = (InstanceId::new_now(), InstanceId::new_now());
        let first = controls.open((viewer, 0, 1), service, cancel(1), at(0));
        let second = controls.open((viewer, 0, 2), service, cancel(2), at(1_000));
        assert!(controls.concluded(other, first).is_none(), "not its order");
        assert_eq!(
            controls.concluded(service, first).map(|open| open.id),
            Some(1)
        );
        assert!(controls.concluded(service, first).is_none(), "once");
        assert_eq!(controls.next_timeout_mono_ns(), Some(6_000 * 1_000_000));
        assert!(controls.time_out(at(5_999), |_| false).is_empty());
        assert_eq!(controls.time_out(at(6_000), |_| false).len(), 1);
        assert!(controls.concluded(service, second).is_none(), "too late");
        controls.open((viewer, 0, 3), service, cancel(3), at(7_000));
        assert_eq!(controls.time_out(at(7_001), |of| of == service).len(), 1);
    }

    /// F97: a hostile viewer.
    #[test]
    fn a_flood_of_orders_is_held_back() {
        let mut controls = Controls::default();
        let (viewer, service) = (ConnectionId::next(), InstanceId::new_now());
        let mut flood = |ms| {
            let admitted = (0..1_000).filter(|id| {
                let admitted = controls.admit(viewer, at(ms)).is_ok();
                if admitted {
                    controls.open((viewer, 0, *id), service, cancel(*id), at(ms));
                }
                admitted
            });
            admitted.count()
        };
        assert_eq!(flood(5_000), MAX_PER_SECOND as usize);
        assert_eq!(flood(5_900), 0);
        assert_eq!(
            flood(6_000),
            MAX_OPEN - MAX_PER_SECOND as usize,
            "open ones"
        );
        assert_eq!(flood(7_500), 0);
        assert_eq!(controls.time_out(at(12_000), |_| false).len(), MAX_OPEN);
        assert!(controls.admit(viewer, at(12_000)).is_ok());
    }
}
