//! Sessions made up for the tests: a lane of a known capacity under a known load.

use ax_wire::{
    LatencyHistogram,
    session::{
        Arrivals, Client, CommandRun, Driver, End, EndKind, LaneSecond, Limits, Load, Plan,
        SESSION_VERSION, ServiceSecond, Session, Slice, Step, StepKind,
    },
};

const S: u64 = 1_000_000_000;
const STEP_S: u64 = 10;
const RUN_NS: u64 = 20_000_000;

/// A session whose service does `capacity` requests a second, each a job of 20 ms in the lane `work`.
pub fn session(rates: &[f64], capacity: f64) -> Session {
    let steps = rates
        .iter()
        .zip(1..)
        .map(|(rate, number)| step(number, *rate, capacity));
    Session {
        version: SESSION_VERSION,
        written_by: "test".to_owned(),
        began_unix_ns: 0,
        written_unix_ns: 0,
        end: End {
            kind: EndKind::Completed,
            why: None,
        },
        driver: Driver::Http {
            url: "http://127.0.0.1:1/".to_owned(),
            method: "GET".to_owned(),
            header_names: Vec::new(),
            body_bytes: 0,
            arrivals: Arrivals::Uniform,
            max_in_flight: 1_000,
        },
        plan: Plan {
            loads: rates.iter().map(|rate| Load::RatePerS(*rate)).collect(),
            step_ns: STEP_S * S,
            warm_up_ns: 0,
            precision: Some(0.03),
            limits: Limits {
                achieved_share: 0.95,
                p99_ns: None,
                lag_p99_ns: Some(50_000_000),
                error_share: Some(0.01),
            },
            injections: Vec::new(),
            abort: Vec::new(),
        },
        service: None,
        background: Vec::new(),
        steps: steps.collect(),
        verdicts: Vec::new(),
        marks: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A session of a wrapped command whose steps achieve so much, on a service that has other traffic too, which moves by a
/// tenth up and down.
pub fn wrapped(steps: &[(Load, f64)], other_per_s: f64) -> Session {
    let mut session = session(&[], 1.0);
    session.driver = Driver::Command {
        arguments: vec!["tool".to_owned()],
        lane: None,
    };
    let second = |number: u64, per_s: f64| {
        let wobble = [0.9, 1.05, 1.1, 1.0, 0.95][number as usize % 5];
        let mut requests = LatencyHistogram::new();
        requests.record_many_ns(RUN_NS, (per_s + other_per_s * wobble).round() as u32);
        ServiceSecond {
            at_unix_ns: (number + 1) * S,
            interval_ns: S,
            requests: Some(requests),
            ..ServiceSecond::default()
        }
    };
    session.background = (0..5).map(|number| second(number, 0.0)).collect();
    for (number, (load, per_s)) in (1..).zip(steps) {
        let began = u64::from(number) * 100;
        session.plan.loads.push(*load);
        session.steps.push(Step {
            load: *load,
            client: None,
            command: Some(CommandRun {
                exit_code: Some(0),
                ..CommandRun::default()
            }),
            service: (began..began + 15)
                .map(|number| second(number, *per_s))
                .collect(),
            began_unix_ns: began * S,
            ended_unix_ns: (began + 15) * S,
            ..step(number, 1.0, 1.0)
        });
    }
    session
}

/// One step of it.
pub fn step(number: u32, rate: f64, capacity: f64) -> Step {
    let began = u64::from(number) * 100 * S;
    let achieved = rate.min(capacity);
    let surplus = rate - achieved;
    let limit = (capacity * RUN_NS as f64 / 1e9).ceil() as u64;
    let histogram = |count: f64, ns: u64| {
        let mut histogram = LatencyHistogram::new();
        histogram.record_many_ns(ns, count as u32);
        histogram.raise_max_ns(ns);
        histogram
    };
    // A queue that grows makes each wait longer than the one before.
    let latency_ns = |second: u64| RUN_NS + (surplus * second as f64 / capacity * 1e9) as u64;
    let busy = achieved * RUN_NS as f64 / 1e9;
    let mut client = Client {
        scheduled_total: (rate * STEP_S as f64) as u64,
        sent_total: (rate * STEP_S as f64) as u64,
        achieved_total: (achieved * STEP_S as f64) as u64,
        mean_in_flight: busy + surplus * STEP_S as f64 / 2.0,
        ..Client::default()
    };
    for second in 0..STEP_S {
        let own = histogram(achieved, latency_ns(second));
        client.latency.merge(&own);
        client.slices.push(Slice {
            at_unix_ns: began + second * S,
            length_ns: S,
            achieved: achieved as u64,
            errors: 0,
            in_flight: (busy + surplus * (second + 1) as f64) as u64,
            latency: Some(own),
        });
    }
    let service = (0..STEP_S).map(|second| ServiceSecond {
        at_unix_ns: began + (second + 1) * S,
        interval_ns: S,
        lag_ns: vec![100_000 + second; 10],
        cpus_used: Some(achieved * 50e-6),
        rss_bytes: Some(20_000_000),
        requests: Some(histogram(achieved, latency_ns(second))),
        lanes: vec![LaneSecond {
            name: "work".to_owned(),
            scheduler: 1,
            limit,
            running: (busy.ceil() as u64).min(limit),
            pending: (surplus * (second + 1) as f64) as u64,
            full_ns: (surplus > 0.0).then_some(second * S),
            finished: achieved as u64,
            run: Some(histogram(achieved, RUN_NS)),
            ..LaneSecond::default()
        }],
        downstreams: Vec::new(),
    });
    Step {
        number,
        kind: StepKind::Planned,
        load: Load::RatePerS(rate),
        began_unix_ns: began,
        ended_unix_ns: began + STEP_S * S,
        client: Some(client),
        command: None,
        service: service.collect(),
        missed_seconds: 0,
    }
}
