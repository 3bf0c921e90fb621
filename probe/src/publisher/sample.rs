//! Gathers what one sample says.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use ax_wire::{
    LatencyHistogram,
    hello::ClockAnchor,
    sample::{
        BlockingPoolSample, DownstreamSample, Dropped, RuntimeSample, Sample, TypeSample,
        WorkerSample, WorkerState,
    },
};

use crate::{
    clock,
    runtime::{self, Watched},
    shared::Shared,
    slot::{self, ByWorker, Slot},
    source, task_type,
    thread_groups::ThreadGroups,
    threads, trace,
};

/// How far the wall clock may part from the anchor before a new one is sent.
const CLOCK_STEP_NS: u64 = 100_000_000;

/// Makes samples, one after the other.
pub(super) struct Sampler {
    shared: Arc<Shared>,
    seq: u64,
    /// When the last sample was taken that went to the socket.
    handed_ns: u64,
    anchor: ClockAnchor,
    /// From a sample that was taken and then could not be sent: its histograms belong to the next one.
    carried: Vec<TypeSample>,
    carried_downstreams: Vec<DownstreamSample>,
    groups: ThreadGroups,
}

/// Both clocks now.
pub(super) fn anchor_now() -> ClockAnchor {
    ClockAnchor {
        mono_ns: clock::now_ns(),
        unix_ns: clock::unix_ns(),
    }
}

impl Sampler {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let anchor = anchor_now();
        Self {
            shared: Arc::clone(shared),
            seq: 0,
            handed_ns: anchor.mono_ns,
            anchor,
            carried: Vec::new(),
            carried_downstreams: Vec::new(),
            groups: ThreadGroups::default(),
        }
    }

    /// The anchor for a hello.
    pub(super) fn anchor(&mut self) -> ClockAnchor {
        self.anchor = anchor_now();
        self.anchor
    }

    /// It is time for a sample and the agent takes none: nothing is taken out of the histograms.
    pub(super) fn skip(&mut self) {
        self.seq += 1;
        self.count_dropped();
    }

    /// Frames are lost for good.
    pub(super) fn count_dropped(&self) {
        self.shared.frames_dropped.fetch_add(1, Relaxed);
    }

    /// The types as the next sample will show them, with their histograms left for it.
    pub(super) fn peek_types(&self) -> Vec<TypeSample> {
        let mut types = task_type::peek_all();
        for carried in &self.carried {
            merge(&mut types, carried.clone());
        }
        types
    }

    /// Takes a sample. Whoever cannot send it gives it back by [`Self::give_back`].
    pub(super) fn take(&mut self) -> Sample {
        let now_ns = clock::now_ns();
        let slots = slot::all();
        let by_worker = slot::by_worker(&slots);
        let own =
            [&self.shared.watchdog_tid, &self.shared.publisher_tid].map(|tid| tid.load(Relaxed));
        let lag = self.shared.outbox.lock().take_lag();
        let mut types = task_type::sample_all();
        for carried in self.carried.drain(..) {
            merge(&mut types, carried);
        }
        let mut downstreams = source::sample_downstreams();
        for carried in self.carried_downstreams.drain(..) {
            merge_downstream(&mut downstreams, carried);
        }
        let runtimes = runtime_samples(&by_worker, now_ns);
        let process = threads::process_sample(&own);
        let sample = Sample {
            seq: self.seq,
            at_mono_ns: now_ns,
            interval_ns: now_ns.saturating_sub(self.handed_ns),
            clock: self.step(),
            lag,
            threads: self.groups.look(&runtimes, &process, &own),
            runtimes,
            process,
            lanes: source::sample_all(),
            oldest_jobs: source::oldest_jobs(now_ns, &slots),
            waiting_jobs: source::waiting_jobs(now_ns),
            types,
            routes: trace::sample_routes(),
            downstreams,
            dropped: dropped(&self.shared),
            incidents_suppressed_total: self.shared.incidents.suppressed_total(),
        };
        self.seq += 1;
        self.handed_ns = now_ns;
        sample
    }

    /// The connection broke before the sample went out.
    pub(super) fn give_back(&mut self, sample: Sample) {
        self.count_dropped();
        self.handed_ns = sample.at_mono_ns.saturating_sub(sample.interval_ns);
        for of in sample.types {
            merge(&mut self.carried, of);
        }
        for of in sample.downstreams {
            merge_downstream(&mut self.carried_downstreams, of);
        }
        self.shared.outbox.lock().put_back(Vec::new(), sample.lag);
    }

    /// A new anchor, where the wall clock was stepped.
    fn step(&mut self) -> Option<ClockAnchor> {
        let now = anchor_now();
        let expected = self.anchor.to_unix_ns(now.mono_ns);
        (expected.abs_diff(now.unix_ns) > CLOCK_STEP_NS).then(|| {
            self.anchor = now;
            now
        })
    }
}

/// What was lost so far.
pub(crate) fn dropped(shared: &Shared) -> Dropped {
    let (events_total, lag_points_total) = {
        let outbox = shared.outbox.lock();
        (outbox.dropped_events, outbox.dropped_lag_points)
    };
    Dropped {
        frames_total: shared.frames_dropped.load(Relaxed),
        events_total,
        lag_points_total,
        types_folded_total: task_type::folded_total(),
        threads_unseen_total: slot::unseen_total(),
        baggage_entries_total: trace::baggage_dropped_total(),
        snapshots_failed_total: shared.incidents.failed_total(),
    }
}

/// Adds the histograms of `from`. Its counts are totals, so the newer ones stay.
fn merge(types: &mut Vec<TypeSample>, from: TypeSample) {
    let same =
        |of: &&mut TypeSample| (&of.name, of.kind, &of.lane) == (&from.name, from.kind, &from.lane);
    match types.iter_mut().find(same) {
        Some(into) => {
            merge_histogram(&mut into.queue_wait, from.queue_wait);
            merge_histogram(&mut into.run, from.run);
            merge_histogram(&mut into.poll, from.poll);
        }
        None => types.push(from),
    }
}

/// The same for a downstream.
fn merge_downstream(downstreams: &mut Vec<DownstreamSample>, from: DownstreamSample) {
    match downstreams.iter_mut().find(|of| of.name == from.name) {
        Some(into) => {
            merge_histogram(&mut into.latency, from.latency);
            merge_histogram(&mut into.wait, from.wait);
        }
        None => downstreams.push(from),
    }
}

fn merge_histogram(into: &mut Option<LatencyHistogram>, from: Option<LatencyHistogram>) {
    match (into.as_mut(), from) {
        (Some(into), Some(from)) => into.merge(&from),
        (None, from) => *into = from,
        (Some(_), None) => {}
    }
}

/// Each runtime with its workers.
pub(crate) fn runtime_samples(by_worker: &ByWorker<'_>, now_ns: u64) -> Vec<RuntimeSample> {
    let watched = runtime::all();
    let samples = watched.iter();
    samples
        .map(|watched| sample_runtime(watched, by_worker, now_ns))
        .collect()
}

fn sample_runtime(watched: &Watched, by_worker: &ByWorker<'_>, now_ns: u64) -> RuntimeSample {
    let metrics = watched.handle.metrics();
    RuntimeSample {
        info: watched.info.clone(),
        alive_tasks: metrics.num_alive_tasks() as u64,
        global_queue_depth: metrics.global_queue_depth() as u64,
        blocking: sample_blocking(watched),
        workers: (0..watched.info.workers)
            .map(|index| {
                let slot = by_worker.get(&(watched.info.id, index));
                sample_worker(watched, index, slot.map(|(_, slot)| *slot), now_ns)
            })
            .collect(),
    }
}

fn sample_blocking(watched: &Watched) -> BlockingPoolSample {
    #[cfg(tokio_unstable)]
    let (threads, idle_threads, queue_depth) = {
        let metrics = watched.handle.metrics();
        (
            Some(metrics.num_blocking_threads() as u64),
            Some(metrics.num_idle_blocking_threads() as u64),
            Some(metrics.blocking_queue_depth() as u64),
        )
    };
    #[cfg(not(tokio_unstable))]
    let (threads, idle_threads, queue_depth) = (None, None, None);
    BlockingPoolSample {
        threads,
        idle_threads,
        queue_depth,
        lag_ns: watched.blocking_lag_ns(),
        watched_running: watched.blocking_running.load(Relaxed),
    }
}

fn sample_worker(watched: &Watched, index: u32, slot: Option<&Slot>, now_ns: u64) -> WorkerSample {
    let metrics = watched.handle.metrics();
    let worker = index as usize;
    let parked = metrics.worker_park_unpark_count(worker) % 2 == 1;
    let tid = slot.and_then(Slot::tid);
    let poll = slot.and_then(Slot::poll_in_progress);
    WorkerSample {
        index,
        tid,
        busy_ns_total: clock::duration_ns(metrics.worker_total_busy_duration(worker)),
        parks_total: metrics.worker_park_count(worker),
        state: if parked {
            WorkerState::Parked
        } else if watched.is_stalled(index) {
            WorkerState::Stalled
        } else {
            WorkerState::Busy
        },
        poll: poll.filter(|_| !parked).map(|poll| poll.at(now_ns)),
        thread: tid.and_then(threads::thread_sample),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, panic::Location};

    use ax_wire::sample::{LagPoint, TaskKind};

    use super::*;
    use crate::probe::Probe;

    fn sampler() -> Sampler {
        let settings = Probe::builder("test").into_settings();
        Sampler::new(&Arc::new(Shared::new(settings)))
    }

    fn polls(sample: &Sample, name: &str) -> u64 {
        let of = sample.types.iter().find(|of| of.name == name);
        let poll = of.and_then(|of| of.poll.as_ref());
        poll.map_or(0, LatencyHistogram::count)
    }

    #[test]
    fn what_a_lost_sample_held_is_in_the_next_one() {
        let mut sampler = sampler();
        let task = task_type::task_type(TaskKind::Task, None, "t-carried", Location::caller());
        task.polled(1_000);
        sampler.shared.outbox.lock().push_lag(LagPoint {
            runtime: ax_wire::RuntimeId(1),
            at_mono_ns: 1,
            schedule_ns: Some(1),
            timer_ns: None,
            stall_ns: None,
        });
        let lost = sampler.take();
        assert_eq!((polls(&lost, "t-carried"), lost.lag.len()), (1, 1));
        let began_ns = lost.at_mono_ns - lost.interval_ns;
        sampler.give_back(lost);
        task.polled(1_000);
        let next = sampler.take();
        assert_eq!((polls(&next, "t-carried"), next.lag.len()), (2, 1));
        assert_eq!(next.at_mono_ns - next.interval_ns, began_ns);
        assert_eq!((next.seq, next.dropped.frames_total), (1, 1));
        assert_eq!(polls(&sampler.take(), "t-carried"), 0);
    }

    thread_local! {
        /// Of each test its own, which takes its samples on its own thread.
        static TOLD: Cell<bool> = const { Cell::new(false) };
    }

    /// One call was made, and the first to ask is told of it.
    fn one_downstream() -> Vec<DownstreamSample> {
        let mut latency = LatencyHistogram::new();
        latency.record_ns(1_000_000);
        vec![DownstreamSample {
            name: "ocr".into(),
            latency: (!TOLD.replace(true)).then_some(latency),
            ..DownstreamSample::default()
        }]
    }

    #[test]
    fn what_a_lost_sample_said_of_a_downstream_is_in_the_next_one() {
        let mut sampler = sampler();
        let calls = |sample: &Sample| {
            let latency = sample.downstreams[0].latency.as_ref();
            latency.map_or(0, LatencyHistogram::count)
        };
        source::show_downstreams(one_downstream);
        let lost = sampler.take();
        assert_eq!((lost.downstreams.len(), calls(&lost)), (1, 1));
        sampler.give_back(lost);
        let next = sampler.take();
        assert_eq!((next.downstreams.len(), calls(&next)), (1, 1));
        assert_eq!(calls(&sampler.take()), 0);
    }

    #[test]
    fn a_skipped_sample_leaves_the_histograms_and_is_counted() {
        let mut sampler = sampler();
        let task = task_type::task_type(TaskKind::Task, None, "t-skipped", Location::caller());
        task.polled(1_000);
        sampler.skip();
        let next = sampler.take();
        assert_eq!((next.seq, next.dropped.frames_total), (1, 1));
        assert_eq!(polls(&next, "t-skipped"), 1);
    }

    #[test]
    fn the_anchor_is_sent_again_only_after_a_step_of_the_wall_clock() {
        let mut sampler = sampler();
        sampler.anchor();
        assert_eq!(sampler.take().clock, None);
        sampler.anchor.unix_ns -= 2 * CLOCK_STEP_NS;
        assert!(sampler.take().clock.is_some());
        assert_eq!(sampler.take().clock, None);
    }
}
