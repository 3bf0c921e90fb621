//! The bound on all histories together: each is bounded, but many full ones would be many times that.

use super::{hub::ServiceMap, service::Service};
use crate::config::Config;

/// Lets the largest histories go shorter until all of them fit, for each user and together. Returns how many seconds were
/// let go.
pub(super) fn keep_within(config: &Config, services: &mut ServiceMap) -> u64 {
    let mut forgotten = 0;
    let users: std::collections::BTreeSet<u32> = services
        .values()
        .map(|service| service.history.uid())
        .collect();
    for uid in users {
        let most = config.max_history_bytes_of_user;
        forgotten += shorten(services, most, |service| service.history.uid() == uid);
    }
    forgotten + shorten(services, config.max_history_bytes, |_| true)
}

fn shorten(services: &mut ServiceMap, most: usize, of: impl Fn(&Service) -> bool) -> u64 {
    let mut sizes: Vec<_> = services
        .iter()
        .filter(|(_, service)| of(service))
        .map(|(instance, service)| (service.history.approximate_bytes(), *instance))
        .collect();
    let mut total: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
    let mut forgotten = 0;
    while total > most {
        let Some(largest) = sizes.iter_mut().max() else {
            break;
        };
        let Some(service) = services.get_mut(&largest.1) else {
            break;
        };
        let seconds = service.history.forget_half();
        let bytes = service.history.approximate_bytes();
        if bytes >= largest.0 {
            break;
        }
        tracing::warn!(
            service = service.history.hello.service,
            "history shortened by {seconds} s: all histories together may take {most} bytes"
        );
        total -= largest.0 - bytes;
        largest.0 = bytes;
        service.dropped.folded_total += seconds;
        forgotten += seconds;
    }
    forgotten
}
