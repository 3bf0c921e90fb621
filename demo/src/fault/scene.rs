//! What a fault has to work with.

use std::{
    future::Future,
    hint::black_box,
    io::Write as _,
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use ax_scheduler::{JobHandle, Lane, Scheduler, SubmitError};
use tokio::{runtime::Handle, task::JoinHandle};

use super::{Fault, curtain::Curtain, number::Numbers};
use crate::{lanes::Lanes, partner::Slowness};

/// Jobs of a fault have no timeout that would end them before the fault does.
const NO_TIMEOUT: Duration = Duration::from_hours(1);

/// The service has ended, or the fault's time is over, before the fault began.
#[derive(Debug, thiserror::Error)]
#[error("it is over")]
pub(super) struct Over;

/// What the command line says about a fault.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) fault: &'static Fault,
    pub(crate) numbers: Numbers,
    /// How long all goes well before it begins.
    pub(crate) after: Duration,
    /// How long it goes on; without a time, until the service ends.
    pub(crate) lasting: Option<Duration>,
}

/// The service, as a fault sees it. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) setting: Setting,
    pub(crate) curtain: Curtain,
    pub(crate) runtime: Handle,
    /// Worker threads of the runtime.
    pub(crate) workers: usize,
    /// Threads that its blocking pool may have.
    pub(crate) blocking_threads: usize,
    pub(crate) lanes: Lanes,
    pub(crate) partner: Slowness,
    /// Who waits for the fault to be prepared, or to fail at that.
    pub(crate) prepared: Option<mpsc::Sender<anyhow::Result<()>>>,
}

impl Scene {
    pub(super) fn fault(&self) -> &'static Fault {
        self.setting.fault
    }

    /// Waits for the quiet time to be over, and says on the standard output that the fault begins.
    pub(super) fn quiet(&self) -> Result<(), Over> {
        if let Some(prepared) = &self.prepared {
            // Who waited may have given up.
            let _ = prepared.send(Ok(()));
        }
        if !self.curtain.pause(self.setting.after) {
            return Err(Over);
        }
        if let Some(lasting) = self.setting.lasting {
            self.curtain.fall_in(lasting);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_unix_ns = now.unwrap_or_default().as_nanos();
        // Who does not read it does not want to know.
        let _ = writeln!(
            std::io::stdout(),
            "fault {} began {now_unix_ns}",
            self.fault().name
        );
        Ok(())
    }

    /// Waits so long, but not beyond the end. Whether the fault goes on.
    pub(super) fn pause(&self, length: Duration) -> bool {
        self.curtain.pause(length)
    }

    /// Waits for the end.
    pub(super) fn until_over(&self) {
        self.curtain.until_down();
    }

    /// A number of the fault.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.setting.numbers.get(name)
    }

    /// The same, as a time in milliseconds.
    pub(super) fn ms(&self, name: &str) -> Duration {
        self.setting.numbers.ms(name)
    }

    /// The service's scheduler.
    pub(super) fn scheduler(&self) -> &Scheduler {
        self.lanes.scheduler()
    }

    /// A lane of the fault's own, beside those of the service.
    pub(super) fn lane(&self, name: &str, limit: usize) -> anyhow::Result<Lane> {
        self.scheduler()
            .lane(name)
            .limit(limit)
            .capacity(1_000)
            .timeout(NO_TIMEOUT)
            .open()
            .with_context(|| format!("cannot open lane {name}"))
    }

    /// Starts a named task on the service's runtime.
    #[track_caller]
    pub(super) fn spawn<F>(&self, name: &str, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let _entered = self.runtime.enter();
        ax_probe::spawn(name, task)
    }

    /// Starts a named closure on the blocking pool of the service's runtime.
    #[track_caller]
    pub(super) fn spawn_blocking<T: Send + 'static>(
        &self,
        name: &str,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let _entered = self.runtime.enter();
        ax_probe::spawn_blocking(name, closure)
    }

    /// Starts a thread that the runtime knows nothing of.
    pub(super) fn thread(
        &self,
        name: &str,
        body: impl FnOnce(&Self) + Send + 'static,
    ) -> anyhow::Result<thread::JoinHandle<()>> {
        let scene = self.clone();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(&scene))
            .context("cannot start a thread")
    }

    /// Submits a job so many times a second, from now to the end. What the lane has no room for is left out.
    pub(super) fn steadily<T: 'static>(
        &self,
        per_second: u64,
        submit: impl Fn() -> Result<JobHandle<T>, SubmitError> + Send + 'static,
    ) -> anyhow::Result<()> {
        let interval = Duration::from_secs(1) / u32::try_from(per_second.max(1))?;
        self.thread("demo-load", move |scene| {
            let mut next = Instant::now() + interval;
            while scene.pause(next.saturating_duration_since(Instant::now())) {
                // Nobody waits for it, and a full lane shows in the lane's own counters.
                drop(submit());
                // After a time without a CPU it does not catch up, which would be a burst.
                next = (next + interval).max(Instant::now());
            }
        })?;
        Ok(())
    }
}

/// Computes for so long.
pub(super) fn compute(length: Duration) {
    let began = Instant::now();
    let mut state = 1_u64;
    while began.elapsed() < length {
        for _ in 0..1_000 {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
    }
}
