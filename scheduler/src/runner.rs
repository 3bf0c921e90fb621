//! A runner: a task that takes job after job from its lane, so that a job costs no task of its own.
//!
//! It owns what it runs. A timeout or a cancellation is the runner dropping the future; the slot in the lane goes back
//! once, in [`Runner::end`], whichever way the job ended. When the runtime drops the runner itself, its `Drop` ends the
//! job and then the lane.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ax_probe::{clock::duration_ns, recorder, slot, task_type::End, trace, wake::WakeDelay};
use ax_wire::recorder::RecordedKind;
use tokio::{
    task::coop,
    time::{Instant, Sleep, sleep_until},
};

use crate::{
    JobError,
    cell::{Header, Run, warn_of_panic},
    events::JobEventKind,
    guard,
    ledger::{WaitKind, Waiting},
    plan::Plan,
    records::Outcome,
    shared::{Ended, Fate, Mode, Next, Shared},
    time, waits,
    waits::WaitCell,
};

/// Jobs that the runners of one lane start together before each lets other tasks run. Larger saves about 5 ns a job,
/// and makes every other task of the runtime wait longer for its turn.
const JOBS_PER_TURN: u64 = 64;

/// The same bound in time, for jobs that compute: looked at between two jobs.
const TIME_PER_TURN: Duration = Duration::from_micros(250);

/// One poll's share of the lane's turn: a lane never takes more of the runtime by having more runners.
struct Turn {
    jobs_left: u64,
    ends_ns: u64,
}

impl Turn {
    fn begin(running: u64, now_ns: u64) -> Self {
        let sharers = running.max(1);
        Self {
            jobs_left: (JOBS_PER_TURN / sharers).max(1),
            ends_ns: now_ns + TIME_PER_TURN.as_nanos() as u64 / sharers,
        }
    }

    /// Whether one more job may begin.
    fn goes_on(&mut self, now_ns: u64) -> bool {
        self.jobs_left -= 1;
        self.jobs_left > 0 && now_ns < self.ends_ns && coop::has_budget_remaining()
    }
}

/// Where a job stands in its trace, and in the log.
struct Place {
    inherited: trace::Inherited,
    log: tracing::Span,
}

impl Place {
    fn of(header: &Header) -> Self {
        let log = tracing::info_span!(
            "job",
            id = header.id.0,
            job_type = header.task.name(),
            lane = &*header.lane.name,
            trace = %header.trace(),
            span = %trace::span_of_job(header.id),
            parent = header.inherited.parent().map(tracing::field::display),
        );
        Self {
            inherited: header.inherited.clone(),
            log,
        }
    }

    /// Runs the user's code inside. The slot, which is entered already, has the job's id.
    fn scope<R>(&self, user_code: impl FnOnce() -> R) -> R {
        self.inherited.scope(None, || self.log.in_scope(user_code))
    }
}

/// The job that a runner has.
struct Current {
    run: Pin<Box<dyn Run>>,
    place: Place,
    timeout_at_ns: u64,
    /// When the grace of its cancellation ends, once the runner has seen that it is being cancelled.
    grace_ends_ns: Option<u64>,
    /// When it is slow; `u64::MAX` once that has been said.
    slow_at_ns: u64,
    /// What it waits for, once an await has had a label.
    waits: Option<Arc<WaitCell>>,
    told_start: bool,
    /// It broke its promise of a heartbeat.
    zombie: bool,
    /// What the timer is set to; `u64::MAX` for not set.
    armed_ns: u64,
    delay: WakeDelay,
}

impl Current {
    /// Tells the flight recorder that the job began, once. Not before its first poll is over: most short jobs end in it,
    /// and then their end says when they began.
    fn tell_start(&mut self) {
        if !self.told_start {
            self.told_start = true;
            let header = self.run.job().header();
            let started_ns = header.started_ns();
            let wait_ns = started_ns.saturating_sub(header.ready_ns());
            header.tell(RecordedKind::Started, started_ns, Some(wait_ns));
        }
    }
}

pub(crate) struct Runner {
    lane: Arc<Shared>,
    number: u32,
    current: Option<Current>,
    /// Kept from job to job, and dropped when the runner parks.
    timer: Option<Pin<Box<Sleep>>>,
    registered: bool,
    /// It has ended by itself, not by its runtime.
    left: bool,
}

impl Runner {
    pub(crate) fn new(lane: Arc<Shared>, number: u32) -> Self {
        Self {
            lane,
            number,
            current: None,
            timer: None,
            registered: false,
            left: false,
        }
    }

    /// Polls the job once. `Some` when it has ended, or has to.
    fn poll_job(current: &mut Current, cx: &mut Context<'_>, now_ns: &mut u64) -> Option<End> {
        let (run, place) = (&mut current.run, &current.place);
        let polled = waits::scope(&mut current.waits, || {
            guard::catch(|| {
                let subject = run.job().header().subject();
                let entered = slot::enter(&subject, *now_ns);
                let polled = current.delay.poll(subject.task, *now_ns, cx, |cx| {
                    place.scope(|| run.as_mut().poll(cx))
                });
                entered.leave();
                polled
            })
        });
        let begun_ns = std::mem::replace(now_ns, time::now_ns());
        let poll_ns = now_ns.saturating_sub(begun_ns);
        let header = current.run.job().header();
        header.task.polled(poll_ns);
        recorder::polled(&header.subject(), poll_ns, *now_ns);
        if let Some(waits) = &current.waits {
            let shown = &header.plan_or_new().waits;
            shown.get_or_init(|| Arc::clone(waits));
        }
        match polled {
            Ok(Poll::Ready(end)) => Some(end),
            Ok(Poll::Pending) => {
                current.run.job().header().set_polled(*now_ns);
                current.tell_start();
                None
            }
            Err(message) => Some(Self::stop(
                current,
                End::Panicked,
                JobError::Panicked(message),
                *now_ns,
            )),
        }
    }

    /// Ends a job that did not end by itself: token, future, outcome, in that order. A panic on the way becomes the
    /// reason.
    fn stop(current: &mut Current, end: End, error: JobError, now_ns: u64) -> End {
        current.run.job().signal_cancel();
        let dropped = guard::catch(|| {
            let entered = slot::enter(&current.run.job().header().subject(), now_ns);
            let run = current.run.as_mut();
            current.place.scope(|| run.drop_future());
            entered.leave();
        });
        let (end, error) = match dropped {
            Ok(()) => (end, error),
            Err(message) => (End::Panicked, JobError::Panicked(message)),
        };
        if let Err(message) = guard::catch(|| current.run.as_mut().fail(error)) {
            warn_of_panic(current.run.job().header(), &message);
        }
        end
    }

    /// The job is pending: ends it if its time is over, else arms the timer for when it will be.
    fn check_time(
        current: &mut Current,
        timer: &mut Option<Pin<Box<Sleep>>>,
        cx: &mut Context<'_>,
        now_ns: u64,
    ) -> Option<End> {
        let header = current.run.job().header();
        if header.is_preempting() && !header.is_cancelling() {
            current.run.job().signal_cancel();
        }
        if header.is_cancelling() && current.grace_ends_ns.is_none() {
            let grace = header.lane.settings.cancel_grace;
            let grace = ax_probe::clock::duration_ns(grace);
            current.grace_ends_ns = Some(now_ns.saturating_add(grace));
        }
        // The clock decides, not the timer: a job that uses up its task's budget on each poll would keep the timer
        // from ever being ready.
        if now_ns >= current.timeout_at_ns {
            let error = header.timed_out();
            return Some(Self::stop(current, End::TimedOut, error, now_ns));
        }
        let beat_ends_ns = header.plan().map_or(u64::MAX, Plan::beat_ends_ns);
        if now_ns >= beat_ends_ns {
            current.zombie = true;
            let promise = header.plan().and_then(|plan| plan.heartbeat);
            let error = JobError::Zombie {
                silent: promise.unwrap_or_default(),
            };
            return Some(Self::stop(current, End::TimedOut, error, now_ns));
        }
        let grace_ends_ns = current.grace_ends_ns.unwrap_or(u64::MAX);
        if now_ns >= grace_ends_ns {
            let error = JobError::Cancelled;
            return Some(Self::stop(current, End::Cancelled, error, now_ns));
        }
        if now_ns >= current.slow_at_ns {
            current.slow_at_ns = u64::MAX;
            let elapsed = time::between(header.started_ns(), now_ns);
            let text = format!(
                "has run for {elapsed:?}, its timeout is {:?}",
                header.timeout()
            );
            let reason: Arc<str> = Arc::from(text);
            header
                .lane
                .warn(header, JobEventKind::Slow, &reason, now_ns);
        }
        let due_ns = current.timeout_at_ns.min(grace_ends_ns);
        let due_ns = due_ns.min(beat_ends_ns).min(current.slow_at_ns);
        // A timer that is set for an earlier time stays: jobs that give signs of life would set it again and again.
        if due_ns < current.armed_ns || now_ns >= current.armed_ns {
            current.armed_ns = due_ns;
            // Without the runtime's time driver this panics, with a message that says so: the job gets it.
            if let Err(message) = guard::catch(|| arm(timer, time::between(now_ns, due_ns), cx)) {
                let error = JobError::Panicked(message);
                return Some(Self::stop(current, End::Panicked, error, now_ns));
            }
        }
        None
    }

    /// Counts the end of `current`, tells its handle, and says what the runner does next. Takes it by value: an attempt
    /// ends once.
    fn end(&self, mut current: Current, end: End, take: bool, now_ns: u64) -> Next {
        if end != End::Succeeded {
            current.tell_start();
        }
        let Current {
            mut run, zombie, ..
        } = current;
        if end == End::Succeeded {
            let ended = Ended::well();
            let (next, _) = self.lane.advance(self.number, Some(&ended), take, now_ns);
            let header = run.job().header();
            let run_ns = header.run_ns(now_ns);
            header.task.ended(end, run_ns);
            header.tell_end(end, now_ns, run_ns);
            if header.keeps_record() {
                let outcome = Outcome::new(end, None);
                self.lane.record(header, outcome, now_ns);
            }
            run.as_mut().publish();
            if run.job().header().is_watched() {
                self.lane.hub.ended(run.job().header(), None);
            }
            return next;
        }
        let reason = run.reason();
        let again = next_attempt(run.job().header(), end, now_ns)
            .and_then(|again| Some((again, run.as_mut().give_back()?)));
        let ended = Ended {
            end,
            again: again.is_some(),
            zombie,
            reason: reason.clone(),
        };
        let (next, fate) = self.lane.advance(self.number, Some(&ended), take, now_ns);
        let header = run.job().header();
        let run_ns = header.run_ns(now_ns);
        match (fate, again) {
            // From here on it is the queue's, and may run again already.
            (Some(Fate::Queued), _) => {}
            (Some(Fate::Waits), Some((Again::After(kind, until_ns), error))) => {
                header.task.retried(run_ns);
                let backoff_ns =
                    (kind != WaitKind::Person).then(|| until_ns.saturating_sub(now_ns));
                header.tell(RecordedKind::Retried, now_ns, backoff_ns);
                // Only a person's decision may end it with this error.
                let error = if kind == WaitKind::Person {
                    Some(error)
                } else {
                    if let Err(message) = guard::catch(|| drop(error)) {
                        warn_of_panic(header, &message);
                    }
                    None
                };
                let job = run.shared();
                self.lane
                    .hub
                    .wait(Waiting::retry(job, kind, (now_ns, until_ns), reason, error));
            }
            (fate, again) => {
                let end = match fate {
                    Some(Fate::Ended(end)) => end,
                    _ => end,
                };
                header.task.ended(end, run_ns);
                header.tell_end(end, now_ns, run_ns);
                if end != End::Cancelled || header.keeps_record() {
                    let outcome = Outcome::new(end, reason.clone());
                    self.lane.record(header, outcome, now_ns);
                }
                if let Some((_, error)) = again {
                    let error = if end == ended.end {
                        error
                    } else {
                        JobError::Cancelled
                    };
                    run.as_mut().fail(error);
                }
                run.as_mut().publish();
                if run.job().header().is_watched() {
                    let reason = reason.unwrap_or_else(|| Arc::from("cancelled"));
                    self.lane.hub.ended(run.job().header(), Some(reason));
                }
            }
        }
        next
    }
}

/// How a job whose attempt has ended comes to another one.
#[derive(Clone, Copy)]
enum Again {
    /// It waits for this, until then.
    After(WaitKind, u64),
    /// It was preempted, and is queued at once.
    Preempted,
}

/// Whether a job whose attempt has ended without success runs again.
fn next_attempt(header: &Header, end: End, now_ns: u64) -> Option<Again> {
    if end == End::Cancelled {
        return header.is_preempting().then_some(Again::Preempted);
    }
    let retry = header.plan()?.retry?;
    let retries_so_far = header.attempt() - 1;
    if retries_so_far < retry.retries {
        let wait = retry.backoff.wait(retries_so_far + 1, header.id.0);
        let until_ns = now_ns.saturating_add(duration_ns(wait));
        Some(Again::After(WaitKind::Retry, until_ns))
    } else {
        retry.manual.then_some(Again::After(WaitKind::Person, 0))
    }
}

/// Wakes this task after `delay`.
fn arm(timer: &mut Option<Pin<Box<Sleep>>>, delay: Duration, cx: &mut Context<'_>) {
    let at = Instant::now() + delay;
    let timer = match timer {
        Some(timer) => {
            timer.as_mut().reset(at);
            timer
        }
        None => timer.insert(Box::pin(sleep_until(at))),
    };
    // Polled once, so that it knows the task; without regard to the budget, which the job may have used up. Where it
    // is ready already, the task has to be polled again.
    if pin!(coop::unconstrained(timer)).poll(cx).is_ready() {
        cx.waker().wake_by_ref();
    }
}

impl Future for Runner {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let me = self.get_mut();
        if !me.registered {
            me.registered = true;
            me.lane.register(me.number, cx.waker());
        }
        let mut now_ns = time::now_ns();
        let mut turn = Turn::begin(me.lane.running(), now_ns);
        let mut next = None;
        loop {
            if let Some(current) = &mut me.current {
                let ended = Self::poll_job(current, cx, &mut now_ns)
                    .or_else(|| Self::check_time(current, &mut me.timer, cx, now_ns));
                let Some(end) = ended else {
                    return Poll::Pending;
                };
                if let Some(current) = me.current.take() {
                    next = Some(me.end(current, end, turn.goes_on(now_ns), now_ns));
                }
            }
            let todo = next.take();
            match todo.unwrap_or_else(|| me.lane.advance(me.number, None, true, now_ns).0) {
                Next::Run(job) => {
                    let header = job.header();
                    let wait_ns = now_ns.saturating_sub(header.ready_ns());
                    header.task.started_after(wait_ns);
                    let plan = header.plan();
                    if let Some(plan) = plan {
                        plan.beat(now_ns);
                    }
                    let waits = plan.and_then(|plan| plan.waits.get()).cloned();
                    let slow_ns = me.lane.settings.slow_after_ns(header.timeout_ns());
                    me.current = Some(Current {
                        timeout_at_ns: now_ns.saturating_add(header.timeout_ns()),
                        slow_at_ns: now_ns.saturating_add(slow_ns),
                        waits,
                        told_start: false,
                        zombie: false,
                        place: Place::of(header),
                        run: job.start(),
                        grace_ends_ns: None,
                        armed_ns: u64::MAX,
                        delay: WakeDelay::default(),
                    });
                }
                Next::Yield => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Next::Park => {
                    me.timer = None;
                    return Poll::Pending;
                }
                Next::Leave => {
                    me.left = true;
                    return Poll::Ready(());
                }
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        // From here on no other runner takes a job either.
        self.lane.close(Mode::Gone);
        if let Some(mut current) = self.current.take() {
            let now_ns = time::now_ns();
            let error = JobError::RuntimeGone;
            let end = Self::stop(&mut current, End::Cancelled, error, now_ns);
            self.end(current, end, false, now_ns);
        }
        self.lane.runtime_gone();
    }
}
