//! One second of a service, as a test changes it.

use ax_wire::{
    incident::RunningJob,
    sample::{LimitMove, QueueBand, TaskKind, ThreadGroupSample, WaitingJob},
};

use super::MIB;

/// One second of a service, in figures of that second. As it is, all is well.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) lag_ms: u64,
    /// Of each worker, in shares of the second.
    pub(crate) on_cpu: f64,
    pub(crate) run_queue: f64,
    pub(crate) busy: f64,
    pub(crate) stalled: bool,
    /// CPUs used by threads that are no workers.
    pub(crate) outside: f64,
    pub(crate) threads: Vec<ThreadGroupSample>,
    /// Quota in CPUs; of ten periods so many were stopped.
    pub(crate) quota: Option<(f64, u64)>,
    pub(crate) pressure: f64,
    pub(crate) rss: u64,
    pub(crate) open_files: u64,
    pub(crate) blocking_running: u64,
    pub(crate) blocking_lag_ms: u64,
    pub(crate) alive_tasks: u64,
    pub(crate) lanes: Vec<LanePicture>,
    pub(crate) types: Vec<TypePicture>,
    pub(crate) downstreams: Vec<DownstreamPicture>,
    pub(crate) oldest_jobs: Vec<RunningJob>,
    pub(crate) waiting_jobs: Vec<WaitingJob>,
}

/// One second of a lane, and of its only job type, which has its name.
#[derive(Clone, Debug)]
pub(crate) struct LanePicture {
    pub(crate) name: &'static str,
    pub(crate) limit: u64,
    pub(crate) running: u64,
    pub(crate) pending: u64,
    pub(crate) arriving: u64,
    pub(crate) ending: u64,
    pub(crate) retried: u64,
    pub(crate) rejected: u64,
    pub(crate) run_ms: u64,
    pub(crate) wait_ms: u64,
    pub(crate) paused: bool,
    pub(crate) bands: Vec<QueueBand>,
    pub(crate) limit_moves: Vec<LimitMove>,
    /// Jobs that wait for others, where that is told.
    pub(crate) dependents: Option<u64>,
}

/// One second of a route, a task or a blocking closure.
#[derive(Clone, Debug)]
pub(crate) struct TypePicture {
    pub(crate) name: &'static str,
    pub(crate) kind: TaskKind,
    pub(crate) running: u64,
    pub(crate) ending: u64,
    pub(crate) failing: u64,
    pub(crate) run_ms: u64,
    pub(crate) polls: u64,
}

/// One second of a downstream, called by the lane of its name's first caller.
#[derive(Clone, Debug)]
pub(crate) struct DownstreamPicture {
    pub(crate) name: &'static str,
    pub(crate) lane: &'static str,
    pub(crate) calls: u64,
    pub(crate) latency_ms: u64,
    pub(crate) wait_ms: u64,
    pub(crate) in_flight: u64,
    pub(crate) waiting: u64,
    pub(crate) clients: Option<u64>,
    pub(crate) oldest_ms: Vec<u64>,
}

impl Picture {
    pub(crate) fn healthy() -> Self {
        Self {
            lag_ms: 1,
            on_cpu: 0.2,
            run_queue: 0.01,
            busy: 0.3,
            stalled: false,
            outside: 0.1,
            threads: Vec::new(),
            quota: None,
            pressure: 0.05,
            rss: 100 * MIB,
            open_files: 84,
            blocking_running: 2,
            blocking_lag_ms: 0,
            alive_tasks: 30,
            lanes: vec![
                LanePicture::healthy("db", 40, 4),
                LanePicture::healthy("api", 10, 100),
            ],
            types: vec![
                TypePicture::of("GET /orders", TaskKind::Request, 50, 6),
                TypePicture::of("ticker", TaskKind::Task, 1, 1),
            ],
            downstreams: vec![DownstreamPicture {
                name: "sqlite",
                lane: "db",
                calls: 200,
                latency_ms: 3,
                wait_ms: 0,
                in_flight: 2,
                waiting: 0,
                clients: Some(4),
                oldest_ms: vec![2],
            }],
            oldest_jobs: Vec::new(),
            waiting_jobs: Vec::new(),
        }
    }

    pub(crate) fn lane(&mut self, name: &str) -> &mut LanePicture {
        let mut lanes = self.lanes.iter_mut();
        lanes.find(|lane| lane.name == name).expect("is there")
    }

    pub(crate) fn downstream(&mut self) -> &mut DownstreamPicture {
        &mut self.downstreams[0]
    }
}

impl LanePicture {
    fn healthy(name: &'static str, limit: u64, run_ms: u64) -> Self {
        let running = limit / 4;
        Self {
            name,
            limit,
            running,
            pending: 0,
            arriving: 50,
            ending: 50,
            retried: 0,
            rejected: 0,
            run_ms,
            wait_ms: 0,
            paused: false,
            bands: Vec::new(),
            limit_moves: Vec::new(),
            dependents: None,
        }
    }

    /// All slots are taken, so many jobs wait, each for so long.
    pub(crate) fn full(&mut self, pending: u64, wait_ms: u64) {
        (self.running, self.pending, self.wait_ms) = (self.limit, pending, wait_ms);
    }
}

impl TypePicture {
    pub(crate) fn of(name: &'static str, kind: TaskKind, ending: u64, run_ms: u64) -> Self {
        Self {
            name,
            kind,
            running: 1,
            ending,
            failing: 0,
            run_ms,
            polls: 2 * ending,
        }
    }
}
