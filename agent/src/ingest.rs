//! What comes in from a service, made safe before anything else sees it: text cleaned, lists cut to what is kept of
//! one service, histograms made small.

use ax_wire::{
    event::{Event, Events, Stall},
    hello::{Hello, RuntimeInfo},
    sample::{
        DownstreamSample, JobCounters, RuntimeSample, Sample, TaskRef, ThreadSample, TypeSample,
    },
};

use crate::{
    config::{
        MAX_CALLERS, MAX_CALLS, MAX_DOWNSTREAMS, MAX_LAG_POINTS, MAX_LANES, MAX_ROUTES,
        MAX_RUNTIMES, MAX_TYPES, MAX_WORKERS,
    },
    history::SparseHistogram,
    text::{clean, clean_some},
};

pub(crate) use self::incident::clean_incident;

mod incident;

/// Features that a service may name.
const MAX_FEATURES: usize = 32;

/// A sample that can be kept.
#[derive(Debug)]
pub struct CleanSample {
    /// The sample, without its histograms.
    pub(crate) sample: Sample,
    /// The histograms of each of its types, in the same order.
    pub(crate) histograms: Vec<TypeHistograms>,
    /// How many types, lanes, runtimes, workers and lag points were cut.
    pub(crate) folded: u64,
}

/// The three histograms of one type.
#[derive(Debug)]
pub(crate) struct TypeHistograms {
    pub(crate) queue_wait: SparseHistogram,
    pub(crate) run: SparseHistogram,
    pub(crate) poll: SparseHistogram,
}

impl TypeHistograms {
    fn take(from: &mut TypeSample) -> Self {
        // The dense form of 129 types takes 6 MB, so it is given up type by type and as early as can be.
        let sparse = |dense: &mut Option<_>| {
            dense
                .take()
                .as_ref()
                .map(SparseHistogram::from)
                .unwrap_or_default()
        };
        Self {
            queue_wait: sparse(&mut from.queue_wait),
            run: sparse(&mut from.run),
            poll: sparse(&mut from.poll),
        }
    }
}

impl From<Sample> for CleanSample {
    fn from(mut sample: Sample) -> Self {
        let mut folded = 0;
        cut(&mut sample.types, MAX_TYPES, &mut folded);
        cut(&mut sample.lanes, MAX_LANES, &mut folded);
        cut(&mut sample.routes, MAX_ROUTES, &mut folded);
        cut(&mut sample.downstreams, MAX_DOWNSTREAMS, &mut folded);
        let excess_points = sample.lag.len().saturating_sub(MAX_LAG_POINTS);
        sample.lag.drain(..excess_points);
        folded += excess_points as u64;

        clean_runtimes(&mut sample.runtimes, &mut folded);
        for lane in &mut sample.lanes {
            clean(&mut lane.name);
            clean_counters(&mut lane.counters);
        }
        for r#type in &mut sample.types {
            clean(&mut r#type.name);
            clean_some(&mut r#type.lane);
            clean_some(&mut r#type.place);
            clean_counters(&mut r#type.counters);
        }
        for route in &mut sample.routes {
            clean(&mut route.name);
        }
        for downstream in &mut sample.downstreams {
            clean_downstream(downstream, &mut folded);
        }
        let histograms = sample.types.iter_mut().map(TypeHistograms::take).collect();
        Self {
            sample,
            histograms,
            folded,
        }
    }
}

/// Cleans every text of a hello, and cuts its lists.
pub(crate) fn clean_hello(hello: &mut Hello) {
    clean(&mut hello.service);
    clean(&mut hello.probe_version);
    clean_some(&mut hello.service_version);
    clean_some(&mut hello.build_id);
    hello.features.truncate(MAX_FEATURES);
    hello.features.iter_mut().for_each(clean);
    hello.runtimes.truncate(MAX_RUNTIMES);
    hello.runtimes.iter_mut().for_each(clean_runtime);
}

/// Cleans every text of a batch of events.
pub(crate) fn clean_events(events: &mut Events) {
    for event in &mut events.events {
        match event {
            Event::StallBegan(stall) | Event::StallEnded(stall) => clean_stall(stall),
            Event::ObserverNotScheduled(_) | Event::Unknown => {}
        }
    }
}

fn clean_runtimes(runtimes: &mut Vec<RuntimeSample>, folded: &mut u64) {
    cut(runtimes, MAX_RUNTIMES, folded);
    let mut workers_left = MAX_WORKERS;
    for runtime in runtimes {
        clean_runtime(&mut runtime.info);
        cut(&mut runtime.workers, workers_left, folded);
        workers_left -= runtime.workers.len();
        for worker in &mut runtime.workers {
            worker.thread.iter_mut().for_each(clean_thread);
            if let Some(poll) = &mut worker.poll {
                clean_task(&mut poll.task);
            }
        }
    }
}

/// The histograms of downstreams are not kept yet, so they are let go here.
fn clean_downstream(downstream: &mut DownstreamSample, folded: &mut u64) {
    clean(&mut downstream.name);
    cut(&mut downstream.callers, MAX_CALLERS, folded);
    for caller in &mut downstream.callers {
        clean(&mut caller.name);
        clean_some(&mut caller.lane);
    }
    cut(&mut downstream.oldest, MAX_CALLS, folded);
    for call in &mut downstream.oldest {
        clean_some(&mut call.caller);
    }
    downstream.latency = None;
    downstream.wait = None;
}

fn clean_runtime(info: &mut RuntimeInfo) {
    clean_some(&mut info.name);
}

fn clean_stall(stall: &mut Stall) {
    stall.task.iter_mut().for_each(clean_task);
    stall.thread.iter_mut().for_each(clean_thread);
}

fn clean_task(task: &mut TaskRef) {
    clean(&mut task.name);
    clean_some(&mut task.lane);
    clean_some(&mut task.place);
}

/// The sums of counters must not overflow, whatever a stranger sends.
fn clean_counters(counters: &mut JobCounters) {
    let JobCounters {
        submitted_total,
        rejected_total,
        started_total,
        succeeded_total,
        failed_total,
        panicked_total,
        timed_out_total,
        cancelled_total,
    } = counters;
    for total in [
        submitted_total,
        rejected_total,
        started_total,
        succeeded_total,
        failed_total,
        panicked_total,
        timed_out_total,
        cancelled_total,
    ] {
        *total = (*total).min(u64::MAX / 8);
    }
}

/// A state is a letter; anything else would be a way around [`clean`].
fn clean_thread(thread: &mut ThreadSample) {
    thread.state = thread.state.filter(char::is_ascii_alphabetic);
}

fn cut<T>(list: &mut Vec<T>, limit: usize, folded: &mut u64) {
    *folded += list.len().saturating_sub(limit) as u64;
    list.truncate(limit);
}
