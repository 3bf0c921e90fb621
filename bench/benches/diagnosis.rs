//! What diagnosis costs: one full evaluation over a quarter of an hour of a service with 50 job types, eight lanes, five
//! downstreams and four workers, while all is well and while much is wrong. Beside it what judging the alert rules costs in
//! a second: those that are built in, and with them fifty that look at percentiles.

use std::{process::ExitCode, time::Instant};

use ax_agent::{
    CleanSample,
    alert::{Book, Judging, Metric, Quiet, Rule, RuleSet},
    clock::Now,
    diagnosis::Casebook,
    history::ServiceHistory,
};
use ax_bench::{
    Budget::{AtMost, None as Told},
    Table, median,
};
use ax_wire::{
    InstanceId, JobId, LatencyHistogram, RuntimeId,
    hello::{ClockAnchor, Hello, PROTOCOL, RuntimeFlavor, RuntimeInfo},
    incident::RunningJob,
    sample::{
        BlockingPoolSample, DownstreamSample, Dropped, JobCounters, LagPoint, LaneSample,
        PoolSample, ProcessSample, RuntimeSample, Sample, TaskKind, TaskRef, ThreadSample,
        TypeSample, WorkerSample, WorkerState,
    },
};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const SECONDS: u64 = 900;
const LANES: u64 = 8;
const TYPES: u64 = 50;
const WORKERS: u32 = 4;

fn main() -> ExitCode {
    let mut table = Table::new("diagnosis");
    let mut well = service();
    table.row("all is well, ms", evaluate(&mut well, false), AtMost(2.0));
    let mut ill = service();
    table.row("much is wrong, ms", evaluate(&mut ill, true), AtMost(2.0));
    let verdicts = ill.1.diagnosis().verdicts.len();
    table.row("verdicts of what is wrong", verdicts as f64, Told);
    let built_in = RuleSet::default();
    let alone = judge(&mut ill.0, &built_in);
    table.row("alert rules that are built in, ms", alone, Told);
    let with_own = judge(&mut ill.0, &with_fifty(built_in));
    // A hundredth of a core for ten services.
    table.row("and 50 of percentiles, ms", with_own, AtMost(1.0));
    table.finish()
}

/// The median of judgements, one a second, in milliseconds.
fn judge(history: &mut ServiceHistory, rules: &RuleSet) -> f64 {
    let mut book = Book::default();
    let newest = history.seconds().next_back();
    let newest = newest.map_or(0, |second| second.at_mono_ns / S);
    let rounds = (1..=60).map(|round| {
        let second = newest + round;
        take(history, second, true);
        let judging = Judging {
            rules,
            asked: &[],
            quiet: Quiet::No,
            now: now(second),
        };
        let began = Instant::now();
        book.judge(judging, history.window());
        began.elapsed().as_secs_f64() * 1e3
    });
    median(rounds.collect())
}

fn with_fifty(mut rules: RuleSet) -> RuleSet {
    let metrics = [Metric::RunP99, Metric::QueueWaitP99, Metric::DownstreamP99];
    for (at, metric) in metrics.into_iter().cycle().take(50).enumerate() {
        rules.rules.push(Rule {
            name: format!("own-{at}").into(),
            metric,
            ..rules.rules[0].clone()
        });
    }
    rules
}

/// A service with a full history.
fn service() -> (ServiceHistory, Casebook) {
    let mut history = ServiceHistory::new(hello(), 0, now(0));
    for second in 1..=SECONDS {
        take(&mut history, second, false);
    }
    (history, Casebook::default())
}

/// The median of evaluations, one a second, in milliseconds.
fn evaluate((history, casebook): &mut (ServiceHistory, Casebook), wrong: bool) -> f64 {
    let rounds = (1..=60).map(|round| {
        let second = SECONDS + round;
        take(history, second, wrong);
        let began = Instant::now();
        casebook.diagnose(history.window(), now(second));
        began.elapsed().as_secs_f64() * 1e3
    });
    median(rounds.collect())
}

fn take(history: &mut ServiceHistory, second: u64, wrong: bool) {
    let sample = sample(second, wrong);
    let taken = history.sample(CleanSample::from(sample), now(second));
    taken.expect("each second is newer than the last");
}

fn now(second: u64) -> Now {
    Now {
        mono_ns: second * S,
        unix_ns: 1_700_000_000 * S + second * S,
    }
}

fn sample(second: u64, wrong: bool) -> Sample {
    let slow = if wrong { 20 } else { 1 };
    Sample {
        seq: second,
        at_mono_ns: second * S,
        interval_ns: S,
        clock: None,
        lag: (0..10)
            .map(|part| LagPoint {
                runtime: RuntimeId(1),
                at_mono_ns: second * S - part * 100 * MS,
                schedule_ns: None,
                timer_ns: Some(slow * 3 * MS),
                stall_ns: None,
            })
            .collect(),
        runtimes: vec![runtime(second)],
        process: ProcessSample {
            cpu_ns_total: Some(second * S),
            probe_cpu_ns_total: Some(second * MS),
            rss_bytes: Some((100 << 20) + if wrong { second << 22 } else { 0 }),
            open_files: Some(if wrong { 1_020 } else { 80 }),
            open_files_limit: Some(1_024),
            ..ProcessSample::default()
        },
        threads: Vec::new(),
        lanes: (0..LANES)
            .map(|lane| lane_of(lane, second, wrong))
            .collect(),
        oldest_jobs: if wrong { stuck() } else { Vec::new() },
        waiting_jobs: Vec::new(),
        types: (0..TYPES).map(|of| type_of(of, second, slow)).collect(),
        routes: Vec::new(),
        downstreams: (0..5).map(|of| downstream(of, second, slow)).collect(),
        dropped: Dropped::default(),
        incidents_suppressed_total: 0,
    }
}

fn runtime(second: u64) -> RuntimeSample {
    let worker = |index| WorkerSample {
        index,
        tid: Some(100 + index),
        busy_ns_total: second * S / 2,
        parks_total: second,
        state: WorkerState::Busy,
        poll: None,
        thread: Some(ThreadSample {
            state: Some('S'),
            on_cpu_ns_total: Some(second * S / 5),
            run_queue_ns_total: Some(second * S / 50),
            ..ThreadSample::default()
        }),
    };
    RuntimeSample {
        info: RuntimeInfo {
            id: RuntimeId(1),
            name: None,
            flavor: RuntimeFlavor::MultiThread,
            workers: WORKERS,
        },
        alive_tasks: 40,
        global_queue_depth: 0,
        blocking: BlockingPoolSample::default(),
        workers: (0..WORKERS).map(worker).collect(),
    }
}

fn counters(second: u64) -> JobCounters {
    JobCounters {
        submitted_total: 60 * second,
        started_total: 60 * second,
        succeeded_total: 60 * second,
        ..JobCounters::default()
    }
}

fn lane_of(lane: u64, second: u64, wrong: bool) -> LaneSample {
    LaneSample {
        name: format!("lane-{lane}"),
        scheduler: 1,
        limit: 8,
        capacity: 1_000,
        running: if wrong { 8 } else { 2 },
        pending: if wrong { 500 } else { 0 },
        counters: counters(second),
        run_ns_total: 60 * second * 20 * MS,
        ..LaneSample::default()
    }
}

fn histogram(ms: u64) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    for step in 1..=20 {
        histogram.record_ns(ms * step * MS / 10);
    }
    histogram
}

fn type_of(of: u64, second: u64, slow: u64) -> TypeSample {
    let request = of < 10;
    TypeSample {
        name: format!("type-{of}"),
        kind: if request {
            TaskKind::Request
        } else {
            TaskKind::Job
        },
        lane: (!request).then(|| format!("lane-{}", of % LANES)),
        place: Some("src/main.rs:7".to_owned()),
        running: 1,
        pending: 0,
        counters: counters(second),
        queue_wait: Some(histogram(slow)),
        run: Some(histogram(5 * slow)),
        poll: Some(histogram(1)),
        schedule_delay: None,
    }
}

fn downstream(of: u64, second: u64, slow: u64) -> DownstreamSample {
    DownstreamSample {
        name: format!("downstream-{of}"),
        in_flight: 4,
        waiting: if slow > 1 { 30 } else { 0 },
        calls_total: 100 * second,
        latency: Some(histogram(4 * slow)),
        wait: Some(histogram(slow)),
        pool: Some(PoolSample {
            in_use: 4,
            idle: 0,
            waiting: None,
        }),
        ..DownstreamSample::default()
    }
}

/// Jobs that do not move, of each lane as many as a sample has.
fn stuck() -> Vec<RunningJob> {
    let job = |lane: u64| RunningJob {
        task: TaskRef {
            name: format!("type-{}", 10 + lane),
            kind: TaskKind::Job,
            job: Some(JobId(lane)),
            lane: Some(format!("lane-{lane}")),
            place: None,
            trace: None,
        },
        elapsed_ns: 60 * S,
        queue_wait_ns: 0,
        attempt: 1,
        priority: 50,
        poll_age_ns: None,
        unpolled_ns: Some(60 * S),
        waits_for: None,
    };
    (0..LANES)
        .flat_map(|lane| (0..8).map(move |_| job(lane)))
        .collect()
}

fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL,
        service: "bench".to_owned(),
        instance: InstanceId::new_now(),
        pid: 1,
        process_start_unix_ns: 0,
        service_version: None,
        build_id: None,
        probe_version: "0.1.0".to_owned(),
        cpus: 4,
        runtimes: Vec::new(),
        features: Vec::new(),
        clock: ClockAnchor {
            mono_ns: 0,
            unix_ns: 1_700_000_000 * S,
        },
        stall_threshold_ns: 50 * MS,
        snapshot_threshold_ns: 250 * MS,
    }
}
