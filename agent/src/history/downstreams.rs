//! What downstreams did in the last minute. Their levels and counters stand in the newest sample.

use ax_wire::{sample::DownstreamSample, view::Quantiles};

use super::{Recent, Roster, Tally};
use crate::{config::MAX_DOWNSTREAMS, ingest::DownstreamHistograms};

#[derive(Debug)]
struct Downstream {
    name: String,
    latency: Recent,
    wait: Recent,
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
        samples: &[DownstreamSample],
        histograms: Vec<DownstreamHistograms>,
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
                let known = self.0.value_mut(place);
                known.latency.add(at_mono_ns, own.latency, tally);
                known.wait.add(at_mono_ns, own.wait, tally);
            } else {
                folded += 1;
            }
        }
        folded
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
