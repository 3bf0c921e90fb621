//! The newest second alone, in a form that adds up.

use ax_wire::{
    LatencyHistogram,
    sample::{LagPoint, TaskKind},
    second::{NewestOfLane, NewestSecond},
};

use super::{Tallies, Window};
use crate::history::{Entry, Recent, Tally, Type};

impl Window<'_> {
    /// What the newest sample brought; `None` until the first has come. Costs some 10 us for each lane and downstream
    /// in which something ended.
    pub(crate) fn newest_second(self, tallies: &mut Tallies) -> Option<NewestSecond> {
        let change = self.change()?;
        let at = change.latest().at_mono_ns;
        let before = change.before().map_or(0, |before| before.at_mono_ns);
        let newest_first = self.history.lag.iter().rev();
        let lag = newest_first.take_while(|point| point.at_mono_ns > before);
        let mut lag_ns: Vec<u64> = lag.filter_map(LagPoint::lag_ns).collect();
        lag_ns.reverse();
        let types = self.history.types.entries();
        let tally = &mut tallies.one;
        let requests = types
            .iter()
            .filter(|entry| entry.value.latest.kind == TaskKind::Request);
        let requests = sum(requests, |known| &known.run, at, tally);
        let mut lanes = Vec::new();
        for (_, lane) in self.lanes() {
            let name = Some(lane.value.latest.name.as_str());
            let own = types
                .iter()
                .filter(|entry| entry.value.latest.lane.as_deref() == name);
            lanes.push(NewestOfLane {
                queue_wait: sum(own.clone(), |known| &known.queue_wait, at, tally),
                run: sum(own, |known| &known.run, at, tally),
            });
        }
        let mut downstreams = Vec::new();
        for downstream in &change.latest().downstreams {
            let known = &self.history.downstreams;
            if let Some(brought) = known.newest_latency(&downstream.name, at) {
                tally.add(brought);
            }
            downstreams.push(tally.take_histogram());
        }
        Some(NewestSecond {
            at_unix_ns: self.history.clock.to_unix_ns(at),
            interval_ns: change.interval_ns(),
            lag_ns,
            requests,
            lanes,
            downstreams,
        })
    }
}

/// What the sample of this instant brought of these types together.
fn sum<'a>(
    types: impl Iterator<Item = &'a Entry<Type>>,
    of: fn(&Type) -> &Recent,
    at_mono_ns: u64,
    tally: &mut Tally,
) -> Option<LatencyHistogram> {
    types
        .filter_map(|entry| of(&entry.value).newest(at_mono_ns))
        .for_each(|brought| tally.add(brought));
    tally.take_histogram()
}
