//! That the agent itself did not run: nobody was heard meanwhile, and that is no silence of theirs.

use std::time::Duration;

use crate::clock::Now;

/// A tick that comes so much too late tells that the agent was stopped (Ctrl-Z of the dashboard that it lives in), or got
/// no CPU.
const TOO_LATE: Duration = Duration::from_secs(1);

/// Looks at how far apart the ticks are.
#[derive(Debug)]
pub(super) struct OwnPause {
    every: Duration,
    ticked_mono_ns: u64,
}

impl OwnPause {
    /// From now on there is a tick each `every`.
    pub(super) fn new(every: Duration, now: Now) -> Self {
        Self {
            every,
            ticked_mono_ns: now.mono_ns,
        }
    }

    /// A tick. For how long the agent has not run before it, where that is worth a word.
    pub(super) fn tick(&mut self, now: Now) -> Option<Duration> {
        let paused = now.since(self.ticked_mono_ns).saturating_sub(self.every);
        self.ticked_mono_ns = now.mono_ns;
        (paused >= TOO_LATE).then_some(paused)
    }
}

#[cfg(test)]
mod tests {
    use ax_wire::view::ServiceState;

    use super::*;
    use crate::{diagnosis::scene::Scene, history::ServiceHistory};

    fn at(ms: u64) -> Now {
        Now {
            mono_ns: ms * 1_000_000,
            unix_ns: 0,
        }
    }

    #[test]
    fn a_late_tick_is_a_pause_and_a_slow_one_is_not() {
        let mut pause = OwnPause::new(Duration::from_secs(1), at(0));
        assert_eq!(pause.tick(at(1_000)), None);
        assert_eq!(pause.tick(at(2_900)), None, "late by 900 ms");
        assert_eq!(pause.tick(at(9_900)), Some(Duration::from_secs(6)));
        assert_eq!(pause.tick(at(10_900)), None, "it is over");
    }

    /// Of seven seconds without a word six were those in which nobody listened; of a service that goes on to be silent
    /// the rest counts.
    #[test]
    fn a_pause_of_the_agent_is_no_silence_of_a_service() {
        let mut pause = OwnPause::new(Duration::from_secs(1), at(0));
        let hello = Scene::new().history.hello;
        let mut history = ServiceHistory::new(hello, 1_000, at(0));
        let paused = pause.tick(at(7_000)).expect("did not run");
        assert_eq!(history.state(at(7_000)), ServiceState::Silent);
        history.was_not_heard(paused, at(7_000));
        assert_eq!(history.state(at(7_000)), ServiceState::Live);
        assert_eq!(history.silent_ns(at(7_000)), Some(1_000_000_000));
        assert_eq!(history.state(at(9_500)), ServiceState::Silent);
    }
}
