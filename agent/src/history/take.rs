//! How the lanes and types of a sample become their part of a second.

use ax_wire::sample::{JobCounters, LaneSample, TaskKind, TypeSample};

use super::{
    Lane, Recent, ServiceHistory, Trend, Type, narrow, per_second,
    second::{self, LaneSecond, Second, TypeSecond},
};
use crate::ingest::TypeHistograms;

impl ServiceHistory {
    pub(super) fn take_lanes(
        &mut self,
        lanes: Vec<LaneSample>,
        types: &[TypeSample],
        histograms: &[TypeHistograms],
        second: &mut Second,
        folded: &mut u64,
    ) {
        let mut finished = 0;
        second.lanes.reserve_exact(lanes.len());
        for (position, lane) in lanes.into_iter().enumerate() {
            let place = self.lanes.place(
                position,
                second.number,
                |known| known.latest.name == lane.name && known.latest.scheduler == lane.scheduler,
                || Lane {
                    latest: LaneSample {
                        name: lane.name.clone(),
                        scheduler: lane.scheduler,
                        ..LaneSample::default()
                    },
                    full_since_mono_ns: None,
                },
            );
            let Some(place) = place else {
                *folded += 1;
                continue;
            };
            let known = self.lanes.value_mut(place);
            let full = lane.limit > 0 && lane.running >= lane.limit;
            known.full_since_mono_ns =
                full.then(|| known.full_since_mono_ns.unwrap_or(second.at_mono_ns));
            let counts = second.counts(&known.latest.counters, &lane.counters);
            let begun_before = known.latest.counters.started_total;
            let begun = lane.counters.started_total.saturating_sub(begun_before);
            let started = second.interval_ns.map_or(0, |_| narrow(begun));
            let added = |before: u64, after: u64| {
                second
                    .interval_ns
                    .map_or(0, |_| after.saturating_sub(before))
            };
            let retried = narrow(added(known.latest.retried_total, lane.retried_total));
            let run_s = added(known.latest.run_ns_total, lane.run_ns_total) as f32 / 1e9;
            let of_lane = || {
                let pairs = types.iter().zip(histograms);
                pairs.filter(|(r#type, _)| r#type.lane.as_ref() == Some(&lane.name))
            };
            of_lane().for_each(|(_, own)| self.tally.add(&own.queue_wait));
            let queue_wait = self.tally.take().into();
            of_lane().for_each(|(_, own)| self.tally.add(&own.run));
            let run = self.tally.take().into();
            second::put(
                &mut second.lanes,
                place,
                LaneSecond {
                    running: narrow(lane.running),
                    pending: narrow(lane.pending),
                    counts,
                    started,
                    retried,
                    run_s,
                    queue_wait,
                    run,
                },
            );
            finished += u64::from(counts.finished);
            second.point.running = second.point.running.saturating_add(lane.running);
            second.point.pending = second.point.pending.saturating_add(lane.pending);
            known.latest = lane;
        }
        second.point.finished_per_s = second.interval_ns.map(|ns| per_second(finished, ns));
    }

    pub(super) fn take_types(
        &mut self,
        types: Vec<TypeSample>,
        histograms: Vec<TypeHistograms>,
        second: &mut Second,
        folded: &mut u64,
    ) {
        let at = second.at_mono_ns;
        second.types.reserve_exact(types.len());
        for (position, (r#type, own)) in types.into_iter().zip(histograms).enumerate() {
            let place = self.types.place(
                position,
                second.number,
                |known| is_same_type(&known.latest, &r#type),
                || Type {
                    latest: TypeSample {
                        counters: JobCounters::default(),
                        ..r#type.clone()
                    },
                    queue_wait: Recent::default(),
                    run: Recent::default(),
                    poll: Recent::default(),
                    schedule_delay: Recent::default(),
                    run_p99: Trend::default(),
                },
            );
            let Some(place) = place else {
                *folded += 1;
                continue;
            };
            let known = self.types.value_mut(place);
            let run = own.run.quantiles();
            known.run_p99.add(at, run.p99_ns);
            let counts = second.counts(&known.latest.counters, &r#type.counters);
            if let (TaskKind::Request, Some(ns)) = (r#type.kind, second.interval_ns) {
                let of_this = per_second(counts.finished.into(), ns) as f32;
                *second.requests_per_s.get_or_insert(0.0) += of_this;
            }
            second::put(
                &mut second.types,
                place,
                TypeSecond {
                    running: narrow(r#type.running),
                    pending: narrow(r#type.pending),
                    counts,
                    queue_wait: own.queue_wait.quantiles().into(),
                    run: run.into(),
                    poll: own.poll.quantiles().into(),
                },
            );
            known.queue_wait.add(at, own.queue_wait, &mut self.tally);
            known.run.add(at, own.run, &mut self.tally);
            known.poll.add(at, own.poll, &mut self.tally);
            let delays = own.schedule_delay;
            known.schedule_delay.add(at, delays, &mut self.tally);
            known.latest = r#type;
        }
    }
}

fn is_same_type(known: &TypeSample, other: &TypeSample) -> bool {
    known.name == other.name && known.kind == other.kind && known.lane == other.lane
}
