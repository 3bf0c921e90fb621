//! Views for the tests: a healthy service, and one with a stalled worker and a full lane.

use ax_wire::{
    InstanceId, JobId, RuntimeId,
    alert::{Alert, AlertState, Severity, Unit},
    event::{Stall, StallKind},
    hello::{ClockAnchor, Hello, PROTOCOL, RuntimeFlavor, RuntimeInfo},
    incident::{IncidentId, Reason, SnapshotSummary},
    sample::{
        BlockingPoolSample, CallInFlight, CallerSample, CurrentPoll, Dropped, JobCounters,
        LimitReason, OverloadSample, PoolSample, QueueBand, RouteSample, TaskKind, TaskRef,
        WaitingFor, WorkerState,
    },
    verdict::Diagnosis,
    view::{
        AgentDropped, Backfill, DownstreamView, LagView, LaneView, LimitMoveView, Point,
        ProcessView, Quantiles, Rates, RuntimeView, ServiceState, ServiceSummary, ServiceView,
        Services, StallView, TypeView, WorkerView,
    },
};

#[cfg(test)]
pub use self::diagnosed::{diagnosed, diagnosed_healthy};
use crate::world::{Link, Update, World};

pub mod asked;
#[cfg(test)]
mod diagnosed;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// 14:03:27 UTC of some day.
pub const NOW_UNIX_NS: u64 = (20_000 * 86_400 + 50_607) * S;

pub fn instance(number: u128) -> InstanceId {
    InstanceId(uuid::Uuid::from_u128(number))
}

fn counters(succeeded: u64, failed: u64) -> JobCounters {
    JobCounters {
        submitted_total: succeeded + failed,
        started_total: succeeded + failed,
        succeeded_total: succeeded,
        failed_total: failed,
        ..JobCounters::default()
    }
}

fn quantiles(p50_ns: u64, p99_ns: u64, max_ns: u64) -> Quantiles {
    Quantiles {
        count: 1_000,
        p50_ns: Some(p50_ns),
        p90_ns: Some(p50_ns.midpoint(p99_ns)),
        p99_ns: Some(p99_ns),
        max_ns: Some(max_ns),
    }
}

fn rates(finished_per_s: f64, unsuccessful_per_s: f64) -> Rates {
    Rates {
        submitted_per_s: Some(finished_per_s),
        finished_per_s: Some(finished_per_s),
        unsuccessful_per_s: Some(unsuccessful_per_s),
        rejected_per_s: Some(0.0),
    }
}

pub fn lane(name: &str, running: u64, limit: u64, pending: u64) -> LaneView {
    LaneView {
        name: name.to_owned(),
        scheduler: 1,
        limit,
        capacity: 1_000,
        running,
        pending,
        waiting: 0,
        head_age_ns: None,
        full_ns: None,
        counters: counters(48_720, 0),
        rates: rates(812.0, 0.0),
        recent: rates(790.0, 0.0),
        queue_wait: quantiles(100_000, 2_300_000, 9 * MS),
        run: quantiles(4_100_000, 18_200_000, 40 * MS),
        retried_total: 0,
        deferred_total: 0,
        zombies_total: 0,
        paused: false,
        overload: OverloadSample::default(),
        limit_moves: Vec::new(),
        preempted_total: 0,
        queue: None,
        waiting_for: None,
        retrying: None,
    }
}

pub fn job_type(name: &str, lane: &str) -> TypeView {
    TypeView {
        name: name.to_owned(),
        kind: TaskKind::Job,
        lane: Some(lane.to_owned()),
        place: Some("src/pdf.rs:88".to_owned()),
        running: 1,
        pending: 0,
        counters: counters(900, 3),
        rates: rates(15.0, 0.1),
        queue_wait: quantiles(100_000, 200_000, MS),
        run: quantiles(210 * MS, 440 * MS, 512 * MS),
        poll: quantiles(MS, 3 * MS, 9 * MS),
        run_p99_trend_ns: (0..60)
            .map(|second| (second != 20).then_some(200 * MS + second * 4 * MS))
            .collect(),
    }
}

fn worker(index: u32, busy_share: f64) -> WorkerView {
    WorkerView {
        index,
        tid: Some(4_122 + index),
        state: WorkerState::Busy,
        busy_share: Some(busy_share),
        on_cpu_share: Some(busy_share / 2.0),
        run_queue_share: Some(0.02),
        poll: None,
        thread: None,
    }
}

fn summary(number: u128, service: &str, pid: u32) -> ServiceSummary {
    ServiceSummary {
        instance: instance(number),
        service: service.to_owned(),
        pid,
        uid: 1_000,
        state: ServiceState::Live,
        process_start_unix_ns: NOW_UNIX_NS - 7_980 * S,
        last_seen_unix_ns: NOW_UNIX_NS,
    }
}

/// Nothing is wrong.
pub fn healthy() -> ServiceView {
    let summary = summary(1, "checkout", 4_121);
    let info = RuntimeInfo {
        id: RuntimeId(1),
        name: None,
        flavor: RuntimeFlavor::MultiThread,
        workers: 2,
    };
    let mut view = ServiceView {
        hello: Hello {
            protocol: PROTOCOL,
            service: summary.service.clone(),
            instance: summary.instance,
            pid: summary.pid,
            process_start_unix_ns: summary.process_start_unix_ns,
            service_version: None,
            build_id: None,
            probe_version: "0.1.0".to_owned(),
            cpus: 2,
            runtimes: vec![info.clone()],
            features: Vec::new(),
            clock: ClockAnchor {
                mono_ns: 100 * S,
                unix_ns: NOW_UNIX_NS - 7_980 * S,
            },
            stall_threshold_ns: 50 * MS,
            snapshot_threshold_ns: 250 * MS,
        },
        summary,
        at_unix_ns: NOW_UNIX_NS,
        window_ns: 60 * S,
        lag: LagView {
            now_ns: Some(100_000),
            p50_ns: Some(100_000),
            p99_ns: Some(300_000),
            max_ns: Some(2 * MS),
            schedule_max_ns: Some(2 * MS),
            timer_max_ns: Some(MS),
            stall_max_ns: None,
            points: 600,
        },
        process: ProcessView {
            cpus_used: Some(0.24),
            probe_cpus_used: Some(0.004),
            rss_bytes: Some(212 * 1_000_000),
            threads: Some(11),
            open_files: Some(84),
            open_files_limit: Some(1_024),
        },
        runtimes: vec![RuntimeView {
            info,
            alive_tasks: 57,
            global_queue_depth: 0,
            blocking: BlockingPoolSample {
                threads: None,
                idle_threads: None,
                queue_depth: None,
                lag_ns: Some(100_000),
                watched_running: 3,
            },
            workers: vec![worker(0, 0.82), worker(1, 0.31)],
        }],
        lanes: vec![lane("db", 31, 40, 0), lane("api", 4, 10, 0)],
        types: vec![job_type("render_pdf", "files"), job_type("query", "db")],
        routes: Vec::new(),
        downstreams: Vec::new(),
        stalls: Vec::new(),
        observer_gaps: Vec::new(),
        alerts: Vec::new(),
        diagnosis: Diagnosis::default(),
        marks: Vec::new(),
        snapshots: Vec::new(),
        snapshots_suppressed: ax_wire::view::Suppressed::default(),
        dropped: Dropped::default(),
        agent_dropped: AgentDropped::default(),
        point: None,
        newest: None,
    };
    view.point = points(&view).pop();
    view
}

/// Worker 0 has been stuck in `render_pdf` for 412 ms, and the lane `api` has been full for 8 s.
pub fn stalled() -> ServiceView {
    let mut view = healthy();
    let task = TaskRef {
        name: "render_pdf".to_owned(),
        kind: TaskKind::Job,
        job: Some(JobId(7)),
        lane: Some("files".to_owned()),
        place: Some("src/pdf.rs:88".to_owned()),
        trace: None,
    };
    let stuck = &mut view.runtimes[0].workers[0];
    stuck.state = WorkerState::Stalled;
    stuck.poll = Some(CurrentPoll {
        task: task.clone(),
        age_ns: 412 * MS,
    });
    view.stalls.push(StallView {
        stall: Stall {
            id: 1,
            runtime: RuntimeId(1),
            worker: Some(0),
            tid: Some(4_122),
            kind: StallKind::Stall,
            began_mono_ns: 7_000 * S,
            length_ns: 412 * MS,
            run_queue_ns: Some(0),
            on_cpu_ns: Some(0),
            task: Some(task),
            thread: None,
        },
        ongoing: true,
        began_unix_ns: NOW_UNIX_NS - 412 * MS,
    });
    view.lag.p99_ns = Some(31 * MS);
    view.lag.max_ns = Some(412 * MS);
    view.types[0].poll.max_ns = Some(412 * MS);
    let mut api = lane("api", 10, 10, 57);
    api.full_ns = Some(8 * S);
    api.rates.unsuccessful_per_s = Some(1.0);
    api.recent.finished_per_s = Some(0.0);
    api.head_age_ns = Some(7_900 * MS);
    api.queue_wait = quantiles(12 * MS, 88 * MS, 130 * MS);
    api.run = quantiles(210 * MS, 431 * MS, 500 * MS);
    view.lanes[1] = api;
    view.dropped.frames_total = 12;
    view
}

/// Like [`stalled`], with two alerts firing, one pending and one that has ended, and two snapshots.
pub fn firing() -> ServiceView {
    let mut view = stalled();
    let ago = |seconds: u64| NOW_UNIX_NS - seconds * S;
    let lag = Alert {
        rule: "lag-high".to_owned(),
        subject: None,
        severity: Severity::Warning,
        state: AlertState::Firing,
        began_unix_ns: ago(12),
        fired_unix_ns: Some(ago(2)),
        resolved_unix_ns: None,
        value: 180e6,
        peak: 412e6,
        threshold: 50e6,
        unit: Unit::Nanoseconds,
        sentence: "event-loop lag p99 is 180 ms, above 50 ms".to_owned(),
        silenced: None,
        bell: false,
    };
    let backlog = Alert {
        rule: "backlog-grows".to_owned(),
        subject: Some("api".to_owned()),
        severity: Severity::Critical,
        began_unix_ns: ago(62),
        value: 57.0,
        peak: 57.0,
        threshold: 37.0,
        unit: Unit::Count,
        sentence: "lane api has 57 jobs waiting, 20 more than a minute ago".to_owned(),
        ..lag.clone()
    };
    let pending = Alert {
        rule: "rejections".to_owned(),
        severity: Severity::Warning,
        state: AlertState::Pending,
        began_unix_ns: ago(1),
        fired_unix_ns: None,
        value: 0.5,
        peak: 0.5,
        threshold: 0.0,
        unit: Unit::PerSecond,
        sentence: "lane api refuses 0.5 jobs a second".to_owned(),
        ..backlog.clone()
    };
    let ended = Alert {
        state: AlertState::Resolved,
        began_unix_ns: ago(240),
        fired_unix_ns: Some(ago(230)),
        resolved_unix_ns: Some(ago(200)),
        value: 300_000.0,
        peak: 90e6,
        ..lag.clone()
    };
    view.alerts = vec![backlog, lag, pending, ended];
    let snapshot = |number: u128, seconds: u64, reason: Reason, culprit: Option<&str>| {
        let id = IncidentId(uuid::Uuid::from_u128(number));
        SnapshotSummary {
            id,
            path: format!("/home/ana/.local/state/ax/snapshots/checkout-{id}.json"),
            size_bytes: 412_345,
            service: "checkout".to_owned(),
            at_unix_ns: ago(seconds),
            reason,
            culprit: culprit.map(str::to_owned),
        }
    };
    let stall = Reason::Stall {
        stall: 1,
        length_ns: 250 * MS,
    };
    view.snapshots = vec![
        snapshot(2, 9, stall, Some("render_pdf")),
        snapshot(1, 700, Reason::Capture, None),
    ];
    flow(&mut view);
    view.snapshots_suppressed.by_service_total = 3;
    view.snapshots_suppressed.last_reason = Some("one was taken 4 s ago".to_owned());
    view
}

/// Requests, a busy downstream, and a lane that was boosted and has refused, retried, shed and spilled.
fn flow(view: &mut ServiceView) {
    let requests = TypeView {
        kind: TaskKind::Request,
        lane: None,
        ..job_type("GET /rate", "")
    };
    view.types.push(requests);
    view.types.push(job_type("fetch_rate", "api"));
    view.routes = vec![
        RouteSample {
            name: "GET /rate".to_owned(),
            successes_total: 900,
            client_errors_total: 14,
            too_many_requests_total: 12,
            server_errors_total: 3,
            ..RouteSample::default()
        },
        RouteSample {
            name: "unmatched".to_owned(),
            client_errors_total: 2,
            ..RouteSample::default()
        },
    ];
    view.downstreams = vec![DownstreamView {
        name: "rates".to_owned(),
        in_flight: 10,
        waiting: 4,
        calls_total: 910,
        errors_total: 2,
        cancelled_total: 0,
        calls_per_s: Some(47.0),
        errors_per_s: Some(0.0),
        latency: quantiles(210 * MS, 431 * MS, 500 * MS),
        wait: quantiles(MS, 12 * MS, 30 * MS),
        pool: Some(PoolSample {
            in_use: 10,
            idle: 0,
            waiting: Some(4),
        }),
        callers: vec![CallerSample {
            name: "fetch_rate".to_owned(),
            kind: TaskKind::Job,
            lane: Some("api".to_owned()),
            in_flight: 10,
            calls_total: 910,
            errors_total: 2,
            time_ns_total: 900 * 210 * MS,
        }],
        oldest: vec![CallInFlight {
            age_ns: 480 * MS,
            caller: Some("fetch_rate".to_owned()),
            job: None,
            trace: None,
        }],
        injected_delay_ns: None,
    }];
    let api = &mut view.lanes[1];
    api.waiting = 3;
    api.retried_total = 17;
    api.deferred_total = 1;
    api.counters.rejected_total = 5;
    api.preempted_total = 4;
    api.retrying = Some(2);
    api.waiting_for = Some(WaitingFor {
        time: 1,
        retry: 2,
        ..WaitingFor::default()
    });
    let band = |lowest, highest, pending, oldest_ns| QueueBand {
        lowest,
        highest,
        pending,
        oldest_ns: Some(oldest_ns),
    };
    api.queue = Some(vec![
        band(95, 100, 2, 40 * MS),
        band(30, 79, 45, 7_900 * MS),
        band(1, 29, 10, 62 * S),
    ]);
    api.overload = OverloadSample {
        queued_bytes: Some(48_000),
        capacity_bytes: Some(1_000_000),
        submitters_waiting: Some(2),
        shed_total: 6,
        spilled_total: 40,
        spilled: 8,
        high_water_total: 1,
    };
    let moved = |seconds: u64, from, to, reason| LimitMoveView {
        at_unix_ns: NOW_UNIX_NS - seconds * S,
        from,
        to,
        reason,
    };
    api.limit_moves = vec![
        moved(90, 8, 10, LimitReason::Fast),
        moved(60, 10, 14, LimitReason::Boost),
        moved(30, 14, 10, LimitReason::BoostEnded),
    ];
}

/// Two minutes of charts that end with the view; the lag rises to 412 ms ten seconds ago.
pub fn points(view: &ServiceView) -> Vec<Point> {
    (0..120_u64)
        .map(|second| {
            let max = match second {
                110 => 412 * MS,
                70 => 80 * MS,
                other => 100_000 + (other % 7) * 40_000,
            };
            Point {
                at_unix_ns: view.at_unix_ns - (119 - second) * S,
                lag_p50_ns: Some(100_000),
                lag_max_ns: (!(30..33).contains(&second)).then_some(max),
                cpus_used: Some(0.2 + (second % 10) as f64 / 20.0),
                rss_bytes: Some(200_000_000 + second * 100_000),
                busy_shares: vec![Some(0.5), Some(0.3)],
                running: 41,
                pending: 57,
                finished_per_s: Some(859.0),
            }
        })
        .collect()
}

/// A world attached to an agent that knows these services.
pub fn world(views: Vec<ServiceView>) -> World {
    let mut world = World::new();
    world.now_unix_ns = NOW_UNIX_NS;
    world.apply(Update::Link(Link::Attached {
        socket: "/run/ax/agent.sock".into(),
    }));
    let services = Services {
        services: views.iter().map(|view| view.summary.clone()).collect(),
        ..Services::default()
    };
    world.apply(Update::Frame(ax_wire::ToViewer::Services(services)));
    for view in views {
        let backfill = Backfill {
            instance: view.summary.instance,
            points: points(&view),
        };
        world.apply(Update::Frame(ax_wire::ToViewer::Backfill(backfill)));
        world.apply(Update::Frame(ax_wire::ToViewer::View(Box::new(view))));
    }
    world
}

/// A second service.
pub fn other() -> ServiceView {
    let mut view = healthy();
    view.summary = summary(2, "invoices", 5_000);
    view.hello.instance = view.summary.instance;
    view.hello.service.clone_from(&view.summary.service);
    view
}
