//! What the agent says of the service while load is made: samples, findings, changes.

use std::sync::Arc;

use ax_wire::{
    InstanceId,
    mark::Mark,
    session::{DownstreamSecond, LaneSecond, SeenVerdict, ServiceSecond},
    verdict::VerdictId,
    view::{DownstreamView, LaneView, ServiceState, ServiceView},
};

use crate::world::World;

/// Findings that are kept: more than this many different ones are no help.
const MAX_VERDICTS: usize = 100;

/// Marks that are kept, the oldest first.
const MAX_MARKS: usize = 500;

/// Gathers what is told of one service.
pub struct Watch {
    instance: InstanceId,
    before: Option<Arc<ServiceView>>,
    /// Every sample since it began, oldest first, each with whether samples before it were missed.
    seconds: Vec<ServiceSecond>,
    verdicts: Vec<SeenVerdict>,
    marks: Vec<Mark>,
    began_unix_ns: u64,
    gone: Option<String>,
}

impl Watch {
    /// Begins with what is known of the service now.
    pub fn new(view: &ServiceView, now_unix_ns: u64) -> Self {
        Self {
            instance: view.summary.instance,
            before: None,
            seconds: Vec::new(),
            verdicts: Vec::new(),
            marks: Vec::new(),
            began_unix_ns: now_unix_ns,
            gone: None,
        }
    }

    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    pub fn seconds(&self) -> &[ServiceSecond] {
        &self.seconds
    }

    pub fn verdicts(&self) -> &[SeenVerdict] {
        &self.verdicts
    }

    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Why there will be no more samples, once that is so.
    pub fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// Takes in what was told, while step `step` runs.
    pub fn take(&mut self, world: &World, step: u32) {
        if let Some(summary) = world.summary(self.instance) {
            self.gone = match summary.state {
                ServiceState::Ended => Some("the service ended".to_owned()),
                ServiceState::Lost => Some("the service was lost: its connection broke".to_owned()),
                _ => None,
            };
        }
        let Some(view) = world.newest_view(self.instance) else {
            return;
        };
        let known = self
            .before
            .as_ref()
            .and_then(|before| before.newest.as_ref());
        let newest = view.newest.as_ref();
        if newest.is_none() || newest.map(|own| own.at_unix_ns) == known.map(|own| own.at_unix_ns) {
            return;
        }
        if let Some(before) = &self.before
            && let Some(second) = second(before, view)
        {
            self.seconds.push(second);
        }
        self.findings(view, step);
        self.changes(view);
        self.before = Some(Arc::clone(view));
    }

    fn findings(&mut self, view: &ServiceView, step: u32) {
        let at = view.at_unix_ns;
        let full = self.verdicts.len() >= MAX_VERDICTS;
        for verdict in &view.diagnosis.verdicts {
            if verdict.id == VerdictId::Healthy {
                continue;
            }
            let known = self.verdicts.iter_mut().find(|known| {
                known.verdict.id == verdict.id && known.verdict.subject == verdict.subject
            });
            match known {
                Some(known) => {
                    known.last_unix_ns = at;
                    if verdict.confidence > known.verdict.confidence {
                        known.verdict = verdict.clone();
                    }
                }
                None if full => {}
                None => self.verdicts.push(SeenVerdict {
                    first_unix_ns: at,
                    last_unix_ns: at,
                    step,
                    verdict: verdict.clone(),
                }),
            }
        }
    }

    fn changes(&mut self, view: &ServiceView) {
        for mark in &view.marks {
            let new = mark.at_unix_ns >= self.began_unix_ns && !self.marks.contains(mark);
            if new && self.marks.len() < MAX_MARKS {
                self.marks.push(mark.clone());
            }
        }
    }

    /// The samples that lie in a span as a whole, and how many of it were missed.
    pub fn within(&self, from_unix_ns: u64, to_unix_ns: u64) -> (Vec<ServiceSecond>, u64) {
        const USUAL_NS: u64 = 1_000_000_000;
        let inside = |second: &&ServiceSecond| {
            second.at_unix_ns.saturating_sub(second.interval_ns) >= from_unix_ns
                && second.at_unix_ns <= to_unix_ns
        };
        let inside: Vec<_> = self.seconds.iter().filter(inside).cloned().collect();
        let missed = inside
            .iter()
            .map(|second| (second.interval_ns + USUAL_NS / 2) / USUAL_NS)
            .map(|seconds| seconds.saturating_sub(1))
            .sum();
        (inside, missed)
    }

    /// Jobs queued in all lanes, as far as is known.
    pub fn pending(&self) -> u64 {
        let lanes = self.before.iter().flat_map(|view| &view.lanes);
        lanes.map(|lane| lane.pending).sum()
    }

    /// When the newest sample was taken.
    pub fn newest_unix_ns(&self) -> u64 {
        self.seconds.last().map_or(0, |second| second.at_unix_ns)
    }
}

/// The newest sample of a view, with what was added to its counters since the view before. Histograms are those of the
/// newest sample alone: where samples between the two were missed, they cover less than the counters.
fn second(before: &ServiceView, view: &ServiceView) -> Option<ServiceSecond> {
    let (earlier, newest) = (before.newest.as_ref()?, view.newest.as_ref()?);
    let interval_ns = newest.at_unix_ns.checked_sub(earlier.at_unix_ns)?;
    let lanes = view.lanes.iter().enumerate().map(|(at, lane)| {
        let same = |other: &&LaneView| other.name == lane.name && other.scheduler == lane.scheduler;
        let before = before.lanes.iter().find(same);
        let own = newest.lanes.get(at).cloned().unwrap_or_default();
        let added =
            |total: fn(&LaneView) -> u64| total(lane).saturating_sub(before.map_or(0, total));
        LaneSecond {
            name: lane.name.clone(),
            scheduler: lane.scheduler,
            limit: lane.limit,
            running: lane.running,
            pending: lane.pending,
            full_ns: lane.full_ns,
            finished: added(|lane| lane.counters.finished_total()),
            unsuccessful: added(|lane| lane.counters.unsuccessful_total()),
            rejected: added(|lane| lane.counters.rejected_total),
            queue_wait: own.queue_wait,
            run: own.run,
        }
    });
    let downstreams = view.downstreams.iter().enumerate().map(|(at, known)| {
        let earlier = before
            .downstreams
            .iter()
            .find(|other| other.name == known.name);
        let added = |total: fn(&DownstreamView) -> u64| {
            total(known).saturating_sub(earlier.map_or(0, total))
        };
        DownstreamSecond {
            name: known.name.clone(),
            in_flight: known.in_flight,
            waiting: known
                .pool
                .and_then(|pool| pool.waiting)
                .unwrap_or(0)
                .max(known.waiting),
            pool_size: known.pool.map(|pool| pool.in_use + pool.idle),
            calls: added(|known| known.calls_total),
            errors: added(|known| known.errors_total),
            latency: newest.downstreams.get(at).cloned().flatten(),
            injected_delay_ns: known.injected_delay_ns,
        }
    });
    Some(ServiceSecond {
        at_unix_ns: newest.at_unix_ns,
        interval_ns,
        lag_ns: newest.lag_ns.clone(),
        cpus_used: view.process.cpus_used,
        rss_bytes: view.process.rss_bytes,
        requests: newest.requests.clone(),
        lanes: lanes.collect(),
        downstreams: downstreams.collect(),
    })
}

#[cfg(test)]
mod tests {
    use ax_wire::{
        ToViewer,
        alert::Severity,
        second::{NewestOfLane, NewestSecond},
        verdict::Verdict,
    };

    use super::*;
    use crate::{fixture, world::Update};

    const S: u64 = 1_000_000_000;

    /// The service so many seconds after the beginning, with 100 more jobs ended in `db` each second.
    fn at(second: u64) -> ServiceView {
        let mut view = fixture::healthy();
        view.at_unix_ns = fixture::NOW_UNIX_NS + second * S;
        view.lanes[0].counters.succeeded_total += 100 * second;
        if let Some(point) = &mut view.point {
            point.at_unix_ns = view.at_unix_ns;
        }
        view.newest = Some(NewestSecond {
            at_unix_ns: view.at_unix_ns,
            interval_ns: Some(S),
            lag_ns: vec![100_000; 10],
            lanes: vec![NewestOfLane::default(); view.lanes.len()],
            ..NewestSecond::default()
        });
        view
    }

    fn verdict(confidence: f64) -> Verdict {
        Verdict {
            id: VerdictId::LaneSaturated,
            subject: Some("db".to_owned()),
            severity: Severity::Warning,
            confidence,
            since_unix_ns: 0,
            sentence: "Lane `db` is full".to_owned(),
            evidence: Vec::new(),
            who_is_hurt: Vec::new(),
            next_steps: Vec::new(),
            culprit: None,
            explains: Vec::new(),
        }
    }

    fn watching(views: impl IntoIterator<Item = ServiceView>) -> Watch {
        let mut world = fixture::world(vec![fixture::healthy()]);
        let mut watch = Watch::new(&fixture::healthy(), fixture::NOW_UNIX_NS);
        for view in views {
            world.apply(Update::Frame(ToViewer::View(Box::new(view))));
            // News of another service come in between.
            watch.take(&world, 1);
            watch.take(&world, 1);
        }
        watch
    }

    #[test]
    fn each_sample_is_taken_once_with_what_it_added() {
        let watch = watching([at(0), at(1), at(2), at(5)]);
        let finished: Vec<_> = watch
            .seconds()
            .iter()
            .map(|second| (second.lanes[0].finished, second.interval_ns / S))
            .collect();
        assert_eq!(finished, [(100, 1), (100, 1), (300, 3)]);
        let (from, to) = (fixture::NOW_UNIX_NS + S, fixture::NOW_UNIX_NS + 5 * S);
        let (inside, missed) = watch.within(from, to);
        assert_eq!((inside.len(), missed), (2, 2), "two samples did not come");
        assert!(watch.within(from, to - 1).0.len() < 2, "as a whole");
    }

    #[test]
    fn a_finding_stands_once_as_it_was_surest() {
        let of = |second, confidence| {
            let mut view = at(second);
            view.diagnosis.verdicts = vec![verdict(confidence)];
            view
        };
        let watch = watching([at(0), of(1, 0.5), of(2, 0.9), of(3, 0.4), at(4)]);
        let [seen] = watch.verdicts() else {
            panic!("{:?}", watch.verdicts());
        };
        assert!((seen.verdict.confidence - 0.9).abs() < f64::EPSILON);
        let lasted = seen.last_unix_ns - seen.first_unix_ns;
        assert_eq!((lasted, seen.step), (2 * S, 1));
    }

    #[test]
    fn a_service_that_is_gone_is_said_to_be() {
        let mut world = fixture::world(vec![fixture::healthy()]);
        let mut watch = Watch::new(&fixture::healthy(), fixture::NOW_UNIX_NS);
        watch.take(&world, 1);
        assert_eq!(watch.gone(), None);
        world.services[0].state = ServiceState::Lost;
        watch.take(&world, 1);
        assert!(watch.gone().is_some_and(|why| why.contains("lost")));
    }
}
