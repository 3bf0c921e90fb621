//! Schedulers and lanes that are made again and again, as in a request handler, where each has a limit of its own and
//! none protects anything. Noticed here, and said once for each place through `tracing`.

use std::{
    collections::HashMap,
    panic::Location,
    sync::{Arc, LazyLock, Weak},
    time::Duration,
};

use parking_lot::Mutex;

use crate::{shared::Shared, time};

/// So many from one place within [`WINDOW`] are said.
const MANY: u32 = 10;

/// Opening a lane that is open already is cheap, and common in set-up code; so many of it are said.
const MANY_LOOKUPS: u32 = 100;

const WINDOW: Duration = Duration::from_mins(1);

/// Places and names that are watched: beyond that, new ones are not.
const WATCHED: usize = 1024;

#[derive(Default)]
struct Watch {
    schedulers: HashMap<&'static Location<'static>, Repeats>,
    lookups: HashMap<&'static Location<'static>, Repeats>,
    lanes: HashMap<Box<str>, Known>,
}

#[derive(Default)]
struct Repeats {
    since_ns: u64,
    count: u32,
    said: bool,
}

impl Repeats {
    /// True once, when there have been `many` within the window.
    fn again(&mut self, many: u32, now_ns: u64) -> bool {
        if time::between(self.since_ns, now_ns) > WINDOW {
            (self.since_ns, self.count) = (now_ns, 0);
        }
        self.count += 1;
        let say = self.count >= many && !self.said;
        self.said |= say;
        say
    }
}

/// The lane that has a name.
struct Known {
    lane: Weak<Shared>,
    place: &'static Location<'static>,
    said: bool,
}

static WATCH: LazyLock<Mutex<Watch>> = LazyLock::new(Mutex::default);

fn repeats<'a>(
    of: &'a mut HashMap<&'static Location<'static>, Repeats>,
    place: &'static Location<'static>,
) -> Option<&'a mut Repeats> {
    if of.len() >= WATCHED && !of.contains_key(place) {
        return None;
    }
    Some(of.entry(place).or_default())
}

/// A scheduler is made at `place`.
pub(crate) fn scheduler_made(place: &'static Location<'static>) {
    let say = {
        let mut watch = WATCH.lock();
        repeats(&mut watch.schedulers, place).is_some_and(|of| of.again(MANY, time::now_ns()))
    };
    if say {
        tracing::warn!(
            %place,
            "schedulers are made again and again here, each with limits of its own: make one for the service and clone it"
        );
    }
}

/// A lane that is open already is opened at `place`.
pub(crate) fn lane_found(name: &str, place: &'static Location<'static>) {
    let say = {
        let mut watch = WATCH.lock();
        let repeats = repeats(&mut watch.lookups, place);
        repeats.is_some_and(|of| of.again(MANY_LOOKUPS, time::now_ns()))
    };
    if say {
        tracing::warn!(
            lane = name,
            %place,
            "a lane is opened again and again here: open it once and clone the handle"
        );
    }
}

/// A new lane is made at `place`.
pub(crate) fn lane_made(lane: &Arc<Shared>, place: &'static Location<'static>) {
    let first = {
        let mut watch = WATCH.lock();
        if let Some(known) = watch.lanes.get_mut(&lane.name) {
            let alive = known.lane.strong_count() > 0;
            let say = alive && !known.said;
            known.said |= alive;
            known.lane = Arc::downgrade(lane);
            let before = std::mem::replace(&mut known.place, place);
            say.then_some(before)
        } else {
            if watch.lanes.len() < WATCHED {
                let known = Known {
                    lane: Arc::downgrade(lane),
                    place,
                    said: false,
                };
                watch.lanes.insert(lane.name.clone(), known);
            }
            None
        }
    };
    if let Some(first) = first {
        tracing::warn!(
            lane = &*lane.name,
            %first,
            second = %place,
            "two schedulers of this process have a lane of one name, each with a limit of its own: share one scheduler, or name them apart"
        );
    }
}
