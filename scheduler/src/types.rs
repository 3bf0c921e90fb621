//! Job types by name, without the probe's registry on the way of every submit.

use std::{cell::Cell, panic::Location};

use ax_probe::task_type::{TaskType, task_type};
use ax_wire::sample::TaskKind;

use crate::shared::Shared;

/// Types that a thread remembers: a power of two. One that falls out costs 50 ns at its next submit.
const RECENT: usize = 16;

thread_local! {
    static CACHE: [Cell<Option<&'static TaskType>>; RECENT] = const { [const { Cell::new(None) }; RECENT] };
}

/// The type of this name in this lane. `place` is remembered where it is new.
pub(crate) fn find(
    lane: &Shared,
    name: &str,
    place: &'static Location<'static>,
) -> &'static TaskType {
    let look_up = || task_type(TaskKind::Job, Some(&lane.name), name, place);
    let cached = CACHE.try_with(|cache| {
        let entry = &cache[entry_of(&lane.name, name)];
        match entry.get() {
            Some(task) if task.name() == name && task.lane() == Some(&lane.name) => task,
            _ => {
                let task = look_up();
                entry.set(Some(task));
                task
            }
        }
    });
    // A thread whose locals are being destroyed has no cache.
    cached.unwrap_or_else(|_| look_up())
}

/// Spreads the few types of a service well enough: their names differ in length or at an end.
fn entry_of(lane: &str, name: &str) -> usize {
    let ends = |text: &str| {
        let bytes = text.as_bytes();
        let (first, last) = (bytes.first(), bytes.last());
        text.len() * 7 + usize::from(*first.unwrap_or(&0)) + 3 * usize::from(*last.unwrap_or(&0))
    };
    (ends(name) + 5 * ends(lane)) % RECENT
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{hub::Hub, settings::Settings};

    #[test]
    fn the_same_name_in_two_lanes_is_two_types() {
        let hub = Arc::new(Hub::for_tests());
        let lanes = ["types_a", "types_b"];
        let lanes = lanes.map(|name| Shared::new(name, Settings::default(), Arc::clone(&hub)));
        for _ in 0..2 {
            for lane in &lanes {
                for name in ["fetch", "flush", "fetch2"] {
                    let found = find(lane, name, Location::caller());
                    assert_eq!((found.name(), found.lane()), (name, Some(&*lane.name)));
                }
            }
        }
    }
}
