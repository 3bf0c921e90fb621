//! Hand-made frames, and an agent on a temporary socket with people to talk to it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use ax_agent::{Agent, CancellationToken, Config};
use ax_wire::{
    InstanceId, LatencyHistogram, RuntimeId, ToAgent, ToService, ToViewer,
    frame::{self, Subscribe},
    hello::{ClockAnchor, Hello, PROTOCOL, RuntimeFlavor, RuntimeInfo},
    sample::{
        BlockingPoolSample, Dropped, JobCounters, LagPoint, LaneSample, ProcessSample,
        RuntimeSample, Sample, TaskKind, ThreadSample, TypeSample, WorkerSample, WorkerState,
    },
};
use futures_util::StreamExt as _;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
    time::timeout,
};
use tokio_util::codec::{FramedRead, LinesCodec};

pub const SECOND: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;

/// A monotonic clock that reads 0 when the wall clock reads this.
pub const EPOCH_UNIX_NS: u64 = 1_700_000_000 * SECOND;

/// No answer of the agent takes longer, however loaded the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn hello(service: &str) -> Hello {
    Hello {
        protocol: PROTOCOL,
        service: service.into(),
        instance: InstanceId::new_now(),
        pid: 42,
        process_start_unix_ns: EPOCH_UNIX_NS,
        service_version: None,
        build_id: None,
        probe_version: "0.1.0".into(),
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

/// A sample of a healthy service with one runtime of two workers, taken `at` seconds after its start.
pub fn sample(at: u64) -> Sample {
    let worker = |index| WorkerSample {
        index,
        tid: Some(100 + index),
        busy_ns_total: at * SECOND / 4,
        parks_total: at,
        state: WorkerState::Busy,
        poll: None,
        thread: Some(ThreadSample {
            state: Some('S'),
            on_cpu_ns_total: Some(at * SECOND / 5),
            run_queue_ns_total: Some(at * SECOND / 50),
            ..ThreadSample::default()
        }),
    };
    Sample {
        seq: at,
        at_mono_ns: at * SECOND,
        interval_ns: SECOND,
        clock: None,
        lag: (0..10)
            .map(|i| lag_point(at * SECOND - (9 - i) * 100 * MS, MS))
            .collect(),
        runtimes: vec![RuntimeSample {
            info: RuntimeInfo {
                id: RuntimeId(1),
                name: None,
                flavor: RuntimeFlavor::MultiThread,
                workers: 2,
            },
            alive_tasks: 3,
            global_queue_depth: 0,
            blocking: BlockingPoolSample::default(),
            workers: vec![worker(0), worker(1)],
        }],
        process: ProcessSample {
            cpu_ns_total: Some(at * SECOND / 2),
            rss_bytes: Some(1 << 20),
            ..ProcessSample::default()
        },
        threads: Vec::new(),
        lanes: Vec::new(),
        oldest_jobs: Vec::new(),
        waiting_jobs: Vec::new(),
        types: Vec::new(),
        routes: Vec::new(),
        downstreams: Vec::new(),
        incidents_suppressed_total: 0,
        dropped: Dropped::default(),
    }
}

pub fn lag_point(at_mono_ns: u64, timer_ns: u64) -> LagPoint {
    LagPoint {
        runtime: RuntimeId(1),
        at_mono_ns,
        schedule_ns: None,
        timer_ns: Some(timer_ns),
        stall_ns: None,
    }
}

pub fn lane(name: &str, counters: JobCounters) -> LaneSample {
    LaneSample {
        name: name.into(),
        scheduler: 1,
        limit: 10,
        capacity: 100,
        running: 2,
        pending: 1,
        counters,
        ..LaneSample::default()
    }
}

/// `submitted` jobs so far, of which one in ten failed and the rest succeeded.
pub fn done(submitted: u64) -> JobCounters {
    JobCounters {
        submitted_total: submitted,
        started_total: submitted,
        succeeded_total: submitted - submitted / 10,
        failed_total: submitted / 10,
        ..JobCounters::default()
    }
}

pub fn job_type(name: &str, lane: &str, counters: JobCounters, runs_ns: &[u64]) -> TypeSample {
    let mut run = LatencyHistogram::new();
    for ns in runs_ns {
        run.record_ns(*ns);
    }
    TypeSample {
        name: name.into(),
        kind: TaskKind::Job,
        lane: Some(lane.into()),
        place: Some("src/main.rs:7".into()),
        running: 1,
        pending: 0,
        counters,
        queue_wait: Some(run.clone()),
        run: Some(run.clone()),
        poll: Some(run.clone()),
        schedule_delay: Some(run),
    }
}

/// An agent of its own on a temporary socket.
pub struct TestAgent {
    folder: tempfile::TempDir,
    pub stop: CancellationToken,
    pub run: JoinHandle<()>,
}

impl TestAgent {
    pub fn start() -> Self {
        Self::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::build(tempfile::tempdir().expect("a folder"), change)
    }

    /// One more agent in the folder of another that has ended.
    pub fn again(folder: tempfile::TempDir) -> Self {
        Self::build(folder, |_| ())
    }

    fn build(folder: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::at(folder.path().join("agent.sock"));
        config.snapshots.folder = Some(folder.path().join("snapshots"));
        change(&mut config);
        let agent = Agent::bind(config).expect("binds");
        let stop = CancellationToken::new();
        let run = tokio::spawn(agent.run(stop.clone()));
        Self { folder, stop, run }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    pub async fn connect(&self) -> Peer {
        Peer::connect(&self.socket()).await
    }

    pub async fn service(&self, hello: &Hello) -> Peer {
        let mut peer = self.connect().await;
        peer.send(&ToAgent::Hello(Box::new(hello.clone()))).await;
        let answer: ToService = peer.next().await;
        assert!(matches!(answer, ToService::Ack(_)), "{answer:?}");
        peer
    }

    pub async fn viewer(&self) -> Peer {
        let mut peer = self.connect().await;
        peer.send(&subscribe()).await;
        let answer: ToViewer = peer.next().await;
        assert!(matches!(answer, ToViewer::Ack(_)), "{answer:?}");
        peer
    }

    /// Stops it and waits for its end.
    pub async fn stop(self) {
        self.restart_in().await;
    }

    /// Stops it, and keeps its folder for the next one.
    pub async fn restart_in(self) -> tempfile::TempDir {
        self.stop.cancel();
        timeout(PATIENCE, self.run)
            .await
            .expect("stops")
            .expect("no panic");
        self.folder
    }
}

pub fn subscribe() -> ToAgent {
    ToAgent::Subscribe(Subscribe { protocol: PROTOCOL })
}

/// The far end of a connection.
pub struct Peer {
    lines: FramedRead<OwnedReadHalf, LinesCodec>,
    write: OwnedWriteHalf,
}

impl Peer {
    pub async fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).await.expect("connects");
        let (read, write) = stream.into_split();
        Self {
            lines: FramedRead::new(read, frame::lines_codec()),
            write,
        }
    }

    pub async fn send<T: Serialize>(&mut self, frame: &T) {
        let mut line = Vec::new();
        frame::encode(frame, &mut line).expect("encodes");
        self.send_raw(&line).await;
    }

    /// Sends bytes that need not be a frame. The agent may have hung up before the last of them.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.write.write_all(bytes).await;
    }

    pub async fn send_sample(&mut self, sample: Sample) {
        self.send(&ToAgent::Sample(Box::new(sample))).await;
    }

    /// Reads a line unlooked at; `false` at the end.
    pub async fn skip(&mut self) -> bool {
        self.lines.next().await.is_some()
    }

    /// The next line, unlooked at.
    pub async fn next_line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next()).await.expect("in time");
        line.expect("not the end").expect("a line")
    }

    /// The next frame; panics at the end of the connection.
    pub async fn next<T: DeserializeOwned>(&mut self) -> T {
        self.next_or_end().await.expect("a frame, not the end")
    }

    /// The next frame, or `None` once the agent has closed the connection.
    pub async fn next_or_end<T: DeserializeOwned>(&mut self) -> Option<T> {
        let line = timeout(PATIENCE, self.lines.next())
            .await
            .expect("in time")?
            .ok()?;
        Some(frame::decode(line.as_bytes()).expect("a frame"))
    }

    /// Skips frames to a viewer until one answers.
    pub async fn wait_for<T>(&mut self, mut wanted: impl FnMut(ToViewer) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next().await) {
                return found;
            }
        }
    }

    /// The reason of a refusal, after which the connection ends.
    pub async fn refusal(&mut self) -> String {
        let answer: ToService = self.next().await;
        let ToService::Refused(refused) = answer else {
            panic!("not refused: {answer:?}");
        };
        assert_eq!(refused.protocol, PROTOCOL);
        assert!(self.next_or_end::<ToService>().await.is_none(), "closed");
        refused.reason
    }

    /// Ends our half only.
    pub async fn finish_sending(&mut self) {
        self.write.shutdown().await.expect("shuts down");
    }
}
