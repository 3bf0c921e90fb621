//! When evidence is taken: a pure state machine over what the watchdog sees at each of its ticks.

use std::collections::VecDeque;

/// Most incidents an hour that are taken down by themselves. Each may be a file of some hundred kilobytes.
pub const AUTOMATIC_PER_HOUR: usize = 20;

/// Most captures a minute that people and the service's code get together: more than an agent lets people ask for.
pub const CAPTURES_PER_MINUTE: usize = 20;

const MINUTE_NS: u64 = 60_000_000_000;
const HOUR_NS: u64 = 60 * MINUTE_NS;

/// Quiet for so long ends an episode. Several workers that are blocked at once, and the lag that shows 100 ms later, are
/// one.
const EPISODE_GAP_NS: u64 = 1_000_000_000;

/// Bounds on how often evidence is taken.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// From one that was taken by itself to the next.
    pub(crate) cooldown_ns: u64,
    /// None by itself for so long after the probe was installed: a service that starts blocks its workers.
    pub(crate) quiet_start_ns: u64,
}

/// A time in which something is wrong without a longer break.
struct Episode {
    wrong_at_ns: u64,
    taken: bool,
}

/// What a tick decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing to do.
    Nothing,
    /// Take evidence now.
    Take,
    /// An episode is over of which none was taken.
    Suppressed,
}

/// Decides when evidence is taken: once an episode, within the limits. An episode that outlasts what suppressed it is
/// taken then.
pub(crate) struct Trigger {
    limits: Limits,
    quiet_until_ns: u64,
    episode: Option<Episode>,
    automatic: Bucket,
    captures: Bucket,
}

impl Trigger {
    pub(crate) fn new(limits: Limits, now_ns: u64) -> Self {
        Self {
            quiet_until_ns: now_ns.saturating_add(limits.quiet_start_ns),
            limits,
            episode: None,
            automatic: Bucket::new(AUTOMATIC_PER_HOUR, HOUR_NS),
            captures: Bucket::new(CAPTURES_PER_MINUTE, MINUTE_NS),
        }
    }

    /// Takes in one tick. `wrong`: a stall or the lag has reached the threshold. `debugged` is asked last: whether a
    /// debugger holds the process, so that what stands still does so on purpose.
    pub(crate) fn tick(
        &mut self,
        now_ns: u64,
        wrong: bool,
        debugged: impl FnOnce() -> bool,
    ) -> Decision {
        if let Some(episode) = &self.episode
            && !wrong
        {
            if now_ns.saturating_sub(episode.wrong_at_ns) < EPISODE_GAP_NS {
                return Decision::Nothing;
            }
            let taken = episode.taken;
            self.episode = None;
            return if taken {
                Decision::Nothing
            } else {
                Decision::Suppressed
            };
        }
        if !wrong {
            return Decision::Nothing;
        }
        let episode = self.episode.get_or_insert(Episode {
            wrong_at_ns: now_ns,
            taken: false,
        });
        episode.wrong_at_ns = now_ns;
        let cool = self
            .automatic
            .last()
            .is_none_or(|last_ns| now_ns.saturating_sub(last_ns) >= self.limits.cooldown_ns);
        if episode.taken
            || now_ns < self.quiet_until_ns
            || !cool
            || !self.automatic.has_room(now_ns)
            || debugged()
        {
            return Decision::Nothing;
        }
        episode.taken = true;
        self.automatic.add(now_ns);
        Decision::Take
    }

    /// Whether a capture that was asked for may be taken now.
    pub(crate) fn may_capture(&mut self, now_ns: u64) -> bool {
        let may = self.captures.has_room(now_ns);
        if may {
            self.captures.add(now_ns);
        }
        may
    }
}

/// At most so many in a span of time.
struct Bucket {
    most: usize,
    span_ns: u64,
    times: VecDeque<u64>,
}

impl Bucket {
    fn new(most: usize, span_ns: u64) -> Self {
        Self {
            most,
            span_ns,
            times: VecDeque::with_capacity(most),
        }
    }

    fn last(&self) -> Option<u64> {
        self.times.back().copied()
    }

    fn has_room(&mut self, now_ns: u64) -> bool {
        let span_ns = self.span_ns;
        // The newest stays, for `last`.
        while self.times.len() >= self.most
            && let Some(first_ns) = self.times.front()
            && now_ns.saturating_sub(*first_ns) >= span_ns
        {
            self.times.pop_front();
        }
        self.times.len() < self.most
    }

    fn add(&mut self, now_ns: u64) {
        self.times.push_back(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision::*, *};

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn trigger(cooldown_s: u64, quiet_s: u64) -> Trigger {
        let limits = Limits {
            cooldown_ns: cooldown_s * SECOND,
            quiet_start_ns: quiet_s * SECOND,
        };
        Trigger::new(limits, 0)
    }

    /// Ticks every 10 ms over `ms`, something wrong or not; the decisions that were not `Nothing`, with their time in ms.
    fn run(trigger: &mut Trigger, ms: std::ops::Range<u64>, wrong: bool) -> Vec<(u64, Decision)> {
        let ticks = ms.step_by(10);
        let decided = ticks.map(|ms| (ms, trigger.tick(ms * MS, wrong, || false)));
        decided
            .filter(|(_, decision)| *decision != Nothing)
            .collect()
    }

    #[test]
    fn an_episode_is_taken_once_at_its_beginning() {
        let mut trigger = trigger(0, 0);
        assert_eq!(run(&mut trigger, 0..2_000, true), [(0, Take)]);
        // The lag of a stall shows after the stall has ended.
        assert_eq!(run(&mut trigger, 2_000..2_200, false), []);
        assert_eq!(run(&mut trigger, 2_200..2_300, true), []);
        assert_eq!(run(&mut trigger, 2_300..4_000, false), []);
        assert_eq!(run(&mut trigger, 4_000..4_100, true), [(4_000, Take)]);
    }

    #[test]
    fn the_cooldown_suppresses_counts_once_and_is_outlasted() {
        let mut trigger = trigger(60, 0);
        assert_eq!(run(&mut trigger, 0..300, true), [(0, Take)]);
        assert_eq!(run(&mut trigger, 300..5_000, false), []);
        assert_eq!(run(&mut trigger, 5_000..6_000, true), []);
        let over = run(&mut trigger, 6_000..9_000, false);
        assert_eq!(over, [(6_990, Suppressed)]);
        assert_eq!(run(&mut trigger, 50_000..70_000, true), [(60_000, Take)]);
        assert_eq!(run(&mut trigger, 70_000..80_000, false), []);
    }

    #[test]
    fn a_start_is_quiet_and_what_goes_on_is_taken_after_it() {
        let mut trigger = trigger(60, 10);
        assert_eq!(run(&mut trigger, 1_000..2_000, true), []);
        assert_eq!(run(&mut trigger, 2_000..5_000, false).len(), 1);
        assert_eq!(run(&mut trigger, 9_000..11_000, true), [(10_000, Take)]);
    }

    #[test]
    fn nothing_is_taken_while_a_debugger_holds_the_process() {
        let mut trigger = trigger(0, 0);
        assert_eq!(trigger.tick(0, true, || true), Nothing);
        assert_eq!(trigger.tick(2 * SECOND, false, || true), Suppressed);
        assert_eq!(trigger.tick(3 * SECOND, true, || false), Take);
    }

    #[test]
    fn no_more_than_so_many_an_hour() {
        let mut trigger = trigger(0, 0);
        let mut taken = 0;
        // An episode every 10 s for two hours.
        for number in 0..720_u64 {
            let now_ns = number * 10 * SECOND;
            taken += usize::from(trigger.tick(now_ns, true, || false) == Take);
            trigger.tick(now_ns + 2 * SECOND, false, || false);
        }
        assert_eq!(taken, 2 * AUTOMATIC_PER_HOUR);
    }

    #[test]
    fn captures_know_no_cooldown_and_have_a_rate_of_their_own() {
        let mut trigger = trigger(60, 10);
        let may = |trigger: &mut Trigger, now_ns| {
            let asked = (0..30).filter(|_| trigger.may_capture(now_ns));
            asked.count()
        };
        assert_eq!(may(&mut trigger, 0), CAPTURES_PER_MINUTE);
        assert_eq!(may(&mut trigger, 59 * SECOND), 0);
        assert_eq!(may(&mut trigger, 60 * SECOND), CAPTURES_PER_MINUTE);
    }
}
