//! Who may run: the runners of a lane, the limit, and who is woken next. Pure state, kept under the lane's lock; the
//! tests put it under a model checker.
//!
//! 1. A job is begun only while fewer than `limit` run: the limit is never exceeded by a start. A limit that falls
//!    below what runs stops nothing; nothing begins until enough have ended.
//! 2. At most one runner is being called (woken or made); one that begins a job and sees more passes the call on. So
//!    whenever a job is queued and may begin, a call is in flight or a runner is between two jobs.
//! 3. A runner parks only after it saw, under the same lock, that it has nothing to begin.

/// The runner that has to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// It is parked.
    Wake(u32),
    /// It does not exist yet.
    Make(u32),
}

#[derive(Debug)]
pub(crate) struct Slots {
    limit: usize,
    running: usize,
    paused: bool,
    /// Whether each runner is parked, by number.
    parked: Vec<bool>,
    /// The parked ones; the last one is the warmest.
    idle: Vec<u32>,
    /// The runner that has been called and has not come yet.
    called: Option<u32>,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            running: 0,
            paused: false,
            parked: Vec::new(),
            idle: Vec::new(),
            called: None,
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Holds from the next start on.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Whether every slot is taken; not in a lane that is paused, where none is given.
    pub(crate) fn is_full(&self) -> bool {
        self.running >= self.limit && !self.paused
    }

    /// Whether one more job may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.running < self.limit && !self.paused
    }

    /// Chooses whom to call where jobs are queued and one may begin, beyond the `beginning` that the caller is about to
    /// begin itself.
    pub(crate) fn call(&mut self, beginning: usize) -> Option<Call> {
        if self.called.is_some() || self.paused || self.running + beginning >= self.limit {
            return None;
        }
        let call = if let Some(runner) = self.idle.pop() {
            self.parked[runner as usize] = false;
            Call::Wake(runner)
        } else if self.parked.len() < self.limit {
            self.parked.push(false);
            Call::Make(self.parked.len() as u32 - 1)
        } else {
            return None;
        };
        let (Call::Wake(runner) | Call::Make(runner)) = call;
        self.called = Some(runner);
        Some(call)
    }

    /// A runner comes for a job. False where nobody called it: it was polled by an old timer, or by its runtime.
    pub(crate) fn arrive(&mut self, runner: u32) -> bool {
        if self.called == Some(runner) {
            self.called = None;
        }
        !self.parked[runner as usize]
    }

    /// Calls a parked runner, to see that there is nothing left.
    pub(crate) fn call_parked(&mut self) -> Option<u32> {
        if self.called.is_some() {
            return None;
        }
        let runner = self.idle.pop()?;
        self.parked[runner as usize] = false;
        self.called = Some(runner);
        Some(runner)
    }

    /// The runner that arrived has called another, and comes again after it: until then the call in flight is its own.
    pub(crate) fn hand_on(&mut self, runner: u32) {
        self.called = Some(runner);
    }

    /// The runner that arrived begins a job.
    pub(crate) fn begin(&mut self) {
        debug_assert!(self.has_room());
        self.running += 1;
    }

    /// Its job has ended.
    pub(crate) fn end(&mut self) {
        self.running -= 1;
    }

    /// The runner that arrived has nothing to begin.
    pub(crate) fn park(&mut self, runner: u32) {
        self.parked[runner as usize] = true;
        self.idle.push(runner);
    }

    /// Lets all parked runners come, to see that the lane has closed.
    pub(crate) fn call_all(&mut self) -> Vec<u32> {
        for runner in &self.idle {
            self.parked[*runner as usize] = false;
        }
        std::mem::take(&mut self.idle)
    }
}
