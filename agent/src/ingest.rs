//! What comes in from a service, made safe before anything else sees it: text cleaned, lists cut to what is kept of
//! one service, histograms made small.

use ax_wire::{
    LatencyHistogram,
    event::{Event, Events, Stall},
    hello::{Hello, RuntimeInfo},
    rules::SilenceRequest,
    sample::{
        DownstreamSample, JobCounters, LaneSample, RuntimeSample, Sample, TaskRef, ThreadSample,
        TypeSample,
    },
    stack::{MAX_FRAMES, ThreadStack},
    view::Backfill,
};

use crate::{
    config::{
        MAX_CALLERS, MAX_CALLS, MAX_DOWNSTREAMS, MAX_EVENTS, MAX_LAG_POINTS, MAX_LANES,
        MAX_LIMIT_MOVES, MAX_QUEUE_BANDS, MAX_ROUTES, MAX_RUNTIMES, MAX_TYPES, MAX_WORKERS,
    },
    history::SparseHistogram,
    text::{clean, clean_some},
};

use self::answers::clean_exemplar;
pub(crate) use self::{
    answers::{clean_action, clean_answer, clean_controlled, clean_question},
    incident::clean_incident,
};

mod answers;
mod diagnosed;
mod incident;
#[cfg(test)]
mod tests;

/// Points of the charts that a service kept itself: ten minutes, twice what a probe keeps.
const MAX_OWN_POINTS: usize = 600;

/// Features that a service may name.
const MAX_FEATURES: usize = 32;

/// Cleans what a viewer asks to be silent: other viewers read it, and logs.
pub(crate) fn clean_silence(request: &mut SilenceRequest) {
    clean_some(&mut request.rule);
    clean_some(&mut request.service);
    clean_some(&mut request.subject);
    clean(&mut request.reason);
}

/// A sample that can be kept.
#[derive(Debug)]
pub struct CleanSample {
    /// The sample, without its histograms.
    pub(crate) sample: Sample,
    /// The histograms of each of its types, in the same order.
    pub(crate) histograms: Vec<TypeHistograms>,
    /// The histograms of each of its downstreams, in the same order.
    pub(crate) downstreams: Vec<DownstreamHistograms>,
    /// How many types, lanes, runtimes, workers and lag points were cut.
    pub(crate) folded: u64,
}

/// The histograms of one type.
#[derive(Debug)]
pub(crate) struct TypeHistograms {
    pub(crate) queue_wait: SparseHistogram,
    pub(crate) run: SparseHistogram,
    pub(crate) poll: SparseHistogram,
    pub(crate) schedule_delay: SparseHistogram,
}

/// The two histograms of one downstream.
#[derive(Debug)]
pub(crate) struct DownstreamHistograms {
    pub(crate) latency: SparseHistogram,
    pub(crate) wait: SparseHistogram,
}

impl DownstreamHistograms {
    fn take(from: &mut DownstreamSample) -> Self {
        Self {
            latency: sparse(&mut from.latency),
            wait: sparse(&mut from.wait),
        }
    }
}

/// The dense form of 129 types takes 6 MB, so it is given up one by one and as early as can be.
fn sparse(dense: &mut Option<LatencyHistogram>) -> SparseHistogram {
    let dense = dense.take();
    dense
        .as_ref()
        .map(SparseHistogram::from)
        .unwrap_or_default()
}

impl TypeHistograms {
    fn take(from: &mut TypeSample) -> Self {
        Self {
            queue_wait: sparse(&mut from.queue_wait),
            run: sparse(&mut from.run),
            poll: sparse(&mut from.poll),
            schedule_delay: sparse(&mut from.schedule_delay),
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
        cut_oldest(&mut sample.lag, MAX_LAG_POINTS, &mut folded);

        clean_runtimes(&mut sample.runtimes, &mut folded);
        for lane in &mut sample.lanes {
            clean_lane(lane, &mut folded);
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
        diagnosed::clean_facts(&mut sample, &mut folded);
        let histograms = sample.types.iter_mut().map(TypeHistograms::take).collect();
        let downstreams = sample.downstreams.iter_mut();
        let downstreams = downstreams.map(DownstreamHistograms::take).collect();
        Self {
            sample,
            histograms,
            downstreams,
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
    // Not counted: each sample tells the runtimes again, and is counted.
    let mut folded = 0;
    cut(&mut hello.features, MAX_FEATURES, &mut folded);
    hello.features.iter_mut().for_each(clean);
    cut(&mut hello.runtimes, MAX_RUNTIMES, &mut folded);
    hello.runtimes.iter_mut().for_each(clean_runtime);
}

/// Cuts the charts that a service kept itself, and puts them in the order of their time. Returns how many points were cut.
pub(crate) fn clean_backfill(charts: &mut Backfill) -> u64 {
    let (mut folded, mut workers) = (0, 0);
    cut_oldest(&mut charts.points, MAX_OWN_POINTS, &mut folded);
    for point in &mut charts.points {
        // Not counted: each sample tells the workers again, and is counted.
        cut(&mut point.busy_shares, MAX_WORKERS, &mut workers);
    }
    charts.points.sort_by_key(|point| point.at_unix_ns);
    folded
}

/// Cleans every text of a batch of events, and cuts it. Returns how many events were cut.
pub(crate) fn clean_events(events: &mut Events) -> u64 {
    let mut folded = 0;
    cut_oldest(&mut events.events, MAX_EVENTS, &mut folded);
    for event in &mut events.events {
        match event {
            Event::StallBegan(stall) | Event::StallEnded(stall) => clean_stall(stall),
            Event::Stack(stack) => clean_stack(stack),
            Event::Exemplar(exemplar) => clean_exemplar(exemplar, &mut folded),
            Event::ObserverNotScheduled(_) | Event::Unknown => {}
        }
    }
    folded
}

/// A probe sends addresses. A name from it would be taken for one that was read from the file.
fn clean_stack(stack: &mut ThreadStack) {
    stack.modules.truncate(MAX_FRAMES);
    for module in &mut stack.modules {
        clean(&mut module.path);
        clean_some(&mut module.build_id);
        module.unnamed = None;
    }
    stack.frames.truncate(MAX_FRAMES);
    for frame in &mut stack.frames {
        frame.functions.clear();
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

fn clean_lane(lane: &mut LaneSample, folded: &mut u64) {
    clean(&mut lane.name);
    clean_counters(&mut lane.counters);
    cut_oldest(&mut lane.limit_moves, MAX_LIMIT_MOVES, folded);
    if let Some(queue) = &mut lane.queue {
        cut(queue, MAX_QUEUE_BANDS, folded);
    }
}

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

/// Leaves the first `limit` entries, and no room for what is cut: some lists are kept for as long as their service.
fn cut<T>(list: &mut Vec<T>, limit: usize, folded: &mut u64) {
    if list.len() > limit {
        *folded += (list.len() - limit) as u64;
        list.truncate(limit);
        list.shrink_to_fit();
    }
}

/// [`cut`] of a list whose newest entries stand last and stay.
fn cut_oldest<T>(list: &mut Vec<T>, limit: usize, folded: &mut u64) {
    let excess = list.len().saturating_sub(limit);
    list.drain(..excess);
    *folded += excess as u64;
    if excess > 0 {
        list.shrink_to_fit();
    }
}
