//! An agent that takes every service and keeps every frame, for the tests of this folder.

#![expect(
    dead_code,
    reason = "each test binary compiles its own copy and uses a part of it"
)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use ax_probe::Probe;
use ax_wire::{
    ToAgent, ToService,
    frame::{self, Ack, IncidentAck},
    hello::PROTOCOL,
};
use tokio::runtime::Runtime;

/// How long a test waits for what must come. Far above what it takes, for a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process has one probe: the tests of one file take turns.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How an agent answers an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Not at all.
    Silent,
    /// It takes it over.
    Acks,
    /// It takes it over, and asks for one at the first sample.
    Captures,
    /// It takes it over, and asks for one with its greeting.
    CapturesAtOnce,
    /// It goes away instead.
    Leaves,
    /// It takes it over, and goes away in the same moment.
    AcksAndLeaves,
    /// It takes it over when the probe waits no longer.
    AcksTooLate,
}

pub struct FakeAgent {
    folder: tempfile::TempDir,
    frames: Arc<Mutex<Vec<ToAgent>>>,
}

impl FakeAgent {
    pub fn start() -> Self {
        Self::start_as(Manners::Silent)
    }

    pub fn start_as(manners: Manners) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("agent.sock")).expect("binds");
        let frames = Arc::<Mutex<Vec<ToAgent>>>::default();
        let kept = Arc::clone(&frames);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(stream.expect("connects"), manners, &kept));
            }
        });
        Self { folder, frames }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// A probe of its own on this runtime, which has been greeted.
    pub fn observe(&self, runtime: &Runtime) -> Probe {
        let probe = Probe::builder("test").socket(self.socket());
        let hellos = |frames: &[ToAgent]| {
            let hellos = frames
                .iter()
                .filter(|frame| matches!(frame, ToAgent::Hello(_)));
            hellos.count()
        };
        let before = hellos(&self.frames());
        let probe = probe.install_on(runtime.handle()).expect("installs");
        let mut greeted = 0;
        self.wait_for(|frame| {
            greeted += usize::from(matches!(frame, ToAgent::Hello(_)));
            (greeted > before && matches!(frame, ToAgent::Sample(_))).then_some(())
        });
        probe
    }

    /// The first that `find` finds, in what has come since the start and what comes. Each frame is shown once.
    pub fn wait_for<T>(&self, find: impl FnMut(&ToAgent) -> Option<T>) -> T {
        self.wait_from(0, find)
    }

    /// The same, without the first `shown` frames.
    pub fn wait_from<T>(&self, mut shown: usize, mut find: impl FnMut(&ToAgent) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let frames = self.frames();
            if let Some(found) = frames[shown..].iter().find_map(&mut find) {
                return found;
            }
            shown = frames.len();
            assert!(Instant::now() < deadline, "nothing came in {PATIENCE:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What has come so far.
    pub fn frames(&self) -> Vec<ToAgent> {
        self.frames.lock().expect("whole").clone()
    }
}

fn serve(mut stream: UnixStream, manners: Manners, kept: &Mutex<Vec<ToAgent>>) {
    let reader = BufReader::new(stream.try_clone().expect("clones"));
    for line in reader.split(b'\n') {
        let Ok(line) = line else { return };
        let decoded = frame::decode::<ToAgent>(&line).expect("a frame");
        let answer = match &decoded {
            ToAgent::Hello(_) => Some(ToService::Ack(Ack {
                protocol: PROTOCOL,
                agent_version: "test".into(),
                embedded: false,
                agent_pid: 1,
            })),
            ToAgent::Incident(_) if manners == Manners::Leaves => return,
            ToAgent::Incident(incident) if manners != Manners::Silent => {
                if manners == Manners::AcksTooLate {
                    thread::sleep(Duration::from_millis(400));
                }
                Some(ToService::IncidentAck(IncidentAck { id: incident.id }))
            }
            ToAgent::Sample(sample) if manners == Manners::Captures && sample.seq == 0 => {
                Some(ToService::Capture)
            }
            _ => None,
        };
        let leaves = manners == Manners::AcksAndLeaves && matches!(decoded, ToAgent::Incident(_));
        kept.lock().expect("whole").push(decoded);
        if let Some(answer) = answer {
            let mut line = Vec::new();
            frame::encode(&answer, &mut line).expect("encodes");
            if manners == Manners::CapturesAtOnce && matches!(answer, ToService::Ack(_)) {
                let mut asked = Vec::new();
                frame::encode(&ToService::Capture, &mut asked).expect("encodes");
                line.extend(asked);
            }
            stream.write_all(&line).expect("writes");
        }
        if leaves {
            return;
        }
    }
}
