//! A service of hand-made seconds for the tests: a healthy one, in which a test changes what it is about.

use ax_wire::{
    InstanceId, JobId, LatencyHistogram, RuntimeId,
    event::{Event, Events, Stall, StallKind},
    hello::{ClockAnchor, Hello, PROTOCOL, RuntimeFlavor, RuntimeInfo},
    incident::{RunningJob, WaitsFor},
    sample::{
        BlockingPoolSample, CallInFlight, CallerSample, CgroupCpuSample, DownstreamSample, Dropped,
        JobCounters, KernelWait, LagPoint, LaneSample, PoolSample, ProcessSample, RuntimeSample,
        Sample, TaskKind, TaskRef, ThreadSample, TypeSample, WaitedFor, WaitingFor, WaitingJob,
        WaitingReason, WorkerSample, WorkerState,
    },
    verdict::{Diagnosis, VerdictId},
};

mod picture;

pub(crate) use self::picture::{DownstreamPicture, LanePicture, Picture, TypePicture};
use super::{Casebook, RULES, answer::Answer, case::Case};
use crate::{clock::Now, history::ServiceHistory, ingest::CleanSample};

pub(crate) const S: u64 = 1_000_000_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn task(name: &str, lane: Option<&str>) -> TaskRef {
    TaskRef {
        name: name.to_owned(),
        kind: if lane.is_some() {
            TaskKind::Job
        } else {
            TaskKind::Task
        },
        job: lane.map(|_| JobId(7)),
        lane: lane.map(str::to_owned),
        place: Some("src/pdf.rs:88".to_owned()),
        trace: None,
    }
}

/// A running job of lane `db` that has not been polled for so long.
pub(crate) fn unmoved(name: &str, label: Option<&str>, seconds: u64) -> RunningJob {
    RunningJob {
        task: task(name, Some("db")),
        elapsed_ns: seconds * S,
        queue_wait_ns: 0,
        attempt: 1,
        priority: 50,
        poll_age_ns: None,
        unpolled_ns: Some(seconds * S),
        waits_for: label.map(|label| WaitsFor {
            label: label.to_owned(),
            since_ns: seconds * S,
        }),
    }
}

/// A job that waits for others: its own number and name, and what it waits for.
pub(crate) fn waiting(job: u64, name: &str, on: &[(Option<u64>, Option<&str>)]) -> WaitingJob {
    WaitingJob {
        task: TaskRef {
            job: Some(JobId(job)),
            ..task("step", Some("db"))
        },
        name: Some(name.to_owned()),
        age_ns: 10 * S,
        reason: WaitingReason::Dependencies,
        on: on
            .iter()
            .map(|(job, name)| WaitedFor {
                job: job.map(JobId),
                name: name.map(str::to_owned),
            })
            .collect(),
    }
}

/// A service, second by second.
pub(crate) struct Scene {
    pub(crate) history: ServiceHistory,
    pub(crate) casebook: Casebook,
    pub(crate) second: u64,
    stalls: u64,
    on_cpu_ns: u64,
    run_queue_ns: u64,
    busy_ns: u64,
    cpu_ns: u64,
    pressure_ns: u64,
    periods: (u64, u64),
    lanes: Vec<(&'static str, LaneSample)>,
    types: Vec<(&'static str, JobCounters)>,
    downstreams: Vec<(&'static str, u64)>,
}

/// The machine's clock reads this when the service's reads 0.
const EPOCH_UNIX_NS: u64 = 1_700_000_000 * S;

impl Scene {
    /// A service that has just started.
    pub(crate) fn new() -> Self {
        let now = Self::clock(0);
        Self {
            history: ServiceHistory::new(hello(), 0, now),
            casebook: Casebook::default(),
            second: 0,
            stalls: 0,
            on_cpu_ns: 0,
            run_queue_ns: 0,
            busy_ns: 0,
            cpu_ns: 0,
            pressure_ns: 0,
            periods: (0, 0),
            lanes: Vec::new(),
            types: Vec::new(),
            downstreams: Vec::new(),
        }
    }

    /// One that has been well for half a minute.
    pub(crate) fn healthy() -> Self {
        let mut scene = Self::new();
        scene.goes_on(30, |_| ());
        scene
    }

    pub(crate) fn clock(second: u64) -> Now {
        Now {
            mono_ns: second * S,
            unix_ns: EPOCH_UNIX_NS + second * S,
        }
    }

    pub(crate) fn now(&self) -> Now {
        Self::clock(self.second)
    }

    /// So many seconds of a healthy service with this change.
    pub(crate) fn goes_on(&mut self, seconds: u64, change: impl Fn(&mut Picture)) -> &mut Self {
        for _ in 0..seconds {
            let mut picture = Picture::healthy();
            change(&mut picture);
            self.take(&picture);
        }
        self
    }

    /// Seconds pass in which the service says nothing.
    pub(crate) fn silence(&mut self, seconds: u64) -> &mut Self {
        for _ in 0..seconds {
            self.second += 1;
            let now = self.now();
            self.casebook.diagnose(self.history.window(), now);
        }
        self
    }

    /// A stall of lane `files`' job `render_pdf` that has just ended.
    pub(crate) fn stall(&mut self, length_ms: u64, change: impl FnOnce(&mut Stall)) -> &mut Self {
        let stall = self.new_stall(length_ms, change);
        self.tell(Event::StallEnded(stall))
    }

    /// The same, still going on.
    pub(crate) fn stall_goes_on(
        &mut self,
        length_ms: u64,
        change: impl FnOnce(&mut Stall),
    ) -> &mut Self {
        let stall = self.new_stall(length_ms, change);
        self.tell(Event::StallBegan(stall))
    }

    fn new_stall(&mut self, ms: u64, change: impl FnOnce(&mut Stall)) -> Stall {
        self.stalls += 1;
        let length_ns = ms * MS;
        let mut stall = Stall {
            id: self.stalls,
            runtime: RuntimeId(1),
            worker: Some(0),
            tid: Some(101),
            kind: StallKind::Stall,
            began_mono_ns: (self.second * S).saturating_sub(length_ns),
            length_ns,
            run_queue_ns: Some(0),
            on_cpu_ns: Some(0),
            task: Some(task("render_pdf", Some("files"))),
            thread: Some(ThreadSample {
                state: Some('S'),
                waits_in: Some(KernelWait::Sleep),
                ..ThreadSample::default()
            }),
        };
        change(&mut stall);
        stall
    }

    fn tell(&mut self, event: Event) -> &mut Self {
        let now = self.now();
        let events = Events {
            events: vec![event],
        };
        self.history.events(events, now);
        self
    }

    pub(crate) fn answer(&self, id: VerdictId) -> Answer {
        let case = Case::new(self.history.window(), self.now(), None).expect("has a sample");
        let rule = RULES.iter().find(|rule| rule.id() == id);
        rule.expect("has a rule").check(&case)
    }

    /// What is said after the newest second.
    pub(crate) fn diagnosis(&self) -> &Diagnosis {
        self.casebook.diagnosis()
    }

    pub(crate) fn ids(&self) -> Vec<VerdictId> {
        let verdicts = self.diagnosis().verdicts.iter();
        verdicts.map(|verdict| verdict.id).collect()
    }

    pub(crate) fn take(&mut self, picture: &Picture) {
        let sample = self.sample(picture);
        let now = self.now();
        let taken = self.history.sample(CleanSample::from(sample), now);
        taken.expect("is newer");
        self.casebook.diagnose(self.history.window(), now);
    }

    fn sample(&mut self, picture: &Picture) -> Sample {
        self.second += 1;
        let share = |share: f64| (share * S as f64) as u64;
        self.on_cpu_ns += share(picture.on_cpu);
        self.run_queue_ns += share(picture.run_queue);
        self.busy_ns += share(picture.busy);
        self.cpu_ns += share(2.0 * picture.on_cpu + picture.outside);
        self.pressure_ns += share(picture.pressure);
        let stopped = picture.quota.map_or(0, |(_, stopped)| stopped);
        self.periods = (self.periods.0 + 10, self.periods.1 + stopped);
        let at_mono_ns = self.second * S;
        let lag = |part: u64| LagPoint {
            runtime: RuntimeId(1),
            at_mono_ns: at_mono_ns - (9 - part) * 100 * MS,
            schedule_ns: None,
            timer_ns: Some(picture.lag_ms * MS),
            stall_ns: None,
        };
        Sample {
            seq: self.second,
            at_mono_ns,
            interval_ns: S,
            clock: None,
            lag: (0..10).map(lag).collect(),
            runtimes: vec![self.runtime(picture)],
            process: ProcessSample {
                cpu_ns_total: Some(self.cpu_ns),
                probe_cpu_ns_total: Some(0),
                rss_bytes: Some(picture.rss),
                threads: Some(11),
                open_files: Some(picture.open_files),
                open_files_limit: Some(1_024),
                cgroup_cpu: picture.quota.map(|(cpus, _)| CgroupCpuSample {
                    quota_ns: (cpus * 100e6) as u64,
                    period_ns: 100_000_000,
                    periods_total: self.periods.0,
                    throttled_periods_total: self.periods.1,
                    throttled_ns_total: self.periods.1 * 50 * MS,
                }),
                cpu_pressure_ns_total: Some(self.pressure_ns),
            },
            threads: picture.threads.clone(),
            lanes: picture.lanes.iter().map(|lane| self.lane(lane)).collect(),
            oldest_jobs: picture.oldest_jobs.clone(),
            waiting_jobs: picture.waiting_jobs.clone(),
            types: self.type_samples(picture),
            routes: Vec::new(),
            downstreams: picture
                .downstreams
                .iter()
                .map(|downstream| self.downstream(downstream))
                .collect(),
            dropped: Dropped::default(),
            incidents_suppressed_total: 0,
        }
    }

    fn runtime(&self, picture: &Picture) -> RuntimeSample {
        let worker = |index| WorkerSample {
            index,
            tid: Some(101 + index),
            busy_ns_total: self.busy_ns,
            parks_total: self.second,
            state: if picture.stalled {
                WorkerState::Stalled
            } else {
                WorkerState::Busy
            },
            poll: None,
            thread: Some(ThreadSample {
                state: Some('S'),
                on_cpu_ns_total: Some(self.on_cpu_ns),
                run_queue_ns_total: Some(self.run_queue_ns),
                ..ThreadSample::default()
            }),
        };
        RuntimeSample {
            info: RuntimeInfo {
                id: RuntimeId(1),
                name: None,
                flavor: RuntimeFlavor::MultiThread,
                workers: 2,
            },
            alive_tasks: picture.alive_tasks,
            global_queue_depth: 0,
            blocking: BlockingPoolSample {
                lag_ns: Some(picture.blocking_lag_ms * MS),
                watched_running: picture.blocking_running,
                ..BlockingPoolSample::default()
            },
            workers: vec![worker(0), worker(1)],
        }
    }

    fn lane(&mut self, picture: &LanePicture) -> LaneSample {
        let known = known(&mut self.lanes, picture.name);
        let counters = &mut known.counters;
        counters.submitted_total += picture.arriving;
        counters.rejected_total += picture.rejected;
        counters.started_total += picture.ending + picture.retried;
        counters.succeeded_total += picture.ending;
        known.retried_total += picture.retried;
        known.run_ns_total += (picture.ending + picture.retried) * picture.run_ms * MS;
        LaneSample {
            name: picture.name.to_owned(),
            scheduler: 1,
            limit: picture.limit,
            capacity: 1_000,
            running: picture.running,
            pending: picture.pending,
            head_age_ns: (picture.pending > 0).then_some(picture.wait_ms * MS),
            paused: picture.paused,
            queue: Some(picture.bands.clone()),
            limit_moves: picture.limit_moves.clone(),
            waiting_for: picture.dependents.map(|dependencies| WaitingFor {
                dependencies,
                ..WaitingFor::default()
            }),
            ..known.clone()
        }
    }

    fn type_samples(&mut self, picture: &Picture) -> Vec<TypeSample> {
        let lanes = picture.lanes.iter().map(|lane| {
            let of_lane = TypePicture {
                running: lane.running,
                polls: 2 * lane.ending,
                ..TypePicture::of(lane.name, TaskKind::Job, lane.ending, lane.run_ms)
            };
            (of_lane, Some((lane.name, lane.wait_ms, lane.pending)))
        });
        let others = picture.types.iter().map(|of| (of.clone(), None));
        let mut samples = Vec::new();
        for (of, lane) in lanes.chain(others) {
            let counters = known(&mut self.types, of.name);
            counters.started_total += of.ending;
            counters.submitted_total += of.ending;
            counters.succeeded_total += of.ending - of.failing;
            counters.failed_total += of.failing;
            samples.push(TypeSample {
                name: of.name.to_owned(),
                kind: of.kind,
                lane: lane.map(|(name, ..)| name.to_owned()),
                place: Some("src/main.rs:7".to_owned()),
                running: of.running,
                pending: lane.map_or(0, |(_, _, pending)| pending),
                counters: *counters,
                queue_wait: lane.and_then(|(_, wait_ms, _)| histogram(wait_ms, of.ending)),
                run: histogram(of.run_ms, of.ending),
                poll: histogram_ns(20_000, of.polls),
                schedule_delay: None,
            });
        }
        samples
    }

    fn downstream(&mut self, picture: &DownstreamPicture) -> DownstreamSample {
        let calls_total = known(&mut self.downstreams, picture.name);
        *calls_total += picture.calls;
        let calls_total = *calls_total;
        DownstreamSample {
            name: picture.name.to_owned(),
            in_flight: picture.in_flight,
            waiting: picture.waiting,
            calls_total,
            latency: histogram(picture.latency_ms, picture.calls),
            wait: histogram(picture.wait_ms, picture.calls),
            pool: picture.clients.map(|clients| PoolSample {
                in_use: picture.in_flight.min(clients),
                idle: clients.saturating_sub(picture.in_flight),
                waiting: None,
            }),
            callers: vec![CallerSample {
                name: picture.lane.to_owned(),
                kind: TaskKind::Job,
                lane: Some(picture.lane.to_owned()),
                in_flight: picture.in_flight,
                calls_total,
                errors_total: 0,
                time_ns_total: 0,
            }],
            oldest: picture
                .oldest_ms
                .iter()
                .map(|ms| CallInFlight {
                    age_ns: ms * MS,
                    caller: Some(picture.lane.to_owned()),
                    job: Some(JobId(9)),
                    trace: None,
                })
                .collect(),
            ..DownstreamSample::default()
        }
    }
}

/// What is counted for this name, from nothing on.
fn known<'a, T: Default>(all: &'a mut Vec<(&'static str, T)>, name: &'static str) -> &'a mut T {
    let at = all.iter().position(|(known, _)| *known == name);
    let at = at.unwrap_or_else(|| {
        all.push((name, T::default()));
        all.len() - 1
    });
    &mut all[at].1
}

fn histogram(ms: u64, count: u64) -> Option<LatencyHistogram> {
    histogram_ns(ms * MS, count)
}

fn histogram_ns(ns: u64, count: u64) -> Option<LatencyHistogram> {
    let us = (ns / 1_000).max(1);
    (count > 0).then(|| LatencyHistogram::from_buckets_us(vec![(us, count as u32)], ns))
}

fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL,
        service: "checkout".to_owned(),
        instance: InstanceId::new_now(),
        pid: 42,
        process_start_unix_ns: EPOCH_UNIX_NS,
        service_version: None,
        build_id: None,
        probe_version: "0.1.0".to_owned(),
        cpus: 2,
        runtimes: Vec::new(),
        features: Vec::new(),
        clock: ClockAnchor {
            mono_ns: 0,
            unix_ns: EPOCH_UNIX_NS,
        },
        stall_threshold_ns: 50 * MS,
        snapshot_threshold_ns: 250 * MS,
    }
}
