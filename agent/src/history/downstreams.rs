//! What downstreams did in the last minute. Their levels and counters stand in the newest sample.

use ax_wire::{sample::DownstreamSample, view::Quantiles};

use super::{Bucket, DownstreamSecond, Recent, Roster, Tally, narrow, second::put};
use crate::{config::MAX_DOWNSTREAMS, ingest::DownstreamHistograms};

#[derive(Debug)]
struct Downstream {
    name: String,
    latency: Recent,
    wait: Recent,
}

/// Counters that went backwards, which no probe sends, have added nothing.
fn second(
    before: Option<&DownstreamSample>,
    sample: &DownstreamSample,
    own: &DownstreamHistograms,
) -> DownstreamSecond {
    let added = |total: fn(&DownstreamSample) -> u64| {
        before.map_or(0, |before| {
            narrow(total(sample).saturating_sub(total(before)))
        })
    };
    let oldest_ns = sample.oldest.iter().map(|call| call.age_ns).max();
    DownstreamSecond {
        in_flight: narrow(sample.in_flight),
        waiting: narrow(sample.waiting),
        calls: added(|sample| sample.calls_total),
        errors: added(|sample| sample.errors_total),
        oldest: oldest_ns.map(Bucket::of_ns).unwrap_or_default(),
        latency: own.latency.quantiles().into(),
        wait: own.wait.quantiles().into(),
    }
}

/// The histograms of all downstreams of a service.
#[derive(Debug)]
pub(crate) struct Downstreams(Roster<Downstream>);

impl Default for Downstreams {
    fn default() -> Self {
        Self(Roster::new(MAX_DOWNSTREAMS))
    }
}

impl Downstreams {
    /// Takes what a sample brought, taken in second `number`. Returns how many found no place.
    pub(super) fn take(
        &mut self,
        (at_mono_ns, number): (u64, u64),
        (before, samples): (Option<&[DownstreamSample]>, &[DownstreamSample]),
        histograms: Vec<DownstreamHistograms>,
        seconds: &mut Vec<Option<DownstreamSecond>>,
        tally: &mut Tally,
    ) -> u64 {
        let mut folded = 0;
        for (position, (sample, own)) in samples.iter().zip(histograms).enumerate() {
            let place = self.0.place(
                position,
                number,
                |known| known.name == sample.name,
                || Downstream {
                    name: sample.name.clone(),
                    latency: Recent::default(),
                    wait: Recent::default(),
                },
            );
            if let Some(place) = place {
                let mut before = before.into_iter().flatten();
                let before = before.find(|before| before.name == sample.name);
                put(seconds, place, second(before, sample, &own));
                let known = self.0.value_mut(place);
                known.latency.add(at_mono_ns, own.latency, tally);
                known.wait.add(at_mono_ns, own.wait, tally);
            } else {
                folded += 1;
            }
        }
        folded
    }

    /// The place of one among [`Second::downstreams`](super::Second::downstreams), with the second that it was first in.
    pub(crate) fn place_of(&self, name: &str) -> Option<(usize, u64)> {
        let mut known = self.0.entries().iter().enumerate();
        let (place, entry) = known.find(|(_, entry)| entry.value.name == name)?;
        Some((place, entry.born))
    }

    /// Latency and wait of one over the window.
    pub(crate) fn quantiles(&self, name: &str, tally: &mut Tally) -> (Quantiles, Quantiles) {
        let mut known = self.0.entries().iter().map(|entry| &entry.value);
        let known = known.find(|known| known.name == name);
        known.map_or_else(Default::default, |known| {
            known.latency.add_to(tally);
            let latency = tally.take();
            known.wait.add_to(tally);
            (latency, tally.take())
        })
    }

    /// The latency that the sample of this instant brought of one.
    pub(crate) fn newest_latency(
        &self,
        name: &str,
        at_mono_ns: u64,
    ) -> Option<&super::SparseHistogram> {
        let mut known = self.0.entries().iter().map(|entry| &entry.value);
        let known = known.find(|known| known.name == name)?;
        known.latency.newest(at_mono_ns)
    }

    pub(super) fn bytes(&self) -> usize {
        let known = self.0.entries().iter().map(|entry| &entry.value);
        known
            .map(|known| known.latency.bytes() + known.wait.bytes())
            .sum()
    }

    pub(super) fn forget_slots(&mut self) {
        for known in self.0.values_mut() {
            known.latency.forget_slots();
            known.wait.forget_slots();
        }
    }

    pub(super) fn forget_before(&mut self, mono_ns: u64, tally: &mut Tally) {
        for known in self.0.values_mut() {
            known.latency.forget_before(mono_ns, tally);
            known.wait.forget_before(mono_ns, tally);
        }
    }
}
