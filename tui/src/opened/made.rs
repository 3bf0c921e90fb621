//! A view made of what the probe took down, where no agent has added one.

use ax_wire::{
    LatencyHistogram,
    incident::Snapshot,
    sample::{LagPoint, LaneSample, ProcessSample, RuntimeSample, TypeSample},
    view::{
        LagView, LaneView, Point, ProcessView, Quantiles, Rates, RuntimeView, ServiceState,
        ServiceSummary, ServiceView, Suppressed, TypeView, WorkerView,
    },
};

use super::{WINDOW_NS, taken_unix_ns};

/// What the kernel says of a user that nobody has told: `nobody`'s number, as where a user cannot be mapped.
const UNKNOWN_UID: u32 = 65_534;

pub(super) fn made_view(snapshot: &Snapshot) -> ServiceView {
    let hello = &snapshot.hello;
    let incident = snapshot.incident.as_ref();
    let at_unix_ns = taken_unix_ns(snapshot);
    ServiceView {
        summary: ServiceSummary {
            instance: hello.instance,
            service: hello.service.clone(),
            pid: hello.pid,
            uid: UNKNOWN_UID,
            state: match incident {
                Some(_) => ServiceState::Live,
                None => ServiceState::Lost,
            },
            process_start_unix_ns: hello.process_start_unix_ns,
            last_seen_unix_ns: at_unix_ns,
        },
        hello: hello.clone(),
        at_unix_ns,
        window_ns: WINDOW_NS,
        lag: incident.map_or_else(LagView::default, |incident| {
            let points = &incident.lag;
            let mut lags: Vec<_> = points.iter().filter_map(LagPoint::lag_ns).collect();
            lags.sort_unstable();
            LagView {
                now_ns: points.last().and_then(LagPoint::lag_ns),
                p50_ns: quantile(&lags, 0.5),
                p99_ns: quantile(&lags, 0.99),
                max_ns: lags.last().copied(),
                schedule_max_ns: points.iter().filter_map(|point| point.schedule_ns).max(),
                timer_max_ns: points.iter().filter_map(|point| point.timer_ns).max(),
                stall_max_ns: points.iter().filter_map(|point| point.stall_ns).max(),
                points: lags.len() as u64,
            }
        }),
        process: incident.map_or_else(ProcessView::default, |incident| process(&incident.process)),
        runtimes: incident.map_or_else(Vec::new, |incident| {
            incident.runtimes.iter().map(runtime).collect()
        }),
        lanes: incident.map_or_else(Vec::new, |incident| {
            incident.lanes.iter().map(lane).collect()
        }),
        types: snapshot.types.iter().map(type_view).collect(),
        routes: Vec::new(),
        downstreams: Vec::new(),
        stalls: Vec::new(),
        observer_gaps: snapshot.observer_gaps.clone(),
        alerts: Vec::new(),
        diagnosis: ax_wire::verdict::Diagnosis::default(),
        marks: Vec::new(),
        snapshots: Vec::new(),
        snapshots_suppressed: Suppressed {
            by_service_total: incident.map_or(0, |incident| incident.suppressed_total),
            ..Suppressed::default()
        },
        dropped: incident.map_or_else(Default::default, |incident| incident.dropped),
        agent_dropped: snapshot.agent_dropped,
        point: None,
        newest: None,
    }
}

/// The figure below which `share` of the sorted ones lie.
fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    sorted
        .get(((sorted.len() as f64 * share) as usize).min(last))
        .copied()
}

fn process(sample: &ProcessSample) -> ProcessView {
    ProcessView {
        cpus_used: None,
        probe_cpus_used: None,
        rss_bytes: sample.rss_bytes,
        threads: sample.threads,
        open_files: sample.open_files,
        open_files_limit: sample.open_files_limit,
    }
}

/// Shares need two samples: they stay unknown.
fn runtime(sample: &RuntimeSample) -> RuntimeView {
    let workers = sample.workers.iter().map(|worker| WorkerView {
        index: worker.index,
        tid: worker.tid,
        state: worker.state,
        busy_share: None,
        on_cpu_share: None,
        run_queue_share: None,
        poll: worker.poll.clone(),
        thread: worker.thread,
    });
    RuntimeView {
        info: sample.info.clone(),
        alive_tasks: sample.alive_tasks,
        global_queue_depth: sample.global_queue_depth,
        blocking: sample.blocking,
        workers: workers.collect(),
    }
}

fn lane(sample: &LaneSample) -> LaneView {
    LaneView {
        name: sample.name.clone(),
        scheduler: sample.scheduler,
        limit: sample.limit,
        capacity: sample.capacity,
        running: sample.running,
        pending: sample.pending,
        waiting: sample.waiting,
        head_age_ns: sample.head_age_ns,
        full_ns: None,
        counters: sample.counters,
        rates: Rates::default(),
        recent: Rates::default(),
        queue_wait: Quantiles::default(),
        run: Quantiles::default(),
        retried_total: sample.retried_total,
        deferred_total: sample.deferred_total,
        zombies_total: sample.zombies_total,
        paused: sample.paused,
        overload: sample.overload,
        limit_moves: Vec::new(),
        preempted_total: sample.preempted_total,
        queue: sample.queue.clone(),
        waiting_for: sample.waiting_for,
        retrying: sample.retrying,
    }
}

fn type_view(sample: &TypeSample) -> TypeView {
    TypeView {
        name: sample.name.clone(),
        kind: sample.kind,
        lane: sample.lane.clone(),
        place: sample.place.clone(),
        running: sample.running,
        pending: sample.pending,
        counters: sample.counters,
        rates: Rates::default(),
        queue_wait: quantiles(sample.queue_wait.as_ref()),
        run: quantiles(sample.run.as_ref()),
        poll: quantiles(sample.poll.as_ref()),
        run_p99_trend_ns: Vec::new(),
    }
}

fn quantiles(histogram: Option<&LatencyHistogram>) -> Quantiles {
    histogram.map_or_else(Quantiles::default, |histogram| Quantiles {
        count: histogram.count(),
        p50_ns: histogram.quantile_ns(0.5),
        p90_ns: histogram.quantile_ns(0.9),
        p99_ns: histogram.quantile_ns(0.99),
        max_ns: histogram.max_ns(),
    })
}

pub(super) fn made_point(snapshot: &Snapshot) -> Point {
    let incident = snapshot.incident.as_ref();
    let lanes = incident.map_or(&[][..], |incident| &incident.lanes);
    Point {
        at_unix_ns: taken_unix_ns(snapshot),
        lag_p50_ns: None,
        lag_max_ns: incident.and_then(|incident| incident.lag.last()?.lag_ns()),
        cpus_used: None,
        rss_bytes: incident.and_then(|incident| incident.process.rss_bytes),
        busy_shares: Vec::new(),
        running: lanes.iter().map(|lane| lane.running).sum(),
        pending: lanes.iter().map(|lane| lane.pending).sum(),
        finished_per_s: None,
    }
}
