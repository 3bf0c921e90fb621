//! What a running job waits for, told by a label on its awaits.
//!
//! A job has one cell for it, which is made by the first await with a label and lies on the polling thread while the job
//! is polled. So an await finds its job's cell without a search, and a job that never waits for anything with a name
//! pays for a look at an empty place.

use std::{
    cell::Cell,
    collections::HashMap,
    future::Future,
    sync::{
        Arc, LazyLock,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
            fence,
        },
    },
};

use ax_probe::slot;
use ax_wire::incident::WaitsFor;
use parking_lot::RwLock;

use crate::time;

/// Most labels that are told apart; later ones are shown as `other`.
pub const MAX_WAIT_LABELS: usize = 1024;

/// Longest label, in characters; more is cut off.
pub const MAX_WAIT_LABEL_CHARS: usize = 100;

const OTHER: &str = "other";

/// Awaits `future`, and shows `label` with each job that waits there, and for how long: in the job's line of an incident
/// and in [`RunningJob`](crate::RunningJob). A job that awaits another job, room in a lane, a
/// [`Downstream`](crate::Downstream)'s call or its pool shows that by itself.
///
/// Where several are awaited at once or inside each other, the one that began last and has not ended is shown. Outside a
/// job, the label is not shown. Keep it to the kind of wait (`"exchange rates"`): [`MAX_WAIT_LABELS`] are told apart.
///
/// Cancel safe where `future` is. Costs about 0.15 us for an await, and nothing for each poll of it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let ax = ax_scheduler::Scheduler::new();
/// # let rates = tokio::sync::Mutex::new(7_u32);
/// let job = ax.job("convert", move |_| async move {
///     let rates = ax_scheduler::at("exchange rates", rates.lock()).await;
///     Ok::<_, std::io::Error>(*rates)
/// });
/// assert_eq!(job.submit()?.await?, 7);
/// # Ok(()) }
/// ```
pub async fn at<F: Future>(label: &str, future: F) -> F::Output {
    let waits = Waits::begin(Kind::Label, label);
    let output = future.await;
    drop(waits);
    output
}

/// What is waited for.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Whatever its code says.
    Label,
    Downstream,
    Pool,
    Lane,
}

impl Kind {
    fn text(self, name: &str) -> String {
        let name: String = name.chars().take(MAX_WAIT_LABEL_CHARS).collect();
        match self {
            Self::Label => name,
            Self::Downstream => format!("downstream {name}"),
            Self::Pool => format!("pool {name}"),
            Self::Lane => format!("lane {name}"),
        }
    }
}

/// The labels by number. Written once for each.
struct Labels {
    /// For each kind.
    numbers: [HashMap<Box<str>, u32>; 4],
    texts: Vec<Box<str>>,
}

static LABELS: LazyLock<RwLock<Labels>> = LazyLock::new(|| {
    RwLock::new(Labels {
        numbers: Default::default(),
        texts: vec![Box::from(OTHER)],
    })
});

fn number_of(kind: Kind, name: &str) -> u32 {
    if let Some(number) = LABELS.read().numbers[kind as usize].get(name) {
        return *number;
    }
    let mut labels = LABELS.write();
    if labels.texts.len() > MAX_WAIT_LABELS {
        return 0;
    }
    let next = labels.texts.len() as u32;
    let number = *labels.numbers[kind as usize]
        .entry(Box::from(name))
        .or_insert(next);
    if number == next {
        labels.texts.push(kind.text(name).into_boxed_str());
    }
    number
}

/// What one job waits for. Written by the thread that polls the job.
#[derive(Default)]
pub(crate) struct WaitCell {
    /// 0 for nothing. Written last, and first set to 0, so that a reader that finds the same before and after has read
    /// the label that goes with it.
    since_ns: AtomicU64,
    label: AtomicU32,
}

impl WaitCell {
    /// Returns what it was before.
    fn set(&self, (label, since_ns): (u32, u64)) -> (u32, u64) {
        let before = (self.label.load(Relaxed), self.since_ns.load(Relaxed));
        self.since_ns.store(0, Relaxed);
        fence(Release);
        self.label.store(label, Relaxed);
        self.since_ns.store(since_ns, Release);
        before
    }

    /// By any thread. `None`: nothing with a label, or it changes right now.
    pub(crate) fn told(&self, now_ns: u64) -> Option<WaitsFor> {
        let since_ns = self.since_ns.load(Acquire);
        let label = self.label.load(Relaxed) as usize;
        fence(Acquire);
        if since_ns == 0 || self.since_ns.load(Relaxed) != since_ns {
            return None;
        }
        let label = LABELS.read().texts.get(label)?.to_string();
        let since_ns = now_ns.saturating_sub(since_ns);
        Some(WaitsFor { label, since_ns })
    }
}

thread_local! {
    /// The cell of the job that is polled on this thread, once it has one.
    static POLLED: Cell<Option<Arc<WaitCell>>> = const { Cell::new(None) };
}

/// Runs one poll of the job that `cell` belongs to, which may make it.
pub(crate) fn scope<R>(cell: &mut Option<Arc<WaitCell>>, poll: impl FnOnce() -> R) -> R {
    let outer = POLLED.replace(cell.take());
    let output = poll();
    *cell = POLLED.replace(outer);
    output
}

/// The job that began it waits, until this is dropped.
pub(crate) struct Waits {
    cell: Arc<WaitCell>,
    before: (u32, u64),
}

impl Waits {
    /// `None` outside a job.
    pub(crate) fn begin(kind: Kind, name: &str) -> Option<Self> {
        slot::current_job()?;
        // On a thread that ends there is no cell to be had.
        let cell = POLLED
            .try_with(|polled| {
                let cell = polled.take().unwrap_or_default();
                polled.set(Some(Arc::clone(&cell)));
                cell
            })
            .ok()?;
        let before = cell.set((number_of(kind, name), time::now_ns().max(1)));
        Some(Self { cell, before })
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.cell.set(self.before);
    }
}
