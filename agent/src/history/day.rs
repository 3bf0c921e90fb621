//! What a second of each minute was like, for 25 hours: how it was at this hour a day before.

use std::collections::VecDeque;

use super::{Second, middle};

const MINUTE_NS: u64 = 60_000_000_000;

/// Minutes of a day.
const DAY: u64 = 24 * 60;

/// A day, and half of the hour that is looked at on either side of it.
const MAX_MINUTES: u64 = DAY + 60;

/// So many minutes before and after the same instant of the day before are looked at.
const AROUND: u64 = 30;

/// Fewer minutes of that hour say nothing of it.
const FEWEST: usize = 8;

/// What a second of some span was like. 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Typical {
    /// The largest event-loop lag of the middle second.
    pub(crate) lag_ns: Option<f32>,
    /// Jobs that ended a second.
    pub(crate) jobs_per_s: Option<f32>,
    /// Requests that ended a second.
    pub(crate) requests_per_s: Option<f32>,
    /// The 99th percentile of queue wait, in the lane that is worst, of the middle second in which jobs began.
    pub(crate) queue_wait_ns: Option<f32>,
    /// Jobs queued.
    pub(crate) pending: Option<f32>,
    /// CPUs used.
    pub(crate) cpus_used: Option<f32>,
    /// Resident memory.
    pub(crate) rss_bytes: Option<f32>,
}

impl Typical {
    /// Of these seconds.
    pub(crate) fn of<'a>(seconds: &(impl Iterator<Item = &'a Second> + Clone)) -> Self {
        let all = |of: fn(&Second) -> Option<f64>| {
            let values: Vec<f64> = seconds.clone().filter_map(of).collect();
            values
        };
        let median = |of| middle(all(of)).map(|value| value as f32);
        let mean = |of| {
            let values = all(of);
            (!values.is_empty()).then(|| (values.iter().sum::<f64>() / values.len() as f64) as f32)
        };
        Self {
            lag_ns: median(|second| Some(second.point.lag_max_ns? as f64)),
            jobs_per_s: mean(|second| second.point.finished_per_s),
            requests_per_s: mean(|second| second.requests_per_s.map(f64::from)),
            queue_wait_ns: median(|second| {
                let lanes = second.lanes.iter().flatten();
                let waits = lanes.filter_map(|lane| lane.queue_wait.p99_ns());
                Some(waits.max()? as f64)
            }),
            pending: mean(|second| Some(second.point.pending as f64)),
            cpus_used: mean(|second| second.point.cpus_used),
            rss_bytes: median(|second| Some(second.point.rss_bytes? as f64)),
        }
    }
}

/// 25 hours of one service, however often it was started in them.
#[derive(Debug, Default)]
pub(crate) struct Day {
    /// Oldest first, each with its number since the epoch of the wall clock.
    minutes: VecDeque<(u64, Typical)>,
}

fn minute_of(unix_ns: u64) -> u64 {
    unix_ns / MINUTE_NS
}

impl Day {
    /// Keeps the minute that is over now that this second has come after these.
    pub(super) fn take(&mut self, seconds: &VecDeque<Second>, next: &Second) {
        let Some(last) = seconds.back() else {
            return;
        };
        let minute = minute_of(last.point.at_unix_ns);
        if minute_of(next.point.at_unix_ns) == minute {
            return;
        }
        // A wall clock that was set back lives through some minutes again, which take the place of those.
        while self
            .minutes
            .back()
            .is_some_and(|(known, _)| *known >= minute)
        {
            self.minutes.pop_back();
        }
        while self
            .minutes
            .front()
            .is_some_and(|(known, _)| known + MAX_MINUTES <= minute)
        {
            self.minutes.pop_front();
        }
        let newest_first = seconds.iter().rev();
        let of_it = newest_first.take_while(|second| minute_of(second.point.at_unix_ns) == minute);
        if self.minutes.capacity() == 0 {
            // All at once, so that a day takes no more than its first minute.
            self.minutes.reserve_exact(MAX_MINUTES as usize);
        }
        self.minutes.push_back((minute, Typical::of(&of_it)));
    }

    /// What a second of the same hour a day before was like, counted from the newest of the seconds that are kept. `None`
    /// where too few minutes of it are known.
    pub(crate) fn before(&self, seconds: &VecDeque<Second>) -> Option<Typical> {
        let minute = minute_of(seconds.back()?.point.at_unix_ns);
        let day_before = minute.checked_sub(DAY)?;
        let hour = day_before.saturating_sub(AROUND)..=day_before + AROUND;
        let of_it = self.minutes.iter();
        let of_it: Vec<Typical> = of_it
            .filter(|(minute, _)| hour.contains(minute))
            .map(|(_, typical)| *typical)
            .collect();
        if of_it.len() < FEWEST {
            return None;
        }
        let median = |of: fn(&Typical) -> Option<f32>| {
            let values = of_it.iter().filter_map(of).map(f64::from);
            middle(values.collect()).map(|value| value as f32)
        };
        Some(Typical {
            lag_ns: median(|typical| typical.lag_ns),
            jobs_per_s: median(|typical| typical.jobs_per_s),
            requests_per_s: median(|typical| typical.requests_per_s),
            queue_wait_ns: median(|typical| typical.queue_wait_ns),
            pending: median(|typical| typical.pending),
            cpus_used: median(|typical| typical.cpus_used),
            rss_bytes: median(|typical| typical.rss_bytes),
        })
    }

    pub(super) fn forget_half(&mut self) {
        self.minutes.drain(..self.minutes.len().div_ceil(2));
        self.minutes.shrink_to_fit();
    }

    /// What it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.minutes.capacity() * size_of::<(u64, Typical)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::scene::{S, Scene};

    #[test]
    fn minutes_stay_in_order_when_the_wall_clock_is_set_back() {
        let mut scene = Scene::new();
        scene.goes_on(600, |_| ());
        let numbers = |scene: &Scene| {
            let minutes = scene.history.day.minutes.iter();
            minutes.map(|(minute, _)| *minute).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&scene).len(), 10);
        scene.history.clock.unix_ns -= 300 * S;
        scene.goes_on(600, |_| ());
        let after = numbers(&scene);
        assert!(after.is_sorted_by(|a, b| a < b), "{after:?}");
        assert_eq!(after.len(), 15, "five of them were lived through again");
    }

    #[test]
    fn a_day_takes_the_same_room_from_its_first_minute_on() {
        let mut day = Day::default();
        let mut scene = Scene::new();
        scene.goes_on(2, |_| ());
        let mut next = scene.history.seconds[1].clone();
        for minute in 0..3_000 {
            next.point.at_unix_ns = minute * MINUTE_NS;
            let seconds = VecDeque::from([next.clone()]);
            next.point.at_unix_ns += MINUTE_NS;
            day.take(&seconds, &next);
            assert!(day.bytes() < 128 << 10, "{}", day.bytes());
        }
        assert_eq!(day.minutes.len() as u64, MAX_MINUTES);
        day.forget_half();
        assert!(day.bytes() < 64 << 10);
    }
}
