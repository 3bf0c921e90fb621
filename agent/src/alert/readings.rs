//! The figures of one judgement: each metric is worked out once, however many rules look at it.

use super::{Metric, Reading, Rule, metrics::p99s};
use crate::{clock::Now, window::Window};

/// What is known so far.
pub(super) struct Readings<'a> {
    window: Window<'a>,
    now: Now,
    known: [Option<Vec<Reading>>; Metric::COUNT],
}

impl<'a> Readings<'a> {
    pub(super) fn new(window: Window<'a>, now: Now) -> Self {
        Self {
            window,
            now,
            known: [const { None }; Metric::COUNT],
        }
    }

    /// The figures of a metric, of all subjects.
    pub(super) fn of(&mut self, metric: Metric) -> &[Reading] {
        let is_missing = self.known[metric as usize].is_none();
        // These two come from the same histograms, which are most of what a judgement costs.
        if is_missing && matches!(metric, Metric::RunP99 | Metric::QueueWaitP99) {
            let (run, queue_wait) = p99s(self.window);
            self.known[Metric::RunP99 as usize] = Some(run);
            self.known[Metric::QueueWaitP99 as usize] = Some(queue_wait);
        }
        let (window, now) = (self.window, self.now);
        self.known[metric as usize].get_or_insert_with(|| metric.readings(window, now))
    }

    /// The figures that a rule is about.
    pub(super) fn of_rule(&mut self, rule: &Rule) -> Vec<&Reading> {
        let all = self.of(rule.metric).iter();
        all.filter(|reading| rule.is_about_subject(reading.subject.as_deref()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::scene::Scene;

    /// What is known beforehand of a metric is true of its figures, and working it out once changes none.
    #[test]
    fn figures_are_the_same_however_often_they_are_asked_for() {
        let mut scene = Scene::new();
        scene.goes_on(700, |picture| {
            for lane in &mut picture.lanes {
                lane.full(50, 20);
                lane.retried = 10;
            }
        });
        let (window, now) = (scene.history.window(), scene.now());
        let mut readings = Readings::new(window, now);
        let mut with_figures = 0;
        for metric in Metric::all().chain(Metric::all()) {
            let alone = metric.readings(window, now);
            assert_eq!(readings.of(metric), alone, "{metric:?}");
            for reading in &alone {
                let has = reading.subject.is_some();
                assert_eq!(has, metric.has_subjects(), "{metric:?}");
            }
            with_figures += usize::from(!alone.is_empty());
        }
        assert!(with_figures > 30, "{with_figures}");
    }
}
