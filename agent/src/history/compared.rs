//! How long the things of one type took lately, beside the last 15 minutes.

use ax_wire::query::{Compared, TypeHistograms, TypeKey};

use super::{HISTORY_NS, Recent, ServiceHistory, Tally, WINDOW_NS};

impl ServiceHistory {
    /// The histograms of a type; `None` for one that is not known.
    pub(crate) fn type_histograms(&self, of: &TypeKey) -> Option<TypeHistograms> {
        let mut entries = self.types.entries().iter().map(|entry| &entry.value);
        let known = entries.find(|known| {
            let latest = &known.latest;
            latest.name == of.name && latest.kind == of.kind && latest.lane == of.lane
        })?;
        let newest = self.seconds.back().map_or(0, |second| second.at_mono_ns);
        let oldest = self
            .seconds
            .front()
            .map_or(newest, |second| second.at_mono_ns);
        let known_ns = newest.saturating_sub(oldest);
        let mut tally = Tally::default();
        let mut compared = |recent: &Recent| {
            recent.add_to(&mut tally);
            let lately = tally.take_histogram();
            recent.add_all_to(&mut tally);
            let all = tally.take_histogram();
            Compared { lately, all }
        };
        Some(TypeHistograms {
            of: of.clone(),
            lately_ns: known_ns.min(WINDOW_NS),
            all_ns: known_ns.min(HISTORY_NS),
            queue_wait: compared(&known.queue_wait),
            run: compared(&known.run),
            poll: compared(&known.poll),
            schedule_delay: compared(&known.schedule_delay),
        })
    }
}
