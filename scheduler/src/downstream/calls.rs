//! The calls of one downstream: who makes them, and which are under way.

use std::{collections::BTreeMap, ptr, sync::atomic::Ordering::Relaxed, thread};

use ax_probe::{
    slot::{self, Subject},
    task_type::{OTHER, TaskType},
    trace::{self, Inherited},
};
use ax_wire::{
    SpanId,
    sample::{CallInFlight, CallerSample, TaskKind},
};

use super::registry::State;
use crate::time;

/// Kinds of callers that one downstream tells apart; the rest is counted as `other`.
pub const MAX_CALLERS: usize = 32;

/// Calls under way that a sample names, the oldest ones.
pub const MAX_OLDEST: usize = 16;

/// Locked when a call begins and when it ends, for as long as it takes to find the caller among at most
/// [`MAX_CALLERS`].
#[derive(Default)]
pub(super) struct Calls {
    /// By a number that counts up: the first ones are the oldest.
    under_way: BTreeMap<u64, UnderWay>,
    next: u64,
    callers: Vec<Caller>,
}

struct UnderWay {
    began_ns: u64,
    /// `None`: nothing that the probe knows.
    subject: Option<Subject>,
    caller: Option<usize>,
}

struct Caller {
    /// `None` for those beyond [`MAX_CALLERS`].
    task: Option<&'static TaskType>,
    in_flight: u64,
    calls: u64,
    errors: u64,
    time_ns: u64,
}

impl Calls {
    fn begin(&mut self, subject: Option<Subject>, now_ns: u64) -> u64 {
        let caller = subject.map(|subject| self.caller(subject.task));
        if let Some(index) = caller {
            self.callers[index].in_flight += 1;
            self.callers[index].calls += 1;
        }
        let number = self.next;
        self.next += 1;
        self.under_way.insert(
            number,
            UnderWay {
                began_ns: now_ns,
                subject,
                caller,
            },
        );
        number
    }

    fn caller(&mut self, task: &'static TaskType) -> usize {
        let known = self
            .callers
            .iter()
            .position(|caller| caller.task.is_none_or(|known| ptr::eq(known, task)));
        known.unwrap_or_else(|| {
            self.callers.push(Caller {
                task: (self.callers.len() < MAX_CALLERS).then_some(task),
                in_flight: 0,
                calls: 0,
                errors: 0,
                time_ns: 0,
            });
            self.callers.len() - 1
        })
    }

    fn end(&mut self, number: u64, failed: bool, now_ns: u64) {
        let Some(ended) = self.under_way.remove(&number) else {
            return;
        };
        if let Some(index) = ended.caller {
            let caller = &mut self.callers[index];
            caller.in_flight -= 1;
            caller.errors += u64::from(failed);
            caller.time_ns += now_ns.saturating_sub(ended.began_ns);
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.under_way.len() as u64
    }

    pub(super) fn begun(&self) -> u64 {
        self.next
    }

    pub(super) fn callers(&self) -> Vec<CallerSample> {
        let callers = self.callers.iter().map(|caller| CallerSample {
            name: caller.task.map_or(OTHER, TaskType::name).to_owned(),
            kind: caller.task.map_or(TaskKind::Other, TaskType::kind),
            lane: caller.task.and_then(TaskType::lane).map(str::to_owned),
            in_flight: caller.in_flight,
            calls_total: caller.calls,
            errors_total: caller.errors,
            time_ns_total: caller.time_ns,
        });
        callers.collect()
    }

    pub(super) fn oldest(&self, now_ns: u64) -> Vec<CallInFlight> {
        let oldest = self.under_way.values().take(MAX_OLDEST);
        let calls = oldest.map(|call| CallInFlight {
            age_ns: now_ns.saturating_sub(call.began_ns),
            caller: call.subject.map(|subject| subject.task.name().to_owned()),
            job: call.subject.and_then(|subject| subject.job),
            trace: call.subject.and_then(|subject| subject.trace),
        });
        calls.collect()
    }
}

/// One call under way, counted out when it is dropped.
pub(super) struct Flight {
    state: &'static State,
    number: u64,
    began_ns: u64,
    span: SpanId,
    inherited: Inherited,
    /// `None`: dropped before its end.
    succeeded: Option<bool>,
}

impl Flight {
    pub(super) fn begin(state: &'static State) -> Self {
        let began_ns = time::now_ns();
        let subject = slot::current_subject();
        let (_, inherited) = trace::inherit();
        Self {
            state,
            number: state.calls.lock().begin(subject, began_ns),
            began_ns,
            span: trace::new_span(),
            inherited,
            succeeded: None,
        }
    }

    /// Runs one poll of the call inside its span.
    pub(super) fn scope<R>(&self, poll: impl FnOnce() -> R) -> R {
        self.inherited.scope(Some(self.span), poll)
    }

    pub(super) fn end(mut self, succeeded: bool) {
        self.succeeded = Some(succeeded);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let now_ns = time::now_ns();
        let failed = self.succeeded == Some(false) || thread::panicking();
        if failed {
            self.state.errors.fetch_add(1, Relaxed);
        } else if self.succeeded.is_none() {
            self.state.cancelled.fetch_add(1, Relaxed);
        }
        let took_ns = now_ns.saturating_sub(self.began_ns);
        self.state.latency.record_ns(took_ns);
        self.state.calls.lock().end(self.number, failed, now_ns);
    }
}
