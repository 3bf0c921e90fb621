//! What a viewer is shown of one service, made purely of its [`Window`] and the time.

use ax_wire::{
    alert::Alert,
    hello::ClockAnchor,
    incident::SnapshotSummary,
    mark::Mark,
    sample::{DownstreamSample, Dropped, LimitMove, RuntimeSample},
    verdict::Diagnosis,
    view::{
        AgentDropped, Backfill, DownstreamView, LaneView, LimitMoveView, ProcessView, RuntimeView,
        ServiceView, StallView, Suppressed, TypeView, WorkerView,
    },
};

use crate::{
    clock::Now,
    history::{Change, HISTORY_NS, per_second},
    window::{Tallies, TypeQuantiles, Window, WindowQuantiles},
};

/// Ended stalls shown beside those that go on.
const MAX_STALLS_SHOWN: usize = 32;

/// What is kept of a service outside its history, for its view.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// See [`ServiceView::alerts`].
    pub alerts: Vec<Alert>,
    /// See [`ServiceView::diagnosis`].
    pub diagnosis: Diagnosis,
    /// See [`ServiceView::marks`].
    pub marks: Vec<Mark>,
    /// See [`ServiceView::snapshots`].
    pub snapshots: Vec<SnapshotSummary>,
    /// See [`ServiceView::snapshots_suppressed`].
    pub suppressed: Suppressed,
    /// What the agent lost of it.
    pub dropped: AgentDropped,
}

/// All figures of a service.
///
/// Costs some 10 us a type; `tallies` is working memory that is handed back empty.
#[must_use]
pub fn view(window: Window<'_>, now: Now, extras: Extras, tallies: &mut Tallies) -> ServiceView {
    let history = window.history();
    let change = window.change();
    let quantiles = window.quantiles(tallies);
    ServiceView {
        summary: history.summary(now),
        hello: window.hello().clone(),
        at_unix_ns: now.unix_ns,
        window_ns: window.span_ns(),
        lag: window.lag(),
        process: change.map_or_else(ProcessView::default, process),
        runtimes: change.map_or_else(Vec::new, runtimes),
        lanes: lanes(window, &quantiles),
        types: types(window, &quantiles),
        routes: change.map_or_else(Vec::new, |change| change.latest().routes.clone()),
        downstreams: change.map_or_else(Vec::new, |change| downstreams(window, change, tallies)),
        stalls: stalls(window),
        observer_gaps: history.gaps.iter().rev().copied().collect(),
        alerts: extras.alerts,
        diagnosis: extras.diagnosis,
        marks: extras.marks,
        snapshots: extras.snapshots,
        snapshots_suppressed: extras.suppressed,
        dropped: change.map_or_else(Dropped::default, |change| change.latest().dropped),
        agent_dropped: extras.dropped,
        point: history.seconds.back().map(|second| second.point.clone()),
        newest: window.newest_second(tallies),
    }
}

/// The charts of a service, from before a viewer came; before them what another agent knew.
#[must_use]
pub fn backfill(window: Window<'_>) -> Backfill {
    let history = window.history();
    let seconds = || history.seconds().map(|second| &second.point);
    let first = seconds().next().map_or(u64::MAX, |point| point.at_unix_ns);
    let last = seconds().next_back().map_or(0, |point| point.at_unix_ns);
    let oldest = last.saturating_sub(HISTORY_NS);
    let earlier = history
        .earlier
        .iter()
        .filter(|point| (oldest..first).contains(&point.at_unix_ns));
    Backfill {
        instance: window.hello().instance,
        points: earlier.chain(seconds()).cloned().collect(),
    }
}

fn process(change: Change<'_>) -> ProcessView {
    let process = change.latest().process;
    ProcessView {
        cpus_used: change.cpus_used(),
        probe_cpus_used: change.probe_cpus_used(),
        rss_bytes: process.rss_bytes,
        threads: process.threads,
        open_files: process.open_files,
        open_files_limit: process.open_files_limit,
    }
}

fn runtimes(change: Change<'_>) -> Vec<RuntimeView> {
    let runtimes = change.latest().runtimes.iter();
    runtimes
        .map(|runtime| RuntimeView {
            info: runtime.info.clone(),
            alive_tasks: runtime.alive_tasks,
            global_queue_depth: runtime.global_queue_depth,
            blocking: runtime.blocking,
            workers: workers(change, runtime),
        })
        .collect()
}

fn workers(change: Change<'_>, runtime: &RuntimeSample) -> Vec<WorkerView> {
    let workers = runtime.workers.iter();
    workers
        .map(|worker| WorkerView {
            index: worker.index,
            tid: worker.tid,
            state: worker.state,
            busy_share: change.busy_share(runtime, worker),
            on_cpu_share: change.on_cpu_share(runtime, worker),
            run_queue_share: change.run_queue_share(runtime, worker),
            poll: worker.poll.clone(),
            thread: worker.thread,
        })
        .collect()
}

fn lanes(window: Window<'_>, quantiles: &WindowQuantiles<'_>) -> Vec<LaneView> {
    let newest_mono_ns = window.newest_mono_ns();
    window
        .lanes()
        .map(|(place, entry)| {
            let lane = &entry.value.latest;
            let mut known = quantiles.lanes.iter();
            let known = known.find(|(name, ..)| *name == lane.name);
            let (_, queue_wait, run) = known.copied().unwrap_or_default();
            let full_since = entry.value.full_since_mono_ns;
            LaneView {
                name: lane.name.clone(),
                scheduler: lane.scheduler,
                limit: lane.limit,
                capacity: lane.capacity,
                running: lane.running,
                pending: lane.pending,
                waiting: lane.waiting,
                head_age_ns: lane.head_age_ns,
                full_ns: full_since.map(|since| newest_mono_ns.saturating_sub(since)),
                counters: lane.counters,
                rates: window.lane_rates(place, entry),
                recent: window.lane_recent_rates(place, entry),
                queue_wait,
                run,
                retried_total: lane.retried_total,
                deferred_total: lane.deferred_total,
                zombies_total: lane.zombies_total,
                paused: lane.paused,
                overload: lane.overload,
                limit_moves: limit_moves(&lane.limit_moves, window.history().clock),
                preempted_total: lane.preempted_total,
                queue: lane.queue.clone(),
                waiting_for: lane.waiting_for,
                retrying: lane.retrying,
            }
        })
        .collect()
}

fn limit_moves(moves: &[LimitMove], clock: ClockAnchor) -> Vec<LimitMoveView> {
    let moves = moves.iter().map(|moved| LimitMoveView {
        at_unix_ns: clock.to_unix_ns(moved.at_mono_ns),
        from: moved.from,
        to: moved.to,
        reason: moved.reason,
    });
    moves.collect()
}

fn downstreams(
    window: Window<'_>,
    change: Change<'_>,
    tallies: &mut Tallies,
) -> Vec<DownstreamView> {
    let before = change.before().map(|before| &before.downstreams);
    let per_second = |name: &str, total: fn(&DownstreamSample) -> u64, now: u64| {
        let before = before?.iter().find(|known| known.name == name)?;
        let added = now.saturating_sub(total(before));
        Some(per_second(added, change.interval_ns()?))
    };
    let latest = change.latest().downstreams.iter();
    latest
        .map(|latest| {
            let (latency, wait) = window.downstream_quantiles(&latest.name, tallies);
            let calls = |sample: &DownstreamSample| sample.calls_total;
            let errors = |sample: &DownstreamSample| sample.errors_total;
            DownstreamView {
                name: latest.name.clone(),
                in_flight: latest.in_flight,
                waiting: latest.waiting,
                calls_total: latest.calls_total,
                errors_total: latest.errors_total,
                cancelled_total: latest.cancelled_total,
                calls_per_s: per_second(&latest.name, calls, latest.calls_total),
                errors_per_s: per_second(&latest.name, errors, latest.errors_total),
                latency,
                wait,
                pool: latest.pool,
                callers: latest.callers.clone(),
                oldest: latest.oldest.clone(),
                injected_delay_ns: latest.injected_delay_ns,
            }
        })
        .collect()
}

fn types(window: Window<'_>, quantiles: &WindowQuantiles<'_>) -> Vec<TypeView> {
    window
        .types()
        .map(|(place, entry)| {
            let r#type = &entry.value.latest;
            let TypeQuantiles {
                queue_wait,
                run,
                poll,
            } = quantiles.types[place];
            TypeView {
                name: r#type.name.clone(),
                kind: r#type.kind,
                lane: r#type.lane.clone(),
                place: r#type.place.clone(),
                running: r#type.running,
                pending: r#type.pending,
                counters: r#type.counters,
                rates: window.type_rates(place, entry),
                queue_wait,
                run,
                poll,
                run_p99_trend_ns: entry.value.run_p99.ns(),
            }
        })
        .collect()
}

/// Those going on, and the newest ended ones. One of a service that is gone does not go on.
fn stalls(window: Window<'_>) -> Vec<StallView> {
    let history = window.history();
    let connected = history.gone_since_mono_ns().is_none();
    let known = window.stalls().enumerate();
    known
        .take_while(|(position, known)| known.ongoing || *position < MAX_STALLS_SHOWN)
        .map(|(_, known)| StallView {
            stall: known.stall.clone(),
            ongoing: known.ongoing && connected,
            began_unix_ns: history.clock.to_unix_ns(known.stall.began_mono_ns),
        })
        .collect()
}
