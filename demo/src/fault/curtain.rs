//! The end of a fault: of its own time, or of the service.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Falls when the service ends or the fault has lasted its time; whoever waits is woken. Needs no runtime, since that may
/// be what the fault has stopped. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Curtain(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    fallen: bool,
    falls_at: Option<Instant>,
}

impl State {
    fn is_up(&self, now: Instant) -> bool {
        !self.fallen && self.falls_at.is_none_or(|at| now < at)
    }
}

impl Curtain {
    /// Ends the fault now.
    pub(crate) fn fall(&self) {
        self.state().fallen = true;
        self.0.changed.notify_all();
    }

    /// Ends the fault in so long.
    pub(crate) fn fall_in(&self, lasting: Duration) {
        self.state().falls_at = Some(Instant::now() + lasting);
        self.0.changed.notify_all();
    }

    /// Waits so long, but not beyond the end. Whether the fault goes on.
    pub(crate) fn pause(&self, length: Duration) -> bool {
        self.wait_until(Some(Instant::now() + length))
    }

    /// Waits for the end.
    pub(crate) fn until_down(&self) {
        self.wait_until(None);
    }

    fn wait_until(&self, until: Option<Instant>) -> bool {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let up = state.is_up(now);
            if !up || until.is_some_and(|until| now >= until) {
                return up;
            }
            let wake_at = [until, state.falls_at].into_iter().flatten().min();
            let length = wake_at.map_or(Duration::MAX, |at| at.saturating_duration_since(now));
            let woken = self.0.changed.wait_timeout(state, length);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_mins(10);

    #[test]
    fn it_falls_by_itself_when_the_time_is_over() {
        let curtain = Curtain::default();
        assert!(curtain.pause(Duration::from_millis(1)));
        curtain.fall_in(Duration::from_millis(20));
        assert!(!curtain.pause(LONG));
        curtain.until_down();
    }

    #[test]
    fn whoever_waits_is_woken_when_it_falls() {
        let curtain = Curtain::default();
        let waits = curtain.clone();
        let waiting = thread::spawn(move || waits.pause(LONG));
        curtain.fall();
        assert!(!waiting.join().expect("no panic"));
        assert!(!curtain.pause(LONG));
    }
}
